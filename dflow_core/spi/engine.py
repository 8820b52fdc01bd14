"""What turns process points into models, and what runs those models.

An author writes `Engine` and `ModelWorker` (or gives FlowFuncs); the compiler and the executor call them and turn
whatever they raise into dflow errors.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from dflow_core.errors import DflowError
from dflow_core.graph import ProcessPoint
from dflow_core.model import GraphModel, PneModel, SerializedModel
from dflow_core.spi.flow_func import FlowFunc
from dflow_core.spi.node_worker import NodeWorker
from dflow_core.types import Array, TensorSpec

OutputAlloc: TypeAlias = Callable[[Sequence[int], "np.dtype[np.generic]"], Array]
"""Gives a writable array of a shape and dtype that can be sent without a copy."""

SameSizes: TypeAlias = Sequence[Sequence["tuple[int, int] | None"]]
"""For each output and each of its dimensions, the input and its dimension that always has the same size; None if there
is none. Empty for an output, or as a whole, where nothing is known."""

SAME_SIZES = "same_sizes"
"""Setting of a compiled model in which its engine keeps its `SameSizes`, if it knows them."""


def same_sizes_text(sizes: SameSizes) -> str:
    """`SameSizes` as an engine writes them into the settings of a model, under `SAME_SIZES`."""
    return json.dumps([list(output) for output in sizes])


def same_sizes(model: PneModel) -> SameSizes:
    """Which dimensions of a model's outputs always equal one of an input; empty where its engine does not say."""
    text = model.settings.get(SAME_SIZES, "") if isinstance(model, (GraphModel, SerializedModel)) else ""
    if not text:
        return ()
    return tuple(
        tuple(None if source is None else (int(source[0]), int(source[1])) for source in output)
        for output in json.loads(text)
    )


@dataclass(frozen=True, slots=True)
class PointIO:
    """What a process point takes and gives, as far as its files tell without compiling."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True, slots=True)
class CompileContext:
    """What an engine is told besides the point.

    Args:
        node: Full name of the node, for errors and for the model's name.
        options: Options in force for this node: global, overridden by graph, overridden by node.
        input_count, output_count: Ports of the node.
        report: Takes one sentence about a decision worth telling (shown by `dflow plan`).
        cancelled: Whether nobody wants the result any more; for engines that work for seconds.
    """

    node: str
    options: Mapping[str, str]
    input_count: int
    output_count: int
    report: Callable[[str], None] = lambda _text: None
    cancelled: Callable[[], bool] = lambda: False


class Engine(abc.ABC):
    """Compiles process points. Used from several threads at once."""

    id: str

    @abc.abstractmethod
    def describe(self, point: ProcessPoint) -> PointIO | None:
        """What the point takes and gives, read from its files without compiling; None if unknown.

        Called by graph validation, so it must be quick (tens of milliseconds) and start nothing.

        Raises:
            ModelFormatError: if a file is missing or is not the model it should be.
        """

    @abc.abstractmethod
    def cache_key(self, point: ProcessPoint, context: CompileContext) -> bytes:
        """Bytes that differ whenever `compile` would give another result: content of files, options, versions.

        The node's name need not be among them. Empty bytes say that compiling costs less than keeping the result.
        """

    @abc.abstractmethod
    def compile(self, point: ProcessPoint, context: CompileContext) -> PneModel:
        """Turn a point into a model.

        Raises:
            CompileError: with the first cause on top.
        """


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What a worker is told when a model is loaded in an executor.

    Args:
        node: Name of the node.
        instance: Number of this instance, from 0.
        instance_count: How many there are.
        device: Device it is bound to, such as `cpu:0`.
        threads: Threads it may use.
        options: Graph options in force.
        alloc: Gives output arrays that can be sent without a copy.
        udf_factory: Gives a registered built-in UDF by name.
        report: Takes one sentence worth telling once (goes to the node's log).
        stays_here: For each output, whether its only reader is another model of this engine in this process, so that
            what it holds is the two workers' own affair; empty where that is not known.
        own_thread: Whether the thread that loads it is there for it alone, so that it may ask the system to treat that
            in a special way.
    """

    node: str
    instance: int
    instance_count: int
    device: str
    threads: int
    options: Mapping[str, str] = field(default_factory=dict)
    alloc: OutputAlloc = np.empty
    udf_factory: Callable[[str], FlowFunc] | None = None
    report: Callable[[str], None] = lambda _text: None
    stays_here: tuple[bool, ...] = ()
    own_thread: bool = False


class ModelWorker(abc.ABC):
    """Runs one loaded model on one device; used by one thread at a time.

    A worker that sets `depth` above 1 runs calls while its thread does something else: calls are started with `begin`
    and ended with `finish`, in the same order and once each. `execute` is then called only with none in flight.

    Attributes:
        inputs, outputs: What it takes and gives.
        depth: How many calls may be in flight at once.
        streams: How many of them run at the same time; the others wait for one to end.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    depth: int = 1
    streams: int = 1

    @abc.abstractmethod
    def execute(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Sequence[Array]:
        """Run the model once.

        Args:
            inputs: One array per input, already checked against `inputs`; they may be read-only views of shared
                memory and must not be used after the call.
            alloc: Gives arrays that can be sent without a copy; results may also be ordinary arrays.

        Returns:
            One array per output, in the order of `outputs`.
        """

    def begin(self, inputs: Sequence[Array], alloc: OutputAlloc) -> object:
        """Start a call, with at most `depth - 1` others in flight.

        Args:
            inputs: As for `execute`; their memory stays valid and unchanged until `finish`, which must be the last to
                use it. The worker keeps the arrays themselves as long.
            alloc: As for `execute`; may be called until `finish` returns.

        Returns:
            The call, for `finish`. Whatever is raised says that there is none.
        """
        return self.execute(inputs, alloc)

    def finish(self, call: object) -> Sequence[Array]:
        """Wait for the oldest call in flight; gives what `execute` would have given, and raises what it would have."""
        assert isinstance(call, Sequence)
        return call

    def failure(self) -> DflowError | None:
        """Why it can run nothing any more (its device or process is gone), or None while it can.

        Asked for after a failed call; an executor's process then ends, and is started anew by the node's policy.
        """
        return None

    @abc.abstractmethod
    def close(self) -> None:
        """Free everything; calls in flight are ended first, and their results are lost. Idempotent."""


WorkerLoader: TypeAlias = Callable[[PneModel, WorkerContext], "ModelWorker | Sequence[FlowFunc] | NodeWorker"]
"""Loads a model: gives a ModelWorker, one FlowFunc for each of the model's functions in order, or a NodeWorker."""
