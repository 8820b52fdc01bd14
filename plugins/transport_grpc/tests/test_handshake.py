"""How a link begins: who may talk to whom, without a connection."""

from __future__ import annotations

import json

import pytest

from dflow_core.errors import LinkLostError, PeerGoneError, UsageError
from dflow_core.spi import LinkConfig
from dflow_transport_grpc import handshake
from dflow_transport_grpc.addresses import join_address, peer_address, split_address


def hello(version="1.2.3", **changes):
    made = handshake.greeting(LinkConfig("me", 5.0, b"k"), version)
    return handshake.Hello(**{**{name: getattr(made, name) for name in made.__slots__}, **changes})


def test_a_greeting_comes_back():
    made = hello(session="s", heard=7, proof="p")
    assert handshake.unpack(handshake.pack(made), "x") == made


def test_no_greeting_is_like_another():
    assert hello().nonce != hello().nonce


@pytest.mark.parametrize(("here", "there", "fits"), [
    ("1.2.3", "1.2.9", True), ("1.2.3", "1.3.3", False), ("2.0.0", "1.0.0", False), ("0.1.0", "0.1.1", True),
])
def test_minor_versions_must_be_equal(here, there, fits):
    if fits:
        handshake.check(hello(here), hello(there), "the other")
        return
    with pytest.raises(UsageError, match=f"the other has dflow {there}, this machine {here}"):
        handshake.check(hello(here), hello(there), "the other")


def test_versions_of_python_must_be_equal():
    """Functions travel by value, as bytes of one minor version."""
    with pytest.raises(UsageError, match="the other runs Python 2.7, this machine 3"):
        handshake.check(hello(), hello(python="2.7"), "the other")


def test_the_key_never_travels():
    made = handshake.with_proof(hello(), handshake.proof(b"secret", "dialer", hello(), hello()))
    assert b"secret" not in handshake.pack(made)


@pytest.mark.parametrize("change", ["key", "role", "dialer", "listener", "session"])
def test_a_proof_is_good_for_one_role_of_one_handshake(change):
    dialer, listener = hello(), hello(session="s")
    good = handshake.proof(b"k", "dialer", dialer, listener)
    other = {
        "key": lambda: handshake.proof(b"K", "dialer", dialer, listener),
        "role": lambda: handshake.proof(b"k", "listener", dialer, listener),
        "dialer": lambda: handshake.proof(b"k", "dialer", hello(), listener),
        "listener": lambda: handshake.proof(b"k", "dialer", dialer, hello(session="s")),
        "session": lambda: handshake.proof(b"k", "dialer", dialer, hello(nonce=listener.nonce, session="t")),
    }[change]()
    handshake.check_proof(good, good, "x")
    with pytest.raises(UsageError, match="another key"):
        handshake.check_proof(other, good, "x")


@pytest.mark.parametrize("data", [
    b"", b"HTTP/1.1 400 Bad Request", b"\1", b"\1[]", b"\1{}", b'\1{"is": "dflow link"', b"\2{}",
    pytest.param(b"\1" + b"[" * 200_000, id="brackets in brackets"),
])
def test_what_is_no_greeting_is_told(data):
    with pytest.raises(PeerGoneError, match="the other answers, but it is no dflow daemon"):
        handshake.unpack(data, "the other")


def test_another_version_of_the_link_is_told():
    data = b"\1" + json.dumps({"is": "dflow link", "link": 99}).encode()
    with pytest.raises(UsageError, match="speaks version 99 of the link, this machine 1"):
        handshake.unpack(data, "the other")


def test_a_greeting_that_lacks_something_is_told():
    data = b"\1" + json.dumps({"is": "dflow link", "link": 1, "name": "x"}).encode()
    with pytest.raises(PeerGoneError, match="lacks something"):
        handshake.unpack(data, "the other")


@pytest.mark.parametrize("error", [UsageError("no", hint="do this"), LinkLostError("gone")])
def test_a_refusal_is_raised_as_what_it_was(error):
    with pytest.raises(type(error), match=f"the other refused: {error.message}") as caught:
        handshake.raise_refusal(handshake.refusal(error), "the other")
    assert caught.value.hint == error.hint
    handshake.raise_refusal(handshake.pack(hello()), "the other")


@pytest.mark.parametrize(("text", "host", "port"), [
    ("10.0.0.2:7070", "10.0.0.2", 7070), ("a.b-c:0", "a.b-c", 0), ("[::1]:65535", "::1", 65535),
    ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
])
def test_addresses(text, host, port):
    assert split_address(text) == (host, port)
    assert join_address(host, port) == text


@pytest.mark.parametrize(("said", "address"), [
    ("ipv4:10.0.0.2:7070", "10.0.0.2:7070"), ("ipv6:%5B::1%5D:7070", "[::1]:7070"),
    ("ipv6:%5Bfe80::1%25eth0%5D:1", "[fe80::1%eth0]:1"),
])
def test_addresses_of_peers_are_told_as_they_are_written(said, address):
    assert peer_address(said) == address
