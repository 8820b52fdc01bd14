"""The handshakes of one request are those of the page 'one request, four layers'."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from dflow_offline_inference import Event

PAGE = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "one-request-four-layers.md"
ROW = re.compile(r"^\| \d+ \| (\w+) \| ([\w ]+) \| (caller|worker) \|", re.M)


@pytest.fixture(scope="module")
def page() -> list[tuple[str, str, str]]:
    """The table: layer, step and thread."""
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(found) == 13
    return found


class Watch:
    """Records events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def of(self, request_id: int) -> list[tuple[str, str, str]]:
        own = threading.current_thread().name
        return [
            (e.layer, e.step, {own: "caller", "dflow-m#0": "worker"}.get(e.thread, e.thread))
            for e in self.events if e.request_id == request_id
        ]


def test_one_request_takes_the_steps_of_the_page(start, make_puppet, rows, page, until) -> None:
    watch, called = Watch(), threading.Event()
    offline = start(make_puppet(depth=2), config={"batch": 4}, on_event=watch.events.append)
    handle = offline.infer("m", rows(1), callback=lambda _: called.set())
    assert called.wait(5)
    handle.result(5)
    assert watch.of(handle.id) == page


def test_who_waited_for_a_slot_is_handed_over_by_who_frees_it(start, gated, rows, page) -> None:
    watch = Watch()
    offline = start(gated, on_event=watch.events.append)
    first = [offline.infer("m", rows(n)) for n in range(2)]
    assert gated.entered.acquire(timeout=5)
    second = offline.infer("m", rows(2))
    assert watch.of(second.id) == page[:2]
    gated.gate.set()
    for handle in (*first, second):
        handle.result(5)
    offline.close()
    moved = [(layer, step, "worker" if 2 <= number < 5 else thread)
             for number, (layer, step, thread) in enumerate(page) if step != "callback"]
    without_result = [step for step in watch.of(second.id) if step[1] != "result"]
    assert without_result == [step for step in moved if step[1] != "result"]


def test_each_of_a_batch_takes_the_same_steps(start, make_puppet, rows, page) -> None:
    watch = Watch()
    offline = start(make_puppet(), config={"batch": 3, "batch_wait": 60.0}, on_event=watch.events.append)
    handles = [offline.infer("m", rows(n)) for n in range(3)]
    offline.close()
    for handle in handles:
        handle.result(0)
        assert watch.of(handle.id) == [step for step in page if step[1] != "callback"]


def test_a_cancelled_request_stops_where_it_is(start, gated, rows, page) -> None:
    watch = Watch()
    offline = start(gated, on_event=watch.events.append)
    for number in range(2):
        offline.infer("m", rows(number))
    waiting = offline.infer("m", rows(2))
    waiting.cancel()
    assert watch.of(waiting.id) == [*page[:2], ("ExecutionEngine", "end", "caller")]
