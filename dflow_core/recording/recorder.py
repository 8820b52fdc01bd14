"""Records a running graph: told what happens at the caller's side, writes what the keeper wants kept.

A recording never disturbs the graph: where it cannot be written any more (a full disk), that is logged once, and the
graph goes on. Everything is handed to the operating system at once, so an application that is killed has recorded what
had happened.
"""

from __future__ import annotations

import datetime
import itertools
import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dflow_core.errors import (
    CancelledError,
    ClosedError,
    DeadlineError,
    DflowError,
    InstanceLostError,
    ModelFormatError,
)
from dflow_core.message import Block, FlowMsg
from dflow_core.model import Buffer, FlowModel, PneModel, frame_chunks, om_chunks, pack_submodel, read_head
from dflow_core.recording.file_format import Kind, record_chunks, total
from dflow_core.recording.keeper import Keeper
from dflow_core.recording.recording_file import RecordingFile
from dflow_core.recording.records import (
    CANCELLED,
    DROPPED,
    ERROR,
    FAILED,
    LOST,
    RESULT,
    UNFINISHED,
    End,
    FailedCall,
    ResultDigest,
    error_fields,
    fed_chunks,
    json_chunks,
)

_LOG = logging.getLogger("dflow.record")
_MOST_RESULTS = 256
SUFFIX = ".dfrec"


@dataclass(slots=True)
class _Open:
    """A transaction under way."""

    since: float
    results: list[ResultDigest] = field(default_factory=list)
    together: tuple[int, ...] = ()


