"""What user code, callers and operators do to a running graph: it goes on, says what it waits for, leaves nothing."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import dflow_core as df
from dflow_core.testing.machine import CleanMachine
from dflow_core.testing.waiting import is_alive, wait_until
from tests.system.case_support import MIB, chain, check_idle, pids, run_program


@pytest.fixture(autouse=True)
def machine() -> Iterator[CleanMachine]:
    """Processes, threads, descriptors and shared memory counted before and after."""
    df.finalize()
    clean = CleanMachine(limit=10)
    yield clean
    df.finalize()
    clean.check()


@df.pyflow
def same(x):
    return x


# ------------------------------------------------------------------------------------------------ user code in nodes


@df.pyflow
def fork_and(x, how):
    pid = os.fork()
    if pid == 0:
        if how == "exit":
            sys.exit(int(x))
        if how == "raise":
            raise ValueError("in the fork")
        return x + 1000  # comes back as if it were the node
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(("how", "codes"), [("return", [0, 0, 0]), ("exit", [1, 2, 3]), ("raise", [1, 1, 1])])
def test_fork_in_a_node_ends_with_its_own_code_and_sends_nothing(how: str, codes: list[int]) -> None:
    """BC-090: the child returns into the executor, exits, or raises there; only the parent is the node."""
    x, words = df.FlowData("x"), df.FlowData("y")
    with df.FlowGraph([fork_and.fnode("node")(x, words)], {"output": "none"}) as graph:
        assert list(graph.map([{"x": n, "y": how} for n in (1, 2, 3)], timeout=20)) == codes
        assert graph.counters.delivered == 3 and graph.stats().nodes[0].failed == 0
        check_idle(graph)


@df.pyflow
def fork_in_the_short_way(x):
    pid = os.fork()
    if pid == 0:
        return x
    return x * 0 + os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_fork_in_a_node_that_takes_arrays_sends_nothing() -> None:
    """BC-090: on the short way for plain arrays too."""
    with chain(fork_in_the_short_way, same) as graph:
        assert [r.item() for r in graph.map([np.array([3.0])] * 4, timeout=20)] == [0.0] * 4  # type: ignore[attr-defined]
        assert graph.counters.fed == graph.counters.delivered == 4
        check_idle(graph)


@df.pyflow
class Threaded:
    def __init__(self):
        self.seen = []
        self.stop = False
        for daemon in (True, False):
            threading.Thread(target=self.run, daemon=daemon).start()

    def run(self):
        while not self.stop:
            self.seen.append(len(self.seen))
            del self.seen[:-100]

    def __call__(self, x):
        return x + 0 * len(self.seen)


def test_busy_threads_of_user_code_hinder_neither_work_nor_the_end() -> None:
    """One daemon and one that would keep Python alive; both never end by themselves."""
    with df.FlowGraph([Threaded.fnode()(df.FlowData("x"))]) as graph:
        assert list(graph.map(range(20), timeout=30)) == list(range(20))
        running = pids(graph)
    assert not any(map(is_alive, running))


@df.pyflow
def start_program(x):
    program = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
    return program.pid


@pytest.mark.parametrize("end", ["close", "kill"])
def test_programs_that_user_code_started_end_with_their_node(end: str) -> None:
    with df.FlowGraph([start_program.fnode("node")(df.FlowData("x"))]) as graph:
        program = graph(1, timeout=20)
        assert isinstance(program, int) and is_alive(program)
        if end == "kill":
            os.kill(pids(graph)[0], signal.SIGKILL)
            wait_until(lambda: not is_alive(program))
            assert is_alive(graph(2, timeout=20))  # type: ignore[arg-type]
    wait_until(lambda: not is_alive(program))


@df.pyflow
def change_signals(x):
    import ctypes
    import faulthandler

    libc = ctypes.CDLL(None)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGPIPE):
        libc.signal(number, ctypes.c_void_p(1))  # SIG_IGN, below Python
    faulthandler.disable()
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except ValueError as error:
        return str(error)
    return x


@df.pyflow
def handle_signals(x):
    if x:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return x


def test_function_that_sets_a_signal_handler_ends_its_transaction_only() -> None:
    """Functions run in a thread, where Python sets none."""
    with df.FlowGraph([handle_signals.fnode("node")(df.FlowData("x"))]) as graph:
        before = pids(graph)
        with pytest.raises(df.NodeError, match="main thread"):
            graph(1, timeout=20)
        assert (graph(0, timeout=20), pids(graph)) == (0, before)


@df.pyflow
def fork_and_time(x):
    """A child that ends at once, one that lives on, a thread, and a timer's signals meanwhile."""
    import ctypes

    ctypes.CDLL(None).signal(signal.SIGALRM, ctypes.c_void_p(1))  # SIG_IGN, below Python
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    child = os.fork()
    if child == 0:
        os._exit(3)
    left = os.fork()
    if left == 0:
        signal.pause()
        os._exit(0)
    found: list[int] = []
    worker = threading.Thread(target=lambda: found.append(sum(range(1000))))
    worker.start()
    worker.join()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), left, found[0]


