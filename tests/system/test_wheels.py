"""The wheels, installed into a fresh environment away from the checkout, run a graph."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Environment

pytestmark = pytest.mark.timeout(300)

PROGRAM = """
import sys
import numpy as np
import dflow_core as df

assert "site-packages" in df.__file__, df.__file__

@df.pyflow
def double(value):
    return value * np.float32(2)

x, y = df.FlowData("x"), df.FlowData("y")
add = df.GraphProcessPoint(df.Framework.ONNX, sys.argv[1]).fnode(2, 1, name="add")
with df.FlowGraph([double.fnode()(add(x, y))], name="wheels") as graph:
    for number in range(5):
        value = np.full(3, number, np.float32)
        print(*graph(value, value).tolist())
"""


@pytest.fixture(scope="module")
def environment(fresh_environment: Callable[[], Environment]) -> Environment:
    return fresh_environment()


def test_there_is_a_wheel_of_the_core_and_of_each_plugin(wheels, root):
    projects = [root / "pyproject.toml", *root.glob("plugins/*/pyproject.toml")]
    distributions = {re.search(r'(?m)^name = "(.+)"$', path.read_text())[1].replace("-", "_") for path in projects}
    assert {path.name.split("-")[0] for path in wheels} == distributions and len(wheels) > 5


def test_the_wheel_of_the_core_holds_types_licence_and_no_tests(wheels):
    (core,) = [path for path in wheels if path.name.startswith("dflow_core-")]
    assert core.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(core).namelist()
    assert "dflow_core/py.typed" in names and any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "plugins/", "examples/", "build/"))]


def test_every_module_of_a_package_is_in_its_wheel(wheels, root):
    missing = []
    packages = [root / "dflow_core", *root.glob("plugins/*/src/*")]
    held = {name for path in wheels for name in zipfile.ZipFile(path).namelist()}
    for package in (p for p in packages if (p / "__init__.py").exists()):
        for module in package.rglob("*.py"):
            name = module.relative_to(package.parent).as_posix()
            if name not in held and "/tests/" not in name:
                missing.append(name)
    assert not missing


def test_a_graph_of_a_function_and_a_model_runs(environment, models, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    printed = environment.run("python", str(script), str(models / "add_float.onnx"))
    assert [line.split()[0] for line in printed.splitlines()] == ["0.0", "4.0", "8.0", "12.0", "16.0"]


def test_every_plugin_loads(environment, root):
    report = json.loads(environment.run("dflow", "plugins", "--json"))["plugins"]
    assert {one["state"] for one in report} == {"loaded"}
    projects = [path.read_text() for path in root.glob("plugins/*/pyproject.toml")]
    assert len(report) == 1 + sum('entry-points."dflow.plugins"' in text for text in projects)


def test_the_command_knows_its_version(environment, root):
    assert environment.run("dflow", "--version").split()[-1].count(".") == 2


def test_the_doctor_finds_nothing_lacking(environment):
    assert json.loads(environment.run("dflow", "doctor", "--json"))["ready"] is True


def test_a_plugin_that_is_not_installed_is_named(fresh_environment, models, tmp_path):
    bare = fresh_environment()
    (site,) = Path(bare.folder).glob("lib/python3*/site-packages")
    for metadata in site.glob("dflow_pne_cpu-*.dist-info"):
        (metadata / "entry_points.txt").unlink()
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    with pytest.raises(AssertionError, match="pip install"):
        bare.run("python", str(script), str(models / "add_float.onnx"))
