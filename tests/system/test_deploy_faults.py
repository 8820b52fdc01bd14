"""Executors, the template and the application die: what is told, what goes on, what is left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dflow_core.deploy import LocalDeployer
from dflow_core.errors import ClosedError, InstanceLostError
from dflow_core.message import ErrorInfo
from dflow_core.testing.waiting import comes_true, is_alive
from tests.system.deploy_graph import Running, chain, deployer, join, start

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def warm() -> Iterator[LocalDeployer]:
    """A deployer with its template."""
    made = deployer()
    yield made
    made.close()


def test_a_crash_ends_the_call_and_the_graph_goes_on(warm):
    """BC-057, BC-061: signal, node, instance and the last output; only what the dead process held fails."""
    with start(warm, chain("segfault-on:3", "echo")) as running:
        for number in (1, 2):
            assert running.call(number) == np.float64([number])
        error = running.error(3)
        assert (error.kind, error.node, error.instance) == ("lost", "n0", 0)
        assert "SIGSEGV" in error.message and "segmentation fault" in error.message
        assert "about to crash" in error.traceback and "in string_at" in error.traceback
        assert running.call(4) == np.float64([4])
        assert [status.restarts for status in running.deployment.status()] == [1, 0]


def test_an_exit_code_is_told(warm):
    """BC-014: also code 0 is no good end while there is work."""
    with start(warm, chain("leave-on:1")) as running:
        assert "exit code 0" in running.error(1).message
        assert running.call(2) == np.float64([2])


def test_death_is_noticed_within_a_second(warm):
    with start(warm, chain("sleep-on:1")) as running:
        running.feed(1)
        assert comes_true(lambda: running.group.queue("q0").level() == 0)
        (pid,) = running.pids
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        trans_id, error = running.fetch()
        assert time.monotonic() - began < 1
        assert trans_id == 1 and isinstance(error, ErrorInfo)


def test_what_waits_in_the_queue_survives_the_death_of_its_reader(warm):
    with start(warm, chain("segfault-on:1")) as running:
        for number in range(1, 6):
            running.feed(number)
        results = dict(running.fetch() for _ in range(5))
    errors = [number for number, value in results.items() if isinstance(value, ErrorInfo)]
    assert errors == [1] and len(results) == 5


def test_other_instances_do_not_notice(warm):
    """BC-061: four instances, one is killed again and again; every transaction ends exactly once."""
    count = 200
    with start(warm, chain("echo", instances=4, depth=16, restarts=100)) as running:
        ended: dict[int, object] = {}
        fed = 0
        while len(ended) < count:
            while fed < count and fed - len(ended) < 12:
                fed += 1
                running.feed(fed)
                if fed % 50 == 0:
                    os.kill(random.choice([pid for pid in running.pids if pid]), signal.SIGKILL)
            trans_id, value = running.fetch()
            ended.setdefault(trans_id, value)
        good = [number for number, value in ended.items() if not isinstance(value, ErrorInfo)]
        assert all(ended[number] == np.float64([number]) for number in good)
        assert len(good) > count / 2


def test_a_join_forgets_parts_that_were_lost(warm):
    """The second part of a lost transaction gives no half pair, and later transactions pair as before."""
    with start(warm, join("echo")) as running:
        running.feed(1, queue="a")
        assert comes_true(lambda: running.group.queue("a").level() == 0)
        (pid,) = running.pids
        os.kill(pid, signal.SIGKILL)
        trans_id, error = running.fetch()
        assert trans_id == 1 and isinstance(error, ErrorInfo)
        running.feed(1, queue="b")
        for queue in ("a", "b"):
            running.feed(2, queue=queue)
        assert running.fetch() == (2, np.float64([2]))


def test_a_call_over_its_limit_ends_with_its_process(warm):
    """BC-063: also where the call keeps the interpreter busy."""
    for behaviour in ("sleep-on:1", "sleep-in-c-on:1"):
        with start(warm, chain(behaviour, call_timeout=0.3)) as running:
            began = time.monotonic()
            assert "exceeded its limit of 0.3 s" in running.error(1).message
            assert time.monotonic() - began < 3
            assert running.call(2) == np.float64([2])


def test_short_calls_are_not_ended_by_a_limit(warm):
    with start(warm, chain("echo", call_timeout=0.2)) as running:
        end = time.monotonic() + 0.7
        number = 0
        while time.monotonic() < end:
            number += 1
            running.call(number)
        assert [status.restarts for status in running.deployment.status()] == [0]


def test_an_executor_that_dies_too_often_ends_the_graph(warm):
    """BC-098: no endless restarts; whoever waits is woken, and told the last reason."""
    with start(warm, chain("segfault-on:1", "echo", restarts=1)) as running:
        running.error(1)
        running.feed(1)
        with pytest.raises(ClosedError):
            running.fetch()
            running.fetch()
        failure = running.deployment.failure()
        assert isinstance(failure, InstanceLostError)
        assert failure.node == "n0"
        assert "SIGSEGV" in str(failure) and "started again 1 time within 60 s" in str(failure)
        assert running.deployment.status()[0].state == "failed"


def test_on_error_stop_ends_the_graph_with_the_users_error(warm):
    with start(warm, chain("raise", "echo", on_error="stop")) as running:
        running.feed(1)
        assert comes_true(lambda: running.deployment.failure() is not None)
        text = str(running.deployment.failure())
        assert "ValueError: bad value 1" in text and "in raise_error" in text and "'n0'#0" in text
        assert text.count("--- traceback in the executor ---") == 1


def test_a_fault_outside_any_call_ends_the_executor_only(warm, tmp_path):
    with start(warm, chain("bad-timer-on:1"), output=f"dir:{tmp_path}") as running:
        running.feed(1)
        assert comes_true(lambda: running.deployment.status()[0].restarts == 1)
        running.feed(2)
        # The result of 1 has left already; an error may follow it, because its message was still held.
        ended = [running.fetch()]
        while ended[-1][0] != 2:
            ended.append(running.fetch())
        assert ended[-1] == (2, np.float64([2])) and {number for number, _ in ended[:-1]} == {1}
    text = (tmp_path / "n0#0.log").read_text(encoding="utf-8")
    assert "internal error, leaving" in text and "a fault outside any call" in text


def test_a_terminated_executor_is_replaced(warm):
    """SIGTERM from outside is a death like others, also while a call does not end."""
    with start(warm, chain("refuse-to-end")) as running:
        running.feed(1)
        assert comes_true(lambda: running.group.queue("q0").level() == 0)
        os.kill(running.pids[0], signal.SIGTERM)
        assert "SIGTERM" in running.fetch()[1].message
        assert comes_true(lambda: running.deployment.status()[0].restarts == 1)


def test_a_fault_of_the_supervisor_ends_the_graph(warm):
    """Better no graph than one that nobody watches."""
    with start(warm, chain("echo")) as running:
        running.deployment._supervisor.post(lambda: 1 // 0)
        with pytest.raises(ClosedError):
            running.fetch()
        assert "ZeroDivisionError" in str(running.deployment.failure())


def test_an_executor_that_closes_its_connection_is_replaced(warm):
    """One that lives on without control cannot be trusted with work."""
    with start(warm, chain("pid")) as running:
        (pid,) = running.pids
        member = running.deployment._supervisor.members[0]
        running.deployment._supervisor.post(member.process.connection._socket.close)
        assert comes_true(lambda: not is_alive(pid))


def test_a_dead_template_is_replaced_and_its_executors_too(warm):
    """The graph works on with executors that are programs of their own; the next one gets a new template."""
    made = deployer()
    with start(made, chain("sleep-on:1", "echo", restarts=5)) as running:
        running.feed(1)
        assert comes_true(lambda: running.group.queue("q0").level() == 0)
        old = running.pids
        os.kill(made._template.pid, signal.SIGKILL)
        assert "template" in running.fetch()[1].message
        assert running.call(2) == np.float64([2])
        assert not any(map(is_alive, old))
    with start(made, chain("echo")) as running:
        assert running.call(1) == np.float64([1])
        assert made._template.pid
    made.close()


def test_a_template_that_cannot_start_is_done_without(monkeypatch):
    made = deployer()
    monkeypatch.setattr("dflow_core.deploy.children.template.template_command", lambda *_: ["/bin/false"])
    with start(made, chain("echo")) as running:
        assert running.call(1) == np.float64([1])
    made.close()


APPLICATION = """
import os, sys
from tests.system.deploy_graph import chain, deployer, start
made = deployer(template={template})
running = start(made, chain("echo", "sleep-in-c-on:1"))
running.feed(1)
print(*running.pids, *([made._template.pid] if {template} else []), flush=True)
for number in range(2, 100000):
    running.feed(number, timeout=60)
