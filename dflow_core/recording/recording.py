"""A recording being read: its graph, its transactions, and their messages when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dflow_core.errors import ModelFormatError, UsageError
from dflow_core.message import FlowMsg
from dflow_core.model import FileSource, FlowModel, read_om
from dflow_core.recording.file_format import Kind, Record, opened, read_frame_of, scan
from dflow_core.recording.records import FAILED, OPEN, End, FailedCall, Fed, frame_json, message_of


@dataclass(frozen=True, slots=True)
class RecordedTransaction:
    """One transaction of a recording.

    Args:
        trans_id: Its id.
        end: How it ended.
        at: When it was fed, seconds since 1970.
        fed: Where what was fed lies.
        calls: Where its failed calls lie.
    """

    trans_id: int
    end: End
    at: float
    fed: tuple[Record, ...]
    calls: tuple[Record, ...]

    @property
    def failed(self) -> bool:
        """Whether it has failed, or had not ended when the recording did."""
        return self.end.how in FAILED


@dataclass(frozen=True, slots=True)
class Recording:
    """What a file says; messages are read when they are asked for.

    Args:
        path: The file.
        graph: Name of the graph.
        inputs, outputs: Names of its inputs and outputs.
        about: What else the file says of the graph: when, which Python, what made it.
        transactions: By id, in the order they were fed.
        torn: Bytes at the end of the file that are no whole record, as a killed application leaves them.
        left_out: Transactions that found no room; None where the application was killed before it could say.
    """

    path: str
    graph: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    about: Mapping[str, object]
    transactions: Mapping[int, RecordedTransaction]
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

    def model(self) -> FlowModel:
        """The graph. Loading its functions runs code of whoever made the recording.

        Raises:
            ModelFormatError: it cannot be read.
        """
        with opened(self.path) as source:
            (section,) = read_frame_of(source, self._model).sections
        model = read_om(section)
        # A replay does not write over its recording, and needs no other file.
        return replace(model, options={**model.options, "record": "", "deploy_info": ""})

    def fed(self, transaction: RecordedTransaction) -> list[dict[int, FlowMsg]]:
        """What was fed for a transaction, by input: an entry for each time something was."""
        with opened(self.path) as source:
            fed = [Fed.from_frame(transaction.trans_id, read_frame_of(source, one)) for one in transaction.fed]
        return [{port: message_of(data) for port, data in one.messages.items()} for one in fed]

    def calls(self, transaction: RecordedTransaction) -> list[FailedCall]:
        """Its calls that failed, in order; none where a process died, or the node is a C++ function."""
        with opened(self.path) as source:
            return [FailedCall.from_frame(read_frame_of(source, one)) for one in transaction.calls]

    def failed_call(self, transaction: RecordedTransaction) -> FailedCall:
        """The call that ended it: the first one of the node that its error names, else the first of all.

        Raises:
            UsageError: there is none.
        """
        calls = self.calls(transaction)
        if not calls:
            raise UsageError(
                f"what the failed node was given is not in {self.path}", trans_id=transaction.trans_id,
                hint="replay the whole transaction: processes that die, C++ functions and those that take from queues "
                "leave no messages behind",
            )
        node = transaction.end.error.get("node")
        return next((one for one in calls if one.node == node), calls[0])


@dataclass(slots=True)
class _Found:
    """What is found of one transaction while the file is read."""

    fed: list[Record] = field(default_factory=list)
    calls: list[Record] = field(default_factory=list)
    at: float = 0.0
    end: End | None = None


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
    found: dict[int, _Found] = {}
    left_out: int | None = None
    for record in scanned.records[1:]:
        if record.kind is Kind.FED:
            mine = found.setdefault(record.trans_id, _Found())
            mine.at = mine.at or Fed.from_frame(record.trans_id, read_frame_of(source, record)).at
            mine.fed.append(record)
        elif record.kind is Kind.CALL:
            for trans_id in FailedCall.from_frame(read_frame_of(source, record)).trans_ids:
                if trans_id in found:
                    found[trans_id].calls.append(record)
        elif record.kind is Kind.END and record.trans_id in found:
            found[record.trans_id].end = End.from_frame(read_frame_of(source, record))
        elif record.kind is Kind.CLOSED:
            said = frame_json(read_frame_of(source, record)).get("left_out")
            left_out = said if isinstance(said, int) else None
    about = frame_json(read_frame_of(source, scanned.records[0]))
    transactions = {
        trans_id: RecordedTransaction(
            trans_id, one.end or End(OPEN, 0.0), one.at, tuple(one.fed), tuple(one.calls)
        )
        for trans_id, one in found.items()
    }
    return Recording(
        source.path or "", str(about.pop("graph", "")), _texts(about.pop("inputs", ())),
        _texts(about.pop("outputs", ())), about, transactions, scanned.torn, left_out, scanned.records[0],
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()
