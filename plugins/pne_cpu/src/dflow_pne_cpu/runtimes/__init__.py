"""Model libraries behind one small interface; nothing else of the plugin imports one.

`base` is the interface; `openvino_runtime` and `openvino_session` (with `openvino_reader`, `openvino_shapes` and
`by_shape`) and `onnxruntime_runtime` implement it; `choice` picks one. These modules alone know the untyped libraries,
so they alone use `Any`.
"""

from dflow_pne_cpu.runtimes.base import RefusedError, Runtime, Session, Traits
from dflow_pne_cpu.runtimes.choice import RuntimeSet, default_runtimes

__all__ = ["RefusedError", "Runtime", "RuntimeSet", "Session", "Traits", "default_runtimes"]
