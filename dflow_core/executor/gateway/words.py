"""What gateways tell each other besides messages: the heads of frames that carry none.

    gateway lane   G, then pairs of 32 bit: crossing, messages more that may be sent
                   C, then the board of cancelled transactions, see `cancel_board.py`
    data lanes     E: the queue was closed, and this comes after its last message

A message is a frame without a head: all its bytes are payload.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from dflow_core.errors import DeployError

MESSAGE = b""
GRANTED = b"G"
CANCELLED = b"C"
ENDED = b"E"

_PAIR = struct.Struct("<II")


def granted(credits: Mapping[int, int]) -> bytes:
    """The frame that grants credits.

    Args:
        credits: For each crossing, by number, how many.
    """
    return GRANTED + b"".join(_PAIR.pack(crossing, count) for crossing, count in credits.items())


def credits_of(head: bytes) -> list[tuple[int, int]]:
    """Crossings and credits that a frame grants."""
    return list(_PAIR.iter_unpack(head[len(GRANTED) :]))


def unknown(peer: str, lane: int, head: bytes) -> DeployError:
    """The error of a frame that says nothing."""
    return DeployError(
        f"{peer} sent a frame on lane {lane} that means nothing here: {head[:16]!r}",
        hint="both machines need the same version of dflow",
    )
