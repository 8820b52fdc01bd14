"""How a link begins, without I/O: who is there, do both speak the same version, do both hold the same key.

    dialer                                       listener
    hello: versions, name, lease, nonce  ------>
                                         <------ welcome: the same, a session, proof of the key
    proof of the key                     ------>
                                         <------ done (and both directions have carried a word)

A proof is HMAC-SHA256 with the key over the nonces of both and the role, so that it cannot be played back or mirrored.
A refusal takes the place of any answer and says why. A dialer that comes back names its session in its hello.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dflow_core.errors import DflowError, LinkLostError, PeerGoneError, UsageError
from dflow_core.spi import LinkConfig
from dflow_transport_grpc.words import Kind

LINK_VERSION = 1
_MAGIC = "dflow link"
_USAGE, _SESSION = "usage", "session"


@dataclass(frozen=True, slots=True)
class Hello:
    """What one end says of itself.

    Args:
        name: Its name.
        version: dflow version.
        lease: Seconds.
        nonce: Random text.
        session: The session it comes back to, or the one it is given; "" for a new one.
        heard: Number of the last piece it has taken.
        proof: Proof of the key; "" where there is none yet.
        python: Version of Python, up to its minor number.
    """

    name: str
    version: str
    lease: float
    nonce: str
    session: str = ""
    heard: int = 0
    proof: str = ""
    python: str = "{}.{}".format(*sys.version_info)


def proof(key: bytes, role: str, dialer: Hello, listener: Hello) -> str:
    """What shows that the end with a role (`dialer` or `listener`) holds the key."""
    text = f"{role} {dialer.nonce} {listener.nonce} {listener.session}".encode()
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def greeting(config: LinkConfig, version: str, session: str = "", heard: int = 0) -> Hello:
    """What this end says first."""
    return Hello(config.name, version, config.lease, secrets.token_hex(16), session, heard)


def with_proof(hello: Hello, text: str) -> Hello:
    """A greeting with the proof of the key."""
    return replace(hello, proof=text)


def pack(hello: Hello) -> bytes:
    """A greeting as it travels."""
    return _packed({
        "name": hello.name, "version": hello.version, "lease": hello.lease, "nonce": hello.nonce,
        "session": hello.session, "heard": hello.heard, "proof": hello.proof, "python": hello.python,
    })


def unpack(data: bytes, peer: str) -> Hello:
    """The greeting that bytes are.

    Args:
        data: The bytes.
        peer: The other end in words.

    Raises:
        PeerGoneError: they are none.
        UsageError: the other end speaks another version of the link.
    """
    found = _unpacked(data, peer)
    try:
        return Hello(
            str(found["name"]), str(found["version"]), float(str(found["lease"])), str(found["nonce"]),
            str(found["session"]), int(str(found["heard"])), str(found["proof"]), str(found["python"]),
        )
    except (KeyError, ValueError) as cause:
        raise PeerGoneError(f"{peer} sent a greeting that lacks something: {cause}") from cause


def check(own: Hello, other: Hello, peer: str) -> None:
    """Whether both may talk at all.

    Raises:
        UsageError: they are of different minor versions of dflow or Python; functions travel by value between them.
    """
    if own.python != other.python:
        raise UsageError(
            f"{peer} runs Python {other.python}, this machine {own.python}", hint="use the same minor version on both"
        )
    if own.version.split(".")[:2] != other.version.split(".")[:2]:
        raise UsageError(
            f"{peer} has dflow {other.version}, this machine {own.version}", hint="install the same version on both"
        )


def check_proof(given: str, wanted: str, peer: str) -> None:
    """Whether the other end holds the key.

    Raises:
        UsageError: it does not.
    """
    if not hmac.compare_digest(given, wanted):
        raise UsageError(
            f"{peer} holds another key, or one end has none", hint="give both the same DFLOW_LINK_KEY or key file"
        )


def refusal(error: DflowError) -> bytes:
    """The answer that ends a handshake."""
    kind = _SESSION if isinstance(error, LinkLostError) else _USAGE
    return _packed({"refused": str(error.message), "kind": kind, "hint": error.hint or ""})


def raise_refusal(data: bytes, peer: str) -> None:
    """Raise what an answer says, if it is a refusal.

    Raises:
        UsageError: the other end does not want this one.
        LinkLostError: it does not know the session any more.
    """
    found = _unpacked(data, peer)
    if "refused" in found:
        kind = LinkLostError if found.get("kind") == _SESSION else UsageError
        raise kind(f"{peer} refused: {found['refused']}", hint=str(found.get("hint", "")) or None)


def _packed(found: Mapping[str, object]) -> bytes:
    return bytes([Kind.GREETING]) + json.dumps({"is": _MAGIC, "link": LINK_VERSION, **found}).encode()


def _unpacked(data: bytes, peer: str) -> dict[str, object]:
    try:
        found = json.loads(data[1:]) if data[:1] == bytes([Kind.GREETING]) else {}
    except (ValueError, RecursionError):  # the latter for brackets in brackets
        found = {}
    if not isinstance(found, dict) or found.get("is") != _MAGIC:
        raise PeerGoneError(f"{peer} answers, but it is no dflow daemon", hint="check the address and the port")
    if found.get("link") != LINK_VERSION:
        raise UsageError(
            f"{peer} speaks version {found.get('link')} of the link, this machine {LINK_VERSION}",
            hint="install the same version of dflow-transport-grpc on both",
        )
    return found
