"""What the user wants run, as data: graphs, nodes, process points, batching, names.

Imports message, errors, types and options; nothing else of the core.
"""

from dflow_core.graph.alignment import option_faults
from dflow_core.graph.attributes import NODE_ATTRIBUTES, OVERFLOWS, Attribute, AttrValue, QueueSettings
from dflow_core.graph.batching import Batch, CountBatch, TimeBatch
from dflow_core.graph.check_types import Describe, PointDescription
from dflow_core.graph.compile_config import read_compile_config
from dflow_core.graph.deploy_template import write_deploy_template
from dflow_core.graph.exchange import Place, find_place
from dflow_core.graph.flow_data import FlowData
from dflow_core.graph.flow_graph import FlowGraph, Outputs
from dflow_core.graph.foreign_points import OpaqueProcessPoint, PointCodec
from dflow_core.graph.invoked_graph import InvokedCall, InvokedGraph, running
from dflow_core.graph.names import name_scope
from dflow_core.graph.node import FlowNode, FlowOutput, GraphView, PortMap, ProcessPoint, Source
from dflow_core.graph.onnx_weights import onnx_weight_files
from dflow_core.graph.points import (
    PACKER_ATTRIBUTE,
    FlowGraphProcessPoint,
    Framework,
    FuncPackage,
    FuncProcessPoint,
    GraphProcessPoint,
    ModelProcessPoint,
)
from dflow_core.graph.storage import (
    deserialize_graph,
    graph_fingerprint,
    load_graph,
    point_from_bytes,
    point_to_bytes,
    save_graph,
    serialize_graph,
)
from dflow_core.graph.wire import WireBuffer, WireError, WireField, WireMessage

__all__ = [
    "NODE_ATTRIBUTES",
    "OVERFLOWS",
    "PACKER_ATTRIBUTE",
    "AttrValue",
    "Attribute",
    "Batch",
    "CountBatch",
    "Describe",
    "FlowData",
    "FlowGraph",
    "FlowGraphProcessPoint",
    "FlowNode",
    "FlowOutput",
    "Framework",
    "FuncPackage",
    "FuncProcessPoint",
    "GraphProcessPoint",
    "GraphView",
    "InvokedCall",
    "InvokedGraph",
    "ModelProcessPoint",
    "OpaqueProcessPoint",
    "Outputs",
    "Place",
    "PointCodec",
    "PointDescription",
    "PortMap",
    "ProcessPoint",
    "QueueSettings",
    "Source",
    "TimeBatch",
    "WireBuffer",
    "WireError",
    "WireField",
    "WireMessage",
    "deserialize_graph",
    "find_place",
    "graph_fingerprint",
    "load_graph",
    "name_scope",
    "onnx_weight_files",
    "option_faults",
    "point_from_bytes",
    "point_to_bytes",
    "read_compile_config",
    "running",
    "save_graph",
    "serialize_graph",
    "write_deploy_template",
]
