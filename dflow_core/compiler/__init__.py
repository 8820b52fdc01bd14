"""FlowGraph to FlowModel: checks, passes, engines, the compile cache.

Imports plugins, spi, graph, model, types, options and errors. `ir.py` is the plain data the passes work on, `lower.py`
makes it, `nodes.py` compiles its nodes, `relation.py` joins them, `builder.py` puts these together.
"""

from dflow_core.compiler.batch_need import Need, need_of
from dflow_core.compiler.builder import FlowModelBuilder
from dflow_core.compiler.cache import CacheEntry, CompileCache
from dflow_core.compiler.check import Describer, check_graph
from dflow_core.compiler.report import BuildReport, NodeReport

__all__ = [
    "BuildReport",
    "CacheEntry",
    "CompileCache",
    "Describer",
    "FlowModelBuilder",
    "Need",
    "NodeReport",
    "check_graph",
    "need_of",
]
