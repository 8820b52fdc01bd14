"""The in-process transport: memory groups whose members are threads of one process.

For debugging, and for tests of code that works over any transport. It keeps the whole contract of `spi.transport`,
except that no other process can attach and nobody can die alone, so `reclaim` has nothing to do.

Modules, lowest first: region (what members share), block, group.
"""

from dflow_core.builtin_transport.group import InprocTransport

__all__ = ["InprocTransport"]
