"""dflow: graphs of models and functions, a process per node, zero-copy queues between them.

    import dflow_core as df

    @df.pyflow
    def double(x):
        return x * 2

    x = df.FlowData("x")
    with df.FlowGraph([double.fnode()(x)]) as graph:
        print(graph(21))

Layers, highest first (imports run downwards only): cli, frontend, testing / replay / session, builtin /
compiler | deploy | executor | udf / plugins / spi / recording / graph | model / message / types, options / errors.
"""

from dflow_core.errors import (
    AbortError,
    AlignmentError,
    CancelledError,
    ClosedError,
    CompileError,
    DeadlineError,
    DeployError,
    DflowError,
    DroppedError,
    Fault,
    GraphError,
    InstanceLostError,
    LateError,
    MissingError,
    ModelFormatError,
    NodeError,
    OptionError,
    PackagingError,
    PeerGoneError,
    PlacementError,
    PluginError,
    PoolExhaustedError,
    QueueFullError,
    RaisedError,
    RunError,
    StartupError,
    TensorError,
    UsageError,
    WaitTimeoutError,
)
from dflow_core.frontend import (
    FlowGraph,
    alloc_tensor,
    builtin_node,
    finalize,
    init,
    init_wrapper,
    map_each,
    method,
    proc_wrapper,
    pyflow,
)
from dflow_core.graph import (
    CountBatch,
    FlowData,
    FlowGraphProcessPoint,
    FlowNode,
    FlowOutput,
    Framework,
    FuncProcessPoint,
    GraphProcessPoint,
    InvokedGraph,
    ModelProcessPoint,
    TimeBatch,
    name_scope,
)
from dflow_core.message import FeedInfo, Flag, current_transaction, msg_types
from dflow_core.types import DataType, Tensor, TensorSpec

__version__ = "0.1.0"

__all__ = [
    "AbortError",
    "AlignmentError",
    "CancelledError",
    "ClosedError",
    "CompileError",
    "CountBatch",
    "DataType",
    "DeadlineError",
    "DeployError",
    "DflowError",
    "DroppedError",
    "Fault",
    "FeedInfo",
    "Flag",
    "FlowData",
    "FlowGraph",
    "FlowGraphProcessPoint",
    "FlowNode",
    "FlowOutput",
    "Framework",
    "FuncProcessPoint",
    "GraphError",
    "GraphProcessPoint",
    "InstanceLostError",
    "InvokedGraph",
    "LateError",
    "MissingError",
    "ModelFormatError",
    "ModelProcessPoint",
    "NodeError",
    "OptionError",
    "PackagingError",
    "PeerGoneError",
    "PlacementError",
    "PluginError",
    "PoolExhaustedError",
    "QueueFullError",
    "RaisedError",
    "RunError",
    "StartupError",
    "Tensor",
    "TensorError",
    "TensorSpec",
    "TimeBatch",
    "UsageError",
    "WaitTimeoutError",
    "__version__",
    "alloc_tensor",
    "builtin_node",
    "current_transaction",
    "finalize",
    "init",
    "init_wrapper",
    "map_each",
    "method",
    "msg_types",
    "name_scope",
    "proc_wrapper",
    "pyflow",
]
