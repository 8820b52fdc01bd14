"""Starting and stopping executors: what the caller is told, and that nothing is left."""

from __future__ import annotations

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

from dflow_core.deploy import LocalDeployer
from dflow_core.errors import ClosedError, StartupError
from dflow_core.testing.waiting import comes_true, is_alive
from tests.system.deploy_graph import chain, deployer, descendants, descriptors, memory_files, start


@pytest.fixture(scope="module")
def warm() -> Iterator[LocalDeployer]:
    """A deployer with its template."""
    made = deployer()
    yield made
    made.close()


@pytest.fixture
def cold() -> Iterator[LocalDeployer]:
    """A deployer without a template: executors are programs of their own."""
    made = deployer(template=False)
    yield made
    made.close()


def test_a_chain_runs_in_processes_of_its_own(warm):
    with start(warm, chain("pid", "echo")) as running:
        pids = running.pids
        assert running.call(1) == pids[0]
        assert len({os.getpid(), *pids}) == 3


def test_executors_start_without_a_template_too(cold):
    before = descendants(os.getpid())
    with start(cold, chain("pid", "echo")) as running:
        assert running.call(1) == running.pids[0]
    assert descendants(os.getpid()) == before


def test_status_counts_calls(warm):
    with start(warm, chain("echo")) as running:
        for number in range(1, 6):
            running.call(number)
        assert comes_true(lambda: running.deployment.status()[0].calls == 5), "a call is counted after it has sent"
        (status,) = running.deployment.status()
    assert (status.node, status.instance, status.state, status.calls) == ("n0", 0, "running", 5)
    assert status.busy > 0


def test_closing_works_off_what_was_fed(warm, tmp_path):
    """BC-024: nothing that was fed is thrown away while executors can still work on it."""
    with start(warm, chain("print:1", "echo"), output=f"dir:{tmp_path}") as running:
        for number in range(1, 6):
            running.feed(number)
    assert (tmp_path / "n0#0.log").read_text(encoding="utf-8").count("line 0") == 5


def test_starting_and_stopping_leaves_nothing(warm):
    """BC-014, BC-015: no process, zombie, descriptor, thread or memory of 50 graphs."""
    for _ in range(2):
        start(warm, chain("echo")).__exit__(None, None, None)
    processes, fds, threads = descendants(os.getpid()), descriptors(), threading.active_count()
    memory = set(memory_files())  # a kept traceback of another test may hold some
    for number in range(1, 51):
        with start(warm, chain("leave-on:1", restarts=0) if number % 10 == 0 else chain("echo")) as running:
            running.feed(number if number % 10 else 1)
            if number % 10:
                running.fetch()
    assert descendants(os.getpid()) == processes
    assert descriptors() == fds
    assert threading.active_count() == threads
    assert not [text for text in set(memory_files()) - memory if "dflow" in text]


