"""Cases of area D: what the caller is told, what stops when, and which options are in force."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.testing.waiting import is_alive, wait_until
from tests.system.case_support import ROOT, chain, pids, run_program, stats


@df.pyflow
def obey(order):
    """Does what it is told."""
    if order == "raise":
        raise ValueError("bad pixel 7")
    if order == "memory":
        raise MemoryError("no room for the image")
    if order == "exit":
        print("last words")
        os._exit(9)
    if order == "segfault":
        ctypes.string_at(0)
    while order == "swallow":
        try:
            time.sleep(0.01)
        except BaseException as error:
            print("swallowed", repr(error))
    if order == "hang in C":
        ctypes.PyDLL(None).sleep(3600)  # keeps the interpreter's lock
    if order == "hang":
        time.sleep(3600)
    return order


@df.pyflow
def same(x):
    return x


# ----------------------------------------------------------------------- BC-057: root causes

@pytest.mark.parametrize(("order", "kind", "said"), [
    ("raise", df.NodeError, "ValueError: bad pixel 7"), ("memory", df.NodeError, "MemoryError: no room for the image"),
    ("exit", df.InstanceLostError, "exit code 9"), ("segfault", df.InstanceLostError, "SIGSEGV|signal 11"),
])
def test_error_of_the_fifth_item_keeps_its_cause_behind_two_more_nodes(
    order: str, kind: type[df.RunError], said: str
) -> None:
    """BC-057: node, instance, transaction, type and text arrive, however far behind the node the caller is."""
    x = df.FlowData("x")
    with df.FlowGraph([same.fnode("c")(same.fnode("b")(obey.fnode("a")(x)))]) as graph:
        results = list(graph.map([1, 2, 3, 4, order, 6], errors="return", in_flight=1, timeout=30))
        assert results[:4] == [1, 2, 3, 4] and results[5] == 6
        error = results[4]
        assert type(error) is kind and (error.node, error.instance, error.trans_id) == ("a", 0, 5)
        with pytest.raises(kind, match=said):
            raise error
        if isinstance(error, df.NodeError):
            assert "in obey" in error.remote_traceback


# ----------------------------------------------------------------------- BC-062: output

@pytest.mark.parametrize("closed", [True, False])
def test_printing_never_blocks_whatever_became_of_the_applications_own_output(closed: bool) -> None:
    """BC-062: 1 MiB for each call, from Python, C and logging, in the C locale; stdout closed, or a full pipe."""
    code = (
        "import ctypes, logging, os, sys, dflow_core as df\n"
        "@df.pyflow\n"
        "def chatty(n):\n"
        "    print('深度é ' * 100_000)\n"
        "    ctypes.CDLL(None).puts(b'x' * 100_000)\n"
        "    logging.getLogger('user').warning('y' * 100_000)\n"
        "    return n\n"
        "if sys.argv[1] == 'True':\n    os.close(1)\n    os.close(2)\n"
        "with df.FlowGraph([chatty.fnode()(df.FlowData('x'))]) as graph:\n"
        "    assert list(graph.map(range(4), timeout=30)) == list(range(4))\n"
        "os._exit(7)\n"
    )
    read, write = os.pipe()
    application = subprocess.Popen(
        [sys.executable, "-c", code, str(closed)], stdout=write, stderr=write, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
    )
    os.close(write)
    assert application.wait(40) == 7
    os.close(read)


# ----------------------------------------------------------------------- BC-063: stalls

@pytest.mark.parametrize("order", ["hang", "hang in C"])
def test_stall_names_node_process_transaction_queues_and_stack(order: str) -> None:
    """BC-063: also in C code that keeps the interpreter's lock."""
    x = df.FlowData("x")
    options = {"queue_depth": "2", "stop_timeout": "0.2"}
    with df.FlowGraph([obey.fnode("stuck")(same.fnode("before")(x))], options) as graph:
        with pytest.raises(df.QueueFullError) as caught:
            for _ in range(20):
                graph.feed({"x": order}, timeout=0.6)
        (pid,) = [s.pid for s in graph.running.deployment.status() if s.node == "stuck"]  # type: ignore[union-attr]
        with pytest.raises(df.WaitTimeoutError) as waited:
            graph.fetch(timeout=0.5)
        for text in (str(caught.value), str(waited.value)):
            assert f"stuck#0 pid {pid}: running" in text and "in obey" in text
            assert "queue before:0->stuck:0: 2 of 2" in text
            if order == "hang":
                assert "working on transaction 1 for " in text
        assert "the oldest is 1\n" in str(waited.value)


# ----------------------------------------------------------------------- BC-064: stopping

@pytest.mark.parametrize("order", ["swallow", "hang in C", "hang"])
def test_node_that_ignores_everything_ends_within_the_limit(order: str) -> None:
    """BC-064: user code that catches BaseException, and a call in C."""
    with chain(obey, options={"stop_timeout": "0.5"}) as graph:
        graph.feed({"x": order})
        wait_until(lambda: stats(graph).queues[0].delivered == 1)
        running = pids(graph)
        began = time.monotonic()
    assert time.monotonic() - began < 4
    assert not any(map(is_alive, running))


INTERRUPTED = """
import os, sys
import dflow_core as df
from tests.system.case_support import chain, pids
from tests.system.test_cases_d_faults import obey
with chain(obey, options={"stop_timeout": "1"}) as graph:
    graph.feed({"x": sys.argv[1]})
    print(*pids(graph), flush=True)
    graph.fetch()
"""


