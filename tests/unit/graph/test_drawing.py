"""Pictures as text, whatever the names are."""

from __future__ import annotations

import re

import pytest

from dflow_core.graph import (
    CountBatch,
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowNode,
    Framework,
    GraphProcessPoint,
)
from dflow_core.types import DataType, TensorSpec
from tests.unit.graph.kit import func

NASTY = ['a"b', "a'b", "a]b", "<b>x</b>", "a|b", "a;b", "end", "模型", "back\\slash", "#35;", "a{b}", "`x`", "-->"]


def small() -> FlowGraph:
    x = FlowData("image", TensorSpec(DataType.UINT8, (-1, -1, 3)))
    split = func(1, 2, name="split").set_options(instances=2)
    join = GraphProcessPoint(Framework.ONNX, "/join.onnx").fnode(2, 1)
    join.map_input(0, join.point, 0, [CountBatch(4)])
    join.map_input(1, join.point, 1, [CountBatch(4)])
    a, b = split(x)
    return FlowGraph([join(b, a)], name="g")


def test_mermaid_shows_inputs_nodes_edges_and_outputs():
    assert small().to_mermaid().splitlines() == [
        "flowchart LR",
        '  i1(["image<br/>uint8#91;?, ?, 3#93;"])',
        '  n2["split<br/>function x2"]',
        '  n3["join<br/>onnx model"]',
        '  o4(["join"])',
        "  i1 --> n2",
        '  n2 -->|"1 → 0 CountBatch(4)"| n3',
        '  n2 -->|"0 → 1 CountBatch(4)"| n3',
        "  n3 --> o4",
    ]


def test_dot_shows_the_same():
    assert small().to_dot().splitlines() == [
        'digraph "g" {',
        "  rankdir=LR;",
        '  i1 [shape=ellipse, label="image\\nuint8[?, ?, 3]"];',
        '  n2 [shape=box, label="split\\nfunction x2"];',
        '  n3 [shape=box, label="join\\nonnx model"];',
        '  o4 [shape=ellipse, label="join"];',
        "  i1 -> n2;",
        '  n2 -> n3 [label="1 → 0 CountBatch(4)"];',
        '  n2 -> n3 [label="0 → 1 CountBatch(4)"];',
        "  n3 -> o4;",
        "}",
    ]


def test_the_text_is_a_table_of_nodes_and_what_feeds_them():
    assert str(small()).splitlines() == [
        "g: 1 inputs, 2 nodes, 1 outputs",
        "  input   image  uint8[?, ?, 3]",
        "  node    split  function x2     <- image",
        "  node    join   onnx model      <- split:1 CountBatch(4), split:0 CountBatch(4)",
        "  output  join",
    ]


def test_what_a_function_calls_is_drawn_beside_it_with_dotted_lines_there_and_back():
    caller = func(name="f")
    caller.point.add_invoked_closure("model", GraphProcessPoint(Framework.ONNX, "/m.onnx"))
    caller.point.add_invoked_closure("graph", FlowGraph([func(name="a")(FlowData("p"))], name="inner"))
    graph = FlowGraph([caller(FlowData("x"))], name="g")
    mermaid = graph.to_mermaid().splitlines()
    assert mermaid[2:] == [
        '  n2["f<br/>function calls model, graph"]',
        '  n3["model<br/>onnx model"]',
        '  subgraph n4["graph"]',
        '    i5(["p"])',
        '    n6["a<br/>function"]',
        "  end",
        '  o7(["f"])',
        '  n2 -.->|"calls"| n3',
        "  n3 -.-> n2",
        "  i5 --> n6",
        '  n2 -.->|"calls"| i5',
        "  n6 -.-> n2",
        "  i1 --> n2",
        "  n2 --> o7",
    ]
    assert '  n2 -> n3 [label="calls", style=dashed];' in graph.to_dot().splitlines()


@pytest.mark.parametrize("name", NASTY)
def test_names_cannot_break_out_of_their_labels(name):
    graph = FlowGraph([func(name=name)(FlowData(name))], name=name)
    mermaid = graph.to_mermaid()
    for label in re.findall(r'\["(.*)"\]', mermaid):
        assert re.fullmatch(r"(?:[\w _\-./:,→()=?+]|#\d+;|<br/>)*", label), label
    back = {re.sub(r"#(\d+);", lambda m: chr(int(m[1])), text) for text in re.findall(r'\["(.*?)<br/>', mermaid)}
    assert name in back
    for line in graph.to_dot().splitlines():
        assert len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0, line


def test_nested_graphs_are_drawn_as_boxes_and_edges_go_to_their_inside():
    inner = FlowGraph([func(name="leaf")(FlowData("x"))], name="inner")
    node = FlowGraphProcessPoint(inner).fnode(1, 1, "box")
    graph = FlowGraph([func(name="after")(node(FlowData("y")))])
    lines = [line.strip() for line in graph.to_mermaid().splitlines()]
    start, end = lines.index('subgraph n2["box"]'), lines.index("end")
    assert lines[start + 1 : end] == ['i3(["x"])', 'n4["leaf<br/>function"]']
    assert {"i3 --> n4", "i1 --> i3", "n4 --> n5"} <= set(lines)
    assert 'subgraph cluster_n2 {' in graph.to_dot()


def test_a_faulty_graph_is_drawn_too():
    node = FlowNode(3, 1, "n")
    node.wire([FlowData("x")], [1], [])
    graph = FlowGraph([*node.outputs, func(name="m")(node.outputs[0])])
    assert "no process point" in graph.to_mermaid()
    assert "nothing, x, nothing" in str(graph)
    loop = func(1, 1, name="loop")
    loop(loop.outputs[0])
    assert "n1 --> n1" in FlowGraph(loop.outputs).to_mermaid()


def test_a_nested_graph_without_the_right_ports_is_drawn():
    inner = FlowGraph([func(name="leaf")(FlowData("x"))], name="inner")
    node = FlowGraphProcessPoint(inner).fnode(2, 2, "box")
    drawing = FlowGraph(node(FlowData("a"), FlowData("b"))).to_dot()
    assert drawing.count("->") >= 4


def test_notebooks_get_text_markdown_and_mermaid():
    graph = small()
    shown = graph._repr_mimebundle_()
    assert shown["text/plain"] == str(graph)
    assert shown["text/markdown"] == f"```mermaid\n{graph.to_mermaid()}```\n"
    assert shown["text/vnd.mermaid"] == graph.to_mermaid()
