"""What a test leaves behind is found, each kind of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dflow_core.testing.fixtures import clean_machine  # noqa: F401
from dflow_core.testing.machine import CleanMachine, MachineState


@contextlib.contextmanager
def a_process(_folder: Path) -> Iterator[None]:
    process = subprocess.Popen(["sleep", "60"])
    yield
    process.kill()
    process.wait(10)


@contextlib.contextmanager
def a_zombie(_folder: Path) -> Iterator[None]:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield
    process.wait(10)


@contextlib.contextmanager
def a_thread(_folder: Path) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="left-over", daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join(10)


@contextlib.contextmanager
def a_descriptor(_folder: Path) -> Iterator[None]:
    fd = os.memfd_create("left-over")
    yield
    os.close(fd)


@contextlib.contextmanager
def a_shared_memory(_folder: Path) -> Iterator[None]:
    path = Path(f"/dev/shm/dflow-test-left-over-{os.getpid()}")
    path.touch()
    yield
    path.unlink()


@contextlib.contextmanager
def a_file(folder: Path) -> Iterator[None]:
    path = folder / "deep" / "left-over"
    path.parent.mkdir()
    path.touch()
    yield
    path.unlink()
    path.parent.rmdir()


KINDS = {
    "sleep": a_process, "(zombie)": a_zombie, "thread left-over": a_thread, "memfd:left-over": a_descriptor,
    "shared memory dflow-test-left-over": a_shared_memory, "deep/left-over": a_file,
}


@pytest.mark.parametrize("text", list(KINDS))
def test_left_over_is_found_and_its_end_too(tmp_path: Path, text: str) -> None:
    """BC-014 for zombies."""
    make: Callable[[Path], contextlib.AbstractContextManager[None]] = KINDS[text]
    machine = CleanMachine(tmp_path, limit=0.0)
    with make(tmp_path):
        assert text in "\n".join(machine.left())
        with pytest.raises(AssertionError, match="left behind"):
            machine.check()
    machine.limit = 5.0
    machine.check()


def test_what_goes_away_in_time_is_no_fault(tmp_path: Path) -> None:
    machine = CleanMachine(tmp_path, limit=10.0)
    thread = threading.Timer(0.05, lambda: None)
    thread.start()
    machine.check()
    thread.join()


def test_state_of_an_idle_process_does_not_change() -> None:
    before = MachineState.now()
    assert MachineState.now().new_since(before) == []


def test_fixture_gives_temporary_files_a_folder_of_their_own(clean_machine: CleanMachine) -> None:  # noqa: F811
    assert clean_machine.folder is not None
    with tempfile.NamedTemporaryFile() as file:
        assert Path(file.name).parent == clean_machine.folder
        assert os.environ["TMPDIR"] == str(clean_machine.folder)
    clean_machine.check()