class Recorder:
    """Records one graph. Thread-safe.

    Args:
        path: The file; where it is a folder, or ends like one, a new file in it.
        model: The graph, which goes into the file.
        keeper: Decides what is kept.
        clock: Monotonic seconds.
        wall: Seconds since 1970.

    Raises:
        OptionError: the file cannot be written, or is something else.
    """

    def __init__(
        self, path: str, model: FlowModel, keeper: Keeper, clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._keeper, self._clock, self._wall = keeper, clock, wall
        self._lock = threading.Lock()
        self._open: dict[int, _Open] = {}
        self._counts = dict.fromkeys((RESULT, ERROR, LOST, DROPPED, CANCELLED, UNFINISHED), 0)
        self.path = _file_in(path, model.name)
        graph = _graph_chunks(model, wall())
        self._file: RecordingFile | None = RecordingFile(self.path, record_chunks(Kind.GRAPH, 0, graph))

    def fed(self, trans_id: int, blocks: Mapping[int, Block]) -> None:
        """Messages are about to be fed for a transaction."""
        with self._lock:
            if self._file is None:
                return
            chunks = record_chunks(Kind.FED, trans_id, fed_chunks(self._wall(), blocks))
            self._open.setdefault(trans_id, _Open(self._clock()))
            if self._keeper.wants_fed(trans_id, total(chunks)):
                self._write((trans_id,), chunks)

    def called(self, packed: Sequence[bytes]) -> None:
        """Calls of nodes have failed; what they say of it."""
        with self._lock:
            for one in packed:
                if self._file is None:
                    return
                try:
                    trans_ids = FailedCall.trans_ids_in(read_head(one, "a failed call"))
                except ModelFormatError as error:
                    _LOG.warning("a failed call is not recorded: %s", error)
                    continue
                self._note_together(trans_ids)
                chunks = record_chunks(Kind.CALL, trans_ids[0] if trans_ids else 0, [one])
                if self._keeper.wants_call(trans_ids, total(chunks)):
                    self._write(trans_ids, chunks)

    def exchanged(self, first: int, models: Mapping[str, PneModel], versions: Mapping[str, int]) -> None:
        """Nodes were replaced while nothing is under way: what is fed from now on, from `first` on, is for these.

        Args:
            first: The next transaction, unless its caller numbers it.
            models: What works from now on, by name of the node.
            versions: Versions of nodes that were ever replaced.
        """
        with self._lock:
            if self._file is None:
                return
            head = {"first": first, "at": self._wall(), "nodes": {name: versions[name] for name in models}}
            frame = json_chunks(head, [pack_submodel(model) for model in models.values()])
            chunks = record_chunks(Kind.UPDATE, 0, frame)
            at = self._append(chunks)
            if at is not None:
                self._keeper.exchanged(models, at, total(chunks))

    def arrived(self, output: int, msg: FlowMsg) -> None:
        """A message has come out of the graph."""
        with self._lock:
            found = self._open.get(msg.info.trans_id)
            if found is None or self._file is None:
                return
            if msg.aux.error is not None:
                self._note_together(tuple(dict.fromkeys(key[0] for key in msg.keys)))
            elif msg.is_data and len(found.results) < _MOST_RESULTS:
                found.results.append(ResultDigest.of(output, msg))

    def ended(self, trans_id: int, error: DflowError | None, dropped: bool) -> None:
        """A transaction has ended; a second time does not count."""
        with self._lock:
            found = self._open.pop(trans_id, None)
            if found is None or self._file is None:
                return
            how = _how(error, dropped)
            self._counts[how] += 1
            if self._keeper.is_open(trans_id):
                fields = error_fields(error) if error is not None else {}
                end = End(how, self._clock() - found.since, fields, tuple(found.results), found.together)
                self._write((trans_id,), record_chunks(Kind.END, trans_id, frame_chunks(end.to_frame())))
                self._keeper.ended(trans_id, how in FAILED)
            self._compact()

    def close(self) -> None:
        """Write how much there was, and close the file. Idempotent."""
        with self._lock:
            if self._file is not None:
                said = {"ended": self._counts, "left_out": self._keeper.left_out, "at": self._wall()}
                self._write((), record_chunks(Kind.CLOSED, 0, json_chunks(said)))
            self._stop()

    def _note_together(self, trans_ids: tuple[int, ...]) -> None:
        """Remember what failed as one batch: alone, one of them may never fill it again."""
        for trans_id in trans_ids if len(trans_ids) > 1 else ():
            if trans_id in self._open:
                self._open[trans_id].together = tuple(sorted(trans_ids))

    def _write(self, trans_ids: tuple[int, ...], chunks: Sequence[Buffer]) -> None:
        """Append a record of some transactions."""
        at = self._append(chunks)
        if at is not None:
            self._keeper.wrote(trans_ids, at, total(chunks))

    def _append(self, chunks: Sequence[Buffer]) -> int | None:
        """Append a record; gives where, or None if it could not be written."""
        if self._file is None:
            return None
        try:
            return self._file.append(chunks)
        except OSError as error:
            self._give_up(error)
            return None

    def _compact(self) -> None:
        pieces = self._keeper.compaction()
        if pieces is None or self._file is None:
            return
        try:
            self._file.rewrite(pieces)
        except OSError as error:
            self._give_up(error)
        else:
            self._keeper.compacted()

    def _give_up(self, error: OSError) -> None:
        _LOG.warning("%s: nothing more is recorded: %s", self.path, error.strerror or error)
        self._stop()

    def _stop(self) -> None:
        file, self._file = self._file, None
        self._open.clear()
        if file is not None:
            file.close()


def _how(error: DflowError | None, dropped: bool) -> str:
    if error is None:
        return DROPPED if dropped else RESULT
    if isinstance(error, InstanceLostError):
        return LOST
    if isinstance(error, CancelledError) and not isinstance(error, DeadlineError):
        return CANCELLED
    return UNFINISHED if isinstance(error, ClosedError) else ERROR


def _graph_chunks(model: FlowModel, at: float) -> list[Buffer]:
    began = datetime.datetime.fromtimestamp(at, datetime.timezone.utc).isoformat(timespec="seconds")
    head = {
        "graph": model.name, "inputs": list(model.relation.input_names), "outputs": list(model.relation.output_names),
        "began": began, "python": platform.python_version(), "made_by": dict(model.made_by),
    }
    return json_chunks(head, [om_chunks(model)])


def _file_in(path: str, graph: str) -> str:
    """The file that is meant: in a folder, the first name nobody has."""
    if not path.endswith(os.sep) and not os.path.isdir(path):
        return path
    os.makedirs(path, exist_ok=True)
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in graph)[:80]
    names = (f"{safe}-{os.getpid()}{f'-{n}' if n else ''}{SUFFIX}" for n in itertools.count())
    return next(found for name in names if not os.path.exists(found := os.path.join(path, name)))


