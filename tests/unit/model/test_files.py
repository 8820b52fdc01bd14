from __future__ import annotations

import os
from pathlib import Path

import pytest

from dflow_core.model.files import write_atomically


def test_a_file_is_replaced_whole(tmp_path: Path):
    path = tmp_path / "模型 é'\"$x"
    path.write_bytes(b"old and long")
    assert write_atomically(path, [b"new", memoryview(b"er")]) == 5
    assert path.read_bytes() == b"newer"
    assert os.listdir(tmp_path) == [path.name]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    """BC-086: half of a file is never seen."""
    path = tmp_path / "f"
    path.write_bytes(b"old")

    def chunks():
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, chunks())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_an_interrupt_leaves_nothing(tmp_path: Path):
    def chunks():
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "f", chunks())
    assert os.listdir(tmp_path) == []


def test_a_name_as_long_as_the_file_system_allows_works(tmp_path: Path):
    path = tmp_path / ("n" * 255)
    write_atomically(str(path), [b"x"])
    assert path.read_bytes() == b"x"


def test_the_file_gets_the_mode_every_new_file_gets(tmp_path: Path):
    (tmp_path / "usual").write_bytes(b"")
    write_atomically(tmp_path / "f", [])
    assert (tmp_path / "f").stat().st_mode == (tmp_path / "usual").stat().st_mode
