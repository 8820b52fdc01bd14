"""Models at run time, what compiling makes of a graph, the relation between its models, files, and limits.

Sections 3, 17 to 20, 26 to 28 of the notes on the run time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dataflow.settings import QUEUE_DEPTH
from dflow_core.compiler import lower
from dflow_core.graph import validation
from dflow_core.graph.alignment import MAX_CACHE, MAX_TIMEOUT
from dflow_core.graph.check_names import MAX_NAME
from dflow_core.message import HEAD_SIZE, USER_DATA_SIZE, FlowMsg
from dflow_core.message.tensor_desc import DESC_SIZE, MAX_RANK
from dflow_core.model import FlowModel
from dflow_core.model.om_file import PartitionType, inspect_om, read_om, write_om
from dflow_core.session import DFlowSession
from dflow_core.udf import MetaRunContext
from dflow_core.udf.balance import MAX_PARTS
from tests.semantics.rules import Rule, rules, shows
from tests.system.case_support import MODELS
from tests.unit.model.test_om_file import SMALL, assembled

F = np.array([1, 2, 3], np.float32)


@df.pyflow
def same(value):
    return value


class Coded:
    """Sends its input on, with the code it holds where that is below 0."""

    @df.proc_wrapper("i0,o0")
    def proc(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        tensor = inputs[0].get_tensor()
        if tensor is None:
            return context.set_output(0, context.alloc_empty_data_msg())
        out = context.alloc_tensor_msg(tensor.shape, tensor.dtype)
        out.get_tensor()[...] = tensor
        first = int(tensor.reshape(-1)[0])
        out.set_ret_code(9900000 - first if first < 0 else 0)
        return context.set_output(0, out)


class Sees:
    """Answers with the code, and whether there is a tensor."""

    @df.proc_wrapper("i0,o0")
    def proc(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        msg = inputs[0]
        return context.set_output(0, np.array([msg.get_ret_code(), msg.get_tensor() is not None]))


def node(cls: type, name: str) -> df.FlowNode:
    return df.FuncProcessPoint(py_func=cls).fnode(1, 1, name=name)


@pytest.fixture(scope="module", params=["inline", "process"])
def model(request: pytest.FixtureRequest) -> Iterator[df.FlowGraph]:
    """x and y pass a function that gives codes, are added by a model, and somebody sees what comes."""
    x, y = df.FlowData("x"), df.FlowData("y")
    add = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx").fnode(2, 1, name="add")
    with df.FlowGraph([node(Sees, "sees")(add(node(Coded, "a")(x), node(Coded, "b")(y)))], mode=request.param) as graph:
        yield graph


@rules(
    Rule("17", "Good inputs: the model runs.", (F, F), [0, 1]),
    Rule("17", "A code on an input: no run, empty outputs with that code.", (-F, F), [9900001, 0]),
    Rule("17", "A code on another input.", (F, -2 * F), [9900002, 0]),
    Rule("17", "Codes on two inputs: that of the first counts.", (-3 * F, -4 * F), [9900003, 0]),
    Rule("17", "Null data on an input: no run, empty outputs without a code.", (None, F), [0, 0]),
    Rule("17", "Null data on another input.", (F, None), [0, 0]),
    Rule("17", "A code goes before null data.", (-F, None), [9900001, 0]),
)
def test_what_models_do_with_their_inputs(model: df.FlowGraph, rule: Rule) -> None:
    x, y = rule.given  # type: ignore[misc]
    assert model(x, y, timeout=20).tolist() == rule.expected  # type: ignore[attr-defined]


@rules(
    Rule("17", "A run that fails: empty outputs with a code.", (np.zeros(5, np.float32), F), df.DflowError,
         "the transaction ends with an error, and the next one is good"),
    Rule("17", "Data of another type.", (F.astype(np.int32), F), df.DflowError,
         "the transaction ends with an error, and the next one is good"),
)
def test_models_that_cannot_run(model: df.FlowGraph, rule: Rule) -> None:
    with pytest.raises(rule.expected):  # type: ignore[call-overload]
        model(*rule.given, timeout=20)  # type: ignore[misc]
    assert model(F, F, timeout=20).tolist() == [0, 1]  # type: ignore[attr-defined]


# ----------------------------------------------------------------------------------------- passes and the relation

@pytest.fixture(scope="module")
def session() -> Iterator[DFlowSession]:
    with DFlowSession({"cache": "0"}) as made:
        yield made


def nested(depth: int) -> df.FlowGraph:
    graph = df.FlowGraph([same.fnode("in")(df.FlowData("x"))], name="g")
    for _ in range(depth - 1):
        graph = df.FlowGraph([df.FlowGraphProcessPoint(graph).fnode(1, 1, name="n")(df.FlowData("x"))], name="g")
    return graph


def batched() -> df.FlowGraph:
    made = same.fnode("b")
    made.map_input(0, made.point, 0, [df.CountBatch(2)])
    return df.FlowGraph([made(df.FlowData("x"))], name="g")


def parts() -> df.FlowGraph:
    """A node of which only one output is used, and one that nobody needs."""
    two = df.pyflow(num_returns=2)(lambda v: (v, v)).fnode("two")
    used, _unused = two(df.FlowData("x"))
    same.fnode("alone")(used)
    return df.FlowGraph([used], name="g")


def named(model: FlowModel) -> object:
    return {name: (side.inputs, side.outputs) for name, side in model.relation.submodels.items()}


@rules(
    Rule("19", "A batch is a node of its own in front: <node>__BuiltIn_CountBatch_<i>.",
         (batched, lambda m: list(m.submodels)), ["b__BuiltIn_CountBatch_0", "b"]),
    Rule("20", "Names: <graph>:<input>, <node>:<output>.", (parts, named), {"two": (("g:x",), ("two:0", "two:1"))}),
    Rule("20", "An output nobody reads has an endpoint too.",
         (parts, lambda m: {e.name: e.dummy for e in m.relation.endpoints}),
         {"g:x": False, "two:0": False, "two:1": True}),
    Rule("19", "Nodes that no output needs are taken out.", (parts, lambda m: list(m.submodels)), ["two"]),
    Rule("20", "Nodes of a graph in a graph: <scope>/<node>:<output>, joined by position.", (lambda: nested(3), named),
         {"n/n/in": (("g:x",), ("n/n/in:0",))}),
    Rule("28", "Graphs in graphs, 4 deep.", (lambda: nested(4), lambda m: list(m.submodels)), ["n/n/n/in"]),
    Rule("20", "Flattening, 16 deep.", (lambda: nested(16), lambda m: len(m.submodels)), 1),
)
def test_what_compiling_makes(session: DFlowSession, rule: Rule) -> None:
    make, look = rule.given  # type: ignore[misc]
    assert look(session.compile(make())) == rule.expected


def twins() -> df.FlowGraph:
    x = df.FlowData("x")
    inner = df.FlowGraph([same.fnode("b")(df.FlowData("y"))], name="i")
    around = df.FlowGraphProcessPoint(inner).fnode(1, 1, name="a")
    return df.FlowGraph([same.fnode("a/b")(x), around(x)], name="g")


def wrong_count() -> df.FlowGraph:
    return df.FlowGraph([df.FlowGraphProcessPoint(nested(1)).fnode(2, 1, name="n")(*[df.FlowData("x")] * 2)], name="g")


@rules(
    Rule("20", "Deeper than 16.", lambda: nested(17), "16"),
    Rule("20", "Two nodes get one name when graphs are made flat: the first wins.", twins, "one name",
         "refused: the other one would be lost"),
    Rule("20", "A node with other counts than the graph in it.", wrong_count, "expected 1 input"),
)
def test_graphs_that_are_refused(session: DFlowSession, rule: Rule) -> None:
    with pytest.raises(df.GraphError, match=str(rule.expected)):
        session.compile(rule.given())  # type: ignore[operator]


# ------------------------------------------------------------------------------------------------------ model files

@shows(
    Rule("27", "Partitions in order: the graph (0), the metadata (6), one for each submodel (7).", here="the same"),
    Rule("27", "The file holds the relation: what was written is what is read.", here="an equal model"),
    Rule("27", "The header begins with a magic number.", here="89 DFOM: the file is no file of CANN's, and says so"),
)
def test_a_file_of_a_compiled_graph(session: DFlowSession, tmp_path: Path) -> None:
    built = session.compile(batched())
    write_om(built, tmp_path / "g.om")
    found = inspect_om(tmp_path / "g.om")
    assert [kind.value for kind in PartitionType] == [0, 6, 7]
    assert [sub.partition.type.value for sub in found.submodels] == [7, 7]
    assert read_om(tmp_path / "g.om").relation == built.relation
    assert (tmp_path / "g.om").read_bytes()[:5] == b"\x89DFOM"


@rules(
    Rule("27", "An empty file.", lambda: b""),
    Rule("27", "Fewer than two partitions.", lambda: assembled([])),
    Rule("27", "A file that is cut off.", lambda: SMALL[:-1]),
    Rule("27", "A file with something behind it.", lambda: SMALL + b"x"),
    Rule("27", "A file of CANN's.", lambda: (0x444F4D49).to_bytes(4, "little") + bytes(1000)),
    Rule("27", "A byte that was changed.", lambda: SMALL[:-1] + bytes([SMALL[-1] ^ 1])),
)
def test_files_that_are_no_models(rule: Rule) -> None:
    with pytest.raises(df.ModelFormatError):
        read_om(rule.given())  # type: ignore[operator]


# ---------------------------------------------------------------------------------------------------------- caches

@shows(
    Rule("26", "The whole graph is found by its key alone: whoever changes something must delete files.",
         here="by content", differs="a cached graph is found by its key alone"),
)
def test_a_cache_notices_what_changed(tmp_path: Path) -> None:
    def states() -> list[str]:
        point = df.GraphProcessPoint(df.Framework.ONNX, tmp_path / "net.onnx")
        graph = df.FlowGraph([point.fnode(2, 1, name="net")(df.FlowData("x"), df.FlowData("y"))], {"graph_key": "key"})
        with DFlowSession({"cache_dir": str(tmp_path / "cache")}) as session:
            return [node.cache for node in session.build(graph)[1].nodes]

    net = tmp_path / "net.onnx"
    net.write_bytes((MODELS / "add_float.onnx").read_bytes())
    assert [states(), states()] == [["miss"], ["hit"]]
    net.write_bytes((MODELS / "add_dynamic.onnx").read_bytes())
    assert [states(), states()] == [["miss"], ["hit"]]


# ---------------------------------------------------------------------------------------------------------- limits

def defaults(name: str) -> Callable[[], object]:
    from dflow_core.options import Options

    return lambda: {field.name: field.default for field in dataclasses.fields(Options)}[name]


@rules(
    Rule("28", "Queue depth.", lambda: QUEUE_DEPTH, 128, "128 in `dataflow`, 16 in `dflow_core`"),
    Rule("28", "Bytes of a message's head.", lambda: HEAD_SIZE, 256),
    Rule("28", "Bytes of user data.", lambda: USER_DATA_SIZE, 64),
    Rule("28", "Bytes of a tensor's description.", lambda: DESC_SIZE, 1024),
    Rule("3", "Dimensions of a tensor.", lambda: MAX_RANK, 32),
    Rule("28", "Sets that alignment keeps.", lambda: MAX_CACHE, 1024),
    Rule("28", "Longest timeout of alignment, in seconds.", lambda: MAX_TIMEOUT, 600.0),
    Rule("28", "Places of a balance matrix.", lambda: MAX_PARTS, 65536),
    Rule("28", "Flattening of graphs.", lambda: (validation.MAX_NESTING, lower.MAX_DEPTH), (16, 16)),
    Rule("28", "Characters of a queue's name.", lambda: MAX_NAME, 127),
    Rule("28", "Seconds until a process that is to stop is killed.", defaults("stop_timeout"), 10.0),
    Rule("28", "Seconds an execution of a graph may take.", defaults("fetch_timeout"), 600.0),
)
def test_limits(rule: Rule) -> None:
    assert rule.given() == rule.expected  # type: ignore[operator]
