"""From `df.init` to `df.finalize`: what is built when, what can be tried again, and which ids transactions get.

Sections 1 and 4 of the notes on the run time; 4, 5 and 8 of those on the Python interface; 4 of those on files.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import dataflow as df
from dflow_core.testing.waiting import wait_until
from tests.semantics.rules import Rule, rules, shows

FAILED = 0xFFFFFFFF
LIMIT = 20000
LAST = 2**64 - 1


@df.pyflow
def echo(x):
    return x


@df.pyflow(num_returns=2)
def both(x, y):
    return x, y


@pytest.fixture
def free(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Before `df.init`, and everything is ended afterwards."""
    df.finalize()
    yield
    df.finalize()


def graph_of(options: dict[str, str] | None = None, name: str | None = None) -> tuple[df.FlowGraph, df.FlowData]:
    data = df.FlowData()
    return df.FlowGraph([echo.fnode()(data)], options, name), data


@rules(
    Rule("P4", "Options are a dict of texts.", None, 145000),
    Rule("P4", "A list is no dict.", [], 145000),
    Rule("P4", "Keys are texts.", {1: "a"}, 145000),
    Rule("P4", "Values are texts.", {"a": 1}, 145000),
    Rule("P4", "No value may be None.", {"a": None}, 145000),
)
def test_options_that_init_refuses(free: None, rule: Rule) -> None:
    with pytest.raises(df.DfException) as caught:
        df.init(rule.given)  # type: ignore[arg-type]
    assert caught.value.error_code == rule.expected and df.dataflow._global_options is None


@shows(
    Rule("P4", "init keeps the caller's dict, and writes ge.graphRunMode into it.", here="the same dict, with \"0\""),
    Rule("P4", "init starts nothing: there is a context from the first FlowGraph on.", here="the same"),
    Rule("P4", "A second init keeps the first options and does not raise.", here="the first options stay"),
    Rule("P4", "finalize may be called again, and init after it.", here="the same"),
    Rule("P4", "fetch after finalize.", here="AttributeError"),
    Rule("P8.1", "A FlowGraph before init.", here="DfException 145001"),
    Rule("P5", "finalize counts names from the start again.", here="the same"),
    Rule("P4", "finalize does not count graph ids from the start again.", here="the same"),
)
def test_init_and_finalize(free: None) -> None:
    with pytest.raises(df.DfException) as caught:
        graph_of()
    assert caught.value.error_code == 145001
    first, second = {"ge.graphRunMode": "1"}, {"ge.exec.deviceId": "0"}
    df.init(first)
    df.init(second)
    assert df.dataflow._global_options is first and first == {"ge.graphRunMode": "0"}
    assert second == {"ge.exec.deviceId": "0"} and df.dataflow._global_context is None
    df.FlowData()
    graph, data = graph_of()
    assert df.dataflow._global_context.session is not None and data.name.startswith("FlowData_")
    df.finalize()
    df.finalize()
    for call in (graph.fetch, graph.fetch_data):
        with pytest.raises(AttributeError):
            call(timeout=0)
    df.init({})
    again, data = graph_of()
    assert (again.graph_id, data.name) == (graph.graph_id + 1, "FlowData")
    assert again.feed({data: 1}) == 0 and again.fetch(timeout=LIMIT) == ([1], 0)


@pytest.mark.parametrize("where", ["init", "graph"])
@shows(
    Rule("1", "With ge.runFlag 0 a feed compiles, returns 0 and sends nothing.", here="the same"),
    Rule("P19", "ge.runFlag as an option of a graph: the document shows it.", here="it counts"),
    Rule("P8.4", "What was not loaded gives FAILED.", here="4294967295"),
)
def test_compiling_only(free: None, where: str) -> None:
    flag = {"ge.runFlag": "0"}
    df.init(flag if where == "init" else {})
    graph, data = graph_of(flag if where == "graph" else None)
    for _ in range(2):
        assert graph.feed({data: 1}) == graph.feed_data({data: 1}) == 0
    assert graph.fetch(timeout=0) == ([], FAILED) and graph.fetch_data(timeout=0)[2] == FAILED
    assert graph.feed({data: 1}, timeout=-2) == FAILED and graph.feed({}) == 145000


