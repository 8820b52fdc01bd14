"""The executor process, as far as it can be looked at without one; `tests/system/test_deploy_*.py` run real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dflow_core.executor.process.main import Prepared, prepare
from dflow_core.model import ProcessPlan
from dflow_core.model.control_serde import LoadRequest

ROOT = Path(__file__).resolve().parents[3]
BUILTINS = ("dflow_core.builtin",)
BLAS = """
import ctypes, os, re
import numpy
from dflow_core.executor.process.main import set_blas_threads

def threads():
    with open("/proc/self/maps") as maps:
        paths = set(re.findall(r"(/\\S*openblas\\S*\\.so\\S*)$", maps.read(), re.M))
    names = [name.replace("set_", "get_") for name in {names}]
    libraries = [ctypes.CDLL(path) for path in paths]
    return [getattr(l, n)() for l in libraries for n in names if hasattr(l, n)][:1]

before = threads()
set_blas_threads(2)
print(before, threads())
"""


@pytest.fixture
def prepared() -> Prepared:
    """What a template prepares that may load no installed plugin."""
    return prepare(BUILTINS, ["nothing"])


def request(**changes: object) -> LoadRequest:
    """A request that fits it."""
    made = LoadRequest(ProcessPlan("p", "X", "", ()), (), builtins=BUILTINS, allowed_plugins=("nothing",))
    return replace(made, **changes)


def test_prepared_plugins_serve_a_request_for_the_same(prepared):
    assert prepared.fits(request())
    assert "inproc" in prepared.registry.transports


@pytest.mark.parametrize("changes", [{"builtins": ()}, {"allowed_plugins": None}, {"allowed_plugins": ("other",)}])
def test_prepared_plugins_do_not_serve_other_requests(prepared, changes):
    assert not prepared.fits(request(**changes))


def test_prepared_plugins_do_not_serve_another_environment(prepared, monkeypatch):
    """BC-065: what was set after the template had started counts."""
    with monkeypatch.context() as patch:
        patch.setenv("DFLOW_PLUGINS", "one")
        assert not prepared.fits(request())
    monkeypatch.setattr(sys, "path", [*sys.path, "/new/place"])
    assert not prepared.fits(request())


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_numpy_gets_the_threads_of_the_plan_although_it_was_loaded_with_one():
    from dflow_core.executor.process import main

    done = subprocess.run(
        [sys.executable, "-c", BLAS.format(names=main._BLAS)], capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}, timeout=60,
    )
    assert done.stdout.strip() in ("[1] [2]", "[] []"), "numpy may come with another BLAS"
