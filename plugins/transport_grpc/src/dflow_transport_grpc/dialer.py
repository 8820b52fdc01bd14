"""The end that connects: it dials until it is through, and again whenever the connection breaks, within the lease."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from typing import TypeAlias

import grpc

from dflow_core.errors import DflowError, PeerGoneError
from dflow_core.spi import LinkConfig
from dflow_transport_grpc import handshake
from dflow_transport_grpc.addresses import split_address
from dflow_transport_grpc.channel import METHOD, OPTIONS, SERVICE
from dflow_transport_grpc.link import GrpcLink, Stream, failure

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_GREETING_LIMIT = 5.0
Call: TypeAlias = "grpc.CallIterator[bytes]"


class Dialer:
    """Connects to a daemon; its thread carries what arrives, for as long as the link is open.

    Args:
        address: Where the daemon listens.
        config: This end.
        version: dflow version.
    """

    def __init__(self, address: str, config: LinkConfig, version: str) -> None:
        split_address(address)
        self._address, self._config, self._version = address, config, version
        self._peer = f"the machine at {address}"
        self._link: GrpcLink | None = None
        self._lock = threading.Lock()
        self._connected = threading.Event()
        self._given_up = False
        self._failure: DflowError | None = None
        self._call: Call | None = None

    def connect(self, timeout: float) -> GrpcLink:
        """The link, when both directions have carried a message; see `LinkTransport.connect`."""
        end = time.monotonic() + timeout
        thread = threading.Thread(target=self._carry, args=(end,), name="dflow-dial", daemon=True)
        thread.start()
        self._connected.wait(timeout)
        with self._lock:
            self._given_up = self._link is None
            link, call = self._link, self._call
        if link is not None:
            link.carrier = thread
            return link
        if call is not None:
            call.cancel()
        raise self._failure or PeerGoneError(
            f"{self._peer} takes the connection, but says nothing within {timeout:g} s",
            hint="look whether a dflow daemon listens there",
        )

    def _carry(self, end: float) -> None:
        """Connect, and connect again, until the link is over; the first time only within the limit."""
        pause = _FIRST_PAUSE
        while self._is_wanted(end - pause):
            if self._attempt():
                pause = _FIRST_PAUSE
            if (self._link.over if self._link is not None else self._connected).wait(pause):
                break
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._connected.set()

    def _is_wanted(self, end: float) -> bool:
        """Whether another connection is to be tried."""
        if self._link is not None:
            return True
        hopeless = self._failure is not None and not isinstance(self._failure, PeerGoneError)
        return not self._given_up and not hopeless and time.monotonic() < end

    def _attempt(self) -> bool:
        """One connection, from its beginning to its end; whether it came to pass."""
        channel = grpc.insecure_channel(self._address, options=OPTIONS)
        words: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        carried: list[tuple[GrpcLink, Stream]] = []

        def said() -> Iterator[bytes]:
            while (word := words.get()) is not None:
                yield word
            for link, stream in carried:
                yield from link.words(stream)

        try:
            call = self._call = channel.stream_stream(f"/{SERVICE}/{METHOD}")(said())
            limit = threading.Timer(_GREETING_LIMIT, call.cancel)
            limit.daemon = True
            limit.start()
            try:
                link, stream = self._greet(call, words)
            finally:
                limit.cancel()
            carried.append((link, stream))
            words.put(None)
            for data in call:
                link.hear(stream, data)
            link.detach(stream)
            link.said_all()
        except DflowError as error:
            self._note(error)
        except grpc.RpcError as error:
            self._note(self._explained(error))
        except StopIteration:
            self._note(PeerGoneError(f"{self._peer} ended the connection before it had said who it is"))
        except Exception as error:
            self._note(failure(error))
        finally:
            for link, stream in carried:
                link.detach(stream)
            words.put(None)
            channel.close()
        return bool(carried)

    def _greet(self, call: Call, words: queue.SimpleQueue[bytes | None]) -> tuple[GrpcLink, Stream]:
        """The handshake; see `handshake`."""
        known = self._link
        heard = known.detach() if known is not None else 0
        own = handshake.greeting(self._config, self._version, known.session if known is not None else "", heard)
        words.put(handshake.pack(own))
        answer = next(call)
        handshake.raise_refusal(answer, self._peer)
        other = handshake.unpack(answer, self._peer)
        handshake.check(own, other, self._peer)
        handshake.check_proof(other.proof, handshake.proof(self._config.key, "listener", own, other), self._peer)
        words.put(handshake.pack(handshake.with_proof(own, handshake.proof(self._config.key, "dialer", own, other))))
        handshake.raise_refusal(next(call), self._peer)
        link = known
        if link is None:
            peer = f"{other.name} at {self._address}"
            link = GrpcLink(self._config.name, peer, other.session, min(self._config.lease, other.lease))
        stream = Stream(call.cancel)
        if not link.attach(stream, other.heard):
            raise PeerGoneError(f"the link to {link.peer} is over")
        with self._lock:
            if self._given_up:
                link.close(0.0)
                raise PeerGoneError(f"nobody waits for the link to {link.peer} any more")
            self._link = link
        self._connected.set()
        return link, stream

    def _note(self, error: DflowError) -> None:
        """Keep why it did not work; where that is for good, end the link."""
        self._failure = error
        if self._link is not None and type(error) is not PeerGoneError:
            self._link.fail(error)

    def _explained(self, error: grpc.RpcError) -> DflowError:
        code, details = error.code(), (error.details() or "").splitlines()
        text = details[0] if details else code.name
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return PeerGoneError(f"{self._peer} answers, but it is no dflow daemon ({text})")
        return PeerGoneError(
            f"no dflow daemon answers at {self._address}: {text}",
            hint="start `dflow daemon` there, and check the address, the port and firewalls in between",
        )