@shows(
    Rule("P8.3", "Every fault of compiling and deploying makes the first feed FAILED; the next feed tries again.",
         here="4294967295, then 0"),
    Rule("C4", "The deploy file is read at the first feed; it may be written after the graph was made.",
         here="the same"),
    Rule("P8.2", "Setters raise after a feed that failed, too.", here="DfException"),
)
def test_a_feed_that_failed_can_be_tried_again(free: None, workplace: Path) -> None:
    df.init({})
    path = workplace / "deploy.json"
    graph, data = graph_of({"ge.experiment.data_flow_deploy_info_path": str(path)})
    for _ in range(2):
        assert graph.feed({data: 1}) == graph.feed_data({data: 1}) == FAILED
    with pytest.raises(df.DfException):
        graph.set_contains_n_mapping_node(True)
    df.utils.generate_deploy_template(graph, str(path))
    assert json.loads(path.read_text())["batch_deploy_info"][0]["logic_device_list"] == "0:0:0:0"
    assert graph.feed({data: 2}) == 0 and graph.fetch(timeout=LIMIT) == ([2], 0)


@shows(Rule("1", "Two threads feed first: the graph is compiled and loaded once.", here="both get 0"))
def test_the_first_feeds_of_two_threads_start_one_graph(open_session: None) -> None:
    graph, data = graph_of()
    codes: list[int] = []
    threads = [threading.Thread(target=lambda k=k: codes.append(graph.feed({data: k}))) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert codes == [0, 0]
    assert sorted(graph.fetch(timeout=LIMIT)[0][0] for _ in codes) == [0, 1]
    (running,) = [one for one in df.dataflow._global_context.session.running if one.client is graph._runner._client]
    assert running.client.in_flight == 0


# ------------------------------------------------------------------------------------------------------------ ids

@rules(
    Rule("P8.5", "The n-th message of an input has the id n.", [0, 0, 0], [1, 2, 3]),
    Rule("P8.5", "An id of the user's counts where some node is n-mapping; then the next one follows.",
         [7, 0, 7, 8, 8, 0], [7, 8, 145000, 8, 8, 9]),
    Rule("4", "UINT64_MAX is refused.", [LAST, 0], [145000, 1]),
    Rule("4", "After UINT64_MAX - 1 no automatic id is left.", [LAST - 1, 0, LAST - 1], [LAST - 1, 145000, LAST - 1],
         here="[18446744073709551614, 145000, 18446744073709551614]"),
)
def test_ids_of_a_graph_with_n_mapping_nodes(ids: df.FlowGraph, rule: Rule) -> None:
    check_ids(ids, rule)


@rules(
    Rule("P8.5", "Ids are counted from 1.", [0], [1]),
    Rule("P8.5", "An id of the user's is ignored, with a warning, where no node is n-mapping.", [7, 0, 3], [1, 2, 3]),
    Rule("P8.5", "One that could not be is ignored as well.", [LAST, 0], [1, 2]),
)
def test_ids_of_a_graph_without_n_mapping_nodes(plain_ids: df.FlowGraph, rule: Rule) -> None:
    check_ids(plain_ids, rule)


def check_ids(graph: df.FlowGraph, rule: Rule) -> None:
    (data,) = graph._inputs
    for given, expected in zip(rule.given, rule.expected, strict=True):  # type: ignore[call-overload]
        code = graph.feed_data({data: 1}, df.FlowInfo(transaction_id=given))
        if expected == 145000:
            assert code == expected
        else:
            assert code == 0
            assert graph.fetch_data(timeout=LIMIT)[1].transaction_id == expected


@pytest.fixture
def open_session(workplace: Path) -> None:
    """Started, and not ended: starting a session is what takes time."""
    df.init({})


@pytest.fixture
def ids(open_session: None) -> df.FlowGraph:
    graph, _data = graph_of()
    graph.set_contains_n_mapping_node(True)
    return graph


@pytest.fixture
def plain_ids(open_session: None) -> df.FlowGraph:
    return graph_of()[0]


@shows(
    Rule("P4", "Feeding and fetching from several threads is the normal use.", here="each result once, in one of them"),
    Rule("P4", "finalize while another thread waits in fetch.", here="it gets FAILED at once"),
)
def test_threads(open_session: None) -> None:
    graph, data = graph_of()
    assert graph.feed({data: -1}) == 0 and graph.fetch(timeout=LIMIT) == ([-1], 0)
    found: list[tuple[list[object], int]] = []

    def feed(base: int) -> None:
        for number in range(20):
            assert graph.feed({data: base + number}, timeout=LIMIT) == 0

    def fetch() -> None:
        found.extend(graph.fetch(timeout=LIMIT) for _ in range(20))

    def join(threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)

    threads = [threading.Thread(target=feed, args=(base,)) for base in (0, 100)]
    threads += [threading.Thread(target=fetch) for _ in range(2)]
    for thread in threads:
        thread.start()
    join(threads)
    assert sorted(number for (number,), _ in found) == [*range(20), *range(100, 120)]  # type: ignore[type-var]
    waiting = threading.Thread(target=lambda: found.append(graph.fetch(timeout=-1)))
    waiting.start()
    wait_until(lambda: graph._runner._results._is_fetching)
    df.finalize()
    join([waiting])
    assert found[-1] == ([], FAILED)


@shows(
    Rule("4", "Inputs fed apart count by themselves; the k-th messages meet.", here="the same"),
    Rule("4", "Inputs fed together afterwards have the id that each one's own count gives.",
         here="one id above all, so that they meet",
         differs="inputs that were fed apart have different ids when fed together"),
)
def test_inputs_fed_apart_and_then_together(open_session: None) -> None:
    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    graph = df.FlowGraph(list(both.fnode()(a, b)))
    for number in (1, 2):
        assert graph.feed({a: number}, partial_inputs=True) == 0
    assert graph.feed_data({a: 3, b: 30}) == 0
    tensors, info, code = graph.fetch_data(timeout=LIMIT)
    assert ([one.numpy().item() for one in tensors], info.transaction_id, code) == ([3, 30], 3, 0)
    assert graph.feed({b: 40}, partial_inputs=True) == 0  # its next one: the fourth
    assert graph.fetch(timeout=100) == ([], 545601)
    assert graph.feed({a: 4}, partial_inputs=True) == 0 and graph.fetch(timeout=LIMIT) == ([4, 40], 0)


# ---------------------------------------------------------------------------------------------------------- names

@rules(
    Rule("P5", "Inputs, process points and graphs share one namespace.", ["FlowData", "FuncProcessPoint"],
         ["same", "same_1"]),
    Rule("P5", "Nodes have one of their own.", ["FlowData", "FlowNode", "FlowNode"], ["same", "same", "same_1"]),
    Rule("P5", "The number counts how often a name was asked for.", ["FlowData"] * 3, ["same", "same_1", "same_2"]),
)
def test_names(free: None, rule: Rule) -> None:
    make = {
        "FlowData": lambda: df.FlowData(name="same"), "FlowNode": lambda: df.FlowNode(1, 1, "same"),
        "FuncProcessPoint": lambda: df.FuncProcessPoint("a.json", "same"),
    }
    assert [make[kind]().name for kind in rule.given] == rule.expected  # type: ignore[attr-defined]


@rules(
    Rule("P5", "A name of a process point has at most 128 characters.", "n" * 128, 0,
         here="a node's has at most 127, as its queues carry it; points carry none"),
    Rule("P5", "An alias that is taken is refused at once.", None, ValueError),
    Rule("P5", "A name that is no text.", 5, TypeError),
)
def test_names_that_cannot_be(free: None, rule: Rule) -> None:
    if rule.given is None:
        df.FlowNode(1, 1, "taken")
        with pytest.raises(ValueError, match="already used"):
            df.FlowNode(1, 1, "other").set_alias("taken")
    elif isinstance(rule.given, int):
        for make in (lambda: df.FlowData(name=5), lambda: df.FlowNode(1, 1, 5), lambda: df.FuncProcessPoint("a", 5)):
            with pytest.raises(TypeError):
                make()
    else:
        df.init({})
        node, data = df.FlowNode(1, 1, "short"), df.FlowData()
        node.add_process_point(df.FuncProcessPoint(py_func=echo, name=str(rule.given)))
        graph = df.FlowGraph([node(data)])
        assert graph.feed({data: 1}) == 0
        long = df.FlowNode(1, 1, str(rule.given))
        long.add_process_point(df.FuncProcessPoint(py_func=echo))
        assert df.FlowGraph([long(data)]).feed({data: 1}) == FAILED


@shows(Rule("P5", "Names may be made in any thread.", here="the same",
             differs="names can be made in the importing thread only"))
def test_graphs_can_be_built_in_another_thread(open_session: None) -> None:
    found: list[tuple[list[object], int]] = []

    def build() -> None:
        graph, data = graph_of()
        graph.feed({data: 3})
        found.append(graph.fetch(timeout=LIMIT))

    thread = threading.Thread(target=build)
    thread.start()
    thread.join(20)
    assert found == [([3], 0)]


@shows(
    Rule("6.2", "A FIFO queue that is full makes feeding wait; with a timeout it gives 207014.", here="207014"),
    Rule("7.2", "Nothing of what was not fed comes out.", here="all that got 0, once, in order"),
)
def test_a_feed_without_room(open_session: None) -> None:
    a, b = df.FlowData(), df.FlowData()
    graph = df.FlowGraph(list(both.fnode()(a, b)))
    codes: list[int] = []
    while codes[-2:] != [207014, 207014]:
        codes.append(graph.feed({a: len(codes), b: -len(codes)}, timeout=len(codes) % 2))
    assert set(codes) == {0, 207014}
    good = [k for k, code in enumerate(codes) if code == 0]
    assert [graph.fetch(timeout=LIMIT) for _ in good] == [([k, -k], 0) for k in good]
    assert graph.fetch(timeout=0) == ([], 207013)
