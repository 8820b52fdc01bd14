"""A recording being read: its graph, its transactions, and their messages when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dflow_core.errors import ModelFormatError, UsageError
from dflow_core.message import FlowMsg
from dflow_core.model import FileSource, FlowModel, PneModel, read_om, unpack_submodel
from dflow_core.recording.file_format import Kind, Record, opened, read_frame_of, read_head_of, scan
from dflow_core.recording.records import FAILED, OPEN, End, FailedCall, Fed, fed_at, head_json, message_of


@dataclass(frozen=True, slots=True)
class RecordedTransaction:
    """One transaction of a recording.

    Args:
        trans_id: Its id.
        end: How it ended.
        at: When it was fed, seconds since 1970.
        fed: Where what was fed lies.
        calls: Where its failed calls lie.
        updates: How many of the recording's updates came before it.
    """

    trans_id: int
    end: End
    at: float
    fed: tuple[Record, ...]
    calls: tuple[Record, ...]
    updates: int = 0

    @property
    def failed(self) -> bool:
        """Whether it has failed, or had not ended when the recording did."""
        return self.end.how in FAILED


@dataclass(frozen=True, slots=True)
class Update:
    """Nodes that were exchanged while the graph ran (`graph.update`).

    Args:
        first: The first transaction that the new ones could work on.
        at: When, seconds since 1970.
        nodes: Their new versions, by name; 1 is that of the start.
        record: Where the new ones lie.
    """

    first: int
    at: float
    nodes: Mapping[str, int]
    record: Record = field(repr=False)


@dataclass(frozen=True, slots=True)
class Recording:
    """What a file says; messages are read when they are asked for.

    Args:
        path: The file.
        graph: Name of the graph.
        inputs, outputs: Names of its inputs and outputs.
        about: What else the file says of the graph: when, which Python, what made it.
        transactions: By id, in the order they were fed.
        updates: Those that its transactions need, in order.
        torn: Bytes at the end of the file that are no whole record, as a killed application leaves them.
        left_out: Transactions that found no room; None where the application was killed before it could say.
    """

    path: str
    graph: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    about: Mapping[str, object]
    transactions: Mapping[int, RecordedTransaction]
    updates: tuple[Update, ...]
    torn: int
    left_out: int | None
    _model: Record = field(repr=False)

    @property
    def failed(self) -> tuple[int, ...]:
        """Transactions that have failed, in the order they were fed."""
        return tuple(one.trans_id for one in self.transactions.values() if one.failed)

    def transaction(self, trans_id: int | None = None) -> RecordedTransaction:
        """One transaction; the first that failed if none is named.

        Raises:
            UsageError: it is not in the recording, or none has failed.
        """
        known = ", ".join(map(str, list(self.transactions)[:20])) or "none"
        if trans_id is None:
            if not self.failed:
                raise UsageError(f"no transaction of {self.path} has failed", hint=f"name one of {known}")
            return self.transactions[self.failed[0]]
        if trans_id not in self.transactions:
            raise UsageError(f"transaction {trans_id} is not in {self.path}", hint=f"there are {known}")
        return self.transactions[trans_id]

    def versions_of(self, transaction: RecordedTransaction) -> dict[str, int]:
        """Versions of the nodes that were exchanged before a transaction, by name."""
        return {name: version for one in self.updates[: transaction.updates] for name, version in one.nodes.items()}

    def model(self, transaction: RecordedTransaction | None = None) -> FlowModel:
        """The graph. Loading its functions runs code of whoever made the recording.

        Args:
            transaction: The graph as it was when this one was fed; as it was started if not given.

        Raises:
            ModelFormatError: it cannot be read.
        """
        applied = self.updates[: transaction.updates] if transaction is not None else ()
        parts: dict[str, PneModel] = {}
        with opened(self.path) as source:
            (section,) = read_frame_of(source, self._model).sections
            for update in applied:
                packed = read_frame_of(source, update.record).sections
                parts |= zip(update.nodes, map(unpack_submodel, packed), strict=True)
        model = read_om(section)
        # A replay does not write over its recording, and needs no other file.
        options = {**model.options, "record": "", "deploy_info": ""}
        return replace(model, options=options, submodels={**model.submodels, **parts})

    def fed(self, transaction: RecordedTransaction) -> list[dict[int, FlowMsg]]:
        """What was fed for a transaction, by input: an entry for each time something was."""
        with opened(self.path) as source:
            fed = [Fed.from_frame(transaction.trans_id, read_frame_of(source, one)) for one in transaction.fed]
        return [{port: message_of(data) for port, data in one.messages.items()} for one in fed]

    def calls(self, transaction: RecordedTransaction) -> list[FailedCall]:
        """Its calls that failed, in order; none where a process died."""
        with opened(self.path) as source:
            return [FailedCall.from_frame(read_frame_of(source, one)) for one in transaction.calls]

    def failed_call(self, transaction: RecordedTransaction, node: str = "") -> FailedCall:
        """The call that ended it: the first one of the node that its error names, else the first of all.

        Args:
            transaction: Which one.
            node: The first failed call of this node instead.

        Raises:
            UsageError: there is none.
        """
        calls = self.calls(transaction)
        if not calls:
            raise UsageError(
                f"what the failed node was given is not in {self.path}", trans_id=transaction.trans_id,
                hint="replay the whole transaction: a process that dies leaves no messages behind",
            )
        named = node or transaction.end.error.get("node")
        found = next((one for one in calls if one.node == named), None)
        if found is None and node:
            known = ", ".join(dict.fromkeys(one.node for one in calls))
            raise UsageError(
                f"no failed call of node {node!r} is in {self.path}", trans_id=transaction.trans_id,
                hint=f"there are those of {known}",
            )
        return found or calls[0]


@dataclass(slots=True)
class _Found:
    """What is found of one transaction while the file is read."""

    fed: list[Record] = field(default_factory=list)
    calls: list[Record] = field(default_factory=list)
    at: float = 0.0
    end: End | None = None
    updates: int = 0

    def whole(self, trans_id: int) -> RecordedTransaction:
        """All of it."""
        end = self.end or End(OPEN, 0.0)
        return RecordedTransaction(trans_id, end, self.at, tuple(self.fed), tuple(self.calls), self.updates)


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read a recording; every checksum is compared, nothing is unpickled.

    Raises:
        ModelFormatError: no recording, one of another version, or one that was altered.
    """
    with opened(path) as source:
        try:
            return _read(source)
        except ModelFormatError as error:
            if error.path is not None:
                raise
            raise ModelFormatError(error.message, path=source.path) from error


