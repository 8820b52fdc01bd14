"""Graphs by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dflow_core.cli.command import Refused
from dflow_core.cli.target import load_target
from dflow_core.errors import ModelFormatError
from dflow_core.graph import FlowData, FlowGraph, FuncProcessPoint, save_graph
from dflow_core.model import Endpoint, FlowModel, ModelEndpoints, ModelRelation, UdfModel, write_om
from dflow_core.plugins import PluginRegistry

SOURCE = """
from dflow_core.graph import FlowData, FlowGraph, FuncProcessPoint

def node(name):
    return FuncProcessPoint(builtin="f", name=name).fnode(1, 1)

graph = FlowGraph([node("a")(FlowData("x"))], name="of_module")

def make():
    return FlowGraph([node("b")(FlowData("x"))], name="made")

class Box:
    inner = graph

number = 3
def wrong():
    return 3
"""


@pytest.fixture(autouse=True)
def own_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some_graphs.py").write_text(SOURCE)
    monkeypatch.delitem(sys.modules, "some_graphs", raising=False)
    yield tmp_path
    sys.modules.pop("some_graphs", None)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("some_graphs:graph", "of_module"),
        ("some_graphs:make", "made"),
        ("some_graphs:Box.inner", "of_module"),
        ("some_graphs.py:graph", "of_module"),
    ],
)
def test_a_graph_is_found_in_a_module_of_the_current_folder(target, name):
    assert load_target(target, PluginRegistry()).name == name


def test_a_graph_is_found_in_a_file_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    assert load_target(f"{tmp_path}/some_graphs.py:make", PluginRegistry()).name == "made"


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("some_graphs:grahp", "has no 'grahp'"),
        ("some_graphs:number", "is a int, not a FlowGraph"),
        ("some_graphs:wrong", "returns a int, not a FlowGraph"),
        ("no_such_module:graph", "no module 'no_such_module'"),
        ("needy:graph", "needs 'no_such_library', which is not installed"),
        ("missing.py:graph", "no such file"),
        ("some_graphs.py", "which graph in it"),
        ("missing.graph", "no such file"),
    ],
)
def test_what_is_no_graph_is_refused(target, told, tmp_path):
    (tmp_path / "needy.py").write_text("import no_such_library")
    with pytest.raises(Refused, match=told):
        load_target(target, PluginRegistry())


@pytest.mark.parametrize("name", ["json", "numpy", "builtins"])
def test_a_file_called_like_a_module_that_is_there_already_is_refused(tmp_path, name):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / f"{name}.py").write_text(SOURCE)
    with pytest.raises(Refused, match=f"another module is called '{name}'"):
        load_target(f"sub/{name}.py:graph", PluginRegistry())


@pytest.mark.parametrize("name", ["graph", "make"])
def test_what_a_module_prints_is_no_part_of_the_answer(tmp_path, capsys, name):
    source = SOURCE.replace("def make():", "print('loading')\ndef make():\n    print('making')")
    (tmp_path / "some_graphs.py").write_text(source)
    load_target(f"some_graphs:{name}", PluginRegistry())
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("loading")


def test_a_name_that_is_near_nothing_is_told_what_the_module_defines(tmp_path):
    (tmp_path / "some_graphs.py").write_text("from os.path import *\n" + SOURCE)
    with pytest.raises(Refused) as caught:
        load_target("some_graphs:zzzzzz", PluginRegistry())
    assert caught.value.hint == "known: Box, graph, make, node, wrong"


def test_a_misspelt_name_is_told_the_nearest():
    with pytest.raises(Refused) as caught:
        load_target("some_graphs:grahp", PluginRegistry())
    assert "'graph'" in caught.value.hint


def test_an_error_in_the_module_itself_is_the_users(tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(ZeroDivisionError):
        load_target("broken:graph", PluginRegistry())


def test_a_saved_graph_is_loaded(tmp_path):
    point = FuncProcessPoint(builtin="f", name="f")
    graph = FlowGraph([point.fnode(1, 1)(FlowData("x"))], name="saved")
    save_graph(graph, tmp_path / "g.graph")
    loaded = load_target(str(tmp_path / "g.graph"), PluginRegistry())
    assert (loaded.name, loaded.input_names) == ("saved", ("x",))


def test_a_file_that_is_no_graph_is_refused(tmp_path):
    (tmp_path / "g.graph").write_bytes(b"hello")
    with pytest.raises(ModelFormatError):
        load_target(str(tmp_path / "g.graph"), PluginRegistry())


def test_a_compiled_file_is_a_graph_of_one_node_with_its_inputs(tmp_path):
    sides = ModelEndpoints("f", ("g:b", "g:a"), ("f:0", "f:1"))
    relation = ModelRelation(
        endpoints=tuple(Endpoint(name) for name in ("g:b", "g:a", "f:0", "f:1")),
        submodels={"f": sides},
        root=ModelEndpoints("g", ("g:a", "g:b"), ("f:0", "f:1")),
        input_names=("a", "b"),
        output_names=("f:0", "f:1"),
    )
    write_om(FlowModel("g", {"f": UdfModel(name="f", engine="UDF", builtin="f")}, relation), tmp_path / "g.om")
    graph = load_target(str(tmp_path / "g.om"), PluginRegistry())
    assert graph.input_names == ("a", "b") and len(graph.outputs) == 2 and len(graph.nodes) == 1
