"""What is printed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from dflow_core.cli.output import Output, plain, seconds, size


class Colour(Enum):
    RED = 3


@dataclass(frozen=True)
class Thing:
    name: str
    colour: Colour


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({1: (1, 2.5, None, True)}, {"1": [1, 2.5, None, True]}),
        (Thing("a", Colour.RED), {"name": "a", "colour": "red"}),
        (Path("a/b"), "a/b"),
        (b"1234", "4 bytes"),
        (ValueError("x"), "x"),
        ({"s": {2}}, {"s": [2]}),
        (3j, "3j"),
    ],
)
def test_values_become_what_json_can_hold(value, expected):
    assert plain(value) == expected


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (6 << 20, "6.0 MiB"), (1 << 50, "1024.0 TiB")]
)
def test_sizes_are_readable(count, text):
    assert size(count) == text


@pytest.mark.parametrize(("span", "text"), [(2e-6, "2 µs"), (0.0125, "12.5 ms"), (3.4, "3.40 s")])
def test_times_are_readable(span, text):
    assert seconds(span) == text


def test_people_read_tables_and_programs_read_one_document(capsys):
    for as_json in (False, True):
        output = Output(as_json)
        output.line("hello [not markup]")
        output.table(["name", "size#"], [("a", 1), ("float[1, 2]", 2)], title="things")
        output.document({"a": 1})
    out = capsys.readouterr().out
    people, _, program = out.partition("{")
    assert "hello [not markup]" in people and "float[1, 2]" in people and "things" in people
    assert json.loads("{" + program) == {"a": 1}


def test_long_cells_stay_on_one_line_in_a_file(capsys):
    Output().table(["text"], [("x" * 150,)])
    assert "x" * 150 in capsys.readouterr().out
