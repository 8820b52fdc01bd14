from __future__ import annotations

import json
from pathlib import Path

import pytest

from dflow_core.deploy.planning.deploy_info import DeployInfo, read_deploy_info
from dflow_core.deploy.planning.device_ids import in_order, parse_device_list, parse_device_option
from dflow_core.deploy.planning.json_file import lines_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0:0:1", ["0:0:1:0"]),
        ("0:0:1:2,0:1:0", ["0:0:1:2", "0:1:0:0"]),
        ("0:0:0,0:0:0", ["0:0:0:0", "0:0:0:0"]),
        ("0:0:-1:0", ["0:0:-1:0"]),
        ("00:0:07", ["0:0:7:0"]),
        ("0:0:0:0~3:0", None),
        ("0:0:0~2", ["0:0:0:0", "0:0:1:0", "0:0:2:0"]),
        ("0:0:0~1:0,0:0:3", ["0:0:0:0", "0:0:1:0", "0:0:3:0"]),
        ("0:0~1:0~1", ["0:0:0:0", "0:0:1:0", "0:1:0:0", "0:1:1:0"]),
    ],
)
def test_lists_of_devices(text, names):
    if names is None:
        with pytest.raises(ValueError, match="no logical device"):
            parse_device_list(text)
    else:
        assert parse_device_list(text) == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"), ("0:0", "cluster:server:device"), ("0:0:1-3", "written with ~"), ("0:0:3~1", "write 1~3"),
        ("0:0:0, 0:0:1", "blanks"), ("[0:0:0]", "no logical device"), ("0:0:0,", "no logical device"),
        ("0:0:123456", "no logical device"), ("0:0:0~40000", "above 32767"), ("0:0~300:0~300", "more than 65535"),
        ("0:0:0:0:0~1", "no logical device"), ("a:b:c", "no logical device"),
    ],
)
def test_what_is_no_list_of_devices_is_told_apart(text, why):
    with pytest.raises(ValueError, match=why):
        parse_device_list(text)


def test_the_simple_form_may_have_brackets_and_blanks_and_two_numbers():
    assert parse_device_option("[0:0:1, 0:0:-1:0]") == ["0:0:1:0", "0:0:-1:0"]
    assert parse_device_option("[0:1, 0:2]") == ["0:0:0:1", "0:0:0:2"]
    with pytest.raises(ValueError, match="logic_device_list only"):
        parse_device_option("0:0:0~1")


def test_devices_are_sorted_by_their_numbers():
    assert in_order(["0:0:10:0", "0:0:9:0", "0:0:-1:0"]) == ["0:0:-1:0", "0:0:9:0", "0:0:10:0"]


def test_every_value_of_a_file_has_its_line():
    text = '{"a": [\n{"b": 1,\n "c,\\"]": [[2],\n3]}],\n"d":\n{"e": null}}'
    assert lines_of(text) == {
        "": 1, "a": 1, "a[0]": 2, "a[0].b": 2, 'a[0].c,"]': 3, 'a[0].c,"][0]': 3, 'a[0].c,"][0][0]': 3,
        'a[0].c,"][1]': 4, "d": 6, "d.e": 6,
    }


def read(tmp_path: Path, content: object) -> DeployInfo:
    path = tmp_path / "deploy.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return read_deploy_info(str(path))


def test_a_deploy_file_says_where_nodes_run(tmp_path):
    info = read(tmp_path, {
        "batch_deploy_info": [
            {"flow_node_list": ["a", "b"], "logic_device_list": "0:0:0~1:0", "unknown": 1},
            {
                "flow_node_list": ["c"], "logic_device_list": "0:0:2", "redundant_logic_device_list": "0:0:3",
                "invoke_list": [
                    {"invoke_name": "net", "logic_device_list": "0:0:3"},
                    {"invoke_name": "graph", "deploy_info_file": "inner.json"},
                ],
            },
        ],
        "deploy_info": [{"flow_node_name": "d", "logic_device_id": "[0:0:-1:0]"}],
        "keep_logic_device_order": True,
        "dynamic_schedule_enable": True,
    })
    assert info.file.faults == []
    assert {one.node: (one.devices, one.spares) for one in info.assignments} == {
        "a": (("0:0:0:0", "0:0:1:0"), ()), "b": (("0:0:0:0", "0:0:1:0"), ()), "c": (("0:0:2:0",), ("0:0:3:0",)),
        "d": (("0:0:-1:0",), ()),
    }
    assert (info.dynamic, info.keeps_order) == (True, True)
    net, graph = info.assignments[-1].invocations
    assert (net.name, net.devices, net.file) == ("net", ("0:0:3:0",), "")
    assert graph.file == str(tmp_path / "inner.json")


