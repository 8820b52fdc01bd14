"""Graphs survive bytes and files; broken ones are refused with a place."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflow_core.errors import ModelFormatError, PackagingError, PluginError, UsageError
from dflow_core.graph import (
    CountBatch,
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowNode,
    FlowOutput,
    Framework,
    FuncProcessPoint,
    GraphProcessPoint,
    ModelProcessPoint,
    OpaqueProcessPoint,
    ProcessPoint,
    TimeBatch,
    deserialize_graph,
    graph_fingerprint,
    load_graph,
    point_from_bytes,
    point_to_bytes,
    save_graph,
    serialize_graph,
)
from dflow_core.proto import graph_pb2 as pb
from dflow_core.proto import types_pb2
from dflow_core.types import DataType, FuncSpec, TensorSpec
from tests.unit.graph.kit import func

ABSOLUTE = "/models/det.onnx"


class ThirdParty(ProcessPoint):
    """A point of a kind that a plugin adds."""

    kind: ClassVar[str] = "acme"

    def __init__(self, text: str) -> None:
        super().__init__("third")
        self.text = text


@dataclass(frozen=True)
class Codec:
    """What a plugin registers for it."""

    to_bytes: object = staticmethod(lambda point: point.text.encode())
    from_bytes: object = staticmethod(lambda data: ThirdParty(data.decode()))


CODECS = {"acme": Codec()}


def state(graph: FlowGraph) -> object:
    """Everything a graph says, without identities."""
    numbers: dict[object, str] = {node: f"node {i}" for i, node in enumerate(graph.nodes)}
    numbers |= {data: f"input {i}" for i, data in enumerate(graph.inputs)}

    def source(item: object) -> object:
        return (numbers[item.node], item.index) if isinstance(item, FlowOutput) else numbers.get(item)

    def point(item: ProcessPoint | None) -> object:
        if item is None:
            return None
        facts = {k: v for k, v in vars(item).items() if not isinstance(v, FlowGraph)}
        return type(item), facts, item.functions, state(item.nested) if item.nested else None

    nodes = [
        (
            node.name, node.input_num, node.output_num, node.alias, [source(s) for s in node.sources],
            [(m.node_index, m.point_index, m.attrs) for m in (*node.input_maps, *node.output_maps)],
            dict(node.attrs), node.options, dict(node.queues), node.depth, point(node.point),
        )
        for node in graph.nodes
    ]
    data = [(d.name, d.schema) for d in graph.inputs]
    return graph.name, graph.options, data, nodes, [source(o) for o in graph.outputs]


# ------------------------------------------------------------------------------------------------------ round trips

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
SPECS = st.builds(
    TensorSpec, st.sampled_from(DataType), st.none() | st.lists(st.integers(-1, 2**40), max_size=4).map(tuple), TEXT
)
INT64 = st.integers(-(2**63), 2**63 - 1)
SCALARS = [TEXT, st.booleans(), INT64, st.floats(allow_nan=False), st.sampled_from(DataType)]
ROWS = st.lists(st.lists(INT64, max_size=3), max_size=3)
PARAMS = st.dictionaries(TEXT, st.one_of(*SCALARS, *(st.lists(s, max_size=3) for s in SCALARS), ROWS), max_size=3)
BATCHES = st.one_of(
    st.builds(TimeBatch, st.just(-1) | st.floats(0.001, 1e6), st.integers(-1, 5), st.booleans()),
    st.builds(CountBatch, st.integers(1, 99), st.just(0), st.floats(0, 1e6), st.booleans()),
)


@st.composite
def points(draw, inputs: int, outputs: int, depth: int = 0) -> ProcessPoint:
    kind = draw(st.sampled_from(["graph", "bytes", "func", "builtin", "model", "acme", *["nested"] * (depth < 2)]))
    if kind in ("graph", "bytes"):
        source = ABSOLUTE if kind == "graph" else draw(st.binary(max_size=20))
        point = GraphProcessPoint(
            draw(st.sampled_from(Framework)), source, draw(st.dictionaries(TEXT, TEXT, max_size=2)), "", draw(TEXT)
        )
        point.settings = draw(st.dictionaries(TEXT, TEXT, max_size=2))
        return point
    if kind == "model":
        return ModelProcessPoint("/models/whole.om", draw(TEXT))
    if kind == "acme":
        return ThirdParty(draw(TEXT))
    if kind == "nested":
        return FlowGraphProcessPoint(draw(graphs(depth + 1)), draw(TEXT))
    flags = st.booleans()
    spec = FuncSpec(draw(TEXT), tuple(range(inputs)), tuple(range(outputs)), *(draw(flags) for _ in range(5)))
    func = FuncProcessPoint("", draw(TEXT), package=draw(st.binary(max_size=20)), functions=[spec], builtin=draw(TEXT))
    for name, value in draw(PARAMS).items():
        func.set_init_param(name, value)
    return func


@st.composite
def graphs(draw, depth: int = 0) -> FlowGraph:
    data = st.builds(FlowData, st.none() | TEXT, st.none() | SPECS)
    sources: list[object] = draw(st.lists(data, min_size=1, max_size=2))
    for _ in range(draw(st.integers(1, 3))):
        inputs, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        node = FlowNode(inputs, outputs, draw(st.none() | TEXT))
        if draw(st.integers(0, 5)):
            node.add_process_point(draw(points(inputs, outputs, depth)))
        if node.point is not None and draw(st.booleans()):
            for port in range(inputs):
                node.map_input(port, node.point, inputs - 1 - port, draw(st.lists(BATCHES, max_size=1)))
        node.set_options(
            instances=draw(st.integers(1, 9)), env=draw(TEXT), call_timeout=draw(st.floats(0, 1e6)),
            depth=draw(st.integers(0, 9)),
        )
        if draw(st.booleans()):
            node.set_queue(outputs - 1, depth=draw(st.integers(0, 9)), overflow="drop_oldest")
        for name, value in draw(st.dictionaries(TEXT, st.booleans() | INT64 | TEXT, max_size=2)).items():
            node.set_attr(name, value)
        if draw(st.booleans()):
            node.set_alias(draw(TEXT))
        made = node(*[draw(st.sampled_from(sources)) for _ in range(inputs)])
        sources += made if isinstance(made, tuple) else [made]
    outputs = [s for s in sources if isinstance(s, FlowOutput)]
    chosen = draw(st.lists(st.sampled_from(outputs), min_size=1, max_size=3))
    return FlowGraph(chosen, draw(st.dictionaries(TEXT, TEXT, max_size=2)), draw(st.none() | TEXT.filter(bool)))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_a_graph_survives_bytes_unchanged_and_equal_graphs_give_equal_bytes(graph):
    data = serialize_graph(graph, CODECS)
    again = deserialize_graph(data, CODECS)
    assert state(again) == state(graph)
    assert serialize_graph(again, CODECS) == data
    assert set(again.faults()) == set(graph.faults())
    assert graph_fingerprint(again, CODECS) == graph_fingerprint(graph, CODECS)


def example() -> FlowGraph:
    x = FlowData("x", TensorSpec(DataType.FLOAT, (1, 3)))
    node = GraphProcessPoint(Framework.ONNX, ABSOLUTE, precision="bf16").fnode(1, 2)
    node.map_input(0, node.point, 0, [CountBatch(3)])
    a, b = node(x)
    inner = FlowGraph([func(2, name="inner")(FlowData("p"), FlowData("q"))], name="nested")
    return FlowGraph([FlowGraphProcessPoint(inner).fnode(2, 1)(b, a)], {"queue_depth": "3"}, "example")


def test_a_file_holds_the_same_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "模型 'x'.dflow"
    save_graph(example(), path)
    save_graph(example(), path)
    assert state(load_graph(path)) == state(example())
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(OSError):
        save_graph(example(), tmp_path / "missing" / "g")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError):
        save_graph(example(), folder)
    assert os.listdir(tmp_path) == ["folder"]


def test_equal_programs_give_equal_bytes_in_other_processes(root):
    code = (
        "from tests.unit.graph.test_serde import example\n"
        "from dflow_core.graph import serialize_graph\n"
        "import sys; sys.stdout.buffer.write(serialize_graph(example()))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=True, cwd=root, env=environment
    )
    assert done.stdout == serialize_graph(example())


def test_process_points_have_the_field_numbers_of_the_specification():
    numbers = {f.name: f.number for f in pb.ProcessPoint.DESCRIPTOR.fields}
    upstream = [
        "name", "type", "compile_cfg_file", "funcs", "graphs", "invoke_pps", "in_edges", "out_edges", "attrs",
        "is_built_in", "pp_extend_attrs",
    ]
    assert [numbers.pop(name) for name in upstream] == list(range(1, 12))
    assert min(numbers.values()) >= 100
    assert [(t.name, t.number) for t in pb.ProcessPoint.Type.DESCRIPTOR.values] == [
        ("FUNCTION", 0), ("GRAPH", 1), ("INNER", 2), ("FLOW_GRAPH", 3), ("INVALID", 4),
    ]


def test_edges_say_which_node_port_each_point_port_is_tied_to():
    node = func(2, 1, name="n")
    node.map_input(0, node.point, 1)
    node.map_input(1, node.point, 0)
    graph = FlowGraph([node(FlowData("x"), FlowData("y"))])
    message = pb.Graph.FromString(serialize_graph(graph)[20:])
    assert [(e.node_name, e.index) for e in message.nodes[0].point.in_edges] == [("n", 1), ("n", 0)]


# ------------------------------------------------------------------------------------------------------ third parties


def third() -> FlowGraph:
    return FlowGraph([ThirdParty("hello").fnode(1, 1)(FlowData("x"))])


def test_points_of_plugins_travel_by_the_functions_they_register():
    again = deserialize_graph(serialize_graph(third(), CODECS), CODECS)
    assert again.nodes[0].point.text == "hello"


def test_a_missing_plugin_is_named_when_writing_and_when_reading():
    with pytest.raises(PluginError, match="'acme'.*\n.*install"):
        serialize_graph(third())
    with pytest.raises(PluginError, match="'acme'"):
        deserialize_graph(serialize_graph(third(), CODECS))


def test_a_graph_can_be_looked_at_without_its_plugins_and_saved_unchanged():
    data = serialize_graph(third(), CODECS)
    graph = deserialize_graph(data, opaque=True)
    assert isinstance(graph.nodes[0].point, OpaqueProcessPoint)
    assert "acme" in str(graph)
    assert serialize_graph(graph) == data


def test_plugin_functions_that_raise_are_named():
    def boom(_: object) -> object:
        raise KeyError("boom")

    data = serialize_graph(third(), CODECS)
    with pytest.raises(PackagingError, match="'third' of kind 'acme' cannot be written: 'boom'"):
        serialize_graph(third(), {"acme": Codec(to_bytes=boom)})
    with pytest.raises(ModelFormatError, match="'third' of kind 'acme' cannot be read: 'boom'"):
        deserialize_graph(data, {"acme": Codec(from_bytes=boom)})


def test_single_points_travel_too():
    point = GraphProcessPoint(Framework.ONNX, ABSOLUTE, runtime="auto")
    again = point_from_bytes(point_to_bytes(point))
    assert vars(again) == vars(point)
    assert point_from_bytes(point_to_bytes(ThirdParty("a"), CODECS), CODECS).text == "a"
    with pytest.raises(ModelFormatError, match="process point"):
        point_from_bytes(b"\xff\xff")


# ------------------------------------------------------------------------------------------------------ broken input


def framed(message: pb.Graph) -> bytes:
    payload = message.SerializeToString()
    size = len(payload)
    checksum = zlib.crc32(payload, zlib.crc32(size.to_bytes(8, "little")))
    return struct.pack("<8sIQ", b"DFGRAPH1", checksum, size) + payload


def parsed() -> pb.Graph:
    return pb.Graph.FromString(serialize_graph(example())[20:])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_truncated_or_altered_file_is_refused_with_a_place(data):
    whole = serialize_graph(example())
    if data.draw(st.booleans()):
        broken = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        at = data.draw(st.integers(0, len(whole) - 1))
        broken = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    with pytest.raises(ModelFormatError, match=r"at byte \d+"):
        deserialize_graph(broken)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_message_behind_a_right_checksum_is_a_graph_or_refused(payload):
    size = len(payload)
    head = struct.pack("<8sIQ", b"DFGRAPH1", zlib.crc32(payload, zlib.crc32(size.to_bytes(8, "little"))), size)
    with pytest.raises(ModelFormatError):
        deserialize_graph(head + payload)


def edit(change) -> bytes:
    message = parsed()
    change(message)
    return framed(message)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: setattr(g, "version", 9), "expected version 1, got 9"),
        (lambda g: setattr(g, "name", ""), "name of a graph"),
        (lambda g: setattr(g.nodes[0], "input_num", 2**31), "node 'det': input_num: expected"),
        (lambda g: setattr(g.nodes[0], "input_num", 7), "wiring of node 'det': expected 7 inputs, got 1"),
        (lambda g: setattr(g.nodes[0].sources[0], "input", 5), "wiring of node 'det'"),
        (lambda g: setattr(g.nodes[1].sources[0].output, "node", 9), "wiring of node 'nested'"),
        (lambda g: setattr(g.nodes[0].point, "framework", 9), "node 'det': 9 is not a valid Framework"),
        (lambda g: setattr(g.nodes[0].options, "instances", 0), "node 'det': instances"),
        (lambda g: setattr(g.nodes[0].options, "call_timeout", float("nan")), "node 'det': call_timeout"),
        (lambda g: setattr(g.nodes[0].input_maps[0].attrs[0].count, "size", 0), "node 'det': CountBatch batch_size"),
        (lambda g: g.nodes[0].queues[9].CopyFrom(pb.Queue()), "node 'det': expected an output"),
        (lambda g: g.nodes[0].attrs["a"].CopyFrom(types_pb2.Value()), "node 'det': a value that is none"),
        (lambda g: g.nodes[0].attrs["a"].CopyFrom(types_pb2.Value(number=1)), "attribute 'a' of a type"),
        (lambda g: g.nodes[1].point.MergeFrom(pb.ProcessPoint(kind="model", graphs=["b"])), "without its path"),
        (lambda g: setattr(g.inputs[0].schema, "dtype", 99), "input 'x': 99 is not a valid DataType"),
        (lambda g: g.inputs.add(name="unused"), "no output needs"),
        (lambda g: g.outputs.add(node=99), "graph: "),
        (lambda g: setattr(g.nodes[1].point.flow_graph, "version", 3), "node 'nested': expected version 1, got 3"),
    ],
)
def test_wrong_content_is_refused_with_the_node_it_is_at(change, words):
    with pytest.raises(ModelFormatError) as error:
        deserialize_graph(edit(change))
    assert words in str(error.value)


def test_values_nested_without_end_are_refused():
    value = types_pb2.Value(integer=1)
    for _ in range(20):
        value = types_pb2.Value(list=types_pb2.ListValue(items=[value]))
    with pytest.raises(ModelFormatError, match="none"):
        deserialize_graph(edit(lambda g: g.nodes[0].attrs["a"].CopyFrom(value)))


def test_graphs_nested_without_end_are_refused_both_ways():
    graph = example()
    for _ in range(20):
        graph = FlowGraph([FlowGraphProcessPoint(graph).fnode(1, 1)(FlowData("x"))])
    with pytest.raises(UsageError, match="nested more than 16 deep"):
        serialize_graph(graph)
    message = parsed()
    for _ in range(20):
        outer = pb.Graph(version=1, name="g", inputs=[pb.Data(name="x")])
        outer.nodes.add(name="n", input_num=1, output_num=1, sources=[pb.Source(input=0)])
        outer.nodes[0].options.instances = 1
        outer.nodes[0].options.on_error = "continue"
        outer.nodes[0].point.kind = "flow_graph"
        outer.nodes[0].point.flow_graph.CopyFrom(message)
        outer.outputs.add(node=0)
        message = outer
    with pytest.raises(ModelFormatError):
        deserialize_graph(framed(message))


def test_the_place_of_a_broken_file_is_its_path(tmp_path):
    with pytest.raises(ModelFormatError, match="missing.dflow: cannot be read: No such file"):
        load_graph(tmp_path / "missing.dflow")
    (tmp_path / "other.dflow").write_bytes(b"PK\x03\x04" * 9)
    with pytest.raises(ModelFormatError, match=r"other.dflow: expected a graph.*at byte 0") as error:
        load_graph(tmp_path / "other.dflow")
    assert error.value.path == str(tmp_path / "other.dflow")


# ------------------------------------------------------------------------------------------------------ what cannot be


def test_graphs_with_faults_that_no_file_can_say_are_refused():
    node = func(name="n")
    graph = FlowGraph([node(FlowData("x"))])
    node(FlowData("late"))
    with pytest.raises(UsageError, match="after the graph had been built"):
        serialize_graph(graph)
    node.add_process_point(FuncProcessPoint(package=b"c"))
    with pytest.raises(UsageError, match="two process points"):
        serialize_graph(graph)


def test_other_faults_are_kept():
    node = func(2, 1, name="n")
    node.wire([FlowOutput(node, 5)], [0], [])
    graph = FlowGraph(node.outputs)
    assert deserialize_graph(serialize_graph(graph)).faults() == graph.faults()


def test_an_init_parameter_put_in_by_hand_that_cannot_travel_is_named():
    node = func(name="n")
    node.point.init_params["lock"] = object()
    with pytest.raises(PackagingError, match="init parameter 'lock'"):
        serialize_graph(FlowGraph([node(FlowData("x"))]))


def test_the_fingerprint_stands_for_pickled_code():
    def graph(package: bytes, fingerprint: str) -> FlowGraph:
        point = FuncProcessPoint("", "f", package=package, attrs={"fingerprint": fingerprint} if fingerprint else {})
        return FlowGraph([point.fnode(1, 1)(FlowData("x"))])

    assert graph_fingerprint(graph(b"a", "1")) == graph_fingerprint(graph(b"b", "1"))
    assert graph_fingerprint(graph(b"a", "1")) != graph_fingerprint(graph(b"a", "2"))
    assert graph_fingerprint(graph(b"a", "")) != graph_fingerprint(graph(b"b", ""))
