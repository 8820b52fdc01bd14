"""JSON files that people write: what is in them, the line of every key, and every fault at once.

The files are plain JSON (config-and-options.md); a byte order mark in front, carriage returns and tabs do no harm.
Unknown keys are ignored, except that one which is nearly a missing key is named.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dflow_core.errors import Fault

T = TypeVar("T")

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_COMMENT = re.compile(r"\s*(//|/\*|#)")
_KINDS = {str: "a text", bool: "true or false", int: "a whole number", list: "a list", dict: "an object"}


@dataclass(slots=True)
class JsonFile:
    """One file, and what is wrong with it.

    Args:
        path: The file.
        value: Its outermost object; empty where it could not be read.
        lines: Line of each value, by its path such as `batch_deploy_info[1].flow_node_list`.
        faults: What is wrong.
    """

    path: str
    value: Mapping[str, object] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def fault(self, kind: str, key: str, message: str, hint: str = "") -> None:
        """Note that something is wrong at a key."""
        line = self.lines.get(key, self.lines.get(_parent(key), 0))
        place = f"line {line}, {key}" if line and key else key or f"line {line or 1}"
        self.faults.append(Fault(kind, self.path, place, message, hint))

    @property
    def root(self) -> Fields:
        """The outermost object."""
        return Fields(self, "", self.value)


@dataclass(frozen=True, slots=True)
class Fields:
    """One object of a file; getters note what is wrong and give a value to go on with."""

    file: JsonFile
    path: str
    content: Mapping[str, object]

    def key(self, name: str) -> str:
        """The path of one of its keys."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether it has a key."""
        return name in self.content

    def text(self, name: str, default: str | None = None) -> str:
        """A text; without a default the key is required and the text not empty."""
        found = self._get(name, str, default)
        if found == "" and default is None and self.has(name):
            self.file.fault("empty", self.key(name), "expected a text, got an empty one")
        return found if found is not None else ""

    def flag(self, name: str, default: bool = False) -> bool:
        """true or false."""
        found = self._get(name, bool, default)
        return bool(found)

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number; without a default the key is required."""
        found = self._get(name, int, default)
        return found if found is not None else 0

    def texts(self, name: str) -> tuple[tuple[str, str], ...]:
        """A list of texts that is not empty, each with its path."""
        items = self._list(name)
        if not items and isinstance(self.content.get(name), list):
            self.file.fault("empty", self.key(name), "expected at least one entry, got an empty list")
        return tuple((str(item), key) for key, item in items if self._is(item, str, key))

    def objects(self, name: str, required: bool = True) -> Iterator[Fields]:
        """A list of objects."""
        if not required and not self.has(name):
            return
        for key, item in self._list(name):
            if self._is(item, dict, key):
                assert isinstance(item, dict)
                yield Fields(self.file, key, item)

    def child(self, name: str) -> Fields | None:
        """An object, if there is one."""
        if not self.has(name):
            return None
        found = self.content[name]
        if not self._is(found, dict, self.key(name)):
            return None
        assert isinstance(found, dict)
        return Fields(self.file, self.key(name), found)

    def missing(self, name: str) -> None:
        """Note that a key is missing."""
        near = difflib.get_close_matches(name, self.content, n=1, cutoff=0.75)
        where = f"the object at {self.path}" if self.path else "the file"
        hint = f"is {near[0]!r} meant to be it?" if near else ""
        self.file.fault("missing", self.path, f"{where} has no {name!r}", hint)

    def _list(self, name: str) -> Sequence[tuple[str, object]]:
        found = self._get(name, list, None)
        return [(f"{self.key(name)}[{i}]", item) for i, item in enumerate(found or [])]

    def _get(self, name: str, kind: type[T], default: T | None) -> T | None:
        if not self.has(name):
            if default is None:
                self.missing(name)
            return default
        found = self.content[name]
        return found if self._is(found, kind, self.key(name)) else default  # type: ignore[return-value]

    def _is(self, value: object, kind: type, key: str) -> bool:
        if type(value) is kind:
            return True
        self.file.fault("type", key, f"expected {_KINDS[kind]}, got {json.dumps(value)[:60]}")
        return False


def read_json_file(path: str) -> JsonFile:
    """Read a file whose outermost value is an object; what is wrong with it is among its faults."""
    file = JsonFile(path)
    text = _text_of(file)
    if text is None:
        return file
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: _without_twins(file, pairs))
    except ValueError as cause:
        file.faults.append(_syntax_fault(path, text, cause))
        return file
    if not isinstance(value, dict):
        file.fault("type", "", f"expected an object, got {_KINDS.get(type(value), 'a value')}")
        return file
    file.value, file.lines = value, lines_of(text)
    return file


def lines_of(text: str) -> dict[str, int]:
    """The line, from 1, on which each value of a JSON text stands, by its path."""
    lines: dict[str, int] = {}
    open_: list[tuple[str, bool]] = []  # path and whether it is a list, of every container around
    counts: list[int] = []
    key: str | None = None
    line, at = 1, 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        line += text.count("\n", at, found.start())
        at = found.start()
        if token in ",:":
            continue
        if token in "]}":
            open_.pop()
            counts.pop()
            key = None
            continue
        path = ""
        if open_:
            base, is_list = open_[-1]
            if not is_list and key is None:
                key = str(json.loads(token))
                continue
            path = f"{base}[{counts[-1]}]" if is_list else f"{base}.{key}" if base else str(key)
            counts[-1] += 1
        key = None
        lines[path] = line
        if token in "[{":
            open_.append((path, token == "["))
            counts.append(0)
    return lines


def _text_of(file: JsonFile) -> str | None:
    try:
        data = Path(file.path).read_bytes()
    except OSError as cause:
        file.faults.append(Fault("unreadable", file.path, "", f"it cannot be read: {cause.strerror}"))
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = data.count(b"\n", 0, cause.start) + 1
        text = f"byte {cause.start} is no UTF-8: {data[cause.start : cause.start + 1]!r}"
        file.faults.append(Fault("encoding", file.path, f"line {line}", text, "save the file as UTF-8"))
        return None


def _without_twins(file: JsonFile, pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """An object; a key that it has twice is a fault."""
    made: dict[str, object] = {}
    for key, value in pairs:
        if key in made:
            file.fault("duplicate", "", f"an object has the key {key!r} twice", "keep one of them")
        made[key] = value
    return made


def _syntax_fault(path: str, text: str, cause: ValueError) -> Fault:
    if not isinstance(cause, json.JSONDecodeError):
        return Fault("syntax", path, "", str(cause))
    place = f"line {cause.lineno} column {cause.colno}"
    line = text.splitlines()[cause.lineno - 1] if text.strip() else ""
    if _COMMENT.match(text, cause.pos) or _COMMENT.match(line):
        return Fault("syntax", path, place, "a comment, which JSON does not have", "take it out")
    return Fault("syntax", path, place, f"it is no JSON: {cause.msg[:1].lower()}{cause.msg[1:]}")


def _parent(key: str) -> str:
    """The path of what a key is in."""
    cut = max(key.rfind("."), key.rfind("["))
    return key[:cut] if cut > 0 else ""
