"""The function compile JSON: every field, every fault, all faults at once."""

from __future__ import annotations

import json
import re

import pytest

from dflow_core.errors import CompileError
from dflow_core.types import FuncSpec
from dflow_pne_udf.config import BufferPool, read_config
from dflow_pne_udf.config.func_config import check_sources


def faults(path) -> list[str]:
    with pytest.raises(CompileError) as caught:
        read_config(str(path))
    return [line.split(". ", 1)[1] for line in caught.value.message.splitlines()[1:]]


def test_every_field(project):
    project.write("tools/gcc.json", json.dumps({"compiler": [{"resource_type": "Aarch", "toolchain": "aarch64-g++"}]}))
    project.write("src/CMakeLists.txt", "")
    pool = {"total_size": 2 << 20, "blk_size": 256, "max_buf_size": 8192, "page_type": "normal"}
    config = read_config(str(project.configure(
        func_list=[
            {"func_name": "scale", "inputs_index": [1], "outputs_index": [0]},
            {"func_name": "merge", "inputs_index": [2, 0], "outputs_index": [0, 1], "stream_input": True},
        ],
        input_num=3, output_num=2, cmakelist_path="src/CMakeLists.txt", compiler="tools/gcc.json",
        running_resources_info=[{"type": "cpu", "num": 2}, {"type": "memory", "num": 256}], heavy_load=True,
        visible_device_enable=True, buf_cfg=[pool],
    )))
    assert config.functions == (
        FuncSpec("scale", (1,), (0,)), FuncSpec("merge", (2, 0), (0, 1), stream_input=True, n_mapping=True),
    )
    assert (config.input_num, config.output_num, config.target, config.cpu) == (3, 2, "scale", 2)
    assert config.cmakelist == str(project.folder / "src" / "CMakeLists.txt")
    assert config.toolchains == {"Aarch": "aarch64-g++"} and config.resources == {"memory": 256}
    assert config.heavy_load and config.visible_device_enable and config.pools == (BufferPool(**pool),)


def test_one_function_owns_what_it_does_not_name(project):
    config = read_config(str(project.configure(input_num=2, output_num=3)))
    assert config.functions == (FuncSpec("scale", (0, 1), (0, 1, 2)),)


def test_ready_made_functions_need_no_sources(project):
    config = read_config(str(project.configure(workspace=None, target_bin=None, built_in_flow_func=True)))
    assert config.is_builtin


def test_all_faults_at_once_with_nearest_names(project):
    found = faults(project.configure(
        workspace=None, target_bin="scale.so", imput_num=1, input_num="1", heavy_load=1,
        func_list=[{"func_name": "scale", "stream_inputs": True}],
    ))
    assert found == [
        "imput_num: unknown field; did you mean 'input_num'?",
        'input_num: expected a whole number from 0, got "1"',
        "func_list[0].stream_inputs: unknown field; did you mean 'stream_input'?",
        "workspace: missing; expected a text",
        "target_bin: expected a name such as libscale.so, got 'scale.so'",
        "heavy_load: expected true or false, got 1",
    ]


POOL = {"total_size": 4096, "blk_size": 4, "max_buf_size": 8, "page_type": "normal"}
TWO = [{"func_name": "a", "inputs_index": [0]}, {"func_name": "b", "inputs_index": [1]}]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"func_list": None}, "func_list: missing; expected a list of objects"),
        ({"func_list": []}, "func_list: expected a list with something in it, got an empty one"),
        ({"func_list": ["scale"]}, 'func_list[0]: expected an object, got "scale"'),
        ({"func_list": [TWO[0], TWO[0]]}, "input 0 is used 2 times, by 'a', 'a'; expected one function"),
        ({"func_list": [TWO[0], TWO[0]]}, "'a' is there 2 times; expected it once"),
        ({"func_list": TWO, "input_num": 3}, "no function uses input 2; expected all 3 (input_num) to be used"),
        ({"func_list": TWO}, "func_list[1].inputs_index: expected numbers below input_num (1), got 1"),
        ({"func_list": [TWO[0], {"func_name": "b"}]}, "func_list[1].inputs_index: missing; with 2 functions"),
        ({"func_list": [{"func_name": "a", "inputs_index": [-1]}]}, "expected whole numbers from 0, got -1"),
        ({"func_list": [{"func_name": "a", "outputs_index": [0, 0]}]}, "expected each output once, got [0, 0]"),
        ({"func_list": [{"func_name": ""}]}, "func_list[0].func_name: expected a text, got an empty one"),
        ({"input_num": True}, "input_num: expected a whole number from 0, got true"),
        ({"output_num": -1}, "output_num: expected a whole number from 0, got -1"),
        ({"input_num": 10**9}, "input_num: expected at most 65536, got 1000000000"),
        ({"running_resources_info": [{"type": "cpu"}]}, "running_resources_info[0].num: missing"),
        ({"running_resources_info": [{"type": "num_npus", "num": 2}]}, "expected 1 for num_npus, got 2"),
        ({"buf_cfg": [{**POOL, "blk_size": 3}]}, "power of two"),
        ({"buf_cfg": [{**POOL, "total_size": 100}]}, "a page (4096)"),
        ({"buf_cfg": [{**POOL, "page_type": "large"}]}, "normal or huge"),
        ({"buf_cfg": [{**POOL, "max_buf_size": 2}]}, "below total_size"),
        ({"buf_cfg": [POOL, POOL]}, "expected more than the 8 of the entry before it, got 8"),
    ],
)
def test_a_fault_says_where_it_is_and_what_was_expected(project, changes, text):
    assert any(text in fault for fault in faults(project.configure(**changes)))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "is no JSON"), (b"[]", "should be an object, got []"), (b"\xff\xfe", "is no JSON"),
        (b'{"a":' * 100000, "is no JSON"),
    ],
)
def test_what_is_no_json_object(tmp_path, content, text):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(CompileError, match=re.escape(text)):
        read_config(str(path))


def test_a_missing_file(tmp_path):
    with pytest.raises(CompileError, match="no such file; expected the function compile config"):
        read_config(str(tmp_path / "none.json"))


def test_a_wrong_toolchain_file_is_an_error(project):
    project.write("tools.json", json.dumps({"compiler": [{"resource_type": "Sparc", "toolchain": "cc"}], "x": 1}))
    with pytest.raises(CompileError) as caught:
        read_config(str(project.configure(compiler="tools.json")))
    assert "x: unknown field" in caught.value.message and "X86, Aarch, Ascend, got 'Sparc'" in caught.value.message


def test_a_relative_workspace_counts_from_the_file_then_from_the_current_folder(project, monkeypatch):
    assert read_config(str(project.configure(workspace="."))).workspace == str(project.folder)
    monkeypatch.chdir(project.folder.parent)
    assert read_config(str(project.configure(workspace=project.folder.name))).workspace == str(project.folder)


def test_missing_sources_are_told_apart(project):
    with pytest.raises(CompileError, match="there is no folder .*nowhere"):
        check_sources(read_config(str(project.configure(workspace="nowhere"))))
    with pytest.raises(CompileError, match="there is no .*deep/CMakeLists"):
        check_sources(read_config(str(project.configure(cmakelist_path="deep/CMakeLists.txt"))))
