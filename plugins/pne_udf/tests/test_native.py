"""Between Python and the native runtime: parameters, versions, and what is refused before anything runs."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from types import SimpleNamespace

import pytest

from dflow_core.errors import DeployError, OptionError, PluginError
from dflow_core.model import InstancePlan, Route, UdfModel
from dflow_core.spi import FuncParams, GroupConfig, NativeTable, NodeLinks
from dflow_core.types import DataType, FuncSpec
from dflow_pne_udf.native import CppNode, LibraryPlace, seam
from dflow_pne_udf.native.attrs import pack_attrs

PLACE = LibraryPlace("/nowhere/libnone.so", "/nowhere", (FuncSpec("f", (0,), (0,)),))


def text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


@pytest.mark.parametrize(
    ("value", "packed"),
    [
        ("väl", b"\x01" + text("väl")),
        (-5, b"\x02" + struct.pack("<q", -5)),
        (1.5, b"\x03" + struct.pack("<f", 1.5)),
        (True, b"\x04\x01"),
        (DataType.INT64, b"\x05" + struct.pack("<i", 9)),
        (["a", "b"], b"\x06" + struct.pack("<I", 2) + text("a") + text("b")),
        ([1, 2], b"\x07" + struct.pack("<Iqq", 2, 1, 2)),
        ([0.5], b"\x08" + struct.pack("<If", 1, 0.5)),
        ([False, True], b"\x09" + struct.pack("<I", 2) + b"\x00\x01"),
        ([DataType.BOOL], b"\x0a" + struct.pack("<Ii", 1, 12)),
        ([[1], []], b"\x0b" + struct.pack("<I", 2) + struct.pack("<Iq", 1, 1) + struct.pack("<I", 0)),
    ],
)
def test_every_kind_of_parameter(value, packed):
    assert pack_attrs({"p": value}) == text("p") + packed


def test_what_is_no_parameter_is_refused():
    with pytest.raises(OptionError, match="'p' cannot be given to a C\\+\\+ function"):
        pack_attrs({"p": object()})


@pytest.mark.parametrize(
    ("source", "version"), [("unsigned dflow_udf_api(void) { return 99; }", "99"), ("", "another")]
)
def test_a_runtime_of_another_version_is_refused(tmp_path, source, version):
    file, library = tmp_path / "a.c", tmp_path / "libflow_func.so"
    file.write_text(f"{source}\nint unused;\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(file)], check=True)
    with pytest.raises(PluginError, match=f"speaks version {version} of the runtime interface, this package 1"):
        seam.runtime(library)


def test_a_runtime_that_does_not_load_says_why(tmp_path):
    broken = tmp_path / "libflow_func.so"
    broken.write_bytes(b"no library")
    with pytest.raises(PluginError, match=r"does not load: .*(invalid ELF header|file too short)"):
        seam.runtime(broken)


def opened(group: object, queue: str = "in") -> CppNode:
    plan = InstancePlan("cpp", 0, 1, "cpp", "cpu:0", 1, (queue,), ((Route(("out",)),),))
    node = CppNode(UdfModel(name="cpp", engine="UDF"), lambda: PLACE)
    node.open(NodeLinks(group, plan, FuncParams("cpp")))
    return node


@pytest.mark.parametrize(
    ("table", "words"),
    [(None, "need a transport that native code can use"), (NativeTable(1, 99, None), "of version 99, dflow's is 1")],
)
def test_a_transport_it_cannot_use(table, words):
    with pytest.raises(DeployError, match=words) as caught:
        opened(SimpleNamespace(native_table=lambda: table))
    assert caught.value.node == "cpp"


@pytest.fixture
def group():
    from dflow_core import builtin
    from dflow_core.plugins import load_plugins

    made = load_plugins((builtin,)).local_transport().factory().create_group(GroupConfig())
    made.create_queue("in", 4)
    made.create_queue("out", 4)
    yield made
    made.close()


def test_a_queue_that_is_not_there(group):
    with pytest.raises(DeployError, match="no queue 'elsewhere'"):
        opened(group, "elsewhere")


def test_a_library_that_is_not_there_is_told_with_the_loaders_text(group):
    with pytest.raises(DeployError, match="cannot open shared object file") as caught:
        opened(group)
    assert caught.value.node == "cpp" and caught.value.instance == 0


def test_a_closed_node_can_be_stopped_asked_and_closed_again(group):
    node = CppNode(UdfModel(name="cpp", engine="UDF"), lambda: PLACE)
    node.close()
    node.stop()
    node.close()
    assert (node.calls, node.busy, node.current) == (0, 0.0, None)


def test_the_structures_are_as_long_as_the_headers_say(tmp_path):
    from dflow_core.spi import include_dir
    from dflow_pne_udf import sdk_dir

    names = {
        "dflow_udf_config": seam.Config, "dflow_udf_stats": seam.Stats, "dflow_udf_failure": seam.FailureRecord,
        "dflow_udf_func": seam.Func, "dflow_udf_route": seam.RouteList, "dflow_udf_output": seam.Output,
        "dflow_udf_dead_part": seam.DeadPartRecord, "dflow_udf_notice": seam.Notice,
    }
    prints = "".join(f'printf("%zu ", sizeof(struct {name}));' for name in names)
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    source.write_text(
        '#include <stdio.h>\n#include "dflow/flow_func_runtime.h"\n#include "dflow/transport.h"\n'
        f'int main(void) {{ {prints} printf("%zu", offsetof(dflow_transport, queue_find)); return 0; }}\n'
    )
    folders = [f"-I{sdk_dir.root() / 'include'}", f"-I{include_dir()}"]
    subprocess.run(["cc", *folders, "-o", str(program), str(source)], check=True)
    said = [int(word) for word in subprocess.check_output([program], text=True).split()]
    assert said == [*map(ctypes.sizeof, names.values()), seam._TableHead.queue_find.offset]


def test_how_messages_are_shared_out_reaches_the_runtime(group):
    from dflow_pne_udf.native.node import _Configuration

    routes = (Route(("out",)), Route(("in", "out"), "sticky"), Route(("out", "in"), "load", 1))
    plan = InstancePlan("cpp", 0, 1, "cpp", "cpu:0", 1, ("in",), (routes,))
    model = UdfModel(name="cpp", engine="UDF", balance="gather")
    table = group.native_table()
    made = _Configuration(model, PLACE, NodeLinks(group, plan, FuncParams("cpp")), table.address)
    assert made.record.flags == seam.BALANCE_GATHER
    output = made.record.outputs[0]
    found = [output.routes[i] for i in range(output.n_routes)]
    assert [(route.n_queues, route.rule, route.spares) for route in found] == [(1, 0, 0), (2, 2, 0), (2, 3, 1)]
