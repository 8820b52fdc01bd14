"""What a recording says of transactions, as data, and each of it as a frame (`model/frame.py`).

Messages are kept as they lay in their blocks: head, body, aux section. Nothing here unpickles anything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dflow_core.errors import DflowError, ModelFormatError
from dflow_core.message import Block, ErrorInfo, FlowMsg, HeapBlock, MsgInfo, MsgType, describe
from dflow_core.model import Buffer, Frame, laid_out

RESULT, ERROR, LOST, DROPPED, CANCELLED = "result", "error", "lost", "dropped", "cancelled"
UNFINISHED, OPEN = "unfinished", "open"
"""How a transaction ended. `open`: the recording ends before it does, because the application was killed."""

FAILED = frozenset({ERROR, LOST, UNFINISHED, OPEN})
"""Ends that are failures: these are what is replayed if nobody says which."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call of a node that raised, with the very messages it was given.

    Args:
        node, instance: Whose call.
        function: Number of the node's function.
        head: The message whose head the outputs inherit; None for a timer.
        inputs: What the function was given: one message for each port, all parts of a transaction, or a batch.
        error: What it raised.
        ports: The input that each message was taken from, for a function with queues; empty for any other.
    """

    node: str
    instance: int
    function: int
    head: FlowMsg | None
    inputs: tuple[FlowMsg, ...]
    error: ErrorInfo
    ports: tuple[int, ...] = ()

    @property
    def trans_ids(self) -> tuple[int, ...]:
        """Transactions that took part, members of batches included."""
        messages = (*self.inputs, *([self.head] if self.head is not None else []))
        return tuple(dict.fromkeys(key[0] for msg in messages for key in msg.keys))

    @staticmethod
    def trans_ids_in(head: bytes) -> tuple[int, ...]:
        """Transactions that took part in the call whose frame has this head; raises as `from_frame`."""
        try:
            return tuple(_int(one) for one in head_json(head)["trans_ids"])  # type: ignore[attr-defined]
        except (KeyError, TypeError) as cause:
            raise ModelFormatError(f"a failed call cannot be read: {cause}") from cause

    def to_frame(self) -> Frame:
        """As a frame: the head's message comes first, if there is one."""
        fields = {name: getattr(self.error, name) for name in ErrorInfo.__dataclass_fields__}
        head = {
            "node": self.node, "instance": self.instance, "function": self.function, "trans_ids": self.trans_ids,
            "has_head": self.head is not None, "error": fields, "ports": self.ports,
        }
        first = [message_bytes(FlowMsg(self.head.info, None, self.head.aux))] if self.head is not None else []
        return Frame(_packed(head), (*first, *map(message_bytes, self.inputs)))

    @classmethod
    def from_frame(cls, frame: Frame) -> FailedCall:
        """The inverse of `to_frame`.

        Raises:
            ModelFormatError: it says something else than it should.
        """
        said = head_json(frame.head)
        try:
            fields = dict(said["error"])  # type: ignore[call-overload]  # checked by what follows
            error = ErrorInfo(**{**fields, "input_shapes": tuple(fields["input_shapes"])})
            messages = [message_of(section) for section in frame.sections]
            head = messages.pop(0) if said["has_head"] else None
            node, instance, function = str(said["node"]), _int(said["instance"]), _int(said["function"])
            ports = tuple(_int(port) for port in said.get("ports", ()))  # type: ignore[attr-defined]
            if ports and len(ports) != len(messages):
                raise ValueError(f"{len(messages)} messages of {len(ports)} inputs")
        except (KeyError, TypeError, ValueError, IndexError) as cause:
            raise ModelFormatError(f"a failed call cannot be read: {cause}") from cause
        return cls(node, instance, function, head, tuple(messages), error, ports)


@dataclass(frozen=True, slots=True)
class Fed:
    """Messages fed together for one transaction.

    Args:
        trans_id: Transaction.
        at: When, seconds since 1970.
        messages: The bytes of a message for each input.
    """

    trans_id: int
    at: float
    messages: Mapping[int, bytes]

    @classmethod
    def from_frame(cls, trans_id: int, frame: Frame) -> Fed:
        """The inverse of `fed_chunks`; raises as that of `FailedCall`."""
        at = fed_at(frame.head)
        try:
            ports = [_int(port) for port in head_json(frame.head)["ports"]]  # type: ignore[attr-defined]
            return cls(trans_id, at, dict(zip(ports, frame.sections, strict=True)))
        except (KeyError, TypeError, ValueError) as cause:
            raise ModelFormatError(f"what was fed cannot be read: {cause}") from cause


def fed_at(head: bytes) -> float:
    """When that was fed whose frame has this head; raises as `Fed.from_frame`."""
    try:
        return float(str(head_json(head)["at"]))
    except (KeyError, ValueError) as cause:
        raise ModelFormatError(f"what was fed cannot be read: {cause}") from cause


def fed_chunks(at: float, blocks: Mapping[int, Block]) -> list[Buffer]:
    """What is fed in these blocks, as the frame of a `Fed`; nothing large is copied.

    Args:
        at: When, seconds since 1970.
        blocks: The block of each input.
    """
    return json_chunks({"at": at, "ports": list(blocks)}, [(_message_in(block),) for block in blocks.values()])


