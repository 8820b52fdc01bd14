"""Function processes: how they begin, what they see, what is reset in them.

Sections 9, 23, 25 and 29 of the notes on the run time, 10 and 13 of those on the interface.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import dataflow as df
import dataflow.flow_func as ff
import dflow_core
from tests.semantics.rules import Rule, rules, shows

FAILED = 0xFFFFFFFF
LIMIT = 20000


@df.pyflow
class Keeps:
    """Counts how often it was made and called, over both of its functions."""

    made = 0

    def __init__(self, start, step=1):
        type(self).made += 1
        self.count, self.step = start, step

    @df.method()
    def add(self, x):
        self.count += self.step
        return self.count, self.made

    @df.method()
    def tell(self, x):
        return self.count, os.getpid()


def hook():
    os.environ["SEMANTICS_HOOK"] = "was here"


class NeedsHook:
    """Can be read only where the hook ran before."""

    def __reduce__(self):
        return _needs_hook, ()


def _needs_hook() -> str:
    return os.environ.get("SEMANTICS_HOOK", "")


def _hooked(given: object):
    def hooked(x):
        return given if isinstance(given, str) else "read later"

    return df.pyflow(env_hook_func=hook)(hooked)


@df.pyflow
def looks(name):
    import importlib

    module = importlib.import_module(name)
    return module.VALUE, os.getcwd(), Path("beside.txt").read_text(), os.environ.get("SEMANTICS_OUTSIDE")


@df.pyflow
def where(x):
    return df.get_running_instance_id(), df.get_running_instance_num(), df.get_running_device_id(), os.getpid()


@pytest.fixture(scope="module")
def graph(started: Path) -> Iterator[tuple[df.FlowGraph, dict[str, df.FlowData]]]:
    (started / "semantics_beside.py").write_text("VALUE = 7\n")
    (started / "beside.txt").write_text("text")
    data = {name: df.FlowData(name=name) for name in ("add", "hook", "look", "tell", "where")}
    keeps = Keeps.fnode(10, step=5)
    outputs = [
        keeps.add(data["add"]), _hooked(NeedsHook()).fnode()(data["hook"]), looks.fnode()(data["look"]),
        keeps.tell(data["tell"]), where.fnode()(data["where"]),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEMANTICS_OUTSIDE", "seen")
        patch.syspath_prepend(str(started))
        made = df.FlowGraph(outputs)
        assert made.feed({data["add"]: 0}, partial_inputs=True) == 0
        assert made.fetch([0], LIMIT) == ([(15, 1)], 0)
        yield made, data


def ask(graph: tuple[df.FlowGraph, dict[str, df.FlowData]], name: str, value: object = 0) -> object:
    made, data = graph
    assert made.feed({data[name]: value}, partial_inputs=True) == 0
    (found,), code = made.fetch([list(data).index(name)], LIMIT)
    assert code == 0
    return found


@shows(
    Rule("P10.3", "The arguments of fnode() reach the constructor, which runs in the process only.",
         here="10 and step=5"),
    Rule("P13.1", "A node has one object for all its functions.", here="they share what they count"),
    Rule("P13.1", "Initialising runs once, though each function has a wrapper of its own.", here="1"),
    Rule("P13.1", "A node has a process of its own.", here="its process id is another one"),
)
def test_objects_of_functions(graph: tuple[df.FlowGraph, dict[str, df.FlowData]]) -> None:
    before, made = ask(graph, "add")  # type: ignore[misc]
    count, pid = ask(graph, "tell")  # type: ignore[misc]
    assert (made, count) == (1, before) and pid != os.getpid()
    assert Keeps._df_clz.made == 0


@shows(
    Rule("P13.1", "env_hook_func runs in the process before the user's object is read there.", here="the same"),
    Rule("P10.1", "It does not run in the script's own process.", here="the same"),
)
def test_the_hook_runs_first(graph: tuple[df.FlowGraph, dict[str, df.FlowData]]) -> None:
    assert ask(graph, "hook") == "was here"
    assert "SEMANTICS_HOOK" not in os.environ


@shows(
    Rule("P13.1", "Modules in the folder of the script can be imported in the process.", here="7"),
    Rule("C6.2", "A process inherits the environment, and the folder the script is in.", here="the same"),
)
def test_what_processes_see(graph: tuple[df.FlowGraph, dict[str, df.FlowData]], started: Path) -> None:
    value, folder, text, seen = ask(graph, "look", "semantics_beside")  # type: ignore[misc]
    assert (value, Path(folder).resolve(), text, seen) == (7, started.resolve(), "text", "seen")


@shows(
    Rule("P13.7", "In a function: number of the instance from 0, of all instances, and of the device.", here="0, 1, 0"),
    Rule("P13.7", "Outside of a function: None.", here="None, with a line in the log"),
)
def test_running_numbers(graph: tuple[df.FlowGraph, dict[str, df.FlowData]]) -> None:
    assert ask(graph, "where")[:3] == (0, 1, 0)  # type: ignore[index]
    assert [df.get_running_instance_id(), df.get_running_instance_num(), df.get_running_device_id()] == [None] * 3


# ------------------------------------------------------------------------------------------- what does not begin

class Starts:
    """Says how it wants to begin."""

    @ff.init_wrapper()
    def init_flow_func(self, params):
        code, how = params.get_attr_str("how")
        if how == "raises":
            raise ValueError("no")
        return {"code": 9900001, "none": None, "good": 0}[how]

    @ff.proc_wrapper("i0,o0")
    def work(self, context, msgs):
        return context.set_output(0, msgs[0])


def starting(how: str) -> int:
    data, node, point = df.FlowData(), df.FlowNode(1, 1), df.FuncProcessPoint(py_func=Starts)
    point.set_init_param("how", how)
    node.add_process_point(point)
    return df.FlowGraph([node(data)]).feed_data({data: 1})


def wrong_arguments() -> int:
    data, node = df.FlowData(), Keeps.fnode(1, 2, 3)
    return df.FlowGraph([node.add(data), node.tell(data)]).feed({data: 1})


def method_not_wired() -> int:
    data = df.FlowData()
    return df.FlowGraph([Keeps.fnode(1).add(data)]).feed({data: 1})


@rules(
    Rule("9.2", "A function that begins well.", lambda: starting("good"), 0),
    Rule("9.2", "Initialising gives a code: the process stops.", lambda: starting("code"), FAILED,
         "4294967295 from the first feed, with the reason in the log",
         differs="a function that cannot begin is noticed when its process has gone"),
    Rule("9.2", "Initialising raises.", lambda: starting("raises"), FAILED, "4294967295 from the first feed",
         differs="a function that cannot begin is noticed when its process has gone"),
    Rule("P12.1", "init_flow_func must return 0; None is none.", lambda: starting("none"), 0, "None is as good as 0"),
    Rule("P10.3", "Wrong arguments of the constructor are found when the process begins.", wrong_arguments, FAILED,
         "4294967295 from the first feed"),
)
def test_beginnings(started: object, rule: Rule) -> None:
    assert rule.given() == rule.expected  # type: ignore[operator]


def test_a_method_that_is_not_wired_is_a_fault(started: object) -> None:
    """Section P10.3: every method must be wired."""
    with pytest.raises(AttributeError, match="not connected"):
        method_not_wired()


# -------------------------------------------------------------------------------------------------------- recovery

@dflow_core.pyflow
class Counts:
    def __init__(self):
        self.count = 0

    @dflow_core.method
    def next(self, x):
        self.count += 1
        return self.count


@dflow_core.pyflow
class Resets:
    def __init__(self):
        self.count = self.resets = 0

    def reset_func_state(self):
        self.count, self.resets = 0, self.resets + 1

    @dflow_core.method
    def next(self, x):
        self.count += 1
        return self.count, self.resets

    @dflow_core.method
    def other(self, x):
        return self.resets


@pytest.mark.parametrize("mode", ["inline", "process"])
@shows(
    Rule("25", "Recovering drops what is under way: each transaction ends.", here="CancelledError"),
    Rule("25", "The reset of an object is called once, whatever number of functions it has.", here="1"),
    Rule("25", "What cannot be reset is made anew.", here="Python objects keep their state",
         differs="functions that cannot be reset are made anew when a graph recovers"),
    Rule("25", "Counters of transactions begin anew.", here="they go on",
         differs="transaction ids begin at 1 again when a graph recovers"),
)
def test_recovering(mode: str) -> None:
    x, y = dflow_core.FlowData("x"), dflow_core.FlowData("y")
    counts, resets = Counts.fnode(), Resets.fnode()
    both = dflow_core.pyflow(lambda a, b: (a, b)).fnode("both")
    outputs = [counts.next(x), resets.next(x), resets.other(x), both(x, y)]
    with dflow_core.FlowGraph(outputs, mode=mode) as graph:
        assert graph(1, 1, timeout=20) == (1, (1, 0), 0, (1, 1))
        graph.feed({"x": 1}, partial=True)  # waits for y
        assert graph.recover() == 1
        with pytest.raises(dflow_core.CancelledError):
            graph.fetch(timeout=20)
        assert graph.feed({"x": 2, "y": 2}) == 3
        (count, *others) = graph.fetch(timeout=20)  # type: ignore[misc]
        assert count in (2, 3) and others == [(1, 1), 1, (2, 2)]  # whether what was thrown away had been counted
