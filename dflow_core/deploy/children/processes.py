"""Starting, watching and ending processes: the only module that knows subprocess, fork and signals.

Every process started here ends with the one that started it, however that ends: on Linux the kernel kills it
(PR_SET_PDEATHSIG), which also works while it sits in C code and holds the GIL. The kernel takes the end of the
*thread* that started a process for the end of its parent, so processes are started from threads that live as long as
their children shall. Elsewhere the end of the control connection ends it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dflow_core.errors import ClosedError, StartupError

if TYPE_CHECKING:
    import subprocess

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_POLL = 0.01
_PROBE_LIMIT = 30.0
_PROBE = """
import json, sys
found = {"python": list(sys.version_info[:2])}
for name in ("dflow_core", "cloudpickle", "google.protobuf", "numpy"):
    try:
        __import__(name)
    except Exception as cause:
        found[name] = "missing: %s" % (cause,)
    else:
        found[name] = getattr(sys.modules[name], "__version__", "") or "?"
print(json.dumps(found))
"""


class Child:
    """A process this one has started itself.

    Args:
        popen: The process.
    """

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.pid = popen.pid
        self._popen = popen

    def poll(self) -> int | None:
        """Its exit code (minus the signal's number where one ended it), or None while it runs."""
        return self._popen.poll()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal; nothing happens if it has ended."""
        self._popen.send_signal(number)

    def wait(self, timeout: float) -> int | None:
        """Its exit code, or None if it still runs after `timeout` seconds."""
        return poll_until(self.poll, timeout)

    def end(self, timeout: float) -> int | None:
        """Wait for its end for `timeout` seconds, then kill it; gives the exit code."""
        code = self.wait(timeout)
        if code is None:
            self.kill()
            code = self.wait(5.0)
        return code

    def watch_fd(self) -> int:
        """A new descriptor that becomes readable when the process ends, or -1 where the system has none."""
        opener: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
        try:
            return opener(self.pid) if opener is not None else -1
        except OSError:
            return -1


def spawn(
    command: Sequence[str], *, output: int, keep: Sequence[int] = (), environment: Mapping[str, str] | None = None
) -> Child:
    """Start a program in a session of its own, so that Ctrl-C at a terminal reaches only the application.

    It starts in the root folder: the current one may hold modules that hide those of the standard library.

    Args:
        command: Program and arguments.
        output: Descriptor that becomes its stdout and stderr.
        keep: Descriptors it inherits under the same numbers.
        environment: Its environment; None is this one's.

    Raises:
        StartupError: if the program cannot be started.
    """
    import subprocess

    try:
        popen = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=keep, env=environment,
            start_new_session=True, cwd=os.sep,
        )
    except OSError as cause:
        raise StartupError(f"cannot start {command[0]}: {cause}") from cause
    return Child(popen)


def fill_streams() -> None:
    """Open the null device where descriptor 0, 1 or 2 is closed.

    Otherwise a socket or memory of ours would get such a number, and what anybody prints would go into it.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


def fork() -> int:
    """Fork this process; gives 0 in the child. Only for processes with a single thread."""
    return os.fork()


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends; ends it at once if that has happened already.

    Args:
        parent: Process id the parent had when it started this one.
    """
    prctl = _prctl()
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def name_process(name: str) -> None:
    """Set the name that `ps -o comm` and `top` show (15 bytes of it)."""
    prctl = _prctl()
    if prctl is not None:
        prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode("utf-8", "replace")[:15]), 0, 0, 0)


def _prctl() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 4]
    function: Callable[..., int] = prctl
    return function


def kill_process(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process that may have ended."""
    if pid <= 1:  # these mean something else than one process of ours
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_group(pid: int) -> None:
    """Kill what is left of the process group of an executor: programs that user code has started and not ended."""
    if pid <= 1:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def reap_orphan(pid: int) -> int | None:
    """Exit code of a grandchild whose own parent has died, if it fell to this process (as it does to pid 1)."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except OSError:
        return None
    return os.waitstatus_to_exitcode(status) if found else None


def process_runs(pid: int) -> bool:
    """Whether a process exists and is more than a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Path("/proc/self/stat").exists() is False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def poll_until(ask: Callable[[], int | None], timeout: float) -> int | None:
    """The first answer that is not None, or None after `timeout` seconds."""
    limit = time.monotonic() + timeout
    pause = 0.0005
    while True:
        answer = ask()
        if answer is not None or time.monotonic() >= limit:
            return answer
        time.sleep(min(pause, max(0.0, limit - time.monotonic())))
        pause = min(pause * 2, _POLL)


def describe_exit(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "ended for an unknown reason"
    if code >= 0:
        return f"ended by itself with exit code {code}"
    names = {signal.SIGSEGV: "segmentation fault", signal.SIGKILL: "killed", signal.SIGABRT: "aborted"}
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"was ended by signal {-code}"
    note = names.get(number, signal.strsignal(number) or number.name)
    return f"was ended by signal {-code} ({number.name}, {note})"


@dataclass(frozen=True, slots=True)
class OwnedByProcess:
    """Notices that an object is used in a fork of the process that made it.

    Args:
        what: What the object is, for the error.
        pid: Process that made it.
    """

    what: str
    pid: int

    @classmethod
    def here(cls, what: str) -> OwnedByProcess:
        """One for an object that this process makes now."""
        return cls(what, os.getpid())

    @property
    def foreign(self) -> bool:
        """Whether this is another process than the one that made the object."""
        return os.getpid() != self.pid

    def check(self) -> None:
        """Refuse use in a fork.

        Raises:
            ClosedError: if this is not the process that made the object.
        """
        if self.foreign:
            raise ClosedError(
                f"{self.what} belongs to process {self.pid}; this is process {os.getpid()}, a fork of it",
                hint="run the graph anew in the forked process, or use it only where it was started",
            )


def interpreter(env: str) -> str:
    """The Python program a node's `env=` names: an interpreter, or a virtual environment's folder; "" is this one.

    Raises:
        StartupError: if there is none.
    """
    if not env:
        return own_interpreter()
    path = Path(env).expanduser()
    candidates = [path / "bin" / "python", path / "Scripts" / "python.exe"] if path.is_dir() else [path]
    found = next((c for c in candidates if c.is_file() and os.access(c, os.X_OK)), None)
    if found is None:
        raise StartupError(
            f"env={env!r} names no Python interpreter",
            hint="give the path of a python program, or the folder of a virtual environment",
        )
    return os.path.abspath(found)


def own_interpreter() -> str:
    """The program of this interpreter; of the same installation where it is embedded and `sys.executable` says nothing.

    Raises:
        StartupError: there is none.
    """
    if sys.executable:
        return sys.executable
    names = (f"python{sys.version_info.major}.{sys.version_info.minor}", "python3", "python")
    candidates = [os.path.join(prefix, "bin", name) for prefix in (sys.prefix, sys.base_prefix) for name in names]
    found = next((path for path in candidates if os.access(path, os.X_OK)), None)
    if found is None:
        raise StartupError(
            "no Python program to start nodes with: sys.executable is empty, as in programs that embed Python",
            hint="set sys.executable, name an interpreter by env= at each node, or run the graph with mode='inline'",
        )
    return found


def absolute(entries: Iterable[str]) -> list[str]:
    """A module path for processes in another folder; without relative entries if the current folder was deleted."""
    found = []
    for entry in entries:
        with contextlib.suppress(FileNotFoundError):
            found.append(os.path.abspath(entry))
    return found


def start_environment(python: str) -> dict[str, str]:
    """This process's environment, such that an interpreter started with it finds the same modules.

    Args:
        python: The interpreter; another one than this gets only what PYTHONPATH says.
    """
    environment = dict(os.environ)
    own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    is_own = python == own_interpreter()
    environment["PYTHONPATH"] = os.pathsep.join(absolute(sys.path if is_own else filter(None, own)))
    if not is_own:
        environment.pop("PYTHONHOME", None)
    return environment


@functools.lru_cache(maxsize=32)
def probe_interpreter(python: str, pythonpath: str = "") -> Mapping[str, object]:
    """What another interpreter has: its `python` version, and the versions of what an executor needs.

    Args:
        python: The interpreter.
        pythonpath: PYTHONPATH it gets.

    Raises:
        StartupError: if it does not run, or lacks something; says what to install.
    """
    import subprocess

    try:
        done = subprocess.run(
            [python, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_LIMIT, stdin=subprocess.DEVNULL,
            check=False, cwd=os.sep, env={**os.environ, "PYTHONPATH": pythonpath},
        )
        found: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as cause:
        raise StartupError(f"{python} does not run as a Python interpreter: {cause}") from cause
    if str(found["dflow_core"]).startswith("missing"):
        raise StartupError(
            f"{python} has no dflow ({found['dflow_core']})",
            hint=f"{python} -m pip install dflow-core, and the plugins that the node's engine needs",
        )
    lacking = [name for name, version in found.items() if str(version).startswith("missing")]
    if lacking:
        packages = " ".join("protobuf" if name == "google.protobuf" else name for name in lacking)
        raise StartupError(f"{python} lacks {', '.join(lacking)}", hint=f"{python} -m pip install {packages}")
    return found
