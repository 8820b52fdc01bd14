"""`dflow doctor`, and each thing it looks at."""

from __future__ import annotations

import importlib
import os
import resource
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dflow_core.cli import diagnosis
from dflow_core.deploy import Resources
from dflow_core.errors import PluginError, StartupError
from dflow_core.plugins import PluginRegistry


def test_a_machine_that_lacks_nothing(cli, monkeypatch, make_registry, make_contribution):
    batching = make_contribution("batching")
    monkeypatch.setattr(diagnosis, "parts", lambda registry: iter(()))
    cli.services = replace(cli.services, registry=lambda: make_registry(batching))
    result = cli("doctor", "--quick")
    assert result.code == 0
    assert "memfd works" in result.out


def test_what_is_lacking_is_named_with_its_fix(cli):
    cli.services = replace(cli.services, registry=PluginRegistry)
    result = cli("doctor", "--quick", "--json")
    assert result.code == 1 and result.json["ready"] is False
    fixes = {one["subject"]: one["fix"] for one in result.json["findings"] if one["state"] == "lacks"}
    assert fixes["engine CPU"] == "pip install dflow-pne-cpu"
    assert fixes["transport shm"] == "pip install dflow-transport-shm"


def test_a_broken_plugin_is_named_with_its_fix(make_registry, make_contribution):
    broken = make_contribution("broken", state="failed", error="ImportError: x")
    (found,) = [one for one in diagnosis.parts(make_registry(broken)) if one.subject == "plugin broken"]
    assert found.found == "ImportError: x" and "pip install --upgrade dist-broken" in found.fix


def test_the_long_form_starts_a_graph(cli, monkeypatch):
    started = []
    monkeypatch.setattr(diagnosis, "LIBRARIES", {})
    cli.services = replace(cli.services, trial=lambda: started.append(1))
    assert "a graph of one function started, ran and ended" in cli("doctor").out
    assert started == [1]


def test_a_graph_that_does_not_start_is_a_finding():
    def start() -> float:
        raise StartupError("node 'f' did not come up", output="Killed")

    found = diagnosis.processes(start)
    assert found.state == "lacks" and "node 'f' did not come up" in found.found


@pytest.mark.parametrize(
    ("version", "state"), [((3, 9, 0), "lacks"), ((3, 10, 0), "ok"), ((3, 13, 1), "ok"), ((3, 15, 0), "note")]
)
def test_the_python_is_judged(monkeypatch, version, state):
    monkeypatch.setattr(sys, "version_info", version)
    assert diagnosis.python().state == state


def test_another_system_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert diagnosis.system().state == "lacks"


def test_a_forbidden_memfd_is_told(monkeypatch):
    def forbidden(name: str, flags: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", forbidden)
    found = diagnosis.system()
    assert found.state == "lacks" and "seccomp" in found.fix


def test_a_missing_compiler_is_a_note(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert diagnosis.compiler().state == "note"


def test_libraries_are_imported_and_their_errors_told(monkeypatch):
    answers = {"a": SimpleNamespace(__version__="1.0"), "b": ModuleNotFoundError("no b"), "c": OSError("glibc")}

    def load(name: str) -> object:
        if isinstance(answers[name], Exception):
            raise answers[name]
        return answers[name]

    monkeypatch.setattr(diagnosis, "LIBRARIES", {name: ("needed", f"pip install {name}") for name in answers})
    monkeypatch.setattr(importlib, "import_module", load)
    found = {one.subject: one for one in diagnosis.libraries()}
    assert [found[n].state for n in "abc"] == ["ok", "note", "lacks"]
    assert "1.0" in found["a"].found and found["b"].fix.endswith("pip install b")


def test_little_memory_is_told():
    found = diagnosis.memory(Resources(cpus=2, memory=64 << 20))
    assert found.state == "note" and found.found == "64.0 MiB" and "512.0 MiB" in found.fix


def test_the_lowest_limit_of_memory_counts(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100 << 20, 100 << 20))
    assert diagnosis.memory(Resources(cpus=2, memory=8 << 30)).found == "100.0 MiB"


def test_unknown_memory_is_a_note(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert diagnosis.memory(Resources(cpus=2)).state == "note"


def test_cpus_are_told_with_what_limits_them():
    found = diagnosis.cpus(Resources(cpus=1, notes=("1 of 8 CPUs are used, because the control group allows 1",)))
    assert found.state == "ok" and "control group allows 1" in found.found


@pytest.mark.parametrize(("soft", "state"), [(64, "note"), (4096, "ok"), (resource.RLIM_INFINITY, "ok")])
def test_the_limit_of_open_files_is_judged(monkeypatch, soft, state):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, 4096))
    assert diagnosis.files().state == state


def test_a_cache_folder_that_cannot_be_written_is_a_note(tmp_path, monkeypatch):
    assert diagnosis.cache(tmp_path / "a" / "b").state == "ok"
    assert diagnosis.cache(None).state == "note"

    def full(dir: object) -> object:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(diagnosis.tempfile, "TemporaryFile", full)
    assert "Read-only" in diagnosis.cache(tmp_path).found


def test_devices_of_engines_are_listed_and_their_errors_told():
    def broken():
        raise PluginError("no driver", hint="install it")

    asked = {"A": lambda: ["a:0 fine"], "B": list, "C": broken, "D": None}
    engines = {name: SimpleNamespace(id=name, devices=devices) for name, devices in asked.items()}
    registry = SimpleNamespace(engines=engines)
    assert [(one.subject, one.state, one.found, one.fix) for one in diagnosis.devices(registry)] == [
        ("devices of A", "ok", "a:0 fine", ""),
        ("devices of B", "note", "none", ""),
        ("devices of C", "note", "no driver", "install it"),
    ]
