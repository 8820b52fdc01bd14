"""One thread for descriptors, timers and calls."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from dflow_core.deploy.supervision.loop import Loop

LIMIT = 5


class Watched:
    """A loop with what it said of broken calls."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.rounds = 0
        self.loop = Loop("test-loop", self.idle, self.errors.append)

    def idle(self) -> float | None:
        self.rounds += 1
        return None

    def run(self, call: object) -> object:
        """Have something called, and wait for what it gave."""
        done = threading.Event()
        given: list[object] = []

        def make() -> None:
            given.append(call())
            done.set()

        self.loop.post(make)
        assert done.wait(LIMIT)
        return given[0]


@pytest.fixture
def watched() -> Iterator[Watched]:
    """A loop that runs."""
    made = Watched()
    made.loop.start()
    yield made
    made.loop.close(LIMIT)


def test_calls_are_made_in_order_in_one_thread(watched):
    order: list[tuple[int, int]] = []
    for number in range(100):
        watched.loop.post(lambda number=number: order.append((number, threading.get_ident())))
    watched.run(lambda: None)
    assert [number for number, _ in order] == list(range(100)) and len({thread for _, thread in order}) == 1


def test_timers_come_in_order_of_time(watched):
    order, done = [], threading.Event()
    watched.run(lambda: [watched.loop.after(s, lambda s=s: order.append(s)) for s in (0.03, 0.01, 0.02)])
    watched.run(lambda: watched.loop.after(0.04, done.set))
    assert done.wait(LIMIT) and order == [0.01, 0.02, 0.03]


def test_a_readable_descriptor_is_told_until_forgotten(watched):
    read, write = os.pipe()
    heard = threading.Event()

    def hear() -> None:
        os.read(read, 1)
        heard.set()

    watched.run(lambda: watched.loop.listen(read, hear))
    for _ in range(2):
        os.write(write, b"x")
        assert heard.wait(LIMIT)
        heard.clear()
    watched.run(lambda: watched.loop.forget(read))
    watched.run(lambda: watched.loop.forget(read))
    os.write(write, b"x")
    watched.run(lambda: None)
    assert not heard.is_set()
    os.close(read)
    os.close(write)


def test_a_writable_descriptor_is_told_on_request(watched):
    read, write = os.pipe()
    heard = threading.Event()

    def hear() -> None:
        watched.loop.forget(write)
        heard.set()

    watched.run(lambda: watched.loop.listen(write, hear, writable=True))
    assert heard.wait(LIMIT)
    os.close(read)
    os.close(write)


def test_a_call_that_breaks_is_told_and_the_loop_goes_on(watched):
    error = ValueError("broken")

    def broken() -> None:
        raise error

    watched.loop.post(broken)
    assert watched.run(lambda: 5) == 5
    assert watched.errors == [error]


def test_an_idle_loop_sleeps(watched):
    watched.run(lambda: None)
    before = watched.rounds
    threading.Event().wait(0.05)
    assert watched.rounds - before <= 1


def test_a_loop_that_never_began_closes():
    made = Watched()
    assert not made.loop.started
    made.loop.close(LIMIT)
    made.loop.post(lambda: None)


def test_close_makes_the_calls_that_wait_and_is_idempotent():
    made = Watched()
    order = []
    made.loop.start()
    made.loop.post(lambda: order.append(1))
    made.loop.close(LIMIT)
    made.loop.close(LIMIT)
    assert order == [1]
