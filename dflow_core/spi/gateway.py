"""What moves messages between the queues of a machine and a link to another one."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass

from dflow_core.errors import DflowError
from dflow_core.model import Crossing, QueuePlan
from dflow_core.spi.link import Link, LinkReceiver
from dflow_core.spi.transport import MemoryGroup


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """What one gateway moves.

    Args:
        machine: Name of the machine it is on; "" for the application's.
        peer: Name of the machine at the other end of the link; "" for the application's.
        crossings: Every queue that crosses between the two, in the same order on both: the i-th has the data lane
            `FIRST_DATA_LANE + i`.
        queues: How those queues are made.
    """

    machine: str
    peer: str
    crossings: tuple[Crossing, ...]
    queues: tuple[QueuePlan, ...]


class Gateway(LinkReceiver):
    """Moves messages between queues of a memory group and a link; takes all lanes but the control lane.

    It is the reader of a queue whose messages leave, and a producer of one where messages arrive. What is in neither
    queue, on the way, is bounded by credits: the reading end grants them as its queue takes what has arrived. The
    notices of a queue that drops messages cross with it.
    """

    @abc.abstractmethod
    def begin(self) -> None:
        """Begin to move messages; called once, before anything arrives."""

    @abc.abstractmethod
    def tell_cancelled(self) -> None:
        """Send the board of cancelled transactions to the other machine, where it is copied.

        Only the board of the application's machine says something of its own; elsewhere this does nothing.
        """

    @abc.abstractmethod
    def discard(self) -> bool:
        """While the graph is suspended, throw away what leaves and has arrived; returns whether there was nothing.

        It is nothing only when everything sent has been put into a queue at the other end, or thrown away there.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Move no more; what it holds is let go. The link is not its own. Idempotent."""


@dataclass(frozen=True, slots=True)
class GatewayEvents:
    """What a gateway tells its machine; its own thread calls these, and they must not wait.

    Args:
        ended: The other machine puts nothing any more into a queue where its messages arrive.
        cancelled: Transactions were cancelled on the other machine, and the board here says so.
        failed: The gateway cannot go on.
    """

    ended: Callable[[str], None]
    cancelled: Callable[[], None]
    failed: Callable[[DflowError], None]


MakeGateway = Callable[[MemoryGroup, Link, GatewayPlan, GatewayEvents], Gateway]
"""Makes the gateway of a link, at either end."""
