"""A folder of its own and a started package for tests that build graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dataflow as df

MODELS = Path(__file__).resolve().parents[3] / "tests" / "data" / "models"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, where workspaces are written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def started(folder: Path) -> Iterator[Path]:
    """Between `df.init` and `df.finalize`; the current folder."""
    df.finalize()
    df.init({"ge.exec.deviceId": "0"})
    yield folder
    df.finalize()


@pytest.fixture
def models() -> Path:
    """Folder of the small model files."""
    return MODELS
