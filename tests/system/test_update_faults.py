"""Updates that something comes between: each has one end, and the graph goes on with one version of the node."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.executor.caller import control
from dflow_core.testing.waiting import wait_until
from tests.system.case_support import pids
from tests.system.update_support import adds, load

QUIET = {"output": "none"}


@df.pyflow
class Waits:
    """Says that it is there, and is loaded once a file exists; gives 9."""

    def __init__(self, folder):
        (folder / f"{os.getpid()}.pid").touch()
        wait_until(lambda: (folder / "go").exists(), 60)

    @df.method()
    def work(self, x):
        return x * 0 + 9


@df.pyflow
class Lingers:
    """Takes its time to close, until a file exists."""

    def __init__(self, folder):
        self.folder = folder

    @df.method()
    def work(self, x):
        return x

    def close(self):
        (self.folder / f"{os.getpid()}.closing").touch()
        wait_until(lambda: (self.folder / "go").exists(), 60)


@df.pyflow
def until(x):
    """Works until there is a file of this name; "" is at once."""
    from pathlib import Path

    from dflow_core.testing.waiting import wait_until

    wait_until(lambda: not str(x) or Path(str(x)).exists(), 60)
    return np.array(1)


class Update:
    """`graph.update` in a thread of its own, or of whatever is given."""

    def __init__(self, update: Callable[[], int]) -> None:
        self.first: int | None = None
        self.error: BaseException | None = None
        self._update = update
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.first = self._update()
        except BaseException as error:
            self.error = error

    def end(self) -> BaseException | None:
        """What it raised."""
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self.error


def started(folder: Path, kind: str = "pid", count: int = 1) -> list[int]:
    """Wait for processes to say that they are there; theirs ids."""
    wait_until(lambda: len(list(folder.glob(f"*.{kind}"))) >= count)
    return [int(path.stem) for path in folder.glob(f"*.{kind}")]


def gone(*processes: int) -> bool:
    return not any(os.path.exists(f"/proc/{pid}") for pid in processes)


@pytest.fixture
def graph() -> Iterator[df.FlowGraph]:
    """One node, which gives 1."""
    with df.FlowGraph([adds(1).fnode(name="n")(df.FlowData("x"))], QUIET) as made:
        yield made


@pytest.fixture
def slow() -> Iterator[df.FlowGraph]:
    """One node, which works until a file exists."""
    with df.FlowGraph([until.fnode(name="n")(df.FlowData("x"))], QUIET) as made:
        yield made


def test_the_graph_answers_while_a_new_version_loads_for_as_long_as_it_takes(graph, tmp_path):
    """BC-088: a slow load holds up nothing but itself."""
    update = Update(lambda: graph.update("n", Waits.fnode(tmp_path)))
    started(tmp_path)
    assert [int(graph(np.array(0))) for _ in range(20)] == [1] * 20 and graph.versions == {}
    (tmp_path / "go").touch()
    assert update.end() is None and graph(np.array(0)) == 9


def test_a_second_update_waits_for_the_first_and_gives_up_at_its_limit(graph, tmp_path):
    first = Update(lambda: graph.update("n", Waits.fnode(tmp_path)))
    started(tmp_path)
    with pytest.raises(df.WaitTimeoutError, match="another update of it is under way, for longer than 0.05 s"):
        graph.update("n", adds(2), timeout=0.05)
    second = Update(lambda: graph.update("n", adds(3)))
    assert graph(np.array(0)) == 1
    (tmp_path / "go").touch()
    assert (first.end(), second.end()) == (None, None)
    assert (graph(np.array(0)), graph.versions) == (3, {"n": 3})


def test_what_failed_is_forgotten_by_the_update_after_it(graph):
    """Neither the failed version nor the one before the last comes back."""
    for version in (2, 3):
        with pytest.raises(df.StartupError, match="no such thing"):
            graph.update("n", Fails.fnode())
        graph.update("n", adds(version))
    graph.close()
    graph.start()
    assert (graph(np.array(0)), graph.versions) == (3, {})


@df.pyflow
class Fails:
    def __init__(self):
        raise LookupError("no such thing")

    @df.method()
    def work(self, x):
        return x


@pytest.mark.parametrize("point", ["while it loads", "while it waits for rest"])
def test_an_update_ends_when_its_graph_is_closed(slow, tmp_path, point):
    if point == "while it loads":
        update = Update(lambda: slow.update("n", Waits.fnode(tmp_path)))
        heirs = started(tmp_path)
    else:
        slow.feed({"x": str(tmp_path / "go")})
        update = Update(lambda: slow.update("n", adds(2)))
        wait_until(lambda: slow.running.client._feeder._held)
        heirs = []
    ours = [*pids(slow), *heirs]
    if point != "while it loads":
        (tmp_path / "go").touch()  # else closing would wait for the call
    slow.close()
    error = update.end()
    assert error is None or isinstance(error, df.ClosedError)
    assert isinstance(error, df.ClosedError) or point != "while it loads"
    wait_until(lambda: gone(*ours))


def test_an_update_of_a_closed_graph_is_refused(graph):
    running = graph.running
    graph.close()
    with pytest.raises(df.ClosedError):
        graph.update("n", adds(2))
    with pytest.raises(df.ClosedError):  # where it was closed after the graph had been asked whether it runs
        running.exchange({"n": running.model.submodels["n"]}, 1.0)


def test_an_interrupt_while_the_new_version_loads_ends_it_and_leaves_the_old(graph, tmp_path):
    """As Ctrl-C does: it goes to the main thread."""

    def interrupt() -> None:
        started(tmp_path)
        _thread.interrupt_main()

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        graph.update("n", Waits.fnode(tmp_path))
    other.join()
    (heir,) = started(tmp_path)
    wait_until(lambda: gone(heir))
    assert (graph(np.array(0)), graph.versions, len(pids(graph))) == (1, {}, 1)
    graph.update("n", adds(2))
    assert graph(np.array(0)) == 2


def test_an_interrupt_once_the_new_version_takes_over_is_raised_when_it_has(tmp_path):
    """What has begun is carried through, so that the graph, its data and `versions` agree."""
    with df.FlowGraph([Lingers.fnode(tmp_path).work(df.FlowData("x"))], QUIET | {"stop_timeout": "1"}) as graph:

        def interrupt() -> None:
            started(tmp_path, "closing")
            assert graph(np.array(5)) == 2, "the new version works while the old one closes"
            _thread.interrupt_main()

        other = threading.Thread(target=interrupt)
        other.start()
        with pytest.raises(KeyboardInterrupt):
            graph.update("Lingers", adds(2))
        other.join()
        assert (graph(np.array(0)), graph.versions) == (2, {"Lingers": 2})
        graph.update("Lingers", adds(3))
        assert (graph(np.array(0)), graph.versions) == (3, {"Lingers": 3})
        (lingering,) = started(tmp_path, "closing")
        assert not gone(lingering), "it closes yet, and nobody waits for that"
    assert gone(lingering), "it ends with the graph"


def test_an_old_version_that_does_not_end_is_killed_and_holds_nothing_up(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "_RETIRE_LIMIT", 0.5)
    with df.FlowGraph([Lingers.fnode(tmp_path).work(df.FlowData("x"))], QUIET) as graph:
        old = pids(graph)
        update = Update(lambda: graph.update("Lingers", adds(2)))
        started(tmp_path, "closing")
        assert graph(np.array(5)) == 2
        assert update.end() is None and gone(*old) and not (tmp_path / "go").exists()
        assert graph(np.array(5)) == 2


def test_a_new_version_that_dies_before_it_takes_over_is_started_again(slow, tmp_path):
    (tmp_path / "go").touch()
    slow.feed({"x": str(tmp_path / "done")})
    update = Update(lambda: slow.update("n", Waits.fnode(tmp_path)))
    (heir,) = started(tmp_path)
    wait_until(lambda: slow.running.client._feeder._held)
    os.kill(heir, signal.SIGKILL)
    started(tmp_path, count=2)
    member = slow.running.deployment._supervisor.succession.heirs[0]
    wait_until(lambda: member.life.state.value == "running")
    (tmp_path / "done").touch()
    assert update.end() is None and slow.fetch() == 1 and slow(np.array(0)) == 9


@pytest.mark.parametrize("restarts", [0, 3])
def test_a_new_version_that_is_not_there_when_it_should_take_over_leaves_the_old(tmp_path, restarts):
    """Dead for good, or just being started again: one version has to answer, so the old one does."""
    x = df.FlowData("x")
    with df.FlowGraph([until.fnode(name="n", restarts=restarts)(x)], QUIET) as graph:
        before = pids(graph)
        (tmp_path / "go").touch()
        graph.feed({x: str(tmp_path / "done")})
        update = Update(lambda: graph.update("n", Waits.fnode(tmp_path)))
        (heir,) = started(tmp_path)
        wait_until(lambda: graph.running.client._feeder._held)
        (tmp_path / "go").unlink()  # so that a second life loads for ever
        os.kill(heir, signal.SIGKILL)
        wait_until(lambda: gone(heir))
        if restarts:
            started(tmp_path, count=2)
        (tmp_path / "done").touch()
        error = update.end()
        assert isinstance(error, df.DflowError) and "died" in str(error) and error.node == "n", error
        assert (graph.fetch(), graph(""), pids(graph), graph.versions) == (1, 1, before, {})


def test_an_old_version_that_dies_in_the_middle_loses_its_transaction_and_the_new_one_takes_over(slow, tmp_path):
    slow.feed({"x": str(tmp_path / "never")})
    wait_until(lambda: any(node.current for node in slow.stats().nodes))
    update = Update(lambda: slow.update("n", adds(2)))
    wait_until(lambda: slow.running.client._feeder._held)
    os.kill(pids(slow)[0], signal.SIGKILL)
    with pytest.raises(df.InstanceLostError):
        slow.fetch()
    assert update.end() is None and slow(np.array(0)) == 2


def test_counters_go_on_through_updates_and_through_those_that_fail(graph):
    for number in range(3):
        graph(np.array(number))
    with pytest.raises(df.StartupError):
        graph.update("n", Fails.fnode())
    for number in range(4):
        graph(np.array(number))
    graph.update("n", adds(2))
    graph(np.array(0))
    (node,) = graph.stats().nodes
    assert (node.calls, node.pid, node.restarts) == (8, pids(graph)[0], 0)


def test_what_ended_early_is_still_answered_where_a_function_waits_for_it(tmp_path):
    """One output fails at once, so its transaction has ended while calls of a graph for it are under way and queued."""
    called = df.FlowGraph([until.fnode(name="inner")(df.FlowData("y"))], name="called")
    x = df.FlowData("x")
    node = Twice.fnode(called)
    with df.FlowGraph([refuse.fnode()(x), node.work(x)], QUIET) as graph:
        graph.feed({x: str(tmp_path / "go")})
        with pytest.raises(df.NodeError, match="not this one"):
            graph.fetch()
        wait_until(lambda: any(n.node.endswith("inner") and n.current for n in graph.stats().nodes))
        update = Update(lambda: graph.update(called.nodes[0], adds(5)))
        wait_until(lambda: graph.running.client._feeder._held)
        (tmp_path / "go").touch()
        assert update.end() is None
        wait_until(lambda: not any(n.current for n in graph.stats().nodes))
        results = [graph("ok")[1] for _ in range(2)]
        assert [value.tolist() for value in results] == [[5, 5], [5, 5]]


@df.pyflow
def refuse(x):
    if str(x) != "ok":
        raise ValueError("not this one")
    return 0


@df.pyflow
class Twice:
    """Begins two calls at once, so that one of them waits in a queue."""

    def __init__(self, called):
        self.called = called

    @df.method()
    def work(self, x):
        calls = [self.called.start(np.array(0) if str(x) == "ok" else x) for _ in range(2)]
        return np.array([int(call.result()) for call in calls])


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [60])
def test_executors_die_all_the_time_while_a_node_is_updated(rounds):
    many_deaths(rounds)


def test_executors_die_while_a_node_is_updated():
    many_deaths(8)


def many_deaths(rounds: int) -> None:
    """Each transaction ends once, with one version's answer or because an instance was lost."""
    rng = np.random.default_rng(7)
    x = df.FlowData("x")
    node = adds(0).fnode(name="n", instances=2, when_lost="always")
    with df.FlowGraph([pair.fnode()(node(two.fnode()(x)))], QUIET) as graph:
        deployment = graph.running.deployment
        done = threading.Event()

        def kill() -> None:
            while not done.is_set():
                members = [m for m in deployment._supervisor._everyone if m.only.model == "n"]
                alive = [process.pid for m in members if (process := m.process) is not None and process.pid]
                if alive:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(rng.choice(alive)), signal.SIGKILL)
                done.wait(float(rng.uniform(0.05, 0.3)))

        killer = threading.Thread(target=kill)
        good = 0
        with load(graph, errors="return") as seen:
            killer.start()
            for version in range(1, rounds + 1):
                seen.wait_for_more(3)
                try:
                    graph.update("n", adds(version))
                    good = version
                except df.DflowError as error:
                    assert isinstance(error, (df.StartupError, df.InstanceLostError)), error
            done.set()
            killer.join()
        assert all(isinstance(one, (np.ndarray, df.InstanceLostError)) for one in seen.seen)
        values = [row.tolist() for row in seen.values()]
        assert all(a == b for a, b in values), "no transaction saw two versions"
        assert values == sorted(values), "an old version works on nothing after a newer one"
        counters = graph.counters
        assert counters.fed == counters.delivered + counters.failed == len(seen.seen)
        assert {good} == {int(v) for _ in range(4) for v in graph(np.array(0))}
        graph.update("n", adds(rounds + 1))
        assert {rounds + 1} == {int(v) for _ in range(4) for v in graph(np.array(0))}


@df.pyflow
def two(x):
    yield x
    yield x


@df.pyflow(gather=True)
def pair(parts):
    return np.array([int(part) for part in parts])
