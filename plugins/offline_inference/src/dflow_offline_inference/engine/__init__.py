"""How ready requests are run. `shapes`, `grouping` and `batch` decide; `station`, `lane` and `engine` run."""

from dflow_offline_inference.engine.batch import Batch, Buffers
from dflow_offline_inference.engine.engine import ExecutionEngine, ModelPlan
from dflow_offline_inference.engine.grouping import Grouping
from dflow_offline_inference.engine.lane import Delivery, Lane
from dflow_offline_inference.engine.shapes import Fit, ModelShapes

__all__ = ["Batch", "Buffers", "Delivery", "ExecutionEngine", "Fit", "Grouping", "Lane", "ModelPlan", "ModelShapes"]
