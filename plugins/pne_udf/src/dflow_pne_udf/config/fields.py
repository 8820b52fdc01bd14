"""Reads fields of JSON objects and collects everything that is wrong with them, so that it is told at once."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import TypeVar

from dflow_core.errors import CompileError

T = TypeVar("T", str, int, bool)

_NAMES: Mapping[type, str] = {str: "a text", int: "a whole number from 0", bool: "true or false"}


class Faults:
    """What is wrong with one file.

    Args:
        path: The file.
        what: What it should be, for the error.
    """

    def __init__(self, path: str, what: str) -> None:
        self._path = path
        self._what = what
        self._found: list[str] = []

    def add(self, text: str) -> None:
        """Note one fault."""
        self._found.append(text)

    def check(self) -> None:
        """Raise if there were faults.

        Raises:
            CompileError: with all of them.
        """
        if not self._found:
            return
        count = len(self._found)
        lines = "\n".join(f"  {i}. {text}" for i, text in enumerate(self._found, 1))
        raise CompileError(
            f"{self._path}: the {self._what} has {count} fault{'s' * (count != 1)}:\n{lines}",
            hint="the fields are in the reference of dflow-pne-udf",
        )


class Fields:
    """One JSON object of a file.

    Args:
        data: The object.
        place: Where it stands, such as `func_list[0]`; "" for the file as a whole.
        known: Names it may have.
        faults: Takes what is wrong.
    """

    def __init__(self, data: Mapping[str, object], place: str, known: Iterable[str], faults: Faults) -> None:
        self._data = data
        self._place = place
        self._faults = faults
        names = sorted(known)
        for name in data:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1, 0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
                faults.add(f"{self._at(name)}: unknown field; {hint}")

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def fault(self, name: str, text: str) -> None:
        """Note a fault of a field."""
        self._faults.add(f"{self._at(name)}: {text}")

    def text(self, name: str, default: str | None = "") -> str:
        """A text that is not empty; without a default it is required."""
        found = self._get(name, str, default)
        if name in self._data and found == "" and self._data[name] == "":
            self.fault(name, "expected a text, got an empty one")
        return found

    def number(self, name: str, default: int | None = 0) -> int:
        """A whole number from 0; without a default it is required."""
        return self._get(name, int, default)

    def flag(self, name: str) -> bool:
        """True or false; false where nothing is said."""
        return self._get(name, bool, False)

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """A list of whole numbers from 0, or None where there is none."""
        if name not in self._data:
            return None
        items = self._list(name)
        wrong = [item for item in items if type(item) is not int or item < 0]
        if wrong:
            self.fault(name, f"expected whole numbers from 0, got {wrong[0]!r} among them")
        return tuple(item for item in items if isinstance(item, int) and item not in wrong)

    def objects(self, name: str, known: Iterable[str], *, required: bool = False) -> list[Fields]:
        """A list of objects, not empty where it is there."""
        if name not in self._data:
            if required:
                self.fault(name, "missing; expected a list of objects")
            return []
        names = list(known)
        found = []
        for i, item in enumerate(self._list(name)):
            if isinstance(item, dict):
                found.append(Fields(item, self._at(f"{name}[{i}]"), names, self._faults))
            else:
                self.fault(f"{name}[{i}]", f"expected an object, got {_shown(item)}")
        return found

    def _list(self, name: str) -> list[object]:
        found = self._data[name]
        if not isinstance(found, list):
            self.fault(name, f"expected a list, got {_shown(found)}")
            return []
        if not found:
            self.fault(name, "expected a list with something in it, got an empty one")
        return found

    def _get(self, name: str, kind: type[T], default: T | None) -> T:
        if name not in self._data:
            if default is not None:
                return default
            self.fault(name, f"missing; expected {_NAMES[kind]}")
            return kind()
        value = self._data[name]
        # bool is an int to Python.
        if isinstance(value, kind) and type(value) is kind and not (isinstance(value, int) and value < 0):
            return value
        self.fault(name, f"expected {_NAMES[kind]}, got {_shown(value)}")
        return kind() if default is None else default

    def _at(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name


def read_object(path: str, what: str) -> dict[str, object]:
    """The JSON object a file holds.

    Raises:
        CompileError: there is no such file, it cannot be read, or it is no JSON object; says where.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            found = json.load(file)
    except FileNotFoundError as cause:
        raise CompileError(f"{path}: no such file; expected the {what}") from cause
    except OSError as cause:
        raise CompileError(f"{path}: the {what} cannot be read: {cause.strerror or cause}") from cause
    except json.JSONDecodeError as cause:
        text = f"{path}:{cause.lineno}:{cause.colno}: the {what} is no JSON: {cause.msg}"
        raise CompileError(text) from cause
    except (UnicodeDecodeError, RecursionError) as cause:
        raise CompileError(f"{path}: the {what} is no JSON: {cause}") from cause
    if not isinstance(found, dict):
        raise CompileError(f"{path}: the {what} should be an object, got {_shown(found)}")
    return found


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."