@dataclass(frozen=True, slots=True)
class ResultDigest:
    """One result, without its data.

    Args:
        output: Number of the output.
        label: Part of the transaction.
        text: In words, such as `float32[3]`.
        digest: Of descriptor and data of a tensor; "" for anything else, whose bytes may differ and mean the same.
    """

    output: int
    label: int
    text: str
    digest: str

    @classmethod
    def of(cls, output: int, msg: FlowMsg) -> ResultDigest:
        """That of a message."""
        digest = ""
        if msg.body is not None and not msg.is_null and msg.info.msg_type == MsgType.TENSOR:
            digest = hashlib.sha256(np.ascontiguousarray(msg.body)).hexdigest()[:32]
        return cls(output, msg.info.data_label, describe(msg), digest)


@dataclass(frozen=True, slots=True)
class End:
    """How a transaction ended.

    Args:
        how: `result`, `error`, `lost` (a process died), `dropped`, `cancelled`, `unfinished` (the graph was closed).
        seconds: From the first feed to the end.
        error: Type, text and place of the error.
        results: What came out.
        together: Transactions that were in the same batch when it failed, itself included.
    """

    how: str
    seconds: float
    error: Mapping[str, object] = field(default_factory=dict)
    results: tuple[ResultDigest, ...] = ()
    together: tuple[int, ...] = ()

    def to_frame(self) -> Frame:
        """As a frame."""
        results = [[one.output, one.label, one.text, one.digest] for one in self.results]
        head = {
            "how": self.how, "seconds": self.seconds, "error": self.error, "results": results,
            "together": list(self.together),
        }
        return Frame(_packed(head))

    @classmethod
    def from_frame(cls, frame: Frame) -> End:
        """The inverse of `to_frame`; raises as that of `FailedCall`."""
        return cls.from_head(frame.head)

    @classmethod
    def from_head(cls, head: bytes) -> End:
        """From the head of its frame, which says all of it; raises as `from_frame`."""
        said = head_json(head)
        try:
            return cls(
                str(said["how"]), float(str(said["seconds"])), dict(said["error"]),  # type: ignore[call-overload]
                tuple(
                    ResultDigest(_int(a), _int(b), str(c), str(d))
                    for a, b, c, d in said["results"]  # type: ignore[attr-defined]
                ),
                tuple(_int(one) for one in said["together"]),  # type: ignore[attr-defined]
            )
        except (KeyError, TypeError, ValueError) as cause:
            raise ModelFormatError(f"the end of a transaction cannot be read: {cause}") from cause


def error_fields(error: DflowError) -> dict[str, object]:
    """What is kept of an error."""
    names = ("message", "node", "instance", "hint", "error_type", "output")
    return {"type": type(error).__name__, **{name: getattr(error, name, None) for name in names}}


def message_bytes(msg: FlowMsg) -> bytes:
    """A message as it lies in a block."""
    aux = msg.aux.pack()
    body = b"" if msg.body is None else msg.body.tobytes()
    return b"".join((msg.info.pack(len(body), len(aux)), body, aux))


def copied(msg: FlowMsg) -> FlowMsg:
    """The same message, in a block of its own."""
    return message_of(message_bytes(msg))


def _message_in(block: Block) -> memoryview:
    """The message in a block, which may be larger than it."""
    data = block.array()
    _, body, aux = MsgInfo.unpack(data)
    return memoryview(data)[: _HEAD + body + aux]


def message_of(data: bytes) -> FlowMsg:
    """The inverse of `message_bytes`, in a block of its own.

    Raises:
        ModelFormatError: these are the bytes of no message.
    """
    try:
        _, body, aux = MsgInfo.unpack(data[:_HEAD])
    except Exception as cause:
        raise ModelFormatError(f"{len(data)} bytes are no message") from cause
    if _HEAD + body + aux != len(data):
        raise ModelFormatError(f"a message of {_HEAD + body + aux} bytes fills {len(data)}")
    block = HeapBlock(len(data))
    block.array(writable=True)[:] = np.frombuffer(data, np.uint8)
    return FlowMsg.from_block(block)


_HEAD = 256


def _packed(head: Mapping[str, object]) -> bytes:
    return json.dumps(head).encode("utf-8", "surrogatepass")


def head_json(head: bytes) -> dict[str, object]:
    """The head of a frame, which is one JSON object.

    Raises:
        ModelFormatError: it is something else.
    """
    try:
        said = json.loads(head.decode("utf-8", "surrogatepass"))
    except ValueError as cause:
        raise ModelFormatError(f"a record's head cannot be read: {cause}") from cause
    if not isinstance(said, dict):
        raise ModelFormatError("a record's head is no object")
    return said


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected a number, got {value!r}")
    return value


def json_chunks(head: Mapping[str, object], sections: Sequence[Sequence[Buffer]] = ()) -> list[Buffer]:
    """A frame with one JSON object as its head, as buffers."""
    return laid_out(_packed(head), sections)
