"""Limits of alignment and the flags around it, as graph options (runtime-semantics.md sections 8 and 14)."""

from __future__ import annotations

from datetime import timedelta

from dflow_core.errors import Fault, OptionError
from dflow_core.graph.node import FlowNode, GraphView
from dflow_core.options import Options, seconds
from dflow_core.types import AlignLimits

MAX_CACHE = 1024
MAX_TIMEOUT = 600.0


def checked_alignment(max_cache: int, timeout: float | timedelta | None, drop: bool) -> dict[str, str]:
    """Graph options for limits of alignment; see `FlowGraph.set_inputs_align_attrs`.

    Raises:
        OptionError: a value it cannot have.
    """
    if isinstance(max_cache, bool) or not isinstance(max_cache, int) or not 0 <= max_cache <= MAX_CACHE:
        raise OptionError(f"max_cache_num: expected a whole number from 0 to {MAX_CACHE}, got {max_cache!r}")
    limit = 0.0
    if timeout is not None:
        limit = seconds(timeout, "timeout of the alignment")
        if not 0 < limit <= MAX_TIMEOUT:
            raise OptionError(
                f"timeout of the alignment: expected more than 0 and at most {MAX_TIMEOUT:g} seconds, got {timeout!r}",
                hint="None lets sets wait until max_cache_num others wait too",
            )
    return {
        "align_max_cache": str(max_cache), "align_timeout": repr(limit), "align_drop": checked_flag("drop", drop),
    }


def checked_flag(name: str, value: bool) -> str:
    """A flag as the text of a graph option.

    Raises:
        OptionError: it is no bool.
    """
    if not isinstance(value, bool):
        raise OptionError(f"{name}: expected True or False, got {value!r}")
    return str(int(value))


def contains_n_mapping(graph: GraphView) -> bool:
    """Whether some node of a graph makes other than one output of one input; declared or implied."""
    if any(str(graph.options.get(key, "0")) not in ("0", "False") for key in ("n_mapping", "exception_catch")):
        return True
    return any(map(_is_n_mapping, graph.nodes))


def option_faults(graph: GraphView, options: Options) -> list[Fault]:
    """What its options ask of a graph and it cannot give.

    Args:
        graph: The graph.
        options: Those in force.
    """
    faults = exception_faults(graph, options.align_max_cache) if options.exception_catch else []
    return faults + limit_faults(graph, AlignLimits(options.align_max_cache, options.align_timeout, options.align_drop))


def exception_faults(graph: GraphView, max_cache: int, scope: str = "") -> list[Fault]:
    """What stands in the way of catching exceptions.

    Args:
        graph: The graph.
        max_cache: Incomplete sets that are kept; 0 without limits of alignment.
        scope: Names of the nodes around the graph, each with a slash.
    """
    faults: list[Fault] = []
    if not max_cache and not scope:
        message = "set_exception_catch needs limits of alignment: what was under way must be dropped somewhere"
        hint = "call set_inputs_align_attrs(max_cache_num, timeout)"
        faults.append(Fault("exceptions", graph.name, "", message, hint))
    for node in graph.nodes:
        faults += _node_faults(node, scope)
        inner = node.point.nested if node.point is not None else None
        if inner is not None:
            faults += exception_faults(inner, max_cache, f"{scope}{node.name}/")
    return faults


def limit_faults(graph: GraphView, limits: AlignLimits, scope: str = "") -> list[Fault]:
    """Nodes with limits of their own that are never in force.

    Args:
        graph: The graph.
        limits: Those of the graph.
        scope: Names of the nodes around the graph, each with a slash.
    """
    faults: list[Fault] = []
    for node in graph.nodes:
        own = node.options
        if (own.align_timeout is not None or own.align_drop is not None) and not limits.with_own(own):
            message = "limits of alignment of its own, but no number of sets (align_max_cache) puts them in force"
            hint = "set align_max_cache too, here or for the graph with set_inputs_align_attrs"
            faults.append(Fault("alignment", scope + node.name, "", message, hint))
        inner = node.point.nested if node.point is not None else None
        if inner is not None:
            faults += limit_faults(inner, limits, f"{scope}{node.name}/")
    return faults


def _is_n_mapping(node: FlowNode) -> bool:
    if any(node.batching(port) for port in range(node.input_num)):
        return True
    functions = node.point.functions if node.point is not None else ()
    if any(f.n_mapping or f.generator or f.stream_input or f.holds_inputs for f in functions):
        return True
    inner = node.point.nested if node.point is not None else None
    return inner is not None and contains_n_mapping(inner)


def _node_faults(node: FlowNode, scope: str) -> list[Fault]:
    name, faults = scope + node.name, []
    for port in range(node.input_num):
        if node.batching(port):
            message = "a batch mixes transactions, and an exception ends one of them"
            faults.append(Fault("exceptions", name, f"input {port}", message, "leave out the batch or the catching"))
    functions = node.point.functions if node.point is not None else ()
    for function in functions:
        if function.stream_input:
            message = f"function {function.name!r} takes queues, so it cannot be told of an exception"
            faults.append(Fault("exceptions", name, "", message, "let it take messages, or leave out the catching"))
    return faults
