"""What is said of an error that user code raised, whatever its class does to who looks at it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable

import pytest

from dflow_core.errors import NodeError, UsageError, shortened, text_of
from dflow_core.executor.node.explanation import explain
from dflow_core.message import Aux


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot say")


class NotText(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]


class Leaves(Exception):
    def __str__(self) -> str:
        sys.exit(1)


class NoTruth(Exception):
    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


class NoAttributes(Exception):
    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"no {name}")


class NoHash(Exception):
    __hash__ = None  # type: ignore[assignment]


class NoEquality(Exception):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    def __hash__(self) -> int:
        return 1


class OddNotes(Exception):
    __notes__ = 3


class HalfMade(UsageError):
    def __init__(self) -> None:
        """Never calls the constructor above it."""


def linked(length: int) -> ValueError:
    """The last of a chain of causes."""
    error = ValueError("first")
    for number in range(length):
        following = ValueError(number)
        following.__cause__ = error
        error = following
    return error


def circle() -> ValueError:
    """Two that are each other's context."""
    one, other = ValueError("one"), ValueError("other")
    one.__context__, other.__context__ = other, one
    return one


ODD: dict[str, tuple[Callable[[], BaseException], str]] = {
    "__str__ raises": (NoText, "no text: RuntimeError in __str__ of NoText"),
    "__str__ gives no text": (NotText, "no text: TypeError"),
    "__str__ exits": (Leaves, "no text: SystemExit"),
    "__bool__ raises": (lambda: NoTruth("seven"), "seven"),
    "__getattr__ raises": (lambda: NoAttributes("seven"), "seven"),
    "no hash": (lambda: NoHash("seven"), "seven"),
    "__eq__ raises": (lambda: NoEquality("seven"), "seven"),
    "notes that are none": (lambda: OddNotes("seven"), "seven"),
    "holds a lock": (lambda: ValueError(threading.Lock()), "lock"),
    "text no terminal can show": (lambda: ValueError("\udc80\0\x1b[31m"), "\udc80\0\x1b[31m"),
    "no text at all": (MemoryError, ""),
    "asyncio": (lambda: asyncio.CancelledError("late"), "late"),
    "exit": (lambda: SystemExit(3), "user code called sys.exit(3)"),
    "exit with what has no repr": (lambda: SystemExit(NoText()), "sys.exit(NoText())"),
    "ours, half made": (HalfMade, "no text: AttributeError"),
    "ours, about a lock": (lambda: UsageError(threading.Lock(), hint=3), "lock"),  # type: ignore[arg-type]
    "a long chain": (lambda: linked(2000), "1999"),
    "a circle": (circle, "one"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_error_of_any_class_is_explained_and_can_travel(name: str) -> None:
    """celery/celery#2943: what the class does to who looks at it must not hide the error, nor end the executor."""
    make, said = ODD[name]
    try:
        raise make()
    except BaseException as raised:
        error = raised
    info = explain(error, (), "node", 2)
    assert said in info.message
    assert (info.kind, info.error_type, info.node, info.instance) == ("node", type(error).__name__, "node", 2)
    assert "raise make()" in info.traceback
    assert Aux.unpack(Aux(error=info).pack()).error == info


def test_text_and_traceback_of_any_length_stay_readable() -> None:
    info = explain(ValueError("x" * 50_000_000 + "end"), (), "node", 0)
    assert info.message.startswith("xxx") and info.message.endswith("end") and "characters left out" in info.message
    assert len(Aux(error=info).pack()) < 1 << 18


@pytest.mark.parametrize(("text", "most", "expected"), [
    ("", 4, ""), ("abcd", 4, "abcd"), ("abcdefgh", 4, "ab\n... (4 characters left out) ...\ngh"),
])
def test_the_middle_of_a_long_text_is_left_out(text: str, most: int, expected: str) -> None:
    assert shortened(text, most) == expected


def test_text_of_ours_is_without_the_place_it_names() -> None:
    assert text_of(NodeError("bad", node="n", trans_id=3)) == "bad"
