"""Checks of what callers pass in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TypeVar

from dflow_core.errors import UsageError

T = TypeVar("T")


def check_type(value: object, expected: type | tuple[type, ...], what: str, node: str | None = None) -> None:
    """Raise UsageError unless the value is of a type; `what` says which, in words."""
    if not isinstance(value, expected):
        raise UsageError(f"expected {what}, got {value!r}", node=node)


def check_count(count: object, what: str, high: int) -> None:
    """Raise UsageError unless the value is a whole number from 0 to `high`."""
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= high:
        raise UsageError(f"{what}: expected a whole number from 0 to {high}, got {count!r}")


def absolute_path(path: object, what: str) -> str:
    """A path, counted from the current folder."""
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise UsageError(f"{what}: expected a path, got {path!r}")
    return os.path.abspath(os.fspath(path))


def optional_path(path: object, what: str) -> str:
    """A path, counted from the current folder, or "" if it is empty."""
    return absolute_path(path, what) if path else ""


def texts(pairs: Mapping[str, str], what: str) -> dict[str, str]:
    """A copy of a mapping that must hold texts only."""
    for key, value in pairs.items():
        check_type(key, str, f"a text as key of {what}")
        check_type(value, str, f"a text as {what}[{key!r}]")
    return dict(pairs)


def flat(groups: Iterable[T | tuple[T, ...]]) -> list[T]:
    """Items, with tuples among them taken apart."""
    return [item for group in groups for item in (group if isinstance(group, tuple) else (group,))]
