"""Cases of area F: user code, files and the compile cache, through whole programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from tests.system.case_support import MODELS, ROOT, chain, run_program


def run_script(folder: Path, text: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Write a script, and run it as people do: `python script.py`, from another folder."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(script), *arguments], cwd="/", capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables}, stdin=subprocess.DEVNULL,
    )


# ------------------------------------------------------------------------------- BC-077: code that travels

EVERYTHING = """
    import dataclasses, functools, sys
    import dflow_core as df
    import helper  # lies beside this script and is not installed

    FACTOR = 10

    @dataclasses.dataclass
    class Point:
        x: int
        y: int = 2

    @df.pyflow
    def plain(n):
        return n * FACTOR

    @df.pyflow
    def uses_helper(n):
        return helper.triple(n) + helper.inner.four

    @df.pyflow
    def makes_dataclass(n):
        return Point(n)

    @df.pyflow
    def takes_dataclass(point):
        assert type(point).__name__ == "Point"
        return point.x * point.y

    @df.pyflow
    def parts(n):
        for k in range(3):
            yield n + k

    @df.pyflow(gather=True)
    def total(values):
        return sum(values)

    @df.pyflow
    class Counter:
        step = 2

        class Inner:
            def __init__(self, start):
                self.value = start

        def __init__(self, start):
            self.inner = Counter.Inner(start)

        @df.method()
        def count(self, n):
            self.inner.value += self.step
            return self.double(self.inner.value) + n

        @staticmethod
        def double(value):
            return 2 * value

    class Outer:
        @df.pyflow
        class Nested:
            @df.method()
            @staticmethod
            def negate(n):
                return -n

    def closure(offset):
        @df.pyflow
        def add(n):
            return n + offset
        return add

    def power(n, exponent):
        return n ** exponent

    def recursive(n):
        return 1 if n == 0 else n * recursive(n - 1)

    if __name__ == "__main__":
        x = df.FlowData("x")
        ways = {
            "plain": plain.fnode()(x),
            "helper": uses_helper.fnode()(x),
            "dataclass": takes_dataclass.fnode()(makes_dataclass.fnode()(x)),
            "generator": total.fnode()(parts.fnode()(x)),
            "class": Counter.fnode(100).count(x),
            "nested class": Outer.Nested.fnode().negate(x),
            "lambda": df.pyflow(lambda n: n + FACTOR, name="lam").fnode()(x),
            "closure": closure(1000).fnode()(x),
            "partial": df.pyflow(functools.partial(power, exponent=2), name="square", num_inputs=1).fnode()(x),
            "recursive": df.pyflow(recursive).fnode()(x),
            "builtin": df.pyflow(abs, num_inputs=1).fnode()(x),
        }
        with df.FlowGraph(list(ways.values())) as graph:
            for way, result in zip(ways, graph(int(sys.argv[1]), timeout=30)):
                print(way, result, sep=": ")
