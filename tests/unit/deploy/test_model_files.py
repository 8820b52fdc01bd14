"""Memory files of submodels: one for each, open while somebody sends them, gone when nobody starts."""

from __future__ import annotations

import os
import threading

import pytest

from dflow_core.deploy.children.model_files import ModelFiles
from dflow_core.model import UdfModel, unpack_submodel


@pytest.fixture
def models() -> dict[str, UdfModel]:
    """Two of them."""
    return {name: UdfModel(name=name, engine="UDF", package=name.encode() * 5) for name in "ab"}


def content(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_each_model_has_one_file_which_holds_it(models) -> None:
    files = ModelFiles(models)
    with files.lent(["a", "b", "a"]) as fds:
        found = [unpack_submodel(memoryview(content(fd))) for fd in fds[:2]]
        assert fds[0] == fds[2] and found == list(models.values())
    with files.lent(["b"]) as (again,):
        assert again == fds[1], "it is kept for the next process"
    files.drop()
    assert not any(map(is_open, fds))
    with files.lent(["b"]) as (anew,):
        assert unpack_submodel(memoryview(content(anew))) == models["b"], "it is written again when needed"
    files.drop()
    files.drop()


def test_what_is_being_sent_is_not_dropped_by_another_thread(models) -> None:
    """One thread starts a process again while another is done with loading: the number of a file would name another."""
    files = ModelFiles(models)
    begun, dropped = threading.Event(), threading.Event()

    def drop() -> None:
        begun.set()
        files.drop()
        dropped.set()

    other = threading.Thread(target=drop)
    with files.lent(["a"]) as (fd,):
        other.start()
        assert begun.wait(10)
        assert not dropped.is_set() and is_open(fd)
    other.join(10)
    assert dropped.is_set() and not is_open(fd)
