"""Plugins of strangers, pip-installed into a fresh environment: an engine, ready-made functions, and a broken one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Environment

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def environment(
    fresh_environment: Callable[[], Environment], copy_source: Callable[[Path], Path], root: Path
) -> Environment:
    made = fresh_environment()
    packages = sorted(path.parent for path in root.glob("examples/third_party/*/pyproject.toml"))
    made.install(*(copy_source(package) for package in packages))
    return made


@pytest.fixture(scope="module")
def report(environment: Environment) -> dict[str, dict[str, object]]:
    printed = environment.run("dflow", "plugins", "--json", code=1)
    return {str(one["distribution"]): one for one in json.loads(printed)["plugins"]}


def test_the_broken_plugin_is_shown_with_its_cause(report):
    broken = report["acme-broken"]
    assert broken["state"] == "failed" and broken["error"]


def test_the_broken_plugin_does_not_disturb_the_others(report):
    rest = {name: one["state"] for name, one in report.items() if name != "acme-broken"}
    assert set(rest.values()) == {"loaded"} and {"acme-gain", "acme-numexpr", "acme-udfs"} <= set(rest)


PROGRAM = """
import numpy as np
import dflow_core as df
from acme_numexpr import ExprPoint
from acme_udfs import moving_average, threshold

@df.pyflow
def total(value):
    return float(value.sum())

a, b = df.FlowData("a"), df.FlowData("b")
scaled = ExprPoint("a*b + 1", inputs=["a", "b"]).fnode(2, 1, name="scaled")(a, b)
above, below = threshold(moving_average(scaled, window=2), limit=10.0)
graph = df.FlowGraph([total.fnode()(above), below], name="acme")

if __name__ == "__main__":
    ones = np.ones(3, np.float32)
    with graph:
        for number in (1, 3, 19):
            graph.feed({a: ones * number, b: ones})
        for _ in range(3):
            print(graph.fetch())
        engines = {part.engine for part in graph.running.model.submodels.values()}
        print(sorted(engines))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "acme_graph.py"
    path.write_text(PROGRAM)
    return path


def test_a_graph_of_strangers_nodes_runs_in_processes(environment, program):
    lines = environment.run("python", str(program)).splitlines()
    # Averages of (2, 2 and 4, 4 and 20) are 2, 3 and 12: only the last is above the limit.
    assert [line.split(",")[0].strip("(") for line in lines[:3]] == ["None", "None", "36.0"]
    assert lines[3] == "['NUMEXPR', 'UDF']"


BUILT = """
import numpy as np
import dflow_core as df
from acme_gain import gain

if __name__ == "__main__":
    with df.FlowGraph([gain(df.FlowData("x"), factor=3.0)]) as graph:
        print(graph(np.arange(3, dtype=np.float32)))
"""


def test_a_cpp_function_that_was_shipped_built_runs(environment, tmp_path):
    path = tmp_path / "gain_graph.py"
    path.write_text(BUILT)
    assert environment.run("python", str(path)) == "[0. 3. 6.]\n"


def test_a_strangers_kind_of_process_point_is_checked_planned_and_compiled(environment, program):
    target = f"{program}:graph"
    assert "no faults" in environment.run("dflow", "check", target)
    plan = json.loads(environment.run("dflow", "plan", target, "--json"))
    assert {node["node"]: node["engine"] for node in plan["nodes"]}["scaled"] == "NUMEXPR"
    file = str(program.with_suffix(".om"))
    environment.run("dflow", "compile", target, "-o", file)
    assert json.loads(environment.run("dflow", "inspect", file, "--json"))["submodels"]


def test_what_the_broken_plugin_might_have_given_is_told_with_its_cause(environment, program, report):
    asks = program.with_name("asks_graph.py")
    asks.write_text(PROGRAM.replace('graph = df', 'above.node.set_options(engine="ACME")\ngraph = df'))
    with pytest.raises(AssertionError, match="libacme_driver") as caught:
        environment.run("dflow", "plan", f"{asks}:graph")
    assert "acme_broken" in str(caught.value) and "Traceback" not in str(caught.value)


def test_an_allow_list_keeps_strangers_out(environment):
    allowed = "dflow-builtin-udf,dflow-pne-cpu,dflow-pne-udf,dflow-transport-shm"
    shown = environment.run("dflow", "config", "show", "--json", "-O", f"plugins={allowed}")
    assert json.loads(shown)["plugins"]["value"] == allowed
    code = "import dflow_core.session as s; r = s.DFlowSession({'plugins': '%s'}).registry; print(*sorted(r.engines))"
    assert environment.run("python", "-c", code % allowed).split() == ["CPU", "UDF"]