def test_forks_threads_and_timers_of_a_function_do_no_harm() -> None:
    with df.FlowGraph([fork_and_time.fnode("node")(df.FlowData("x"))]) as graph:
        results = list(graph.map(range(20), timeout=20))
        assert {(code, total) for code, _, total in results} == {(3, 499500)}  # type: ignore[misc]
        left = [pid for _, pid, _ in results]  # type: ignore[misc]
        assert all(map(is_alive, left))
        wait_until(lambda: graph.running.deployment.group.stats().blocks_in_use == 0)  # type: ignore[union-attr]
    wait_until(lambda: not any(map(is_alive, left)))


def test_node_that_takes_all_signals_away_still_works_and_still_ends() -> None:
    with df.FlowGraph([change_signals.fnode("node")(df.FlowData("x"))], {"stop_timeout": "2"}) as graph:
        assert [bool(result) for result in graph.map([1, 2, 3], timeout=20)] == [True] * 3
        assert isinstance(graph.running.deployment.stacks()["node"], str)  # type: ignore[union-attr]
        (pid,) = pids(graph)
    assert not is_alive(pid)


ALARMS = """
import signal, sys
import dflow_core as df
from tests.system.test_hard_to_break import same

class Alarm(Exception):
    pass

ticks = []

def tick(number, frame):
    ticks.append(number)
    if sys.argv[1] == "raise" and len(ticks) % 50 == 0:
        raise Alarm

signal.signal(signal.SIGALRM, tick)
signal.signal(signal.SIGCHLD, tick)
with df.FlowGraph([same.fnode("node")(df.FlowData("x"))]) as graph:
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    done = 0
    while done < 200 or len(ticks) <= 150:  # calls may be faster than signals come
        try:
            assert graph(done, timeout=30) == done
            done += 1
        except Alarm:
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(done >= 200, list(graph.map(range(50), timeout=30)) == list(range(50)))
"""


@pytest.mark.parametrize("how", ["count", "raise"])
def test_signal_handlers_of_the_application_interrupt_any_wait_and_break_none(how: str) -> None:
    """A timer signal every millisecond, whose handler may raise, in the middle of feeding and fetching."""
    done = run_program(ALARMS, how)
    assert (done.returncode, done.stdout.split()) == (0, ["True", "True"]), done.stderr


# ----------------------------------------------------------------------------------- slow and stopped consumers


