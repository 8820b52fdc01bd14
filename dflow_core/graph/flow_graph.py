"""A graph: nodes, found by walking back from its outputs."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypeAlias

from dflow_core.errors import Fault, OptionError, UsageError
from dflow_core.graph.alignment import checked_alignment, checked_flag, contains_n_mapping
from dflow_core.graph.arguments import flat
from dflow_core.graph.check_types import Describe
from dflow_core.graph.drawing import to_dot, to_mermaid, to_text
from dflow_core.graph.flow_data import FlowData
from dflow_core.graph.names import settle
from dflow_core.graph.node import FlowNode, FlowOutput
from dflow_core.graph.validation import graph_faults

Outputs: TypeAlias = FlowOutput | tuple[FlowOutput, ...] | None
"""What calling a node gives."""


class FlowGraph:
    """What the user wants run, as data.

    Nodes and inputs are found by walking back from the outputs; what no output needs does not belong to the graph.
    Automatic names become final here.

    Args:
        outputs: What the caller fetches, in this order.
        options: Options of the graph, see `dflow_core.options`.
        name: Name of the graph.

    Raises:
        UsageError: `outputs` is not a sequence of FlowOutput, or an option or the name is no text.
    """

    def __init__(
        self, outputs: Sequence[Outputs] | Outputs, options: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        given = flat([outputs] if isinstance(outputs, FlowOutput) or outputs is None else outputs)
        wrong = [type(output).__name__ for output in given if not isinstance(output, FlowOutput)]
        if wrong:
            raise UsageError(
                f"outputs: expected FlowOutput, got {wrong[0]}",
                hint="give what calling a node returned, such as FlowGraph([node(x)])",
            )
        self.outputs = tuple(output for output in given if isinstance(output, FlowOutput))
        if name is not None and (not isinstance(name, str) or not name):
            raise UsageError(f"the name of a graph must be a text that is not empty, got {name!r}")
        self.name = "FlowGraph" if name is None else name
        if not hasattr(options or {}, "items"):
            raise OptionError(f"options of a graph: expected values by name, got {options!r}")
        self.options: dict[str, str] = dict(options or {})
        found, inputs = _walk(self.outputs)
        settle(node._name for node in found)
        settle((data._name for data in inputs), sortable=True)
        self.nodes = _in_order(found)
        self.inputs = tuple(sorted(inputs, key=lambda data: data.name))

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, sorted; positional feeding follows this order."""
        return tuple(data.name for data in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs in the user's order: `<node>` for a node with one output, else `<node>:<index>`."""
        return tuple(output.name for output in self.outputs)

    def set_inputs_align_attrs(
        self, max_cache_num: int, timeout: float | timedelta | None = None, drop: bool = False
    ) -> None:
        """Limit how long parts that belong together wait for each other: at nodes with several inputs, and at fetch.

        Args:
            max_cache_num: Incomplete sets kept at each place, up to 1024; of more the lowest transaction is given up.
                0 puts no limits in force.
            timeout: Seconds (or a timedelta) after which an incomplete set is given up, up to 600; None is never.
            drop: Whether what is given up is dropped. Else a function is called with what there is (a low-level one
                gets a null message with code 364000 for what is missing, another one None), and fetching raises an
                error that holds the outputs there are.

        Raises:
            OptionError: a value it cannot have.
        """
        self.options |= checked_alignment(max_cache_num, timeout, drop)

    def set_exception_catch(self, enable: bool = False) -> None:
        """Let functions raise exceptions that every other function is told of (`raise_exception`).

        Needs limits set with `set_inputs_align_attrs`, and goes with neither batches nor functions that take queues.

        Args:
            enable: Whether they may.
        """
        self.options["exception_catch"] = checked_flag("exception_catch", enable)

    def set_contains_n_mapping_node(self, contains_n_mapping: bool) -> None:
        """Declare that some node makes other than one output of one input; see `contains_n_mapping_node`.

        Args:
            contains_n_mapping: Whether there is one.
        """
        self.options["n_mapping"] = checked_flag("n_mapping", contains_n_mapping)

    @property
    def contains_n_mapping_node(self) -> bool:
        """Whether some node makes other than one output of one input: declared, or implied by batches, generators,
        functions that take queues, hand-written functions or the catching of exceptions.

        The CANN face honours a caller's transaction ids only then; `feed` always does.
        """
        return contains_n_mapping(self)

    def faults(self, describe: Describe | None = None) -> tuple[Fault, ...]:
        """Everything that is wrong with the graph and the graphs inside it; nothing is started.

        Args:
            describe: Says what a process point takes and gives, for a node with so many inputs and outputs; without it
                counts, dtypes and shapes of models are not checked.
        """
        return graph_faults(self, describe)

    def to_mermaid(self) -> str:
        """The graph as a Mermaid flowchart."""
        return to_mermaid(self)

    def to_dot(self) -> str:
        """The graph in the language of Graphviz."""
        return to_dot(self)

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self.nodes)} nodes)"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What notebooks show: the drawing where they know Mermaid, else the table."""
        mermaid = self.to_mermaid()
        return {
            "text/plain": str(self),
            "text/markdown": f"```mermaid\n{mermaid}```\n",
            "text/vnd.mermaid": mermaid,
        }


def _walk(outputs: Sequence[FlowOutput]) -> tuple[list[FlowNode], list[FlowData]]:
    nodes: dict[FlowNode, None] = {}
    inputs: dict[FlowData, None] = {}
    pending = [output.node for output in outputs]
    while pending:
        node = pending.pop()
        if node in nodes:
            continue
        nodes[node] = None
        for source in node.sources:
            if isinstance(source, FlowOutput):
                pending.append(source.node)
            elif source is not None:
                inputs[source] = None
    return list(nodes), list(inputs)


def _in_order(nodes: Sequence[FlowNode]) -> tuple[FlowNode, ...]:
    """Producers before consumers, else as created; nodes in or behind a cycle come last."""
    feeds: dict[FlowNode, set[FlowNode]] = {node: set() for node in nodes}
    waits: dict[FlowNode, int] = {}
    for node in nodes:
        producers = {source.node for source in node.sources if isinstance(source, FlowOutput)}
        waits[node] = len(producers)
        for producer in producers:
            feeds[producer].add(node)
    ready = [(node._name.order, i) for i, node in enumerate(nodes) if not waits[node]]
    heapq.heapify(ready)
    positions = {node: i for i, node in enumerate(nodes)}
    ordered: list[FlowNode] = []
    while ready:
        node = nodes[heapq.heappop(ready)[1]]
        ordered.append(node)
        for consumer in feeds[node]:
            waits[consumer] -= 1
            if not waits[consumer]:
                heapq.heappush(ready, (consumer._name.order, positions[consumer]))
    done = set(ordered)
    return (*ordered, *sorted((n for n in nodes if n not in done), key=lambda n: n._name.order))