"""


@pytest.mark.parametrize("template", [True, False], ids=["template", "no-template"])
def test_everything_ends_with_the_application(template):
    """BC-001: however it dies, and also while an executor sits in C code with the GIL."""
    code = textwrap.dedent(APPLICATION.format(template=template))
    for number in (signal.SIGKILL, signal.SIGTERM) if template else (signal.SIGKILL,):
        application = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        assert application.stdout is not None
        pids = list(map(int, application.stdout.readline().split()))
        assert all(map(is_alive, pids))
        application.send_signal(number)
        application.wait(10)
        application.stdout.close()
        assert comes_true(lambda pids=pids: not any(map(is_alive, pids)), 5)


def test_ctrl_c_while_starting_leaves_nothing():
    """BC-064: at a random moment of start, work and end."""
    code = """
        import signal, sys, threading, time
        from tests.system.deploy_graph import chain, deployer, descendants, start
        import os
        delay = float(sys.argv[1])
        made = deployer()
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            for _ in range(30):  # Python itself loses an interrupt that comes while a __del__ runs
                with start(made, chain("echo", "echo")) as running:
                    running.call(1)
        except KeyboardInterrupt:
            pass
        made.close()
        assert not descendants(os.getpid()), descendants(os.getpid())
        left = [t.name for t in threading.enumerate() if t.name.startswith("dflow")]
        assert not left, left
        print("clean")
    """
    for delay in (0.1, 0.41, 0.44):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(delay)], cwd=ROOT, capture_output=True, text=True,
            timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
        )
        assert done.stdout == "clean\n", done.stderr


def _rounds(running: Running, rounds: int, seed: int) -> None:
    """Kill executors at random moments; every transaction has to end."""
    chance = random.Random(seed)
    number = 0
    for _ in range(rounds):
        fed = [number := number + 1 for _ in range(chance.randint(1, 6))]
        for trans_id in fed:
            running.feed(trans_id)
        time.sleep(chance.random() * 0.004)
        pids = [pid for pid in running.pids if pid]
        with contextlib.suppress(ProcessLookupError, IndexError):  # it just ended, or all are starting
            os.kill(chance.choice(pids), signal.SIGKILL)
        missing = set(fed)
        while missing:
            missing.discard(running.fetch()[0])


def test_killed_executors_lose_no_transaction(warm):
    with start(warm, chain("echo", "echo", "echo", instances=2, restarts=1000)) as running:
        _rounds(running, 30, seed=7)
        assert comes_true(lambda: all(status.state == "running" for status in running.deployment.status()))
        stats = running.group.stats()
        assert all(queue.level == 0 for queue in stats.queues), "BC-055"
        assert comes_true(lambda: running.group.stats().blocks_in_use == 0), running.group.stats().holders


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_executors_lose_no_transaction_over_many_rounds(warm):
    with start(warm, chain("echo", "echo", "echo", instances=2, restarts=100000)) as running:
        _rounds(running, 600, seed=int(time.time()))
