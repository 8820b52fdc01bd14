"""What every test gets: caches of its own, and a check that it leaves the process as it found it."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


# ------------------------------------------------------------------------------------------ fresh environments

NOT_SOURCE = shutil.ignore_patterns(
    ".*", "build", "dist", "out", "*.egg-info", "__pycache__", "*.so", "*.o", "tests", "bench", "node_modules"
)


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment outside the checkout."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self, *what: Path) -> None:
        """Install wheels or source folders, asking no registry."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        call([*pip, "--no-index", "--no-deps", "--no-build-isolation", *map(str, what)], self.folder)

    def run(self, *words: str, code: int = 0) -> str:
        """Run a program of the environment away from the checkout; gives what it prints."""
        return call([str(self.folder / "bin" / words[0]), *words[1:]], self.folder, code)


def call(command: list[str], folder: Path, code: int = 0) -> str:
    """Run a command without the variables that would let it see the checkout."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DFLOW_", "COVERAGE"))}
    env["PATH"] = f"{folder / 'bin'}{os.pathsep}{env.get('PATH', '')}"
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL
    )
    assert done.returncode == code, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def copy_source(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Copies a folder with a pyproject.toml, so that building it leaves the checkout alone."""
    target = tmp_path_factory.mktemp("sources")

    def copy(source: Path) -> Path:
        if source == ROOT:
            only = {"dflow_core", "pyproject.toml", "README.md", "LICENSE"}

            def left_out(folder: str, names: list[str]) -> set[str]:
                return {n for n in names if Path(folder) == ROOT and n not in only} | NOT_SOURCE(folder, names)

            return Path(shutil.copytree(source, target / "core", ignore=left_out))
        return Path(shutil.copytree(source, target / source.name, ignore=NOT_SOURCE))

    return copy


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory, copy_source: Callable[[Path], Path]) -> list[Path]:
    """A wheel of the core and of each plugin, made once for all processes of the run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheels"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            _make_wheels(folder, copy_source)
            (folder / "made").touch()
    return sorted(folder.glob("*.whl"))


def _make_wheels(folder: Path, copy_source: Callable[[Path], Path]) -> None:
    sources = [ROOT, *(path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml")))]
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    call([*pip, "--wheel-dir", str(folder), *(str(copy_source(source)) for source in sources)], folder)


@pytest.fixture(scope="session")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is installed here, without anything of dflow: installing it again would only take time."""
    folder = tmp_path_factory.mktemp("dependencies")
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for item in Path(place).iterdir():
            own = item.name.lower().lstrip("_").startswith(("dflow", "acme", "editable"))
            if not own and item.suffix != ".pth":
                (folder / item.name).symlink_to(item)
    return folder


@pytest.fixture(scope="session")
def fresh_environment(
    tmp_path_factory: pytest.TempPathFactory, wheels: list[Path], dependencies: Path
) -> Callable[[], Environment]:
    """Makes virtual environments that hold our wheels and what they depend on, and do not see the checkout."""

    def make() -> Environment:
        folder = tmp_path_factory.mktemp("environment")
        call([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder)
        made = Environment(folder)
        made.install(*wheels)
        (site,) = folder.glob("lib/python3*/site-packages")
        (site / "dependencies.pth").write_text(f"{dependencies}\n")
        return made

    return make
