"""Many at once: every request ends exactly once, with its own result, and no slot is lost."""

from __future__ import annotations

import itertools
import linecache
import os
import random
import sys
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from dflow_core.errors import ClosedError
from dflow_offline_inference import ModelConfig, OfflineInference, RequestCancelledError, State
from dflow_offline_inference.offline import machinery
from dflow_offline_inference.workers import compile_models

ENDED = {State.DONE, State.ERROR, State.CANCELLED}


@pytest.fixture(autouse=True)
def eager_switches() -> Iterator[None]:
    """Threads are switched far more often than usual, so that they meet in more places."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not [thread for thread in threads if thread.is_alive()]


def slots_are_free(offline: OfflineInference) -> bool:
    overview = offline.overview()
    return all(used == 0 for used, _ in overview.slots.values()) and overview.open == overview.waiting == 0


def test_hundreds_of_threads_on_a_model_of_one_instance(start, make_puppet, rows, until) -> None:
    puppet = make_puppet()
    offline = start(puppet, config={"batch": 4, "batch_wait": 0.0005}, max_waiting=100)
    wrong: list[object] = []

    def submit(thread: int) -> None:
        for number in range(5):
            value = thread * 10 + number
            found = offline.infer("m", rows(value, width=1 + thread % 3), priority=thread % 4).result(30)
            if found["y"].tolist() != [[2.0 * value] * (1 + thread % 3)]:
                wrong.append((value, found))

    run_all([threading.Thread(target=submit, args=(number,)) for number in range(300)])
    assert not wrong and puppet.most == 1 and len(puppet.order) == 1500
    until(lambda: slots_are_free(offline))


def test_completion_against_cancel(start, make_puppet, rows, until) -> None:
    offline = start({"a": make_puppet(), "b": make_puppet(depth=2)}, config={"batch": 2, "batch_wait": 0.0})
    ends: dict[int, list[State]] = {}
    random.seed(1)
    won = 0
    handles = []
    for number in range(3000):
        handle = offline.infer("ab"[number % 2], rows(number))
        handle.add_done_callback(lambda h: ends.setdefault(h.id, []).append(h.state))
        handles.append((number, handle))
        if random.random() < 0.5:
            won += handles[random.randrange(max(0, number - 8), number + 1)][1].cancel()
    for number, handle in handles:
        outcome = handle.outcome(30)
        if isinstance(outcome, RequestCancelledError):
            won -= 1
        else:
            assert outcome["y"].tolist() == [[2.0 * number] * 2]
    assert won == 0, "each cancel that said it won did, and no other"
    until(lambda: slots_are_free(offline))
    assert sorted(ends) == [handle.id for _, handle in handles]
    assert all(len(states) == 1 and states[0] in ENDED for states in ends.values())


def test_completion_against_deadlines(start, make_puppet, rows, until) -> None:
    offline = start(make_puppet(), config={"batch": 2, "batch_wait": 0.0})
    handles = [offline.infer("m", rows(n), deadline=10 ** random.uniform(-5, -2)) for n in range(2000)]
    for number, handle in enumerate(handles):
        error = handle.exception(30)
        assert error is None or "deadline" in str(error)
        assert error is not None or handle.result()["y"][0, 0] == 2 * number
    until(lambda: slots_are_free(offline))


def test_dependencies_against_cancels(start, make_puppet, rows, until) -> None:
    offline = start({"a": make_puppet(), "b": make_puppet()})
    random.seed(2)
    handles = []
    for number in range(1500):
        after = random.sample(handles[-5:], min(len(handles), random.randrange(3)))
        chain = random.choice([None, None, "x"])
        handles.append(offline.infer(random.choice("ab"), rows(number), after=after, chain=chain))
        if random.random() < 0.1:
            random.choice(handles[-10:]).cancel()
    for handle in handles:
        handle.exception(30)
    until(lambda: slots_are_free(offline))
    dependencies = offline._machinery.scheduler._admission._dependencies
    assert not dependencies._dependents and not dependencies._chains


def test_submitting_against_closing(start, make_puppet, rows) -> None:
    for cancel in itertools.islice(itertools.cycle([True, False]), 40):
        offline = start(make_puppet(), config={"batch": 2, "batch_wait": 0.0})
        handles: list[object] = []

        def submit(offline=offline, handles=handles) -> None:
            try:
                for number in itertools.count():
                    handles.append((number, offline.infer("m", rows(number))))
            except ClosedError:
                pass

        threads = [threading.Thread(target=submit) for _ in range(3)]
        for thread in threads:
            thread.start()
        while len(handles) < 5:
            threads[0].join(0.0005)
        offline.close(cancel=cancel)
        for thread in threads:
            thread.join(10)
        for number, handle in handles:
            outcome = handle.outcome(0)
            if isinstance(outcome, Exception):
                assert cancel and isinstance(outcome, RequestCancelledError)
            else:
                assert outcome["y"][0, 0] == 2 * number


def test_closing_from_many_threads(start, make_puppet, rows) -> None:
    for _ in range(20):
        puppet = make_puppet()
        offline = start(puppet)
        handle = offline.infer("m", rows(1))
        run_all([threading.Thread(target=offline.close) for _ in range(5)])
        assert handle.result(0)["y"][0, 0] == 2 and puppet.closed == puppet.loaded == 1


@pytest.mark.parametrize("rounds", [200, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.timeout(120)
def test_destruction_while_requests_run(
    make_puppet, make_point, puppet_session, rows, until, monkeypatch, rounds: int
) -> None:
    """The last reference goes, without a collector: whatever was asked for ends, and so do the threads."""
    puppet = make_puppet(depth=2)
    compiled = compile_models(puppet_session, {"m": ModelConfig(make_point(puppet))})
    monkeypatch.setattr(machinery, "compile_models", lambda *_: compiled)  # once for all rounds
    for round_ in range(rounds):
        offline = OfflineInference({"m": make_point(puppet)}, session=puppet_session)
        offline.init()
        gone = weakref.ref(offline)
        handles = [offline.infer("m", rows(n)) for n in range(round_ % 11)]
        del offline
        assert gone() is None
        for number, handle in enumerate(handles):
            outcome = handle.outcome(10)
            assert isinstance(outcome, RequestCancelledError) or outcome["y"][0, 0] == 2 * number
    until(lambda: puppet.closed == puppet.loaded == rounds)
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith(("dflow-m#", "dflow-offline"))])


def test_busy_buffers_are_never_shared(start, make_puppet) -> None:
    """Each call sees the rows of its own requests from its begin to its end."""
    def slow(x):
        before = x.copy()
        for _ in range(20):
            np.sort(np.arange(50))
        assert np.array_equal(before, x), "somebody wrote into the buffers of a call"
        return [x * 2]

    offline = start(make_puppet(slow, depth=3), config={"batch": 3, "instances": 2, "batch_wait": 0.0})
    items = [np.full((1, 4), n, np.float32) for n in range(600)]
    found = [result["y"][0, 0] for result in offline.map("m", items)]
    assert found == [2 * n for n in range(600)]


class Interrupter:
    """Raises KeyboardInterrupt in the main thread at the n-th line that code of this package executes there.

    Lines with `with` and `try` are left out: a trace function is also called there before a lock is given back, or
    where no handler holds yet, and at none of these places does the interpreter itself look for signals.
    """

    def __init__(self, at: int) -> None:
        self.left = at
        self.struck = ""

    def trace(self, frame, event, _arg):
        if "dflow_offline_inference" not in frame.f_code.co_filename:
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and not line.startswith(("with ", "try:")):
            self.left -= 1
            if self.left == 0:
                self.struck = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self.trace


@pytest.mark.parametrize(
    ("what", "step"),
    [("infer", 11), ("cancel", 5), *(pytest.param(w, 1, marks=pytest.mark.slow) for w in ("infer", "cancel"))],
)
@pytest.mark.timeout(300)
def test_ctrl_c_at_any_line_loses_no_slot(start, make_puppet, rows, until, what: str, step: int) -> None:
    """Whatever line it strikes, everything asked for ends, and the next request runs."""
    before = sys.gettrace()
    for at in range(1, 600, step):
        puppet = make_puppet(gate=threading.Event())
        offline = start(puppet, scan_interval=0.01)
        interrupter = Interrupter(at)
        handles = []
        victim = [offline.infer("m", rows(n)) for n in range(1 + at % 3)][-1] if what == "cancel" else None
        sys.settrace(interrupter.trace)
        try:
            if victim is not None:
                victim.cancel()
            else:
                for number in range(2):
                    handles.append(offline.infer("m", rows(number), chain="c"))
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
            puppet.gate.set()
        assert offline.infer("m", rows(5), chain="c").result(10)["y"][0, 0] == 10, interrupter.struck
        for handle in [*handles, *([victim] if victim else [])]:
            handle.outcome(10)
        until(lambda offline=offline: slots_are_free(offline))
        offline.close()
        if not interrupter.struck:
            assert at > 40, "the interrupts went through all of it"
            return
    raise AssertionError("the interrupts never came to the end")


@pytest.mark.parametrize(
    "use",
    [
        lambda offline, handle, line: offline.infer("m", np.ones((1, 2), np.float32)),
        lambda offline, handle, line: handle.result(),
        lambda offline, handle, line: next(line),
        lambda offline, handle, line: next(offline.map("m", [np.ones((1, 2), np.float32)])),
    ],
    ids=["infer", "result", "map of before", "map"],
)
def test_a_fork_may_not_use_it(start, gated, rows, monkeypatch, use) -> None:
    """Nobody would ever end what it asks for, or waits for."""
    offline = start(gated)
    handle, line = offline.infer("m", rows(1)), offline.map("m", map(rows, range(4)), ordered=False)
    desk = offline._machinery.desk
    with monkeypatch.context() as patch:
        patch.setattr(desk, "_pid", os.getpid() + 1)  # as it looks in a fork
        with pytest.raises(ClosedError, match="a fork of it"):
            use(offline, handle, line)
        offline.close()
        assert not offline._machinery.closed
    gated.gate.set()
    assert handle.result(10)["y"][0, 0] == 2


def test_a_fault_of_the_step_loop_leaves_nobody_waiting(start, make_puppet, rows, monkeypatch) -> None:
    from dflow_offline_inference.offline.desk import Desk

    offline = start(make_puppet(depth=2), config={"batch": 2})
    offline.infer("m", rows(1)).result(10)
    completed, struck = Desk.completed, threading.Event()

    def faulty(self: Desk, requests, outputs) -> None:
        if not struck.is_set():
            struck.set()
            raise MemoryError
        completed(self, requests, outputs)

    monkeypatch.setattr(Desk, "completed", faulty)
    handles = [offline.infer("m", rows(n)) for n in range(6)]
    assert all("step loop failed" in str(handle.exception(10)) for handle in handles)
    assert "step loop failed" in str(offline.infer("m", rows(1)).exception(10))
