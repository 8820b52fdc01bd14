"""What plugins register: ids, and functions that import the rest only when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dflow_core.graph import ProcessPoint
from dflow_core.spi.deployer import Deployer
from dflow_core.spi.engine import Engine, WorkerLoader
from dflow_core.spi.flow_func import FlowFunc
from dflow_core.spi.link import LinkTransport
from dflow_core.spi.transport import Transport


@dataclass(frozen=True, slots=True)
class EngineDevice:
    """A device of this machine that an engine can put models on.

    Such devices become logical devices `0:0:<index>:0`, by their place in the list that `EngineEntry.places` gives
    (or by a resource file, whose `device_id` is the number behind the colon of `device`).

    Args:
        device: What `InstancePlan.device` and `WorkerContext.device` say of a model placed there, such as `npu:0`: a
            kind, a colon and the number that the engine's runtime knows it by.
        resource_type: Its type in resource files and in the plan.
        text: What it is, in a few words, for the plan.
    """

    device: str
    resource_type: str = "Ascend"
    text: str = ""


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """An engine.

    Args:
        id: Unique id, upper case by custom (`CPU`, `NPU`, `UDF`).
        accepts: Whether it can compile a process point; cheap, no file is opened.
        engine: Gives the Engine, in the compiling process.
        worker: Gives the function that loads one of its models, in an executor.
        version: Changes whenever compiled models change; part of every cache key.
        priority: The highest that accepts a point gets it, unless the user names an engine; one below 0 gets only what
            names it.
        shares_process: Whether instances of different models on one device share an executor process.
        devices: Says in a few words each which devices of this machine it can use, for `dflow doctor`; may raise what
            stands in the way. None for an engine without devices of its own.
        places: The devices its models can be placed on, asked for when a graph with such a model is planned; may raise
            what stands in the way. The planner gives each instance one of them: those a deploy file names, else one
            after the other; instances on one device share a process where `shares_process` is set. None for an
            engine that runs on the host's CPUs.
        instead: Names the engine that takes over a point because of what the point or the options in force ask for (a
            model that is to run on the host); "" for none. None for an engine that keeps all it is given.
    """

    id: str
    accepts: Callable[[ProcessPoint], bool]
    engine: Callable[[], Engine]
    worker: Callable[[], WorkerLoader]
    version: str = "1"
    priority: int = 0
    shares_process: bool = False
    devices: Callable[[], Sequence[str]] | None = None
    places: Callable[[], Sequence[EngineDevice]] | None = None
    instead: Callable[[ProcessPoint, Mapping[str, str]], str] | None = None


@dataclass(frozen=True, slots=True)
class PointEntry:
    """A kind of process point.

    Args:
        kind: Unique kind, as written to files.
        cls: Gives the class.
        to_bytes: Serialises a point of that class.
        from_bytes: The inverse.
    """

    kind: str
    cls: Callable[[], type[ProcessPoint]]
    to_bytes: Callable[[ProcessPoint], bytes]
    from_bytes: Callable[[bytes], ProcessPoint]


@dataclass(frozen=True, slots=True)
class TransportEntry:
    """What carries messages between the processes of one machine.

    Args:
        scheme: Unique scheme, such as `shm`.
        factory: Gives the Transport.
        cross_process: Whether other processes can attach; False for one that lives in the caller's process only.
        priority: The highest cross-process transport is the default.
    """

    scheme: str
    factory: Callable[[], Transport]
    cross_process: bool = True
    priority: int = 0


@dataclass(frozen=True, slots=True)
class LinkEntry:
    """What joins the memory groups of different machines.

    Args:
        scheme: Unique scheme, such as `grpc`.
        factory: Gives the LinkTransport.
        priority: The highest is the default.
    """

    scheme: str
    factory: Callable[[], LinkTransport]
    priority: int = 0


@dataclass(frozen=True, slots=True)
class UdfEntry:
    """A ready-made UDF.

    Args:
        name: Unique name, such as `_BuiltIn_CountBatch`.
        factory: Gives a new FlowFunc; a LibraryFunc for a function in a library built with the C++ SDK.
        parameters: Names of the init parameters it knows, with a default or None where required.
        holds_inputs: Whether it keeps inputs beyond a call.
        n_mapping: Whether it may send several messages, or none, for one call.
    """

    name: str
    factory: Callable[[], FlowFunc]
    parameters: dict[str, object] = field(default_factory=dict)
    holds_inputs: bool = False
    n_mapping: bool = False


@dataclass(frozen=True, slots=True)
class DeployerEntry:
    """A deployer.

    Args:
        scheme: Unique scheme, such as `local`.
        factory: Gives the Deployer.
    """

    scheme: str
    factory: Callable[[], Deployer]