@pytest.mark.parametrize(("order", "presses"), [("swallow", 1), ("swallow", 3), ("hang in C", 2)])
def test_ctrl_c_ends_an_application_whose_node_ignores_it(order: str, presses: int) -> None:
    """BC-064: pressed once, twice, and three times; nothing is left and the exit code is not 0."""
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, order], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as application:
        assert application.stdout is not None
        executors = [int(word) for word in application.stdout.readline().split()]
        assert executors
        for _ in range(presses):
            application.send_signal(signal.SIGINT)
            threading.Event().wait(0.1)  # two presses at once are one signal
        _, errors = application.communicate(timeout=20)
        assert application.returncode not in (0, None) and "KeyboardInterrupt" in errors
    wait_until(lambda: not any(map(is_alive, executors)))


def test_interrupt_of_a_wait_leaves_the_graph_usable() -> None:
    """BC-064: what a notebook's stop button does; the next cell goes on with the same graph."""
    with chain(obey, options={"stop_timeout": "0.5"}) as graph:
        assert graph("first", timeout=20) == "first"
        for wait in (lambda: graph.fetch(timeout=20), lambda: list(graph.map(iter(lambda: "x", "y"), timeout=20))):
            with interrupting(), pytest.raises(KeyboardInterrupt):
                wait()
            assert graph("again", timeout=20) == "again"


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """Press Ctrl-C until it is noticed: Python loses an interrupt that comes while a `__del__` runs."""
    done = threading.Event()

    def press() -> None:
        while not done.wait(0.4):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# ----------------------------------------------------------------------- BC-065: options

ROUTES = """
import gc, json, os, sys
import dflow_core as df

@df.pyflow
def in_force(_):
    from dflow_core.executor.process.instance import InstanceRunner
    (runner,) = [item for item in gc.get_objects() if isinstance(item, InstanceRunner)]
    return dict(runner._options), os.environ.get("OMP_NUM_THREADS"), runner._plan.threads

given = json.loads(sys.argv[1])
if "late" in given:
    os.environ.update(given["late"])  # after the import, before the first use
if "init" in given:
    df.init(given["init"])
node = in_force.fnode()
node.set_options(**given.get("node", {}))
with df.FlowGraph([node(df.FlowData("x"))], given.get("graph")) as graph:
    options, _, threads = graph(0, timeout=30)
    depths = {q.name.partition("->")[0]: q.depth for q in graph.running.deployment.group.stats().queues}
    print(json.dumps({**options, "threads": threads, "depth of the output": depths["in_force:0"]}))
"""


@pytest.mark.parametrize(("given", "variables", "wanted"), [
    ({}, {}, {"queue_depth": "16", "stop_timeout": "10.0", "trace": ""}),
    ({}, {"DFLOW_QUEUE_DEPTH": "3", "DFLOW_STOP_TIMEOUT": "4"}, {"queue_depth": "3", "stop_timeout": "4.0"}),
    ({"late": {"DFLOW_QUEUE_DEPTH": "4"}}, {"DFLOW_QUEUE_DEPTH": "3"}, {"queue_depth": "4"}),
    ({"init": {"queue_depth": "5"}}, {"DFLOW_QUEUE_DEPTH": "3"}, {"queue_depth": "5", "depth of the output": 5}),
    ({"init": {"queue_depth": "5"}, "graph": {"queue_depth": "6"}}, {"DFLOW_QUEUE_DEPTH": "3"}, {"queue_depth": "6"}),
    ({"graph": {"queue_depth": "6"}, "node": {"depth": 7}}, {}, {"depth of the output": 7}),
    ({"node": {"threads": 2}}, {}, {"threads": 2}),
    ({"init": {"plugin.mine": "a"}, "graph": {"plugin.mine": "b"}}, {}, {"plugin.mine": "b"}),
])
def test_options_are_in_force_in_the_executors_by_every_route(
    given: dict[str, object], variables: dict[str, str], wanted: dict[str, object]
) -> None:
    """BC-065: environment, `df.init`, graph and node, the last one that has it wins."""
    import json

    done = run_program(ROUTES, json.dumps(given), **variables)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {key: found.get(key) for key in wanted} == wanted


def test_options_given_too_late_or_unknown_are_refused() -> None:
    """BC-065."""
    df.finalize()
    df.init({"stop_timeout": "3"})
    try:
        with pytest.raises(df.UsageError, match="initialised already"):
            df.init({"stop_timeout": "4"})
        with chain(same) as graph:
            with pytest.raises(df.OptionError, match="stop_timeout"):
                df.FlowGraph([graph.outputs[0]], {"stop_timeut": "1"}).start()
            with pytest.raises(df.UsageError, match="runs already|is running already"):
                graph.start()
    finally:
        df.finalize()


def test_config_show_prints_value_and_origin() -> None:
    """BC-065."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "dflow"), "config", "show", "--json"], capture_output=True, text=True,
        timeout=60, env={**os.environ, "DFLOW_QUEUE_DEPTH": "9"}, check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"9"' in done.stdout or ": 9" in done.stdout
    assert "DFLOW_QUEUE_DEPTH" in done.stdout and "default" in done.stdout


def test_logging_in_user_code_works(caplog: pytest.LogCaptureFixture) -> None:
    """BC-062: records of the logging module come out, marked with their node."""
    @df.pyflow
    def logs(x):
        logging.getLogger("user").warning("seen %s 深度", x)
        return np.asarray(x)

    with caplog.at_level("INFO", "dflow.node"), chain(logs, options={"output": "logging"}) as graph:
        graph(5, timeout=20)
    assert any(name.endswith("logs#0") and "seen 5 深度" in text for name, _, text in caplog.record_tuples)
