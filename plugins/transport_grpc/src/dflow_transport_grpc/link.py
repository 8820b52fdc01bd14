"""One end of a link, whichever it is: what it sends and takes, over one connection after the other."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from dflow_core.errors import ClosedError, DflowError, LinkLostError, UsageError
from dflow_core.spi import Link, LinkReceiver
from dflow_transport_grpc.inbox import Inbox
from dflow_transport_grpc.outbox import Outbox
from dflow_transport_grpc.words import MOST_HEAD, Kind, Piece, Word, pack, unpack

_WORDS_IN_LEASE = 5
_EMPTY = memoryview(b"")
_JOIN = 1.0
"""Seconds to wait for threads; one may hang in gRPC until the system gives up on a machine that is stopped."""


def failure(error: Exception) -> DflowError:
    """Why a link cannot go on after an exception."""
    if isinstance(error, DflowError):
        return error
    return DflowError(f"this end of the link failed: {type(error).__name__}: {error}")


class Stream:
    """One connection of a link.

    Args:
        cancel: Ends it at once; any thread calls it.
    """

    def __init__(self, cancel: Callable[[], object]) -> None:
        self.cancel = cancel


class GrpcLink(Link):
    """One end of a link.

    Connections come and go (`attach`, `detach`); what is numbered stays. A thread of its own watches the lease.

    Args:
        name: What this end is called.
        peer: The other end in words.
        session: What both ends call the link.
        lease: Seconds without a word after which the other end is lost.
        forget: Called once when nothing is carried any more.

    Attributes:
        over: Set when nothing is carried any more.
        carrier: The thread that hears for it.
    """

    def __init__(
        self, name: str, peer: str, session: str, lease: float, forget: Callable[[], None] = lambda: None
    ) -> None:
        self.peer, self.session, self.lease = peer, session, lease
        self._name, self._pid, self._forget = name, os.getpid(), forget
        self.carrier: threading.Thread | None = None
        self._lock = threading.Condition()
        self._taking = threading.RLock()  # one connection at a time hands pieces to the receiver
        self._outbox, self._inbox = Outbox(), Inbox()
        self._early: deque[Piece] = deque()
        self._receiver: LinkReceiver | None = None
        self._stream: Stream | None = None
        self._heard_at = time.monotonic()
        self._told = 0
        self._closing = self._said_bye = self._told_end = False
        self._error: DflowError | None = None
        self.over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="dflow-link", daemon=True)
        self._keeper.start()

    # What the owner of this end calls.

    def begin(self, receiver: LinkReceiver) -> None:
        self._check_process()
        with self._taking:
            self._receiver = receiver
            while self._early:
                self._inbox.take(self._early.popleft(), receiver)
        with self._lock:
            self._lock.notify_all()
        if self.over.is_set():
            self._tell_end()

    def send(self, lane: int, head: bytes, payload: memoryview | None = None) -> None:
        self._check_process()
        if len(head) > MOST_HEAD:
            raise UsageError(f"a frame has a head of {len(head)} bytes, at most {MOST_HEAD} are possible")
        data = _EMPTY if payload is None else payload if payload.format == "B" else payload.cast("B")
        with self._lock:
            if self._closing:
                raise ClosedError(f"the link to {self.peer} is closed")
            if self._error is not None:
                raise self._error
            self._outbox.add(lane, head, data)
            self._lock.notify_all()

    def close(self, timeout: float = 5.0) -> None:
        if os.getpid() != self._pid:
            return  # a fork of the process: the link is not its own
        with self._lock:
            first, self._closing = not self._closing, True
            self._lock.notify_all()
        if first:
            self.over.wait(timeout)
            self._end(ClosedError(f"the link to {self.peer} is closed"), cut=True)
        for thread in (self._keeper, self.carrier):
            if thread is not None and thread is not threading.current_thread():
                thread.join(_JOIN)

    # What connections call.

    def attach(self, stream: Stream, heard: int) -> bool:
        """Carry on over a new connection.

        Args:
            stream: The connection.
            heard: Number of the last piece that the other end has.

        Returns:
            Whether there is still something to carry.
        """
        with self._lock:
            if self.over.is_set():
                return False
            self._stream, self._heard_at, self._told = stream, time.monotonic(), 0
            self._outbox.resume(heard)
            self._said_bye = False
            return True

    def detach(self, stream: Stream | None = None) -> int:
        """Carry nothing over a connection any more, or over any; returns the number of the last piece taken."""
        with self._lock:
            old = self._stream if stream is None or stream is self._stream else None
            if old is not None:
                self._stream = None
                self._lock.notify_all()
        if old is not None and old is not stream:
            old.cancel()
        with self._taking:
            return self._inbox.last + len(self._early)

    def words(self, stream: Stream) -> Iterator[bytes]:
        """What is to be sent over a connection, as it comes up; ends with the connection."""
        pause = self.lease / _WORDS_IN_LEASE
        due = time.monotonic() + pause
        while (word := self._next_word(stream, due)) is not None:
            due = time.monotonic() + pause
            data, is_last = pack(word), word.kind is Kind.BYE
            del word  # it holds what it carries, which may be let go while this waits
            yield data
            if is_last:
                return

    def hear(self, stream: Stream, data: bytes) -> None:
        """Take a word that came over a connection."""
        word = unpack(data)
        with self._taking:
            with self._lock:
                if self._stream is not stream:
                    return
                self._heard_at = time.monotonic()
                self._outbox.heard(word.heard)
                self._lock.notify_all()
            for piece in word.pieces:
                self._take(piece)
            if word.pieces:
                with self._lock:
                    self._lock.notify_all()
            if word.kind is Kind.BYE:
                self._end(ClosedError(f"{self.peer} closed the link"))

    def said_all(self) -> None:
        """A connection has ended in order; if this end had said its last word, that is the end of the link."""
        if self._said_bye:
            self._end(ClosedError(f"the link to {self.peer} is closed"))

    def fail(self, error: DflowError) -> None:
        """The other end will not come back."""
        self._end(error, cut=True)

    def _take(self, piece: Piece) -> None:
        if self._receiver is not None:
            self._inbox.take(piece, self._receiver)
        elif piece.number > self._inbox.last + len(self._early):
            self._early.append(piece)

    def _next_word(self, stream: Stream, due: float) -> Word | None:
        """Wait for what is to be said next; None when the connection is not in use any more."""
        with self._lock:
            while self._stream is stream and not self.over.is_set():
                heard = self._inbox.last
                pieces = self._outbox.next()
                left = due - time.monotonic()
                if pieces or heard > self._told or left <= 0:
                    self._told = heard
                    return Word(Kind.PIECES, heard, pieces)
                if self._closing and self._outbox.is_empty and not self._said_bye:
                    self._said_bye = True
                    return Word(Kind.BYE, heard)
                self._lock.wait(left)
        return None

    def _keep(self) -> None:
        """Watch the lease."""
        while not self.over.wait(max(0.0, self._heard_at + self.lease - time.monotonic())):
            if time.monotonic() - self._heard_at >= self.lease:
                self._end(LinkLostError(
                    f"{self.peer} is lost: {self._name} had no word from it for {self.lease:g} s",
                    hint="look whether its daemon runs and the network between the two works",
                ), cut=True)

    def _end(self, error: DflowError, cut: bool = False) -> None:
        """Carry nothing any more; the first reason counts.

        Args:
            error: Why.
            cut: Whether to end the connection at once; else it ends by itself.
        """
        with self._lock:
            if self.over.is_set():
                return
            self._error = error
            self.over.set()
            stream, self._stream = self._stream, None
            self._outbox.drop()
            self._lock.notify_all()
        if stream is not None and cut:
            stream.cancel()
        with self._taking:
            self._inbox.drop()
            self._early.clear()
        self._tell_end()
        self._forget()

    def _tell_end(self) -> None:
        """Tell the receiver, where there is one, that nothing comes any more: once, whoever is first."""
        with self._taking:
            receiver = None if self._closing or self._told_end else self._receiver
            self._told_end = self._told_end or receiver is not None
        if receiver is not None:
            receiver.ended(None if isinstance(self._error, ClosedError) else self._error)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise UsageError(f"the link to {self.peer} belongs to process {self._pid}, of which this is a fork")
