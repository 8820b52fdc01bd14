"""What a plugin implements: hooks, the entries they return, and the contracts behind the entries.

Imports graph, model, message, types and errors; nothing else of the core.
"""

from dflow_core.spi.deployer import Deployer, Deployment, Exchange, InstanceStatus
from dflow_core.spi.engine import (
    SAME_SIZES,
    CompileContext,
    Engine,
    ModelWorker,
    OutputAlloc,
    PointIO,
    SameSizes,
    WorkerContext,
    WorkerLoader,
    same_sizes,
    same_sizes_text,
)
from dflow_core.spi.entries import DeployerEntry, EngineDevice, EngineEntry, PointEntry, TransportEntry, UdfEntry
from dflow_core.spi.flow_func import FlowFunc, FuncParams, GraphCall, InputQueue, LibraryFunc, RunContext
from dflow_core.spi.hooks import ENTRY_POINT_GROUP, SPI_VERSION, hookimpl, hookspec
from dflow_core.spi.native_table import NATIVE_ABI, NativeTable, include_dir
from dflow_core.spi.node_worker import BoardWords, NodeLinks, NodeWorker
from dflow_core.spi.running import running, running_as, set_running
from dflow_core.spi.transport import (
    Doorbell,
    GroupConfig,
    GroupHandle,
    GroupStats,
    Holder,
    LostMessage,
    MemoryGroup,
    Overflow,
    Queue,
    QueueStats,
    Transport,
)

__all__ = [
    "ENTRY_POINT_GROUP",
    "NATIVE_ABI",
    "SAME_SIZES",
    "SPI_VERSION",
    "BoardWords",
    "CompileContext",
    "Deployer",
    "DeployerEntry",
    "Deployment",
    "Doorbell",
    "Engine",
    "EngineDevice",
    "EngineEntry",
    "Exchange",
    "FlowFunc",
    "FuncParams",
    "GraphCall",
    "GroupConfig",
    "GroupHandle",
    "GroupStats",
    "Holder",
    "InputQueue",
    "InstanceStatus",
    "LibraryFunc",
    "LostMessage",
    "MemoryGroup",
    "ModelWorker",
    "NativeTable",
    "NodeLinks",
    "NodeWorker",
    "OutputAlloc",
    "Overflow",
    "PointEntry",
    "PointIO",
    "Queue",
    "QueueStats",
    "RunContext",
    "SameSizes",
    "Transport",
    "TransportEntry",
    "UdfEntry",
    "WorkerContext",
    "WorkerLoader",
    "hookimpl",
    "hookspec",
    "include_dir",
    "running",
    "running_as",
    "same_sizes",
    "same_sizes_text",
    "set_running",
]
