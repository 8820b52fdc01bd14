"""Programs in unusual surroundings run graphs as all others do."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.system.case_support import ROOT, run_program

MODULE = """
import dflow_core as df

@df.pyflow
def more(x):
    return x + 1

@df.pyflow
class Times:
    def __init__(self, factor):
        self.factor = factor

    @df.method()
    def times(self, x):
        return x * self.factor

def main():
    x = df.FlowData("x")
    with df.FlowGraph([Times.fnode(3).times(more.fnode()(x))]) as graph:
        return list(graph.map(range(4), timeout=30)) == [3, 6, 9, 12]
"""
SAY = "import odd_module; print(odd_module.main())"

IN_PROGRAM = {
    "embedded, without a program": "import sys; sys.executable = None",
    "embedded, with an empty name": "import sys; sys.executable = ''",
    "without arguments": "import sys; del sys.argv",
    "in a folder that was deleted": "import os, sys, tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)",
    "with a relative path in a deleted folder": (
        "import os, sys, tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d); sys.path.append('lib')"
    ),
    "without standard streams in Python": "import sys; sys.stdin = sys.stderr = None",
    "without the standard streams": "import os; os.close(0); os.close(2)",
    "without garbage collection": "import gc; gc.disable()",
    "under a tracer": "import sys; sys.settrace(lambda *arguments: None)",
    "whose main module has no file any more": "import __main__; __main__.__file__ = '/nonexistent.py'",
    "with SIGCHLD ignored": "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "with 48 descriptors": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))",
}


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """The folder of a module that is not installed."""
    (tmp_path / "odd_module.py").write_text(MODULE)
    return tmp_path


@pytest.mark.parametrize("host", IN_PROGRAM)
def test_graph_runs_in_a_program(host: str, module: Path) -> None:
    """python/cpython#106464: what every program has, some do not have."""
    if "deleted" in host and sys.version_info[:3] == (3, 13, 0):
        pytest.skip("Python 3.13.0 itself cannot import socket or numpy in a folder that was deleted")
    done = run_program(f"import sys; sys.path.insert(0, {str(module)!r})\n{IN_PROGRAM[host]}\n{SAY}")
    assert (done.returncode, done.stdout.split()) == (0, ["True"]), done.stderr


COMMANDS: dict[str, tuple[Sequence[str], dict[str, str]]] = {
    "-O": (["-O", "-c", SAY], {}),
    "-W error": (["-W", "error", "-c", SAY], {}),
    "-": (["-"], {}),
    "ASCII": (["-c", SAY], {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}),
    "no folder for temporary files": (["-c", SAY], {"TMPDIR": "/nonexistent"}),
    "no home": (["-c", SAY], {"HOME": "/nonexistent", "XDG_CACHE_HOME": ""}),
    "zip": (["odd.zip"], {}),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_graph_runs_however_python_was_started(name: str, module: Path) -> None:
    arguments, variables = COMMANDS[name]
    with zipfile.ZipFile(module / "odd.zip", "w") as packed:
        packed.write(module / "odd_module.py", "odd_module.py")
        packed.writestr("__main__.py", SAY)
    if name == "zip":
        (module / "odd_module.py").unlink()
    done = subprocess.run(
        [sys.executable, *arguments], cwd=module, env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        input=SAY if name == "-" else "", capture_output=True, text=True, timeout=60, check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["True"]), done.stderr


def limits(which: int, size: int) -> Callable[[], None]:
    """Sets a limit of a process."""
    return lambda: resource.setrlimit(which, (size, size))


@pytest.mark.parametrize(("which", "size"), [(resource.RLIMIT_AS, 1 << 31), (resource.RLIMIT_FSIZE, 10 << 20)])
def test_limit_of_the_process_that_leaves_no_room_for_messages_is_named_with_what_to_do(
    which: int, size: int, module: Path
) -> None:
    """BC-008: here it is not the folder of shared memory that is small."""
    done = subprocess.run(
        [sys.executable, "-c", f"import dflow_core as df; df.init({{'memory_limit': '8G'}}); {SAY}"], cwd=module,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False,
        preexec_fn=limits(which, size),
    )
    assert done.returncode == 1
    assert "DeployError: the system refused shared memory that may grow to 8192 MiB" in done.stderr
    assert "lower the option memory_limit" in done.stderr
