"""The commands `dflow udf ...`, as a person types them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dflow_pne_udf import sdk_dir
from dflow_pne_udf.commands.udf import COMMAND


def dflow_udf(*words: object, code: int = 0) -> Result:
    done = CliRunner().invoke(COMMAND, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new C++ project, as `dflow udf new` writes it."""
    folder = tmp_path_factory.mktemp("new")
    dflow_udf("new", "gain", "--folder", folder)
    return folder / "gain"


def test_a_new_project_is_complete_and_its_test_runs(fresh):
    files = {path.relative_to(fresh).as_posix() for path in fresh.rglob("*") if path.is_file()}
    assert files == {"CMakeLists.txt", "README.md", "gain.json", "src/gain.cpp", "tests/test_gain.py"}
    assert not any("@" in (fresh / name).read_text() for name in files - {"gain.json"})
    test = fresh / "tests" / "test_gain.py"
    done = subprocess.run([sys.executable, test], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_a_new_python_project_runs(tmp_path):
    dflow_udf("new", "my_gain", "--language", "python", "--folder", tmp_path)
    test = tmp_path / "my_gain" / "tests" / "test_my_gain.py"
    done = subprocess.run([sys.executable, test], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [("../x", "cannot name a function"), ("9x", "cannot name a function"), ("taken", "is there already")],
)
def test_what_cannot_be_made_leaves_nothing(tmp_path, name, text):
    (tmp_path / "taken").mkdir()
    assert text in dflow_udf("new", name, "--folder", tmp_path, code=2).output
    assert os.listdir(tmp_path) == ["taken"]


def test_build_gives_the_library(fresh, tmp_path):
    told = json.loads(dflow_udf("build", fresh, "--json", "-o", tmp_path / "here").output)
    assert told["functions"] == ["single gain"] and told["problem"] == ""
    assert (tmp_path / "here" / "libgain.so").is_file()


def test_build_shows_the_first_error_and_ends_with_1(project):
    project.write("scale.cpp", "int f() { return missing; }\n")
    (project.folder / "multi.cpp").unlink()
    output = dflow_udf("build", project.config, code=1).output
    assert "scale.cpp:1:" in output.splitlines()[0] + output.splitlines()[1]


def test_inspect_lists_functions_and_what_they_need(built):
    told = json.loads(dflow_udf("inspect", built.config, "--json").output)
    assert {"name": "add", "kind": "multi"} in told["functions"] and told["missing"] == []
    assert sdk_dir.resource_type() in told["compilers"]
    assert any("libstdc++" in line for line in told["needs"])
    assert "single function" in dflow_udf("inspect", told["library"]).output


SDK = [
    # versions that the sources were built with; the exit code, what --json lists, what is shown
    ([(1, 1)], 0, ["1.1"], "SDK: built with version 1.1, version {here} is here"),
    ([(1, 0)], 0, ["1.0"], "SDK: built with version 1.0, version {here} is here"),
    ([(1, 1), (1, 0)], 0, ["1.0", "1.1"], "SDK: built with version 1.0 to 1.1, version {here} is here"),
    ([(7, 12)], 1, ["7.12"], "SDK: built with version 7.12, version {here} is here"),
    ([(1, 1), (7, 0)], 1, ["1.1", "7.0"], "SDK: built with version 1.1 to 7.0, version {here} is here"),
    ([], 0, [], "SDK: built with a version that it does not say, version {here} is here"),
]


@pytest.mark.parametrize(("versions", "code", "listed", "shown"), SDK)
def test_inspect_shows_the_version_of_the_sdk(tmp_path, versions, code, listed, shown):
    header = (sdk_dir.root() / "include/flow_func/flow_func_version.h").read_text()
    here = ".".join(re.search(rf"#define DFLOW_FLOW_FUNC_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR"))
    library, sources = tmp_path / "libsome.so", []
    for number, (major, minor) in enumerate(versions):
        text = re.sub(r"(#define DFLOW_FLOW_FUNC_MAJOR) \d+", rf"\1 {major}", header)
        text = re.sub(r"(#define DFLOW_FLOW_FUNC_MINOR) \d+", rf"\1 {minor}", text)
        sources.append(tmp_path / f"some{number}.cc")
        sources[-1].write_text(text)
    sources.append(tmp_path / "plain.cc")
    sources[-1].write_text("void f() {}\n")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, *sources], check=True)
    told = json.loads(dflow_udf("inspect", library, "--json", code=code).output)
    assert told["sdk"] == {"built_with": listed, "here": here}
    assert bool(told["problem"]) == bool(code)
    assert shown.format(here=here) in dflow_udf("inspect", library, code=code).output.splitlines()


def test_inspect_names_a_missing_symbol(tmp_path):
    source, library = tmp_path / "a.c", tmp_path / "liba.so"
    source.write_text("void gpu_open_device(void); void f(void) { gpu_open_device(); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    told = json.loads(dflow_udf("inspect", library, "--json", code=1).output)
    assert "gpu_open_device" in told["problem"] and any("gpu_open_device" in line for line in told["missing"])


def test_a_function_is_tried_on_arrays(built, tmp_path):
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    arguments = ["test", built.config, "--param", "factor=5", "--json"]
    told = json.loads(dflow_udf(*arguments, "-i", tmp_path / "x.npy", "-i", tmp_path / "x.npy").output)
    assert [(one["transaction"], one["value"]["values"]) for one in told] == [(1, [5, 10]), (2, [5, 10])]
    made_up = json.loads(dflow_udf(*arguments, "--shape", "2x3", "--count", "200").output)
    assert len(made_up) == 200 and made_up[0]["value"]["shape"] == [2, 3]


def test_an_error_of_a_function_is_shown(built, tmp_path):
    np.save(tmp_path / "x.npy", np.array([-13], np.float32))
    told = json.loads(dflow_udf("test", built.config, "--json", "-i", tmp_path / "x.npy", code=1).output)
    assert "9900013" in told[0]["error"]


def test_a_function_of_a_library_is_named(built):
    library = json.loads(dflow_udf("build", built.config, "--json").output)["library"]
    output = dflow_udf("test", library, "--shape", "1", code=2).output
    assert "which function? libscale.so registers: add, attrs," in output
    shapes = ["--shape", "in0=1", "--shape", "in1=1"]
    assert dflow_udf("test", library, "--function", "add", "--ports", 2, 1, *shapes).output.startswith("transaction 1")


@pytest.mark.parametrize(("target", "text"), [("nowhere", "no such file or folder"), (".", "expected one JSON file")])
def test_a_target_that_is_none(tmp_path, monkeypatch, target, text):
    monkeypatch.chdir(tmp_path)
    assert text in dflow_udf("build", target, code=2).output


def test_clean_deletes_what_was_built(project, tmp_path, monkeypatch):
    monkeypatch.setenv("DFLOW_CACHE_DIR", str(tmp_path / "cache"))
    project.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.14)\nproject(UDF NONE)\n"
                  "file(WRITE ${PROJECT_BINARY_DIR}/${RELEASE_DIR}/lib${UDF_TARGET_LIB}.so no library)\n")
    assert "does not load here" in dflow_udf("build", project.config).output  # it is kept all the same
    told = json.loads(dflow_udf("clean", "--json").output)
    assert told["deleted"] == 1 and told["freed"] > 0
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_env_can_be_evaluated_by_a_shell():
    printed = dflow_udf("env").output
    shown = subprocess.run(
        ["sh", "-c", f'{printed}\necho "$ASCEND_HOME_PATH"'], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert Path(shown, "include", "flow_func", "meta_flow_func.h").is_file()