"""
HELPER = "from inner_package import inner\ndef triple(n):\n    return {factor} * n\n"


def test_code_of_every_kind_in_a_script_travels_and_edits_count_at_the_next_run(tmp_path: Path) -> None:
    """BC-077, BC-087: script, module beside it, package beside it; then the module and the package are edited."""
    (tmp_path / "inner_package").mkdir()
    (tmp_path / "inner_package" / "__init__.py").write_text("")
    (tmp_path / "inner_package" / "inner.py").write_text("four = 4\n")
    (tmp_path / "helper.py").write_text(HELPER.format(factor=3))
    done = run_script(tmp_path, EVERYTHING, "5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "plain: 50", "helper: 19", "dataclass: 10", "generator: 18", "class: 209", "nested class: -5", "lambda: 15",
        "closure: 1005", "partial: 25", "recursive: 120", "builtin: 5",
    ]
    (tmp_path / "helper.py").write_text(HELPER.format(factor=7))
    (tmp_path / "inner_package" / "inner.py").write_text("four = 5\n")
    changed = run_script(tmp_path, EVERYTHING.replace("FACTOR = 10", "FACTOR = 20"), "5")
    assert changed.stdout.splitlines()[:2] == ["plain: 100", "helper: 40"], changed.stderr


def test_cells_of_a_notebook_travel_and_a_changed_cell_counts_at_the_next_build() -> None:
    """BC-077: code that is run in a namespace of its own, as notebooks do."""
    code = """
        import __main__, types
        namespace = __main__.__dict__
        def cell(text):
            exec(compile(text, "<ipython-input-1>", "exec"), namespace)
        cell("import dflow_core as df\\nimport numpy as np\\nscale = 3")
        cell("@df.pyflow\\ndef work(x):\\n    return Thing(x * scale).value")
        cell("class Thing:\\n    def __init__(self, value): self.value = value")
        run = "with df.FlowGraph([work.fnode()(df.FlowData('x'))]) as graph:\\n    print(graph(2, timeout=30))"
        cell(run)
        cell("scale = 5")
        cell(run)
        cell("@df.pyflow\\ndef work(x):\\n    return x - scale")
        cell(run)
    """
    done = run_program(textwrap.dedent(code))
    assert done.stdout.split() == ["6", "10", "-3"], done.stderr


def test_what_cannot_travel_is_refused_when_the_node_is_made_and_named(tmp_path: Path) -> None:
    """BC-077: a lock, an open file and a socket, in a closure, an argument and an attribute."""
    import socket

    with open(tmp_path / "file", "w") as file, socket.socket() as connection:
        held = {"inside": [threading.Lock()]}

        @df.pyflow
        def uses(x):
            return held

        @df.pyflow
        class Keeper:
            def __init__(self, given):
                self.given = given

            @df.method()
            def get(self, x):
                return self.given

        for make, named in (
            (uses.fnode, "held"), (lambda: Keeper.fnode(file), "TextIOWrapper|file"),
            (lambda: Keeper.fnode({"session": connection}), "socket"),
        ):
            with pytest.raises(df.PackagingError, match=named):
                make()


# ------------------------------------------------------------------------------- BC-079: engines and plugins

def test_engine_with_a_typo_names_what_is_near_and_nothing_else_is_taken() -> None:
    """BC-079: no silent fall-back."""
    x = df.FlowData("x")
    node = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx").fnode(2, 1)
    node.set_options(engine="CPV")
    with pytest.raises((df.PluginError, df.GraphError), match="CPU"):
        df.FlowGraph([node(x, x)]).start()  # type: ignore[list-item]
    with pytest.raises((df.PluginError, df.GraphError), match="'npu-x'"):
        df.FlowGraph([node(x, x)], {"engine": "npu-x"}).start() if node.set_options(engine="npu-x") else None  # type: ignore[list-item]


# ------------------------------------------------------------------------------- BC-082: other environments

@pytest.fixture(scope="module")
def other_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second virtual environment with a package of its own, which sees what is installed here."""
    folder = tmp_path_factory.mktemp("other") / "venv"
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", str(folder)], capture_output=True,
        text=True, timeout=60, check=False,
    )
    if made.returncode:
        pytest.skip(f"no virtual environment can be made here: {made.stderr.strip()[-200:]}")
    (site,) = folder.glob("lib/python3*/site-packages")
    here = sysconfig.get_path("purelib")
    (site / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n{ROOT}\n")
    (site / "only_there.py").write_text("VERSION = '2.0 of the other one'\n")
    return folder


def test_nodes_with_environments_of_their_own_exchange_tensors_and_objects(other_environment: Path) -> None:
    """BC-082: named by folder and by interpreter; each process runs the interpreter it was given."""
    @df.pyflow
    def there(x):
        import only_there

        return {"array": np.asarray(x) + 1, "version": only_there.VERSION, "prefix": sys.prefix}

    @df.pyflow
    def here(found):
        return {**found, "here": sys.prefix, "array": found["array"] * 2}

    for env in (other_environment, other_environment / "bin" / "python"):
        x = df.FlowData("x")
        with df.FlowGraph([here.fnode()(there.fnode(env=str(env))(x))]) as graph:
            found = graph(np.arange(3.0), timeout=40)
            assert isinstance(found, dict)
            np.testing.assert_array_equal(found.pop("array"), [2, 4, 6])
            assert found == {
                "version": "2.0 of the other one", "prefix": str(other_environment), "here": sys.prefix
            }
    with pytest.raises(df.StartupError, match="No module named 'only_there'"), chain(imports_other):
        pass


@df.pyflow
class ImportsOther:
    def __init__(self):
        import only_there

        self.version = only_there.VERSION

    @df.method()
    def get(self, x):
        return self.version


class imports_other:
    """Lets `chain` make a node of the class."""

    @staticmethod
    def fnode() -> Callable[[df.FlowData], object]:
        return ImportsOther.fnode().get  # type: ignore[attr-defined, no-any-return]


# ------------------------------------------------------------------------------- BC-084: paths

ODD = "a b/模型 é'\"$x `;&"

PROJECT = """
    import json
    import sys
    from pathlib import Path
    import numpy as np
    import dflow_core as df
    import helper

    here = Path(__file__).resolve().parent
    x, y = df.FlowData("x"), df.FlowData("y")

    @df.pyflow
    def add_one(value):
        print("adding", helper.ONE)
        return np.asarray(value) + helper.ONE

    placed = here / "deploy é'$x.json"
    devices = {"onnx": "0:0:0", "frozen": "0:0:0", "add_one": sys.argv[1]}
    nodes = [{"flow_node_list": [name], "logic_device_list": device} for name, device in devices.items()]
    placed.write_text(json.dumps({"batch_deploy_info": nodes}))
    onnx = df.GraphProcessPoint(df.Framework.ONNX, here / "mo del.onnx").fnode(2, 1, "onnx")
    frozen = df.GraphProcessPoint(df.Framework.TENSORFLOW, here / "link é.pb").fnode(2, 1, "frozen")
    options = {"cache_dir": str(here / "ca che"), "output": f"dir:{here}/lo gs", "trace": str(here / "tra ce")}
    options["deploy_info"] = str(placed)
    with df.FlowGraph([add_one.fnode("add_one")(onnx(x, y)), frozen(x, y)], options, name="graph é $HOME") as graph:
        one = np.load(here / "one.npy")
        placed_on = [s.instance for s in graph.running.deployment.status() if s.node == "add_one"]
        print([r.tolist() for r in graph(one, one, timeout=60)], graph.running.report.cache_hits, placed_on)
"""


def test_project_in_a_folder_of_odd_names_builds_runs_and_fills_its_cache(tmp_path: Path) -> None:
    """BC-084: blanks, quotes, other scripts, a dollar, links; models, module, cache, logs, deploy file lie there.

    BC-087: the second run has another deploy file and compiles nothing.
    """
    folder = tmp_path / ODD / ("long" * 40)
    folder.mkdir(parents=True)
    shutil.copy(MODELS / "add_float.onnx", folder / "mo del.onnx")
    shutil.copy(MODELS / "add.pb", folder / "mo del.pb")
    (folder / "link é.pb").symlink_to("mo del.pb")
    (folder / "helper.py").write_text("ONE = 1\n")
    reference = np.load(MODELS / "add.pb.npz")
    given = next(reference[n] for n in reference.files if n.startswith("in_"))
    np.save(folder / "one.npy", np.ones((3,), given.dtype))
    if given.shape != (3,):
        pytest.skip("the two models take different shapes")
    for devices, hits, instances in (("0:0:0", 0, [0]), ("0:0:0~1", 2, [0, 1])):
        done = run_script(folder, PROJECT, devices)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"[[3.0, 3.0, 3.0], [2.0, 2.0, 2.0]] {hits} {instances}\n", done.stderr
    assert len(list((folder / "ca che").iterdir())) >= 2
    assert list((folder / "lo gs").glob("*.log")) and list((folder / "tra ce").iterdir())
