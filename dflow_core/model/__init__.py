"""What can be deployed, as data: FlowModel, the kinds of PneModel, ModelRelation, DeployPlan, and the OM file."""

from dflow_core.model.deploy_plan import DeployPlan, InstancePlan, ProcessPlan, QueuePlan, Route
from dflow_core.model.flow_model import (
    Endpoint,
    FlowModel,
    GraphModel,
    ModelEndpoints,
    ModelRelation,
    PneModel,
    SerializedModel,
    UdfModel,
)

__all__ = [
    "DeployPlan",
    "Endpoint",
    "FlowModel",
    "GraphModel",
    "InstancePlan",
    "ModelEndpoints",
    "ModelRelation",
    "PneModel",
    "ProcessPlan",
    "QueuePlan",
    "Route",
    "SerializedModel",
    "UdfModel",
]
