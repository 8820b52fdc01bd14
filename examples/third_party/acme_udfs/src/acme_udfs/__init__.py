"""Moving average and threshold for dflow graphs.

Modules: functions (what runs in an executor), nodes (what puts it into a graph), plugin (registration).
"""

from acme_udfs.nodes import moving_average, threshold

__all__ = ["moving_average", "threshold"]
