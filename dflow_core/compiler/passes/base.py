"""What a pass is. A sequence of passes is a pass."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dflow_core.compiler.ir import IrGraph
from dflow_core.errors import CompileError, DflowError


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass made.

    Args:
        graph: The new graph; the old one where nothing changed.
        changed: What it did, one short sentence each.
    """

    graph: IrGraph
    changed: tuple[str, ...] = ()


class Pass(abc.ABC):
    """One step from a graph to a graph. Passes never change the graph they are given."""

    name: ClassVar[str] = ""

    def requires(self, graph: IrGraph) -> str | None:
        """Why the pass cannot run on this graph, or None if it can."""

    def ensures(self, graph: IrGraph) -> str | None:
        """What is wrong with the graph it made, or None if it keeps its promise."""

    @abc.abstractmethod
    def apply(self, graph: IrGraph) -> PassResult:
        """Make the new graph.

        Raises:
            DflowError: the user's graph cannot be compiled; such errors reach the user as they are.
        """

    def run(self, graph: IrGraph, done: Sequence[str] = ()) -> PassResult:
        """Check, apply, check.

        Args:
            graph: The graph.
            done: Names of the passes already run, for errors.

        Raises:
            CompileError: the pass cannot run, failed, or broke its promise; names it and those before it.
        """
        before = f"after {', '.join(done)}" if done else "as the first pass"
        problem = self.requires(graph)
        if problem:
            raise CompileError(f"pass {self.name} ({before}) cannot run: {problem}")
        try:
            result = self.apply(graph)
        except DflowError:
            raise
        except Exception as cause:
            raise CompileError(f"pass {self.name} ({before}) failed: {type(cause).__name__}: {cause}") from cause
        problem = self.ensures(result.graph)
        if problem:
            raise CompileError(f"pass {self.name} ({before}) broke its promise: {problem}")
        return result


class PassSequence(Pass):
    """Passes one after the other.

    Args:
        passes: In this order.
    """

    name = "sequence"

    def __init__(self, passes: Sequence[Pass]) -> None:
        self.passes = tuple(passes)

    def apply(self, graph: IrGraph) -> PassResult:
        return self.run(graph)

    def run(self, graph: IrGraph, done: Sequence[str] = ()) -> PassResult:
        names, changed = list(done), []
        for step in self.passes:
            result = step.run(graph, names)
            graph = result.graph
            changed += [f"{step.name}: {text}" for text in result.changed]
            names.append(step.name)
        return PassResult(graph, tuple(changed))