def _read(source: FileSource) -> Recording:
    scanned = scan(source)
    found = _Contents()
    for record in scanned.records[1:]:
        found.take(record, read_head_of(source, record))
    about = head_json(read_head_of(source, scanned.records[0]))
    return Recording(
        source.path or "", str(about.pop("graph", "")), _texts(about.pop("inputs", ())),
        _texts(about.pop("outputs", ())), about,
        {trans_id: one.whole(trans_id) for trans_id, one in found.transactions.items()}, tuple(found.updates),
        scanned.torn, found.left_out, scanned.records[0],
    )


class _Contents:
    """What the records of a file say, one after the other; only their heads are read."""

    def __init__(self) -> None:
        self.transactions: dict[int, _Found] = {}
        self._latest: dict[int, _Found] = {}
        self.updates: list[Update] = []
        self.left_out: int | None = None

    def take(self, record: Record, head: bytes) -> None:
        """Note the next record."""
        if record.kind is Kind.FED:
            self._fed(record, head)
        elif record.kind is Kind.CALL:
            for trans_id in FailedCall.trans_ids_in(head):
                if trans_id in self._latest:
                    self._latest[trans_id].calls.append(record)
        elif record.kind is Kind.END and record.trans_id in self._latest:
            self._latest[record.trans_id].end = End.from_head(head)
        elif record.kind is Kind.UPDATE:
            self.updates.append(_update(record, head_json(head)))
        elif record.kind is Kind.CLOSED:
            said = head_json(head).get("left_out")
            self.left_out = said if isinstance(said, int) else None

    def _fed(self, record: Record, head: bytes) -> None:
        """An id may be used again, by a caller that numbers, or of inputs fed apart: a failure stays, else the last."""
        mine, known = self._latest.get(record.trans_id), self.transactions.get(record.trans_id)
        if mine is None or mine.end is not None:
            mine = self._latest[record.trans_id] = _Found(at=fed_at(head), updates=len(self.updates))
            if known is None or known.end is None or known.end.how not in FAILED:
                self.transactions.pop(record.trans_id, None)
                self.transactions[record.trans_id] = mine
        mine.fed.append(record)


def _update(record: Record, said: Mapping[str, object]) -> Update:
    first, at, nodes = said.get("first"), said.get("at"), said.get("nodes")
    if not (isinstance(first, int) and isinstance(at, (int, float)) and isinstance(nodes, dict)):
        raise ModelFormatError("an update cannot be read: it lacks its transaction, time or nodes")
    if not all(isinstance(version, int) for version in nodes.values()):
        raise ModelFormatError("an update cannot be read: a version of a node is no number")
    return Update(first, float(at), nodes, record)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()
