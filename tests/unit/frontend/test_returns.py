"""Outputs are counted from the return annotation."""

from __future__ import annotations

import collections.abc
import typing
from typing import TYPE_CHECKING, Annotated, List, Optional, Tuple  # noqa: UP035

import pytest

from dflow_core.errors import OptionError
from dflow_core.frontend.returns import count_returns

if TYPE_CHECKING:
    pass

Pair = tuple[int, str]


def annotated(annotation: object):
    def func(): ...

    func.__annotations__["return"] = annotation
    return func


@pytest.mark.parametrize(
    ("annotation", "count"),
    [
        (None, 1), (type(None), 1), (int, 1), (list[int], 1), (List[int], 1), (Optional[int], 1), (dict[int, str], 1),  # noqa: UP006, UP045
        (tuple, 1), (tuple[int, ...], 1), (tuple[()], 1), (tuple[int], 1),
        (tuple[int, str], 2), (Tuple[int, str, int], 3),  # noqa: UP006
        (Annotated[tuple[int, int], "x"], 2), (collections.abc.Iterator[tuple[int, int]], 1), (Pair, 2),
    ],
)
def test_what_annotations_count(annotation, count):
    assert count_returns(annotated(annotation), None, False) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Pair", 2), ("Tuple[int, str]", 2), ("typing.Tuple[int, int, int]", 3), ("int", 1), ("None", 1),
        ("Unknown", 1), ("tuple[Unknown, Unknown]", 2), ("Tuple[Unknown, int]", 2), ("typing.Tuple[Unknown, ...]", 1),
        ("list[Unknown]", 1), ("tuple[Unknown]", 1), ("not python!", 1), ("Unknown[int, int]", 1),
        ("Optional[tuple[Unknown, Unknown]]", 1), ("1/0", 1),
    ],
)
def test_annotations_written_as_text_are_resolved_or_read(text, count):
    assert count_returns(annotated(text), None, False) == count


def test_names_of_the_scope_around_are_known():
    Local = tuple[int, int, int]

    def func() -> Local:
        return Local()

    assert count_returns(func, None, False) == 3


def test_a_name_that_is_not_set_yet_does_not_hurt():
    def func() -> tuple[Later, Later]:
        return Later()

    assert count_returns(func, None, False) == 2
    Later = int


@pytest.mark.parametrize(
    ("annotation", "count"),
    [
        (collections.abc.Iterator[tuple[int, int]], 2), (typing.Iterator[int], 1), (tuple[int, int], 2), (int, 1),
        (collections.abc.Generator[tuple[int, int, int], None, None], 3), (typing.Iterable[Pair], 2),
        ("Iterator[tuple[Unknown, int]]", 2), ("Generator[Unknown, None, None]", 1), (collections.abc.Iterator, 1),
    ],
)
def test_generators_count_what_they_yield(annotation, count):
    assert count_returns(annotated(annotation), None, True) == count


def test_num_returns_says_what_the_annotation_does_not():
    assert count_returns(lambda: 0, 3, False) == 3
    assert count_returns(annotated(list[int]), 3, False) == 3
    assert count_returns(annotated(Pair), 2, False) == 2


def test_num_returns_must_agree_with_a_tuple():
    with pytest.raises(OptionError, match="expected 2, as the return annotation says, got 3"):
        count_returns(annotated(Pair), 3, False)


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "2"])
def test_num_returns_must_be_a_number(bad):
    with pytest.raises(OptionError, match="num_returns: expected a whole number"):
        count_returns(lambda: 0, bad, False)


def test_callables_without_annotations_have_one_output():
    assert count_returns(len, None, False) == 1
