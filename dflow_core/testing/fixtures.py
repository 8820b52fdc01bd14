"""Pytest fixtures for dflow and its plugins.

Registered for everybody by the entry point `dflow` in the group `pytest11`; no conftest is needed.
This module is imported by every pytest run where dflow is installed, so it imports next to nothing.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dflow_core.testing.machine import CleanMachine


@pytest.fixture
def clean_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[CleanMachine]:
    """Fails a test that leaves a process, thread, descriptor, shared memory or temporary file behind.

    Temporary files are those in a folder of the test's own, which `tempfile` and child processes are told to use.
    Give what needs its time a higher limit: `clean_machine.limit = 10`. `clean_machine.check()` looks in mid-test.
    """
    folder = Path(tempfile.mkdtemp(prefix="dflow-test-"))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    machine = CleanMachine(folder)
    yield machine
    try:
        left = machine.left()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if left:
        pytest.fail("left behind:\n  " + "\n  ".join(left), pytrace=False)
