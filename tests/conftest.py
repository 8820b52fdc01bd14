"""What every test gets: caches of its own, and a check that it leaves the process as it found it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def models(root: Path) -> Path:
    """Folder of the small model files."""
    return root / "tests" / "data" / "models"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or fills the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("DFLOW_PLUGINS", raising=False)


@pytest.fixture(autouse=True)
def clean_process() -> Iterator[None]:
    """A test that leaves environment, signal handlers, current folder or threads changed fails."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)}
    folder, threads = os.getcwd(), set(threading.enumerate())
    yield
    left = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    assert left == environment, "the test changed the environment"
    assert {s: signal.getsignal(s) for s in handlers} == handlers, "the test changed a signal handler"
    assert os.getcwd() == folder, "the test changed the current folder"
    started = [t for t in threading.enumerate() if t not in threads and not t.daemon]
    for thread in started:
        thread.join(2.0)
    assert not [t.name for t in started if t.is_alive()], "the test left threads running"
