"""Interpreters, settings and memory files: the small parts a process is started with."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from dflow_core.deploy.children import environments
from dflow_core.deploy.children.child import ChildSettings
from dflow_core.deploy.children.environments import check_interpreter, thread_environment
from dflow_core.deploy.children.memory_file import memory_file, punch_hole, write_all
from dflow_core.deploy.children.processes import (
    OwnedByProcess,
    absolute,
    describe_exit,
    interpreter,
    kill_group,
    kill_process,
    probe_interpreter,
    process_runs,
    reap_orphan,
    start_environment,
)
from dflow_core.deploy.settings import DeploySettings, allowed_plugins
from dflow_core.errors import ClosedError, OptionError, StartupError
from dflow_core.model import InstancePlan, ProcessPlan, UdfModel

BY_VALUE = b"\x80\x05\x8c\x17cloudpickle.cloudpickle\x8c\x0e_make_function\x93"


def one(package: bytes) -> tuple[ProcessPlan, dict[str, UdfModel]]:
    """A process with one node."""
    instance = InstancePlan("n", 2, 3, "p", "cpu:0", 1, (), ())
    return ProcessPlan("p", "UDF", "x", (instance,)), {"n": UdfModel(name="n", engine="UDF", package=package)}


@pytest.fixture
def other_version(monkeypatch):
    """Every interpreter is Python 3.99."""
    monkeypatch.setattr(environments, "probe_interpreter", lambda python, pythonpath: {"python": [3, 99]})


def test_no_env_is_this_interpreter():
    assert interpreter("") == sys.executable


@pytest.mark.parametrize("said", [None, ""])
def test_where_python_is_embedded_the_program_of_its_installation_is_taken(monkeypatch, said):
    monkeypatch.setattr(sys, "executable", said)
    assert os.path.dirname(interpreter("")) == os.path.join(sys.prefix, "bin")
    assert probe_interpreter(interpreter(""))["python"] == list(sys.version_info[:2])


def test_embedded_python_without_any_program_says_what_to_do(monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(sys, "prefix", "/nonexistent")
    monkeypatch.setattr(sys, "base_prefix", "/nonexistent")
    with pytest.raises(StartupError, match="embed Python") as caught:
        interpreter("")
    assert caught.value.hint is not None and "inline" in caught.value.hint


def test_module_path_goes_without_relative_entries_where_the_folder_was_deleted(monkeypatch):
    assert absolute(["", "a", "/b"]) == [os.getcwd(), os.path.join(os.getcwd(), "a"), "/b"]

    def deleted():
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "getcwd", deleted)
    assert absolute(["", "a", "/b"]) == ["/b"]


def test_an_environments_folder_names_its_interpreter():
    assert interpreter(sys.prefix) == os.path.abspath(os.path.join(sys.prefix, "bin", "python"))


def test_a_program_names_itself():
    assert interpreter(sys.executable) == os.path.abspath(sys.executable)


@pytest.mark.parametrize("name", ["nowhere", "folder", "file"])
def test_what_is_no_interpreter_is_refused(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(StartupError, match="names no Python interpreter"):
        interpreter(str(tmp_path / name))


def test_code_by_value_needs_the_same_python(other_version):
    """BC-082."""
    with pytest.raises(StartupError) as caught:
        check_interpreter("/x/python", *one(BY_VALUE))
    assert "Python 3.99" in str(caught.value) and "by value" in str(caught.value)
    assert (caught.value.node, caught.value.instance) == ("n", 2)


def test_code_by_name_may_run_on_another_python(other_version):
    check_interpreter("/x/python", *one(b"module\nfunction"))


def test_code_by_value_needs_a_like_cloudpickle(monkeypatch):
    """BC-082."""
    old = {"python": list(sys.version_info[:2]), "cloudpickle": "1.6.0"}
    monkeypatch.setattr(environments, "probe_interpreter", lambda python, pythonpath: old)
    with pytest.raises(StartupError, match=r"cloudpickle 1\.6\.0"):
        check_interpreter("/x/python", *one(BY_VALUE))
    check_interpreter("/x/python", *one(b"module\nfunction"))


def test_the_same_python_may_run_anything(monkeypatch):
    same = {"python": list(sys.version_info[:2])}
    monkeypatch.setattr(environments, "probe_interpreter", lambda python, pythonpath: same)
    check_interpreter("/x/python", *one(BY_VALUE))


def test_this_interpreter_passes_the_probe():
    found = probe_interpreter(sys.executable, os.pathsep.join(map(os.path.abspath, sys.path)))
    assert found["python"] == list(sys.version_info[:2])


def test_a_program_that_is_no_python_fails_the_probe():
    with pytest.raises(StartupError, match="does not run as a Python interpreter"):
        probe_interpreter("/bin/true")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ('"dflow_core": "missing: no module"', "pip install dflow-core"),
        ('"dflow_core": "1", "google.protobuf": "missing: x"', "pip install protobuf"),
    ],
)
def test_what_an_interpreter_lacks_is_named(tmp_path, found, text):
    """BC-082: one sentence that says what to install."""
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho '{\"python\": [3, 11], " + found + "}'\n")
    fake.chmod(0o755)
    with pytest.raises(StartupError, match=text):
        probe_interpreter(str(fake))


def test_this_interpreter_starts_with_the_same_modules(monkeypatch):
    monkeypatch.setattr(sys, "path", ["", "/somewhere"])
    assert start_environment(sys.executable)["PYTHONPATH"] == f"{os.getcwd()}{os.pathsep}/somewhere"


def test_another_interpreter_keeps_its_own_modules(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "lib")
    monkeypatch.setenv("PYTHONHOME", "/elsewhere")
    environment = start_environment("/x/python")
    assert environment["PYTHONPATH"] == os.path.abspath("lib")
    assert "PYTHONHOME" not in environment


def test_libraries_are_held_to_the_threads_of_the_plan():
    assert thread_environment(3)["OMP_NUM_THREADS"] == "3"
    assert thread_environment(0)["OPENBLAS_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "ended by itself with exit code 0"),
        (9, "ended by itself with exit code 9"),
        (-signal.SIGSEGV, "was ended by signal 11 (SIGSEGV, segmentation fault)"),
        (-signal.SIGTERM, "was ended by signal 15 (SIGTERM, Terminated)"),
        (-63, "was ended by signal 63"),
        (None, "ended for an unknown reason"),
    ],
)
def test_ends_are_put_in_words(code, text):
    assert describe_exit(code) == text


def test_signals_never_go_to_groups_by_mistake():
    """0 and 1 mean something else than one process."""
    for pid in (0, 1, -1):
        kill_process(pid)
        kill_group(pid)


def test_processes_that_are_gone_are_no_error():
    gone = 2**22 + 1
    kill_process(gone)
    kill_group(gone)
    assert not process_runs(gone)
    assert process_runs(os.getpid())
    assert reap_orphan(gone) is None


def test_an_object_of_another_process_refuses():
    """BC-090."""
    here = OwnedByProcess.here("this thing")
    here.check()
    assert not here.foreign
    foreign = OwnedByProcess("this thing", os.getpid() + 1)
    assert foreign.foreign
    with pytest.raises(ClosedError, match=r"this thing belongs to process \d+; this is process \d+, a fork of it"):
        foreign.check()


def test_settings_come_from_options():
    given = {"start_timeout": "5", "stop_timeout": "0.5", "memory_limit": "1M", "output": "none", "other": "x"}
    assert DeploySettings.from_options(given) == DeploySettings("", 1 << 20, 5, 5.0, 0.5, "none")
    assert DeploySettings.from_options({}) == DeploySettings()
    with pytest.raises(OptionError):
        DeploySettings.from_options({"start_timeout": "soon"})


def test_the_allow_list_comes_from_options():
    assert allowed_plugins({}) is None
    assert allowed_plugins({"plugins": " a, b,"}) == ("a", "b")


def test_a_childs_settings_survive_the_way():
    settings = ChildSettings("m", "n", "/", {"A": "模"}, ("a", "b"), ("x", "y"))
    assert ChildSettings.from_json(settings.to_json()) == settings


def test_a_memory_file_grows_at_its_end_and_can_be_emptied():
    fd = memory_file("test 模型" * 60)
    write_all(fd, [b"a" * 8192, bytearray(b"b"), memoryview(b"c" * 8191)])
    assert os.fstat(fd).st_size == 16384
    punch_hole(fd, 0, 8192)
    punch_hole(fd, 0, 0)
    assert os.fstat(fd).st_size == 16384 and os.fstat(fd).st_blocks * 512 == 8192
    assert os.pread(fd, 1, 0) == b"\0" and os.pread(fd, 2, 8192) == b"bc"
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_without_memfd_a_file_without_a_name_serves(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    fd = memory_file("x")
    write_all(fd, [b"abc"])
    assert os.pread(fd, 3, 0) == b"abc" and os.fstat(fd).st_nlink == 0
    os.close(fd)