def test_close_is_idempotent_and_works_from_any_thread(warm):
    """BC-091."""
    running = start(warm, chain("echo"))
    threads = [threading.Thread(target=running.deployment.close) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    running.deployment.close()
    assert not any(is_alive(pid) for pid in running.pids if pid)


def test_the_constructors_error_reaches_the_caller(warm):
    """BC-098: type, text and traceback, at once, without a retry."""
    began, before = time.monotonic(), descendants(os.getpid())
    with pytest.raises(StartupError) as caught:
        start(warm, chain("echo", "broken"))
    assert time.monotonic() - began < 5
    assert (caught.value.node, caught.value.instance) == ("n1", 0)
    assert "ValueError: the constructor said no: 模型" in str(caught.value)
    assert "in say_no" in str(caught.value)
    assert descendants(os.getpid()) <= before | {warm._current_template().pid}, "only the template is left"


def test_a_crash_while_loading_tells_signal_and_last_output(warm):
    with pytest.raises(StartupError) as caught:
        start(warm, chain("crash-at-start"))
    text = str(caught.value)
    assert "SIGSEGV" in text and "last words" in text and "string_at" in text


def test_sys_exit_while_loading_is_an_error_like_others(warm):
    with pytest.raises(StartupError, match="SystemExit: 3"):
        start(warm, chain("exit-at-start"))


def test_a_start_over_its_limit_tells_where_it_hangs(warm):
    """BC-098: slow is not dead, and the limit can be set."""
    with pytest.raises(StartupError, match=r"did not load within start_timeout=0\.3") as caught:
        start(warm, chain("slow-start:60"), start_timeout="0.3")
    assert "deploy_nodes.py" in str(caught.value)


def test_a_slow_start_within_its_limit_succeeds(warm):
    with start(warm, chain("slow-start:0.3"), start_timeout="30") as running:
        assert running.call(1) == np.float64([1])


def test_a_call_that_never_returns_does_not_hold_up_the_end(warm):
    """BC-064, BC-024: the whole shutdown keeps its limit."""
    running = start(warm, chain("refuse-to-end", depth=2))
    pids = running.pids
    for number in range(1, 4):
        running.feed(number)
    began = time.monotonic()
    running.deployment.close(1.0)
    assert time.monotonic() - began < 3
    assert not any(map(is_alive, pids))


def test_a_full_result_queue_does_not_hold_up_the_end(warm):
    """BC-024: a producer that waits for room wakes."""
    running = start(warm, chain("echo", "echo", depth=2))
    for number in range(1, 7):
        running.feed(number)
    began = time.monotonic()
    running.deployment.close()
    assert time.monotonic() - began < 2


def test_programs_that_user_code_started_end_with_its_executor(warm):
    with start(warm, chain("start-program")) as running:
        pid = int(running.call(1))
        assert is_alive(pid)
    assert comes_true(lambda: not is_alive(pid))


def test_the_environment_is_that_of_the_start(warm, monkeypatch):
    """BC-065: variables set after the template had started count."""
    monkeypatch.setenv("DFLOW_TEST_VARIABLE", "late")
    with start(warm, chain("variable:DFLOW_TEST_VARIABLE")) as running:
        assert running.call(1) == "late"


def test_ctrl_c_reaches_the_application_only(warm):
    """BC-064."""
    with start(warm, chain("sigint")) as running:
        assert running.call(1) == str(signal.SIG_IGN)
        (pid,) = running.pids
        assert os.getsid(pid) == pid


def test_stacks_show_where_user_code_sleeps(warm):
    """BC-063: also in C code that holds the GIL."""
    with start(warm, chain("sleep-on:1", "sleep-in-c-on:2")) as running:
        running.feed(2)
        running.feed(1)
        assert comes_true(lambda: running.group.queue("q0").level() == 0)
        assert comes_true(lambda: "sleep_in_c_on" in running.deployment.stacks()["n1#0"])
        assert "in sleep_on" in running.deployment.stacks()["n0#0"]
        running.deployment.close(0)


def test_closing_while_starting_ends_the_start(warm):
    made = deployer()
    closer = threading.Thread(target=lambda: (comes_true(lambda: bool(made._deployments)), made.close()))
    closer.start()
    with pytest.raises(ClosedError):
        start(made, chain("slow-start:60"), stop_timeout="0.3")
    closer.join(10)


def test_a_slow_start_is_told(warm, capsys, monkeypatch):
    """BC-098: a line every ten seconds."""
    monkeypatch.setattr("dflow_core.deploy.supervision.start_watch._NOTE_EVERY", 0.1)
    with start(warm, chain("slow-start:0.5"), output="stderr"):
        pass
    assert "[dflow] n0#0 is still loading after 0 s (at most 120 s)" in capsys.readouterr().err


def test_a_template_that_does_not_answer_is_given_up(monkeypatch):
    made = deployer()
    with start(made, chain("echo")):
        template = made._template.pid
    assert template > 0
    monkeypatch.setattr("dflow_core.deploy.supervision.start_watch._NOTE_EVERY", 0.1)
    monkeypatch.setattr("dflow_core.deploy.supervision.start_watch._FORK_LIMIT", 0.2)
    os.kill(template, signal.SIGSTOP)
    with start(made, chain("echo")) as running:
        assert running.call(1) == np.float64([1])
    made.close()
    assert not is_alive(template)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_use_in_a_fork_of_the_application_is_refused(warm):
    """BC-090: a clear error in the child, and nothing of the parent's is closed by it."""
    with start(warm, chain("echo")) as running:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            said = []
            for use in (running.deployment.status, running.deployment.stacks, lambda: start(warm, chain("echo"))):
                try:
                    use()
                except ClosedError as error:
                    said.append("a fork of it" in str(error))
            running.deployment.close()
            os.write(write, str(said).encode())
            os._exit(0)
        os.waitpid(pid, 0)
        assert os.read(read, 100).decode() == str([True] * 3)
        os.close(read)
        os.close(write)
        assert running.call(1) == np.float64([1])


def test_another_interpreter_runs_a_node(warm):
    """BC-082."""
    with start(warm, chain("pid", env=sys.prefix)) as running:
        assert running.call(1) == running.pids[0]


def test_a_missing_interpreter_is_named(warm):
    with pytest.raises(StartupError, match="no/such/python"):
        start(warm, chain("echo", env="/no/such/python"))


def test_an_interpreter_without_dflow_says_what_to_install(warm, tmp_path, monkeypatch):
    """BC-082."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    bare = tmp_path / "bin" / "python"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -I -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(StartupError) as caught:
        start(warm, chain("echo", env=str(tmp_path)))
    assert "no dflow" in str(caught.value)
    assert "pip install dflow-core" in str(caught.value)


def test_a_closed_deployer_refuses(warm):
    made = deployer()
    made.close()
    with pytest.raises(ClosedError):
        start(made, chain("echo"))


BUILD = """
import os, numpy, dflow_core as df
from dflow_core.errors import DflowError
from tests.system.deploy_graph import descendants
node = df.pyflow(lambda x: x).fnode("node")
graph = df.FlowGraph([node(df.FlowData("x"))], {options}, mode={mode!r})
try:
    {use}
except DflowError as error:
    print(type(error).__name__)
print(descendants(os.getpid()))
"""


@pytest.mark.parametrize(
    ("use", "mode", "options", "environment", "printed"),
    [
        ("graph.in_session().compile(graph)", "process", {}, {}, ["set()"]),
        ("graph.in_session().check(graph)", "process", {}, {}, ["set()"]),
        ("with graph: graph(numpy.zeros(1))", "inline", {}, {}, ["set()"]),
        ("graph.start()", "process", {"deployer": "elsewhere"}, {}, ["PluginError", "set()"]),
        ("graph.start()", "process", {}, {"DFLOW_LOG_LEVEL": "loud"}, ["OptionError", "set()"]),
    ],
    ids=["compiled", "checked", "inline", "deployed elsewhere", "no session"],
)
def test_nothing_is_started_for_a_graph_that_does_not_run_here(use, mode, options, environment, printed):
    code = BUILD.format(use=use, mode=mode, options=options)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={**os.environ, **environment},
        cwd=Path(__file__).parents[2], check=False,
    )
    assert (done.stdout.split("\n")[:-1], done.stderr) == (printed, "")


def test_the_template_starts_before_the_rest_of_dflow_is_imported():
    """What takes longest begins first: neither session, compiler nor protobuf are there when it is started."""
    code = """
import sys, dflow_core as df
from dflow_core.deploy.children.template import Template
start = Template.start
def spy(template):
    print([name for name in ("dflow_core.session", "dflow_core.compiler", "google.protobuf") if name in sys.modules])
    start(template)
    print(template.pid > 0)
Template.start = spy
with df.FlowGraph([df.pyflow(len).fnode("node")(df.FlowData("x"))]) as graph:
    print(graph([1, 2]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split("\n")[:-1], done.stderr) == (["[]", "True", "2"], "")
