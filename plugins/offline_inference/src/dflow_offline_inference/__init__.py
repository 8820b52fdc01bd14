"""Offline inference: from arrays to results, without a graph and without a server.

    from dflow_offline_inference import ModelConfig, OfflineInference

    with OfflineInference({"net": ModelConfig("net.onnx", batch=8)}) as offline:
        for result in offline.map("net", arrays):
            print(result["probs"])

Four layers: `offline` translates, `scheduler` decides whether a request may run, `engine` decides how, and the
ModelWorkers of engines (`workers` loads them) touch the hardware. `requests` is what they pass to each other.
"""

from dflow_offline_inference.config import ModelConfig
from dflow_offline_inference.offline import Handle, OfflineInference, Overview, Status
from dflow_offline_inference.requests import (
    DeadlineError,
    DependencyError,
    Event,
    NotStartedError,
    RequestCancelledError,
    RequestError,
    RequestFailedError,
    Result,
    State,
    TransitionError,
    WorkerLostError,
)

__version__ = "0.1.0"

__all__ = [
    "DeadlineError",
    "DependencyError",
    "Event",
    "Handle",
    "ModelConfig",
    "NotStartedError",
    "OfflineInference",
    "Overview",
    "RequestCancelledError",
    "RequestError",
    "RequestFailedError",
    "Result",
    "State",
    "Status",
    "TransitionError",
    "WorkerLostError",
    "__version__",
]
