"""What callers use: requests and handles. `desk` ends requests, `machinery` puts the layers together."""

from dflow_offline_inference.offline.handle import Handle, Status
from dflow_offline_inference.offline.inference import OfflineInference, Overview

__all__ = ["Handle", "OfflineInference", "Overview", "Status"]
