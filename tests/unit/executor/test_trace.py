"""Calls as a timeline: what executors write, which version a call was of, and the file that Perfetto reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dflow_core.executor import note_updates, read_calls, trace, write_timeline
from tests.unit.executor.support import Func, Node, inline


class Clock:
    """Monotonic seconds, as wanted."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """In the place of the real one."""
    made = Clock()
    monkeypatch.setattr(trace, "time", made)
    return made


def write(folder: Path, node: str, *starts: float) -> None:
    """A call of half a second at each of these times."""
    calls = trace.CallTrace(str(folder), node, 0)
    for number, start in enumerate(starts, 1):
        calls.call(number, start, start + 0.5)
    calls.close()


@pytest.mark.parametrize(("updates", "versions"), [
    ([], {"a": [None, None, None], "b": [None, None, None]}),
    ([(1.5, {"a": 2})], {"a": [1, 2, 2], "b": [None, None, None]}),
    ([(1.5, {"a": 2, "b": 2}), (2.5, {"b": 3})], {"a": [1, 2, 2], "b": [1, 2, 3]}),
    ([(0.5, {"a": 2}), (0.6, {"a": 3}), (9.0, {"a": 4})], {"a": [3, 3, 3], "b": [None, None, None]}),
])
def test_calls_of_updated_nodes_say_their_version(tmp_path, clock, updates, versions) -> None:
    for node in "ab":
        write(tmp_path, node, 1.0, 2.0, 3.0)
    for when, news in updates:
        clock.now = when
        note_updates(str(tmp_path), news)
    found = read_calls(tmp_path)
    assert {node: [call.get("version") for call in found if call["node"] == node] for node in "ab"} == versions
    write_timeline(found, tmp_path / "timeline.json")
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert [event["args"].get("version") for event in slices] == [*versions["a"], *versions["b"]]
    assert [(event["ts"], event["dur"]) for event in slices[:3]] == [(0, 5e5), (1e6, 5e5), (2e6, 5e5)]
    assert [event["args"]["name"] for event in events if event["ph"] == "M"] == ["a#0", "b#0"]


def test_a_torn_last_line_is_left_out(tmp_path) -> None:
    write(tmp_path, "a", 1.0, 2.0)
    (path,) = tmp_path.glob("*.calls.jsonl")
    path.write_text(path.read_text()[:-10])
    assert [call["trans_id"] for call in read_calls(tmp_path)] == [1]
    write_timeline([], tmp_path / "empty.json")
    assert json.loads((tmp_path / "empty.json").read_text())["traceEvents"] == []


def test_a_closed_trace_takes_nothing_more_and_names_make_safe_files(tmp_path) -> None:
    calls = trace.CallTrace(str(tmp_path), "a/b c", 3)
    calls.close()
    calls.call(1, 0.0, 1.0)
    calls.close()
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("a_b_c#3-") and read_calls(tmp_path) == []


def test_calls_of_an_inline_graph_are_taken_down_too(tmp_path):
    """BC-065: the option is in force in both modes."""
    def picky(x):
        if x == 2:
            raise ValueError(x)
        return x

    nodes = [Node("first", Func(picky), ["x"]), Node("second", Func(lambda x: x), ["first:0"])]
    client = inline(nodes, ["x"], ["second:0"], options={"trace": str(tmp_path)})
    for value in (1, 2, 3):
        client.feed({0: value})
    client.close()
    found = sorted((call["node"], call["trans_id"]) for call in read_calls(tmp_path))
    assert found == [("first", 1), ("first", 2), ("first", 3), ("second", 1), ("second", 3)]
    assert all(call["start"] <= call["end"] for call in read_calls(tmp_path))
