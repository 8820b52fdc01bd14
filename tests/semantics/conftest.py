"""Scripts' surroundings: a folder of their own, where workspaces are written, and the package `dataflow` started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import dataflow as df


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder of a module's tests."""
    before, folder = os.getcwd(), tmp_path_factory.mktemp("scripts")
    os.chdir(folder)
    yield folder
    df.finalize()
    os.chdir(before)


@pytest.fixture(scope="module")
def started(workplace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Between `df.init` and `df.finalize`, for all tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        df.finalize()
        df.init({})
        yield workplace
