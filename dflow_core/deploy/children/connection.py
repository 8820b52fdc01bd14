"""The application's end of a control connection; never blocks."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence

from dflow_core.model.control_serde import ControlMessage, ControlReader, frame_control

_CHUNK = 65536


class Connection:
    """Control messages over a socket that does not block.

    Args:
        end: This side's socket; the connection closes it.

    `on_unsent` is called whenever something does not fit, so that `flush` is called once there is room.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._reader = ControlReader()
        self._unsent = bytearray()
        self.broken = False
        self.on_unsent: Callable[[], None] = lambda: None

    def fileno(self) -> int:
        """Descriptor to wait for."""
        return self._socket.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._unsent) and not self.broken

    def send(self, message: ControlMessage, fds: Sequence[int] = ()) -> None:
        """Send a message as far as there is room, and the rest with `flush`. Nothing happens if the peer is gone.

        Args:
            message: What to send.
            fds: Descriptors that travel along; they may be closed afterwards. Only for the first message.
        """
        self._unsent += frame_control(message)
        if fds and not self.broken:
            try:
                sent = socket.send_fds(self._socket, [self._unsent], list(fds))
            except OSError:
                self.broken = True
            else:
                del self._unsent[:sent]
        self.flush()
        if self.wants_write:
            self.on_unsent()

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        while self.wants_write:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:
                self.broken = True
                return
            del self._unsent[:sent]

    def receive(self) -> list[ControlMessage] | None:
        """Messages that have come, or None when the peer has closed its side.

        Raises:
            PeerGoneError: if the peer sends what is no control message.
        """
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        return list(self._reader.feed(data)) if data else None

    def close(self) -> None:
        """End the connection, also for copies of the descriptor in forks of this process. Idempotent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
