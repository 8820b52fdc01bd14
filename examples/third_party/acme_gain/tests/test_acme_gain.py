"""Acme's gain: built from its sources as its wheel is, and run in a graph."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from acme_gain import gain, plugin
from dflow_core import builtin
from dflow_core.errors import DeployError
from dflow_core.graph import FlowData, FuncProcessPoint
from dflow_core.plugins import load_plugins
from dflow_core.spi import LibraryFunc
from dflow_core.types import FuncSpec
from dflow_pne_udf.native import LibraryPlace
from dflow_pne_udf.native.local import LocalRun, Sent

PACKAGE = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built in a copy of the package."""
    copy = tmp_path_factory.mktemp("acme_gain") / "source"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.so", "build", "*.egg-info", "__pycache__"))
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", "built"]
    subprocess.run(command, cwd=copy, check=True, timeout=50)
    return copy / "built" / "acme_gain" / "libacme_gain.so"


def results(library: Path, values: list[np.ndarray], **params: object) -> list[Sent]:
    """What the function gives, run in this process."""
    place = LibraryPlace(str(library), str(library.parent), (FuncSpec("gain", (0,), (0,)),))
    transport = load_plugins(builtin=(builtin,)).local_transport().factory()
    with LocalRun(place, transport, (1, 1), params) as run:
        sent = [one for value in values for one in run.feed([value], limit=10.0)]
        return [*sent, *run.finish(limit=10.0)]


def test_every_element_is_multiplied(library: Path) -> None:
    values = [np.full((2, number), number, np.float32) for number in (1, 2, 3)]
    for sent, value in zip(results(library, values, factor=3.0), values, strict=True):
        np.testing.assert_array_equal(sent.value, value * 3)


def test_what_is_no_tensor_of_floats_ends_its_own_transaction(library: Path) -> None:
    wrong, good = results(library, [np.zeros(2, np.int32), np.ones(2, np.float32)])
    assert wrong.error is not None and "9900001" in str(wrong.error)
    assert good.error is None


def test_a_parameter_of_another_type_does_not_start(library: Path) -> None:
    with pytest.raises(DeployError, match="164002"):
        results(library, [], factor="loud")


def test_the_entry_names_library_and_function() -> None:
    (entry,) = plugin.dflow_register_udfs()
    func = entry.factory()
    assert isinstance(func, LibraryFunc) and func.function == "gain"
    assert func.library.endswith("acme_gain/libacme_gain.so") and entry.parameters == {"factor": 1.0}


def test_the_function_makes_a_node() -> None:
    node = gain(FlowData("x"), factor=2, name="louder").node
    assert node.name == "louder" and isinstance(node.point, FuncProcessPoint)
    assert node.point.init_params == {"factor": 2.0}


PROGRAM = """
import numpy as np
import dflow_core as df
from acme_gain import gain

if __name__ == "__main__":
    with df.FlowGraph([gain(df.FlowData("x"), factor=3.0)]) as graph:
        print(graph(np.arange(3, dtype=np.float32)))
"""


def test_installed_it_runs_in_a_graph(library: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(PACKAGE / "src" / "acme_gain", site / "acme_gain", ignore=shutil.ignore_patterns("*.so"))
    shutil.copy(library, site / "acme_gain")
    info = site / "acme_gain-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-gain\nVersion: 1.0.0\n")
    (info / "entry_points.txt").write_text("[dflow.plugins]\nacme_gain = acme_gain.plugin\n")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program)], env=os.environ | {"PYTHONPATH": str(site)}, capture_output=True, text=True,
        timeout=50,
    )
    assert (done.returncode, done.stdout) == (0, "[0. 3. 6.]\n"), done.stderr
