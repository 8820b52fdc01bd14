"""The gate of an instance: once it is quiet no call begins, and what is discarded is not worked on."""

from __future__ import annotations

import threading

from dflow_core.executor.gate import Gate


class Worker:
    """A thread that counts the calls it makes, one for each message given."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.calls = 0
        self._given = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def give(self) -> None:
        self._given.release()

    def end(self) -> None:
        self.gate.stop()
        self._given.release()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self.gate.stopping:
            assert self._given.acquire(timeout=30)
            if self.gate.enter():
                self.calls += 1
            self.gate.busy = False


def until(condition) -> None:
    pause = threading.Event()
    for _ in range(5000):
        if condition():
            return
        pause.wait(0.002)
    raise AssertionError("the condition did not come true")


def test_no_call_begins_between_quiet_and_resume():
    worker = Worker()
    for _ in range(300):
        worker.give()
        worker.gate.suspend()
        until(lambda: worker.gate.is_quiet)
        before = worker.calls
        worker.give()
        assert worker.calls == before
        worker.gate.resume()
    until(lambda: worker.calls == 600)
    worker.end()


def test_what_is_in_hand_is_discarded_and_said_to_have_been_there():
    worker = Worker()
    worker.gate.suspend()
    worker.give()
    until(lambda: worker.gate._parked)
    assert worker.gate.discard(lambda: False) is False
    assert worker.gate.discard(lambda: False) is True
    assert worker.gate.discard(lambda: True) is False
    worker.gate.resume()
    worker.give()
    until(lambda: worker.calls == 1)
    worker.end()
    assert worker.calls == 1


def test_who_waits_for_room_is_quiet_and_is_asked_again():
    gate = Gate()
    gate.busy = True
    assert not gate.is_quiet
    gate.blocked = True
    assert gate.is_quiet
    gate.suspend()
    assert gate.discard(lambda: False) is False


def test_calls_that_begin_elsewhere_are_held_up_as_well():
    gate, told = Gate(), []
    gate.suspend()
    gate.lead(told.append)
    gate.resume()
    gate.suspend()
    assert told == [True, False, True]


def test_who_discarded_is_told_once_when_it_goes_on() -> None:
    gate, told = Gate(), []
    gate.suspend()
    for _ in range(3):
        gate.discard(lambda: False, lambda: told.append("on"))
    assert told == []
    gate.resume()
    gate.suspend()
    gate.resume()
    assert told == ["on"]