@pytest.fixture
def stalls(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Reports of stalls as they come."""
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    logger, handler = logging.getLogger("dflow.stall"), Keep()
    logger.addHandler(handler)
    yield found  # type: ignore[misc]
    logger.removeHandler(handler)


def test_stopped_consumer_bounds_its_producer_others_go_on_and_the_report_names_it(stalls: list[str]) -> None:
    """BC-063: SIGSTOP of a node; feeding says what it waits for, another graph runs, and SIGCONT loses nothing."""
    x = df.FlowData("x")
    options = {"queue_depth": "2", "stall_report": "0.4"}
    with df.FlowGraph([same.fnode("stopped")(same.fnode("before")(x))], options, name="held") as graph, chain(
        same
    ) as other:
        stopped = next(node.pid for node in graph.stats().nodes if node.node == "stopped")
        os.kill(stopped, signal.SIGSTOP)
        try:
            fed = 0
            with pytest.raises(df.QueueFullError, match="no room at input x of graph 'held'"):
                while True:
                    graph.feed({"x": fed}, timeout=0.5)
                    fed += 1
            assert fed <= 8
            assert list(other.map(range(50), timeout=20)) == list(range(50))
            wait_until(lambda: stalls)
            report = stalls[0]
            assert "graph 'held' has not moved" in report
            assert "edge before:0->stopped:0 is blocked: node 'stopped' takes nothing from it" in report
            assert f"node stopped#0 (pid {stopped}): running" in report
            assert "full queue before:0->stopped:0: 2 of 2" in report
            assert "--- stopped ---" in report and "no Python stack" in report and ": stopped" in report
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert [graph.fetch(timeout=20) for _ in range(fed)] == list(range(fed))
        assert len([text for text in stalls if "'held' has not moved" in text]) == 1
        check_idle(graph)


def test_consumer_that_never_fetches_is_named_while_another_graph_goes_on(stalls: list[str]) -> None:
    """BC-019, BC-063: results fill their queue; the report says that the caller does not fetch."""
    with chain(same, options={"queue_depth": "2", "stall_report": "0.4", "max_unfetched": "2"}) as graph, chain(
        same
    ) as other:
        fed = 0
        with pytest.raises(df.QueueFullError):
            while True:
                graph.feed({"x": fed}, timeout=0.3)
                fed += 1
        assert list(other.map(range(50), timeout=20)) == list(range(50))
        if any("does not fetch" not in text for text in stalls):
            pytest.fail(stalls[0])
        assert [graph.fetch(timeout=20) for _ in range(fed)] == list(range(fed))
        check_idle(graph)


def test_results_the_caller_keeps_leave_the_rest_of_the_memory_to_others_and_the_error_names_him() -> None:
    """Three quarters of the memory are kept while ten times as much goes through; all of it is an error."""
    with chain(same, options={"memory_limit": "32M", "queue_depth": "2"}) as graph:
        item = np.ones(2 * MIB, np.uint8)
        kept = [graph(item * k, timeout=20) for k in range(8)]
        for _ in range(100):
            assert graph(item, timeout=20).nbytes == item.nbytes  # type: ignore[attr-defined]
        with pytest.raises(df.PoolExhaustedError, match=str(os.getpid())):
            for k in range(32):
                kept.append(graph(item * (8 + k), timeout=0.5))
        assert all((np.asarray(array) == k).all() for k, array in enumerate(kept))
        kept.clear()
        gc.collect()
        assert graph(item, timeout=20).nbytes == item.nbytes  # type: ignore[attr-defined]
        check_idle(graph)


def test_long_call_is_reported_with_its_transaction_and_stack(stalls: list[str], tmp_path: object) -> None:
    """BC-063: nobody waits with a limit, and there is a report all the same."""
    gate = f"{tmp_path}/gate"

    @df.pyflow
    def wait_for_gate(n):
        pause = threading.Event()
        while not os.path.exists(gate):
            pause.wait(0.005)
        return n

    with chain(wait_for_gate, options={"stall_report": "0.3"}) as graph:
        trans_id = graph.feed({"x": 1})
        wait_until(lambda: stalls)
        assert f"transaction {trans_id} for" in stalls[0] and "in wait_for_gate" in stalls[0]
        open(gate, "w").close()
        assert graph.fetch(timeout=20) == 1
        wait_until(lambda: not any(t.name == "dflow-stall" for t in threading.enumerate()))
    assert len(stalls) == 1


def test_stall_reports_can_be_turned_off(stalls: list[str]) -> None:
    with chain(same, options={"stall_report": "0"}) as graph:
        assert graph(1, timeout=20) == 1
        assert graph.running.client.monitor is None
    assert not stalls


# ------------------------------------------------------------------------------------------------- from outside

LONG = """
import sys, threading
import dflow_core as df
from tests.system.test_hard_to_break import same
with df.FlowGraph([same.fnode("node")(df.FlowData("x"))], name="seen") as graph:
    assert [graph(k) for k in range(3)] == [0, 1, 2]
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_running_graphs_are_seen_from_outside_and_a_stopped_application_is_a_line() -> None:
    from click.testing import CliRunner

    from dflow_core.cli.app import app

    def dflow(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(arguments))
        return done.exit_code, done.output

    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(
        [sys.executable, "-c", LONG], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as application:
        assert application.stdout is not None and application.stdout.readline() == b"ready\n"
        code, text = dflow("ps")
        assert f"graph seen of process {application.pid}: 3 fed, 3 delivered" in text
        assert "node#0" in text and "node:0->fetch:0" in text
        code, text = dflow("stacks", str(application.pid))
        assert code == 0 and "--- application ---" in text and "--- node ---" in text
        application.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, application.pid, os.WSTOPPED)
        code, text = dflow("ps")
        assert code == 1 and f"process {application.pid} is stopped" in text
        application.send_signal(signal.SIGCONT)
        application.communicate(timeout=30)
    assert str(application.pid) not in dflow("ps")[1]
