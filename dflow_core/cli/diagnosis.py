"""What `dflow doctor` looks at: one function a subject, each giving what it found and how to mend it."""

from __future__ import annotations

import importlib
import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dflow_core.cli.output import size
from dflow_core.deploy import Resources
from dflow_core.plugins import PluginRegistry

PYTHONS = ((3, 10), (3, 13))
MEMORY_NEEDED = 512 * 1024**2
FILES_NEEDED = 512
COMPILERS = ("cc", "gcc", "clang")
_NO_CACHE = "without one every start compiles again"
LIBRARIES = {
    "openvino": ("the CPU engine runs models with it", "pip install openvino"),
    "onnxruntime": ("the CPU engine's second runtime, for ONNX files OpenVINO refuses", "pip install onnxruntime"),
}
PARTS = {
    "engine CPU": "pip install dflow-pne-cpu",
    "engine UDF": "pip install dflow-pne-udf",
    "transport shm": "pip install dflow-transport-shm",
    "batching": "pip install dflow-builtin-udf",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one subject.

    Args:
        subject: What was looked at.
        state: `ok`; `note` where nothing is wrong but something would be better; `lacks` where graphs cannot run.
        found: What is there.
        fix: What to do, as a command where there is one.
    """

    subject: str
    state: str
    found: str
    fix: str = ""


def python() -> Finding:
    """Whether this Python is one that dflow is tested with."""
    found = f"{platform.python_version()} at {sys.executable}"
    low, high = PYTHONS
    if sys.version_info[:2] < low:
        return Finding("python", "lacks", found, "install Python 3.10 or newer and make a virtual environment with it")
    if sys.version_info[:2] > high:
        return Finding("python", "note", found, f"tested up to {high[0]}.{high[1]}; use that one if something fails")
    return Finding("python", "ok", found)


def system() -> Finding:
    """Whether queues can live here: Linux with anonymous memory that is passed by descriptor."""
    found = f"{platform.system()} {platform.release()} {platform.machine()}"
    if not sys.platform.startswith("linux"):
        return Finding("system", "lacks", found, "run it on Linux; elsewhere only mode='inline' works")
    try:
        os.close(os.memfd_create("dflow-doctor", os.MFD_CLOEXEC))
    except OSError as error:
        fix = "allow the system call memfd_create (container seccomp profile; kernel 3.17 or newer)"
        return Finding("system", "lacks", f"{found}; memfd_create: {error.strerror}", fix)
    return Finding("system", "ok", f"{found}; memfd works, /dev/shm is not used")


def compiler() -> Finding:
    """Whether shared-memory queues could be built from source."""
    path = next(filter(None, map(shutil.which, COMPILERS)), None)
    if path:
        return Finding("compiler", "ok", path)
    fix = "only to build from source: apt-get install build-essential python3-dev"
    return Finding("compiler", "note", "none", fix)


def libraries() -> Iterator[Finding]:
    """Whether the libraries of the CPU engine can be imported."""
    for name, (purpose, fix) in LIBRARIES.items():
        begin = time.monotonic()
        try:
            module = importlib.import_module(name)
        except Exception as error:  # a broken native library can raise anything
            state = "note" if isinstance(error, ModuleNotFoundError) else "lacks"
            yield Finding(name, state, f"{type(error).__name__}: {error}", f"{purpose}: {fix}")
            continue
        took = time.monotonic() - begin
        yield Finding(name, "ok", f"{getattr(module, '__version__', '?')}, imported in {took * 1e3:.0f} ms")


def parts(registry: PluginRegistry) -> Iterator[Finding]:
    """Whether the plugins that a pipeline needs are there, and every installed one loads."""
    given = {
        "engine CPU": "CPU" in registry.engines,
        "engine UDF": "UDF" in registry.engines,
        "transport shm": any(t.cross_process for t in registry.transports.values()),
        "batching": any("Batch" in name for name in registry.udfs),
    }
    for part, there in given.items():
        yield Finding(part, "ok", "loaded") if there else Finding(part, "lacks", "not installed", PARTS[part])
    for one in registry.report:
        if one.state in ("failed", "incompatible"):
            own = one.distribution == "dflow-core"
            mend = f"pip install --upgrade {one.distribution}"
            fix = mend if own else f"{mend}, or pip uninstall {one.distribution}"
            yield Finding(f"plugin {one.name}", "lacks" if own else "note", one.error, fix)


def devices(registry: PluginRegistry) -> Iterator[Finding]:
    """Which devices engines can use, apart from the CPU."""
    for entry in registry.engines.values():
        if entry.devices is None:
            continue
        subject = f"devices of {entry.id}"
        try:
            found = list(entry.devices())
        except Exception as error:  # a driver that is broken can raise anything
            fix = getattr(error, "hint", None) or "mend what is named above, or pip uninstall the engine's plugin"
            yield Finding(subject, "note", str(getattr(error, "message", error)), fix)
            continue
        yield Finding(subject, "ok" if found else "note", "; ".join(found) or "none")


def cpus(machine: Resources) -> Finding:
    """How many CPUs graphs may use."""
    return Finding("cpus", "ok", "; ".join([f"{machine.cpus} of {os.cpu_count()}", *machine.notes]))


def memory(machine: Resources) -> Finding:
    """How much memory graphs may take, by the machine, its control group and its limits."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    limits = [machine.memory or None, None if soft == resource.RLIM_INFINITY else soft]
    least = min((limit for limit in limits if limit is not None), default=None)
    if least is None:
        return Finding("memory", "note", "unknown", "mount /proc and /sys to let dflow see its limits")
    if least < MEMORY_NEEDED:
        fix = f"give it at least {size(MEMORY_NEEDED)}, or set the option memory_limit lower"
        return Finding("memory", "note", size(least), fix)
    return Finding("memory", "ok", size(least))


def files() -> Finding:
    """Whether enough descriptors may be open: a process takes a handful."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES_NEEDED:
        return Finding("open files", "note", f"{soft}", f"ulimit -n {hard if hard > 0 else 4096}")
    return Finding("open files", "ok", "unlimited" if soft == resource.RLIM_INFINITY else f"{soft}")


def cache(folder: Path | None) -> Finding:
    """Whether compiled models can be kept."""
    if folder is None:
        return Finding("cache", "note", "no folder for it can be written", f"set DFLOW_CACHE_DIR; {_NO_CACHE}")
    place = next(p for p in (folder, *folder.parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        fix = f"set DFLOW_CACHE_DIR to a folder that can be written; {_NO_CACHE}"
        return Finding("cache", "note", f"{folder}: {error.strerror}", fix)
    return Finding("cache", "ok", str(folder))


def processes(start: Callable[[], float]) -> Finding:
    """Whether a node can be started.

    Args:
        start: Runs a graph of one function in a process, and returns the seconds that took.
    """
    try:
        took = start()
    except Exception as error:  # whatever stops it is the finding
        text = str(error).splitlines()[0] if str(error) else ""
        fix = "mend what is named above; `dflow doctor --debug` shows all of it"
        return Finding("processes", "lacks", f"{type(error).__name__}: {text}", fix)
    return Finding("processes", "ok", f"a graph of one function started, ran and ended in {took:.2f} s")
