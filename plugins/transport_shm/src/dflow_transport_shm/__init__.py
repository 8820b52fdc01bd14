"""Shared-memory transport of dflow.

Three floors, each importing only what is below it: `plugin`, `transport`, `group`, `queue`, `block` (classes for
people); `bindings` (the C functions with their return codes turned into errors); `src/c` (C, knows no Python).
`waiting` and `limits` are small rules without I/O of their own.
"""

from dflow_transport_shm.transport import ShmTransport

__all__ = ["ShmTransport"]
