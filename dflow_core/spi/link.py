"""What joins the memory groups of different machines.

A link is the connection of two machines for one running graph. It carries frames on lanes; what they mean is not its
business. Executors never see it: a gateway moves messages between queues of its machine's memory group and the link.

Rules every implementation keeps (`dflow_core.testing.link_contract` tests them):

- Frames of one lane arrive in their order, each once, and whole. Frames of different lanes may overtake each other.
- Lanes below `FIRST_DATA_LANE` are urgent: what waits there is sent before everything that waits in other lanes. The
  others take turns, in pieces, so that a small frame does not wait for a large one to be through.
- A frame may have any size; there is no limit that has to be set on both sides.
- A connection that breaks is made again. Within the lease nothing is lost and nothing comes twice; when the lease is
  over both ends know that the other one is lost, each by its own clock, and are told once.
- Before a link is handed out both directions have carried a message, and both ends have checked that they speak the
  same version and hold the same key.
- Sending never waits. Who sends keeps what lies unsent bounded, by credits from the other end.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field

from dflow_core.errors import DflowError

CONTROL_LANE = 0
"""Lane of requests and answers between those who deploy."""
GATEWAY_LANE = 1
"""Lane of what gateways tell each other: credits, closed queues, cancelled transactions."""
FIRST_DATA_LANE = 2
"""Lane of the first queue; the others follow."""


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """How one end of links behaves.

    Args:
        name: What errors of the other end call this one, such as the name of its machine.
        lease: Seconds without a word from the other end after which it counts as lost, more than 0; the shorter one of
            both ends is in force on both.
        key: Secret that both ends must hold; empty for none. It never travels.
    """

    name: str
    lease: float = 30.0
    key: bytes = field(default=b"", repr=False)


class LinkReceiver(abc.ABC):
    """Takes what a link brings. One thread of the link calls it; it must not wait."""

    @abc.abstractmethod
    def room_for(self, lane: int, head: bytes, size: int) -> memoryview:
        """Where the payload of the next frame of a lane is to be written.

        Args:
            lane, head: Of the frame.
            size: Bytes of its payload; more than 0.

        Returns:
            Writable bytes, exactly as many.
        """

    @abc.abstractmethod
    def arrived(self, lane: int, head: bytes) -> None:
        """A frame is complete, its payload, if it has one, where `room_for` said."""

    @abc.abstractmethod
    def ended(self, error: DflowError | None) -> None:
        """Nothing comes any more; called once.

        Args:
            error: Why; None where the other end closed the link in order.
        """


class Link(abc.ABC):
    """One end of a link. Thread-safe.

    Attributes:
        peer: The other end in words, its name and address.
    """

    peer: str

    @abc.abstractmethod
    def begin(self, receiver: LinkReceiver) -> None:
        """Hand what arrives to a receiver from now on; what has arrived before waits until then. Called once."""

    @abc.abstractmethod
    def send(self, lane: int, head: bytes, payload: memoryview | None = None) -> None:
        """Send a frame.

        Args:
            lane: From 0.
            head: A few bytes that come with it; at most 64 KiB.
            payload: Bytes of any number. They must not change, and stay referenced until the other end has them.

        Raises:
            ClosedError: this end was closed.
            LinkLostError: the other end is lost.
        """

    @abc.abstractmethod
    def close(self, timeout: float = 5.0) -> None:
        """Send what waits, say so to the other end and let the connection go, within a limit (seconds). Idempotent.

        The receiver of this end hears no more, not even the end.
        """


class Listener(abc.ABC):
    """Where other machines may connect to.

    Attributes:
        address: Host and port in force, such as `10.0.0.2:7070` or `[::1]:7070`; never port 0.
    """

    address: str

    @abc.abstractmethod
    def close(self) -> None:
        """Accept no more links; those that are open stay. Idempotent."""


class LinkTransport(abc.ABC):
    """Makes links."""

    scheme: str

    @abc.abstractmethod
    def listen(self, address: str, config: LinkConfig, accept: Callable[[Link], None]) -> Listener:
        """Take links from other machines.

        Args:
            address: Host and port to listen at; port 0 is any free one.
            config: This end.
            accept: Takes each new link; any thread calls it, and it must not wait.

        Raises:
            UsageError: the address is none, or is in use: names it, and the process that has it where that is known.
        """

    @abc.abstractmethod
    def connect(self, address: str, config: LinkConfig, timeout: float) -> Link:
        """Join a machine that listens.

        Args:
            address: Host and port.
            config: This end.
            timeout: Seconds for the connection and the first words in both directions.

        Raises:
            PeerGoneError: nobody answers there in time, or something that is no dflow; says which.
            UsageError: the other end speaks another version, or holds another key.
        """
