"""What can be deployed, as data: compiled models and how they are joined.

Names, not references, tie a FlowModel together, so it survives a file or a wire unchanged. The classes know nothing
of their wire format (`serde.py` does), of processes or of queues (`deploy_plan.py` does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dflow_core.errors import UsageError
from dflow_core.types import FuncSpec, NodeOptions, TensorSpec


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PneModel:
    """A compiled process point.

    Args:
        name: Name of the node it came from, scope included (`outer/inner`); unique in the FlowModel.
        engine: Id of the engine that made it and runs it.
        inputs, outputs: What is known of its tensors, one entry per node port.
        functions: Its functions; together they own every port.
        options: How the node wants to be run.
        labels: What a deploy file may call the node, the nearest first: its alias or name, within the graphs around it,
            and the nodes those graphs are in; a batching node is called like the node it serves.
        balance: `scatter` or `gather` for a node that deals out over instances or collects (`set_attr`), else "".
    """

    name: str
    engine: str
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    functions: tuple[FuncSpec, ...] = ()
    options: NodeOptions = NodeOptions()
    labels: tuple[str, ...] = ()
    balance: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphModel(PneModel):
    """A model file, with what the engine compiled from it.

    Args:
        framework: `onnx`, `tensorflow` or `mindspore`.
        source: The model file.
        side_files: Files that belong to it (ONNX external data), by relative path.
        blob: Compiled form; empty if the runtime has none.
        blob_tag: Runtime, version and machine the blob was made for; another tag means compile again.
        settings: Everything else the engine's worker needs, as text.
    """

    framework: str
    source: bytes
    side_files: Mapping[str, bytes] = field(default_factory=dict)
    blob: bytes = b""
    blob_tag: str = ""
    settings: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class UdfModel(PneModel):
    """User code.

    Args:
        package: Pickled function or class (by value where it cannot be imported), or a tar.gz of a built library.
        builtin: Name of a registered built-in UDF instead of a package; "" if there is a package.
        params: Init parameters: str, bool, int, float, DataType, or lists of them.
    """

    package: bytes = b""
    builtin: str = ""
    params: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SerializedModel(PneModel):
    """What an engine outside the core compiled: bytes only that engine understands, and settings as text."""

    data: bytes
    settings: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A stream of messages between models.

    Args:
        name: `<graph>:<data node>` for a root input, `<scope><node>:<output index>` for an output.
        depth: Messages that may wait for each consumer; 0 is the default.
        overflow: What a full queue does: `block`, `drop_oldest`, `drop_newest`, `keep_latest` or `max_age`.
        dummy: Whether nobody consumes it.
        max_age: Seconds after which a message is dropped, for `max_age`.
    """

    name: str
    depth: int = 0
    overflow: str = "block"
    dummy: bool = False
    max_age: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelEndpoints:
    """Names of the endpoints a model reads and writes, in port order."""

    model_name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InvokedEndpoints:
    """A graph that the functions of a model call (runtime-semantics.md section 18).

    Args:
        model: The model whose functions call it.
        key: What they call it by.
        inputs: Endpoints they feed.
        outputs: Endpoints they fetch.
    """

    model: str
    key: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def name(self) -> str:
        """`<model>/<key>`."""
        return f"{self.model}/{self.key}"


@dataclass(frozen=True, slots=True)
class ModelRelation:
    """How the submodels of a FlowModel are joined (runtime-semantics.md section 20).

    Args:
        endpoints: Every endpoint.
        submodels: Endpoints of each submodel, by model name.
        root: The graph seen from outside: `inputs` are fed by the caller, `outputs` are fetched.
        input_names, output_names: What the caller calls those, in the same order.
        invoked: The graphs that functions call; their models are submodels like the others.
    """

    endpoints: tuple[Endpoint, ...]
    submodels: Mapping[str, ModelEndpoints]
    root: ModelEndpoints
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    invoked: tuple[InvokedEndpoints, ...] = ()

    def invoked_by(self, model: str) -> tuple[InvokedEndpoints, ...]:
        """The graphs that the functions of a model call."""
        return tuple(one for one in self.invoked if one.model == model)

    def endpoint(self, name: str) -> Endpoint:
        """The endpoint of that name.

        Raises:
            UsageError: there is none.
        """
        found = next((endpoint for endpoint in self.endpoints if endpoint.name == name), None)
        if found is None:
            raise UsageError(f"graph {self.root.model_name!r} has no endpoint {name!r}")
        return found

    def consumers(self, endpoint: str) -> list[tuple[str, int]]:
        """Models that read an endpoint, with the input port they read it at."""
        return [
            (name, port)
            for name, sides in self.submodels.items()
            for port, source in enumerate(sides.inputs)
            if source == endpoint
        ]

    @property
    def joins_in_a_row(self) -> int:
        """The most nodes with several inputs that one message passes on its way to an output of the graph."""
        depths: dict[str, int] = {}
        for sides in self.submodels.values():  # producers come before consumers
            before = max((depths.get(endpoint, 0) for endpoint in sides.inputs), default=0)
            depths.update(dict.fromkeys(sides.outputs, before + (len(sides.inputs) > 1)))
        return max((depths.get(endpoint, 0) for endpoint in self.root.outputs), default=0)

    def producer(self, endpoint: str) -> tuple[str, int] | None:
        """Model and output port that write an endpoint, or None for a root input."""
        for name, sides in self.submodels.items():
            if endpoint in sides.outputs:
                return name, sides.outputs.index(endpoint)
        return None


GRAPH_OPTIONS = "graph options"


@dataclass(frozen=True, slots=True)
class FlowModel:
    """A compiled graph.

    Args:
        name: Name of the graph.
        submodels: Compiled models by name.
        relation: How they are joined.
        graph: The FlowGraph it was made from, serialised, for drawing and inspection.
        options: Graph-level options in force.
        made_by: dflow version, SPI version and engine versions, for inspection; under `GRAPH_OPTIONS` the names of the
            options that the graph itself has set, which no session overrides.
    """

    name: str
    submodels: Mapping[str, PneModel]
    relation: ModelRelation
    graph: bytes = b""
    options: Mapping[str, str] = field(default_factory=_nothing)
    made_by: Mapping[str, str] = field(default_factory=_nothing)
