"""The end that waits: takes new links, and those that come back."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc

from dflow_core.errors import DflowError, LinkLostError, PeerGoneError, UsageError
from dflow_core.spi import Link, LinkConfig, Listener
from dflow_transport_grpc import handshake
from dflow_transport_grpc.addresses import holder_of, join_address, peer_address, split_address
from dflow_transport_grpc.channel import METHOD, OPTIONS, SERVICE
from dflow_transport_grpc.link import GrpcLink, Stream, failure

_MOST_CONNECTIONS = 256
_GREETING_LIMIT = 10.0
_STOP_LIMIT = 5.0


class GrpcListener(Listener):
    """A gRPC server with the one method that carries links.

    Args:
        address, config, accept: See `LinkTransport.listen`.
        version: dflow version.
    """

    def __init__(self, address: str, config: LinkConfig, version: str, accept: Callable[[Link], None]) -> None:
        host, port = split_address(address)
        self._config, self._version, self._accept = config, version, accept
        self._links: dict[str, GrpcLink] = {}
        self._lock = threading.Lock()
        self._closing = False
        handler = grpc.stream_stream_rpc_method_handler(self._carry)
        self._threads = ThreadPoolExecutor(_MOST_CONNECTIONS, "dflow-listen")
        self._server = grpc.server(
            self._threads,
            handlers=[grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})], options=OPTIONS,
        )
        try:
            bound = self._server.add_insecure_port(address)
        except RuntimeError:
            bound = 0
        if not bound:
            self._stop()
            holder = holder_of(port) if port else ""
            by = f"; {holder} listens there" if holder else ""
            raise UsageError(
                f"it is not possible to listen at {address}{by}",
                hint="choose another port (0 is any free one), and a host that is one of this machine's addresses",
            )
        self.address = join_address(host, bound)
        self._server.start()

    def close(self) -> None:
        with self._lock:
            self._closing = True
            busy = bool(self._links)
        if not busy:
            self._stop()

    def _stop(self) -> None:
        self._server.stop(None).wait(_STOP_LIMIT)
        self._threads.shutdown(wait=False)

    def _carry(self, said: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """One connection: the greetings, then what the link has to say, while a thread takes what comes."""
        address = peer_address(context.peer())
        peer = f"the machine at {address}"
        stream = Stream(context.cancel)
        limit = threading.Timer(_GREETING_LIMIT, context.cancel)
        limit.daemon = True
        limit.start()
        link: GrpcLink | None = None
        try:
            try:
                other = handshake.unpack(next(said), peer)
                own, link = self._welcome(other, peer)
                yield handshake.pack(own)
                last = handshake.unpack(next(said), peer)
                handshake.check_proof(last.proof, handshake.proof(self._config.key, "dialer", other, own), peer)
            finally:
                limit.cancel()
            is_new = link is None
            link = link or self._opened(other, own, address)
            if not link.attach(stream, other.heard):
                raise LinkLostError("this link is over")
        except DflowError as error:
            yield handshake.refusal(error)
            return
        except (StopIteration, grpc.RpcError):
            return  # it went away before it had said who it is
        yield handshake.pack(own)
        if is_new:
            self._accept(link)
        link.carrier = threading.Thread(target=self._hear, args=(link, stream, said), name="dflow-hear", daemon=True)
        link.carrier.start()
        try:
            yield from link.words(stream)
        finally:
            link.detach(stream)
            link.said_all()

    def _welcome(self, other: handshake.Hello, peer: str) -> tuple[handshake.Hello, GrpcLink | None]:
        """The answer to a hello, and the link it comes back to."""
        with self._lock:
            link = self._links.get(other.session)
            if other.session and link is None:
                raise LinkLostError("it knows nothing of this link: it was given up here, or this daemon is a new one")
            if link is None and self._closing:
                raise PeerGoneError("it takes no more links")
        session = other.session or secrets.token_hex(16)
        heard = link.detach() if link is not None else 0
        own = handshake.greeting(self._config, self._version, session, heard)
        handshake.check(own, other, peer)
        return handshake.with_proof(own, handshake.proof(self._config.key, "listener", other, own)), link

    def _opened(self, other: handshake.Hello, own: handshake.Hello, address: str) -> GrpcLink:
        peer = f"{other.name} at {address}"
        lease = min(self._config.lease, other.lease)
        with self._lock:
            made = GrpcLink(self._config.name, peer, own.session, lease, lambda: self._forget(own.session))
            self._links[own.session] = made
        return made

    def _forget(self, session: str) -> None:
        with self._lock:
            self._links.pop(session, None)
            idle = self._closing and not self._links
        if idle:
            threading.Thread(target=self._stop, name="dflow-stop", daemon=True).start()

    def _hear(self, link: GrpcLink, stream: Stream, said: Iterator[bytes]) -> None:
        try:
            for data in said:
                link.hear(stream, data)
        except grpc.RpcError:
            pass  # the connection is at its end
        except Exception as error:
            link.fail(failure(error))
        finally:
            link.detach(stream)
