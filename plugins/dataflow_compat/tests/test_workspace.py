"""Workspaces of Python functions: made by the tool, told what is wrong, and run as they are."""

from __future__ import annotations

import builtins
import json
import sys

import pytest

import dataflow as df
from dataflow.flow_func.func_register import FlowFuncInfos
from dataflow.tools import create_func_ws
from dataflow.tools.func_ws_creator import FuncWsCreator


@pytest.fixture(autouse=True)
def forget_modules():
    """What a workspace imports is gone afterwards."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("func_"):
            del sys.modules[name]


def answer(monkeypatch, text: str, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["create_func_ws", *arguments])
    monkeypatch.setattr(builtins, "input", lambda *_: text)
    create_func_ws.main()


def test_the_tool_asks_first(folder, monkeypatch, capsys) -> None:
    answer(monkeypatch, "n", "-f", "assign:i0:o0")
    assert list(folder.iterdir()) == [] and capsys.readouterr().out.endswith("exit\n")


def test_the_tool_makes_a_class_that_runs(started, monkeypatch, capsys) -> None:
    answer(monkeypatch, "YES", "-f", "assign:i0:o0,other:i1:o1", "-c", "AssignFunc", "-w", "ws")
    config = json.loads((started / "ws" / "func_assign_func.json").read_text(encoding="utf-8"))
    assert [entry["func_name"] for entry in config["func_list"]] == ["assign", "other"]
    assert (config["input_num"], config["output_num"], config["heavy_load"]) == (2, 2, True)
    node = df.FlowNode(2, 2)
    node.add_process_point(df.FuncProcessPoint("ws/func_assign_func.json"))
    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    graph = df.FlowGraph(list(node(a, b)))
    assert graph.feed_data({a: 1, b: 2}) == 0
    tensors, _, code = graph.fetch_data(timeout=20000)
    assert (code, [tensor.numpy().tolist() for tensor in tensors]) == (0, [1, 2])


def test_names_and_resources_go_into_the_config(folder) -> None:
    infos = FlowFuncInfos()
    infos.add_running_resources_info("memory", 100)
    infos.set_visible_device_enable(True)
    creator = FuncWsCreator("one:i0:o0,two:i1:o0", flow_func_infos=infos)
    creator.generate()
    config = json.loads((folder / "func_one_two.json").read_text(encoding="utf-8"))
    assert creator.get_config_file() == str(folder / "func_one_two.json")
    assert config["target_bin"] == "libfunc_one_two.so" and config["visible_device_enable"] is True
    assert config["running_resources_info"] == [{"type": "memory", "num": 100}]
    (folder / "own.py").write_text("x = 1\n", encoding="utf-8")
    creator.copy_py_src_file(str(folder / "own.py"))
    assert (folder / "src_python" / "func_one_two.py").read_text(encoding="utf-8") == "x = 1\n"


@pytest.mark.parametrize("functions", ["one", "one:i0", "one:i0:x1", "1one:i0:o0", "one:i0:o0,"])
def test_what_names_no_functions_is_refused(folder, functions: str) -> None:
    with pytest.raises(ValueError):  # the text is the function's own
        FuncWsCreator(functions)


def test_a_class_has_a_name_that_can_be_one(folder) -> None:
    with pytest.raises(ValueError, match="identifier"):
        FuncWsCreator("one:i0:o0", "no class")


@pytest.mark.parametrize("functions", ["one:i0:i0:o0", "one:i1:o0", "one:i0:o1", "one:i0:o0,two:i0:o1"])
def test_ports_are_numbered_from_0(folder, functions: str) -> None:
    with pytest.raises(ValueError, match="numbered"):
        FuncWsCreator(functions).generate()


def test_a_workspace_without_a_class_is_refused(folder) -> None:
    FuncWsCreator("one:i0:o0").generate()
    (folder / "src_python" / "func_one.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(df.DfException) as error:
        df.FuncProcessPoint("func_one.json")
    assert error.value.error_code == 564000
