"""What the core registers itself, through the hooks it offers to others.

Its own kinds of process points are not among it: they are part of the graph file format (`graph/serde.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dflow_core.spi import DeployerEntry, TransportEntry, hookimpl

if TYPE_CHECKING:
    from dflow_core.spi import Deployer, Transport


@hookimpl
def dflow_register_transports() -> Sequence[TransportEntry]:
    """Queues between the threads of one process."""
    return [TransportEntry("inproc", local=True, factory=_inproc, cross_process=False)]


@hookimpl
def dflow_register_deployers() -> Sequence[DeployerEntry]:
    """This machine."""
    return [DeployerEntry("local", _local)]


def _inproc() -> Transport:
    from dflow_core.builtin_transport import InprocTransport

    return InprocTransport()


def _local() -> Deployer:
    from dflow_core.deploy import LocalDeployer

    return LocalDeployer()
