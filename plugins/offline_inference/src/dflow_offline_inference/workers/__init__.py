"""The ModelWorkers of engines, in threads of this process or in executor processes."""

from dflow_offline_inference.workers.loading import CompiledModel, Loaders, compile_models, memory_limits
from dflow_offline_inference.workers.remote import RemoteWorker

__all__ = ["CompiledModel", "Loaders", "RemoteWorker", "compile_models", "memory_limits"]
