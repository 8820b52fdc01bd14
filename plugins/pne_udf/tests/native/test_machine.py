"""The table of states against `states.txt`, both ways: every line holds, and nothing else can happen."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CPP = HERE.parent.parent / "src" / "cpp"


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, ...]]:
    """What the machine does, found by driving it."""
    program = tmp_path_factory.mktemp("machine") / "walk"
    sources = [str(HERE / "machine_walk.cc"), str(CPP / "machine.cc")]
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{CPP}", *sources, "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    text = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return {tuple(line.split()) for line in text.splitlines()}


def test_the_machine_does_what_the_table_says(walked: set[tuple[str, ...]]) -> None:
    text = (HERE / "states.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert walked == set(map(tuple, lines))
    assert len(lines) == len(walked)
