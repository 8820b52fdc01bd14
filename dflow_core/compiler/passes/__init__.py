"""Passes from the user's graph to one in which every node can be compiled: the machinery, and one pass a module."""

from dflow_core.compiler.passes.assign_engines import AssignEngines
from dflow_core.compiler.passes.base import Pass, PassResult, PassSequence
from dflow_core.compiler.passes.batching import InsertBatchNodes
from dflow_core.compiler.passes.flatten import Flatten
from dflow_core.compiler.passes.load_models import LoadModels
from dflow_core.compiler.passes.prune import Prune

__all__ = [
    "AssignEngines",
    "Flatten",
    "InsertBatchNodes",
    "LoadModels",
    "Pass",
    "PassResult",
    "PassSequence",
    "Prune",
]