def test_spare_devices_count_only_with_dynamic_scheduling(tmp_path):
    entry = {"flow_node_list": ["c"], "logic_device_list": "0:0:2", "redundant_logic_device_list": "0:0:3"}
    assert read(tmp_path, {"batch_deploy_info": [entry]}).assignments[0].spares == ()


NODE = '{"batch_deploy_info": [{"flow_node_list": ["a"], "logic_device_list": "0:0:0"}]}'


@pytest.mark.parametrize("content", [NODE.encode("utf-8-sig"), NODE.replace(": ", ":\r\n\t").encode()])
def test_a_mark_in_front_returns_and_tabs_do_no_harm(tmp_path, content):
    """BC-101: byte order marks, CRLF and tabs."""
    info = read(tmp_path, content)
    assert info.file.faults == [] and info.assignments[0].node == "a"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"batch_deploy_info": [\n// first\n]}', ["[syntax]", "line 2 column 1", "a comment"]),
        (b'{"batch_deploy_info": [\n{},]}', ["[syntax]", "line 2", "no JSON"]),
        (b'{"batch\n":"\xff"}', ["[encoding]", "line 2", "save the file as UTF-8"]),
        (b"[]", ["[type]", "expected an object, got a list"]),
        (b"", ["[syntax]", "no JSON"]),
        (b'{"a": 1, "a": 2, "batch_deploy_info": []}', ["[duplicate]", "the key 'a' twice"]),
        (b"{}", ["[missing]", "no 'batch_deploy_info'"]),
        (b'{"batch_deploy_infos": []}', ["[missing]", "is 'batch_deploy_infos' meant to be it?"]),
    ],
)
def test_a_file_that_cannot_be_read_says_where(tmp_path, content, told):
    """BC-101: comments, encodings and syntax."""
    faults = read(tmp_path, content).file.faults
    assert len(faults) == 1
    for text in told:
        assert text in str(faults[0])


def test_a_missing_file_is_a_fault():
    fault, = read_deploy_info("/nowhere/deploy.json").file.faults
    assert str(fault) == "[unreadable] /nowhere/deploy.json: it cannot be read: No such file or directory"


def test_all_faults_of_a_file_are_told_at_once_with_line_and_key(tmp_path):
    """BC-101: duplicates, ranges, empty lists, wrong types."""
    info = read(tmp_path, """{"batch_deploy_info": [
        {"flow_node_list": ["a", "b", "a"], "logic_device_list": "0:0:3~1"},
        {"flow_node_list": [], "logic_device_list": ""},
        {"flow_node_list": ["c", 3], "logic_device_lists": "0:0:1"},
        {"flow_node_list": "d", "logic_device_list": "0:0:1"},
        {"flow_node_list": ["e"], "logic_device_list": "0:0:1", "redundant_logic_device_list": "x",
         "invoke_list": [{"invoke_name": "n", "logic_device_list": "0:0:0", "deploy_info_file": "f"},
                         {"invoke_name": "n"}]}],
        "dynamic_schedule_enable": "yes"}""")
    told = [(fault.kind, fault.port) for fault in info.file.faults]
    assert told == [
        ("type", "line 9, dynamic_schedule_enable"),
        ("devices", "line 2, batch_deploy_info[0].logic_device_list"),
        ("empty", "line 3, batch_deploy_info[1].logic_device_list"),
        ("empty", "line 3, batch_deploy_info[1].flow_node_list"),
        ("missing", "line 4, batch_deploy_info[2]"),
        ("type", "line 4, batch_deploy_info[2].flow_node_list[1]"),
        ("type", "line 5, batch_deploy_info[3].flow_node_list"),
        ("devices", "line 6, batch_deploy_info[4].redundant_logic_device_list"),
        ("invoke", "line 7, batch_deploy_info[4].invoke_list[0].deploy_info_file"),
        ("duplicate", "line 8, batch_deploy_info[4].invoke_list[1].invoke_name"),
        ("duplicate", "line 2, batch_deploy_info[0].flow_node_list[2]"),
    ]
    missing = next(fault for fault in info.file.faults if fault.kind == "missing")
    assert missing.hint == "is 'logic_device_lists' meant to be it?"
