"""Pictures of a graph as text: Mermaid, DOT and a table. Nested graphs are drawn as boxes around their nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dflow_core.graph.flow_data import FlowData
from dflow_core.graph.node import FlowNode, FlowOutput, GraphView, ProcessPoint, Source

_MERMAID = {"input": ('(["', '"])'), "node": ('["', '"]'), "output": ('(["', '"])')}
_DOT = {"input": "ellipse", "node": "box", "output": "ellipse"}


@dataclass(slots=True)
class _Box:
    """Something to draw: an input, a node, a result, or a nested graph with what is in it."""

    id: str
    kind: str
    lines: tuple[str, ...]
    inside: list[_Box] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Line:
    start: str
    end: str
    label: str
    is_call: bool = False


class _Picture:
    """Boxes and lines of a graph, before any language."""

    def __init__(self, graph: GraphView, max_depth: int = 8) -> None:
        self.lines: list[_Line] = []
        self._count = 0
        self.boxes, _, ends = self._draw(graph, max_depth)
        for output, end in zip(graph.outputs, ends):
            box = self._box("output", output.name)
            self.boxes.append(box)
            self._line(end, box.id, str(output.index) if output.node.output_num > 1 else "")

    def _box(self, kind: str, *lines: str) -> _Box:
        self._count += 1
        return _Box(f"{kind[0]}{self._count}", kind, lines)

    def _line(self, start: str, end: str, label: str) -> None:
        self.lines.append(_Line(start, end, label))

    def _draw(self, graph: GraphView, depth: int) -> tuple[list[_Box], list[str], list[str]]:
        """Boxes of a graph, and the ids that stand for its inputs and its outputs."""
        entries: dict[FlowData, str] = {}
        exits: dict[FlowOutput, str] = {}
        ports: dict[tuple[FlowNode, int], str] = {}
        boxes = []
        for data in graph.inputs:
            box = self._box("input", data.name, *([str(data.schema)] if data.schema else []))
            entries[data] = box.id
            boxes.append(box)
        for node in graph.nodes:
            box = self._node(node, depth, ports, exits)
            boxes.append(box)
            called = node.point.invoked.items() if node.point else ()
            boxes += [self._called(box, name, point, depth) for name, point in called]
        for node in graph.nodes:
            for i, source in enumerate(node.sources):
                start = entries.get(source) if isinstance(source, FlowData) else exits.get(source) if source else None
                if start is not None and source is not None:
                    self._line(start, ports[node, i], _edge_label(node, i, source))
        return boxes, [entries[data] for data in graph.inputs], [exits.get(output, "") for output in graph.outputs]

    def _node(
        self, node: FlowNode, depth: int, ports: dict[tuple[FlowNode, int], str], exits: dict[FlowOutput, str]
    ) -> _Box:
        inner = node.point.nested if node.point else None
        box = self._box("node", node.name, _what(node))
        starts, ends = [box.id] * node.input_num, [box.id] * node.output_num
        if inner is not None and depth > 1 and inner.nodes:
            box.kind = "graph"
            box.inside, inputs, outputs = self._draw(inner, depth - 1)
            starts = [inputs[i] if i < len(inputs) else inputs[0] if inputs else box.id for i in node.point_inputs()]
            ends = [outputs[i] if i < len(outputs) else box.id for i in node.point_outputs()]
        ports.update(((node, i), start) for i, start in enumerate(starts))
        exits.update(zip(node.outputs, ends))
        return box

    def _called(self, caller: _Box, name: str, point: ProcessPoint, depth: int) -> _Box:
        """What a function calls: a graph with what is in it, or a model; dotted lines go there and back."""
        inner = point.nested
        box = self._box("node", name, point.caption())
        starts, ends = [box.id], [box.id]
        if inner is not None and depth > 1 and inner.nodes:
            box.kind = "graph"
            box.inside, starts, ends = self._draw(inner, depth - 1)
        self.lines += [_Line(caller.id, start, "calls", is_call=True) for start in dict.fromkeys(starts)]
        self.lines += [_Line(end, caller.id, "", is_call=True) for end in dict.fromkeys(ends)]
        return box


def to_mermaid(graph: GraphView) -> str:
    """The graph as a Mermaid flowchart."""
    picture = _Picture(graph)
    drawn = {box.id for box in _all(picture.boxes)}
    lines = ["flowchart LR", *_mermaid_boxes(picture.boxes, "  ")]
    for line in picture.lines:
        if line.start in drawn and line.end in drawn:
            label = f'|"{_mermaid_text(line.label)}"|' if line.label else ""
            lines.append(f"  {line.start} {'-.->' if line.is_call else '-->'}{label} {line.end}")
    return "\n".join(lines) + "\n"


def to_dot(graph: GraphView) -> str:
    """The graph in the language of Graphviz."""
    picture = _Picture(graph)
    drawn = {box.id for box in _all(picture.boxes)}
    lines = [f"digraph {_dot_text(graph.name)} {{", "  rankdir=LR;", *_dot_boxes(picture.boxes, "  ")]
    for line in picture.lines:
        if line.start in drawn and line.end in drawn:
            given = [f"label={_dot_text(line.label)}"] if line.label else []
            given += ["style=dashed"] if line.is_call else []
            attributes = f" [{', '.join(given)}]" if given else ""
            lines.append(f"  {line.start} -> {line.end}{attributes};")
    return "\n".join([*lines, "}"]) + "\n"


def to_text(graph: GraphView) -> str:
    """The graph as a table: one line a node, with what feeds each input."""
    rows = [("input", data.name, str(data.schema or ""), "") for data in graph.inputs]
    for node in graph.nodes:
        feeds = ", ".join(_fed_by(node, i, source) for i, source in enumerate(node.sources))
        rows.append(("node", node.name, _what(node), f"<- {feeds}" if feeds else ""))
    rows += [("output", output.name, "", "") for output in graph.outputs]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    lines = [f"{graph.name}: {len(graph.inputs)} inputs, {len(graph.nodes)} nodes, {len(graph.outputs)} outputs"]
    for row in rows:
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths))
        lines.append(f"  {cells}  {row[3]}".rstrip())
    return "\n".join(lines)


def _all(boxes: Sequence[_Box]) -> Iterator[_Box]:
    for box in boxes:
        yield box
        yield from _all(box.inside)


def _what(node: FlowNode) -> str:
    """What a node does, in a few words."""
    if node.point is None:
        return "no process point"
    words = node.point.caption()
    names = [function.name for function in node.point.functions if function.name and function.name != node.name]
    if names:
        words += f" {', '.join(names)}"
    if node.options.instances > 1:
        words += f" x{node.options.instances}"
    if node.point.invoked:
        words += f" calls {', '.join(node.point.invoked)}"
    return words


def _edge_label(node: FlowNode, port: int, source: Source) -> str:
    start = str(source.index) if isinstance(source, FlowOutput) and source.node.output_num > 1 else ""
    end = str(port) if node.input_num > 1 else ""
    label = f"{start} → {end}" if start and end else start or end
    return " ".join([label, *(str(batch) for batch in node.batching(port))]).strip()


def _fed_by(node: FlowNode, port: int, source: Source | None) -> str:
    words = "nothing" if source is None else source.name
    return " ".join([words, *(str(batch) for batch in node.batching(port))])


def _mermaid_boxes(boxes: Sequence[_Box], indent: str) -> Iterator[str]:
    for box in boxes:
        if box.kind == "graph":
            yield f'{indent}subgraph {box.id}["{_mermaid_text(box.lines[0])}"]'
            yield from _mermaid_boxes(box.inside, indent + "  ")
            yield f"{indent}end"
        else:
            left, right = _MERMAID[box.kind]
            yield f"{indent}{box.id}{left}{'<br/>'.join(map(_mermaid_text, box.lines))}{right}"


def _dot_boxes(boxes: Sequence[_Box], indent: str) -> Iterator[str]:
    for box in boxes:
        if box.kind == "graph":
            yield f"{indent}subgraph cluster_{box.id} {{"
            yield f"{indent}  label={_dot_text(box.lines[0])};"
            yield from _dot_boxes(box.inside, indent + "  ")
            yield f"{indent}}}"
        else:
            label = _dot_text("\n".join(box.lines))
            yield f"{indent}{box.id} [shape={_DOT[box.kind]}, label={label}];"


def _mermaid_text(text: str) -> str:
    """Text as Mermaid takes it anywhere: letters, digits and some signs as they are, the rest by number."""
    return "".join(c if c.isalnum() or c in " _-./:,→()=?+" else f"#{ord(c)};" for c in text)


def _dot_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
