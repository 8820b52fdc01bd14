"""`map_each`: the elements of a list go through nodes one by one, and come back together in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

from dflow_core.errors import UsageError
from dflow_core.frontend.decorators import pyflow
from dflow_core.frontend.py_function import PyFunction
from dflow_core.graph import FlowData, FlowNode, FlowOutput


class NodeMaker(Protocol):
    """What `pyflow` makes of a function."""

    def fnode(self, name: str | None = None, **options: object) -> FlowNode:
        """A node that calls the function."""


Step: TypeAlias = FlowNode | NodeMaker | Callable[[FlowOutput], object]
"""What is done to each element: a node, a function made with `pyflow`, or a function that wires several nodes."""


@pyflow(name="split")
def split_items(items: Iterable[object]) -> Iterator[object]:
    """Each element of a list, or each row of an array."""
    yield from items


@pyflow(name="gather", gather=True)
def gather_items(parts: Sequence[object]) -> list[object]:
    """All that became of the elements, in their order."""
    return list(parts)


def map_each(
    source: FlowData | FlowOutput, *steps: Step, split: NodeMaker = split_items,
    gather: NodeMaker = gather_items, name: str = "",
) -> FlowOutput:
    """Work on each element of what comes: it is split, each element goes through the steps, and all are gathered.

    Elements of one transaction are worked on by all instances of a step at the same time, and come back in their order.
    No elements give an empty list. An element that fails ends its whole transaction with that error; one for which a
    step sends nothing (`choice_output`) is left out.

    Args:
        source: Input of the graph or output of a node that gives lists, tuples or arrays.
        steps: What is done to each element, one after the other: nodes with one input and one output, functions made
            with `pyflow`, or functions that take the output with the elements, wire nodes, and give their output.
        split: A generator function made with `pyflow`, for what cannot be iterated over.
        gather: A function made with `pyflow(gather=True)`, for what should not come back as a list.
        name: Names of the first and last node become `<name>_split` and `<name>_gather`.

    Returns:
        The output with the lists of results, one for each transaction.

    Raises:
        UsageError: a step is none of these, or has another number of inputs or outputs.
    """
    current = _through(_node(split, name, "split"), source, "split")
    for number, step in enumerate(steps, 1):
        current = _applied(step, current, f"step {number}")
    return _through(_node(gather, name, "gather"), current, "gather")


def _node(func: NodeMaker, name: str, what: str) -> FlowNode:
    if not isinstance(func, PyFunction):
        raise UsageError(f"map_each: expected a function made with pyflow as {what}, got {func!r}")
    return func.fnode(f"{name}_{what}" if name else None)


def _applied(step: Step, current: FlowOutput, what: str) -> FlowOutput:
    if isinstance(step, PyFunction):
        return _through(step.fnode(), current, what)
    if isinstance(step, FlowNode):
        return _through(step, current, what)
    if isinstance(step, type) or not callable(step):
        raise UsageError(f"map_each: {what}: expected a node or a function made with pyflow, got {step!r}")
    made = step(current)
    if not isinstance(made, FlowOutput):
        raise UsageError(
            f"map_each: {what}: expected the function to give one output of a node, got {made!r}",
            hint="@pyflow on a function makes it a step; without it, it is called now, to wire nodes",
        )
    _check_inside(made, current, what)
    return made


def _check_inside(made: FlowOutput, begin: FlowOutput, what: str) -> None:
    """Nothing between the elements and a result of them may gather: it would take those of all elements together."""
    waiting, seen = [made.node], {begin.node}
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.point is not None and any(function.gather for function in node.point.functions):
            text = f"map_each: {what}: node {node.name!r} gathers all parts of a transaction, not those of one element"
            raise UsageError(text, hint="split a second time and gather once, or work on each element as a whole")
        waiting += [source.node for source in node.sources if isinstance(source, FlowOutput)]


def _through(node: FlowNode, source: FlowData | FlowOutput, what: str) -> FlowOutput:
    if (node.input_num, node.output_num) != (1, 1):
        ports = f"{node.input_num} inputs and {node.output_num} outputs"
        text = f"map_each: {what}: expected a node with one input and one output, got {ports}"
        raise UsageError(text, node=node.name)
    made = node(source)
    assert isinstance(made, FlowOutput)
    return made
