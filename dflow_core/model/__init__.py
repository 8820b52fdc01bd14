"""What can be deployed, as data: FlowModel, the kinds of PneModel, ModelRelation, DeployPlan, and the OM file."""

from dflow_core.model.dead_part import DeadPart
from dflow_core.model.deploy_plan import DeployPlan, InstancePlan, InvokedPlan, ProcessPlan, QueuePlan, Route, index_of
from dflow_core.model.exception_note import ExceptionNote, ExceptionTable, scope_of
from dflow_core.model.files import write_atomically
from dflow_core.model.flow_model import (
    GRAPH_OPTIONS,
    Endpoint,
    FlowModel,
    GraphModel,
    InvokedEndpoints,
    ModelEndpoints,
    ModelRelation,
    PneModel,
    SerializedModel,
    UdfModel,
)
from dflow_core.model.frame import (
    Buffer,
    FileSource,
    Frame,
    FrameReader,
    frame_chunks,
    laid_out,
    open_source,
    read_frame,
    read_head,
)
from dflow_core.model.invoked import called_by, called_options, called_part, own_part
from dflow_core.model.machines import Crossing, Machine
from dflow_core.model.om_file import (
    OmInfo,
    OmSubmodel,
    Partition,
    PartitionType,
    inspect_om,
    om_chunks,
    read_om,
    write_om,
)
from dflow_core.model.packing import pack_submodel, unpack_submodel
from dflow_core.model.placement import InstancePlace, NodePlacement, ThreadShare

__all__ = [
    "GRAPH_OPTIONS",
    "Buffer",
    "Crossing",
    "DeadPart",
    "DeployPlan",
    "Endpoint",
    "ExceptionNote",
    "ExceptionTable",
    "FileSource",
    "FlowModel",
    "Frame",
    "FrameReader",
    "GraphModel",
    "InstancePlace",
    "InstancePlan",
    "InvokedEndpoints",
    "InvokedPlan",
    "Machine",
    "ModelEndpoints",
    "ModelRelation",
    "NodePlacement",
    "OmInfo",
    "OmSubmodel",
    "Partition",
    "PartitionType",
    "PneModel",
    "ProcessPlan",
    "QueuePlan",
    "Route",
    "SerializedModel",
    "ThreadShare",
    "UdfModel",
    "called_by",
    "called_options",
    "called_part",
    "frame_chunks",
    "index_of",
    "inspect_om",
    "laid_out",
    "om_chunks",
    "open_source",
    "own_part",
    "pack_submodel",
    "read_frame",
    "read_head",
    "read_om",
    "scope_of",
    "unpack_submodel",
    "write_atomically",
    "write_om",
]
