"""Calls of nodes as a timeline: written by executors while they run, merged into one Perfetto file afterwards.

Each instance appends to a file of its own, one JSON line a call, so nothing is shared and a killed executor loses its
last lines only. The merged file is in the Trace Event Format that Perfetto and chrome://tracing read.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

_SUFFIX = ".calls.jsonl"
_UPDATES = ".updates.jsonl"
_FLUSH_EVERY = 64


def trace_file(folder: str, node: str, instance: int) -> str:
    """The file for the calls of one instance in this process; its folder is made if missing."""
    os.makedirs(folder, exist_ok=True)
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in node)[:80]
    return os.path.join(folder, f"{safe}#{instance}-{os.getpid()}{_SUFFIX}")


class CallTrace:
    """Writes the calls of one instance.

    Args:
        folder: Where to write; made if missing.
        node, instance: Whose calls.
    """

    def __init__(self, folder: str, node: str, instance: int) -> None:
        path = trace_file(folder, node, instance)
        self._file: TextIO | None = open(path, "w", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self._head = {"node": node, "instance": instance, "pid": os.getpid()}
        self._lines = 0

    def call(self, trans_id: int, start: float, end: float) -> None:
        """Write one call; times are monotonic seconds."""
        if self._file is None:
            return
        entry = {**self._head, "trans_id": trans_id, "start": start, "end": end}
        self._file.write(json.dumps(entry) + "\n")
        self._lines += 1
        if self._lines % _FLUSH_EVERY == 0:
            self._file.flush()

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None


def note_updates(folder: str, versions: Mapping[str, int]) -> None:
    """Write that nodes work in other versions from now on; before their first calls.

    Args:
        folder: Where executors write.
        versions: Their new versions, by node.
    """
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{os.getpid()}{_UPDATES}"), "a", encoding="utf-8") as file:
        for node, version in versions.items():
            file.write(json.dumps({"node": node, "version": version, "since": time.monotonic()}) + "\n")


def read_calls(folder: str | os.PathLike[str]) -> list[dict[str, object]]:
    """Every call written in a folder; a torn last line of a killed executor is left out.

    Calls of nodes that were updated have a `version`.
    """
    calls = _lines(folder, _SUFFIX)
    for update in sorted(_lines(folder, _UPDATES), key=lambda update: _seconds(update, "since")):
        for call in calls:
            if call["node"] == update["node"]:
                later = _seconds(call, "start") >= _seconds(update, "since")
                call["version"] = update["version"] if later else call.get("version", 1)
    return calls


def _lines(folder: str | os.PathLike[str], suffix: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for path in sorted(Path(folder).glob(f"*{suffix}")):
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return found


def write_timeline(calls: Iterable[dict[str, object]], target: str | os.PathLike[str]) -> None:
    """Write calls as a file Perfetto opens: a track per instance, a slice per call.

    Args:
        calls: As `read_calls` gives them.
        target: File to write.
    """
    calls = list(calls)
    begin = min((_seconds(call, "start") for call in calls), default=0.0)
    tracks = {name: number for number, name in enumerate(sorted({_track(call) for call in calls}), 1)}
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": name}}
        for name, number in tracks.items()
    ]
    events += [
        {
            "ph": "X", "name": str(call["node"]), "cat": "call", "pid": 1, "tid": tracks[_track(call)],
            "ts": (_seconds(call, "start") - begin) * 1e6,
            "dur": (_seconds(call, "end") - _seconds(call, "start")) * 1e6,
            "args": {name: call[name] for name in ("trans_id", "pid", "version") if name in call},
        }
        for call in calls
    ]
    Path(target).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")


def _track(call: dict[str, object]) -> str:
    return f"{call['node']}#{call['instance']}"


def _seconds(call: dict[str, object], name: str) -> float:
    return float(str(call[name]))
