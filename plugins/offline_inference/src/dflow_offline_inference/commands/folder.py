"""The folder of results: what is finished in it, and how results get there.

A file with the name of a result is always whole, however a run ended. What made the results is noted, so that nobody
goes on with another model. One run at a time writes into a folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from dflow_core.cli.command import Refused
from dflow_core.cli.output import plain
from dflow_core.model import write_atomically
from dflow_offline_inference.requests import Result

NOTE = ".dflow-infer.json"
FAILED = "failed.jsonl"
ENDINGS = (".npz", ".json")
_HALF = ".tmp-*"  # what `write_atomically` leaves when its process is killed


@dataclass(frozen=True, slots=True)
class Failure:
    """An item without a result, and why."""

    item: str
    error: str
    message: str


class ResultFolder:
    """A folder of results, and the right to write into it, which a context manager gives back.

    Args:
        path: The folder; it is made.
        made_by: What makes the results, such as the digest of the model.
        restart: Whether results of something else may be there, and are replaced.

    Raises:
        Refused: it cannot be written, another run writes into it, or it holds results of something else.
    """

    def __init__(self, path: Path, made_by: Mapping[str, str], restart: bool = False) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise Refused(f"--output {path}: {error.strerror}") from error
        try:
            self._begin(made_by, restart)
        except BaseException:
            os.close(self._lock)
            raise

    def _begin(self, made_by: Mapping[str, str], restart: bool) -> None:
        with contextlib.suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(f"--output {self.path}: another run is writing into it",
                              "wait until it has ended, or give another folder") from None
        try:
            for left in self.path.rglob(_HALF):
                left.unlink()
            before = self._note()
            other = [key for key in made_by if before is not None and before.get(key) != made_by[key]]
            if other and not restart:
                raise Refused(f"--output {self.path} holds results of another {other[0]}",
                              "give another folder, or --restart to run all items again")
            write_atomically(self.path / NOTE, [json.dumps(dict(made_by), indent=2).encode()])
        except OSError as error:
            raise Refused(f"--output {self.path}: {error.strerror}") from error

    def __enter__(self) -> ResultFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)

    def finished(self, name: str) -> bool:
        """Whether an item has its result."""
        return any((self.path / (name + ending)).is_file() for ending in ENDINGS)

    def forget(self, name: str) -> None:
        """Remove the result of an item."""
        for ending in ENDINGS:
            (self.path / (name + ending)).unlink(missing_ok=True)

    def keep(self, name: str, value: object) -> None:
        """Write the result of an item: arrays as `.npz`, anything else as `.json`.

        Raises:
            OSError: it cannot be written.
            TypeError: it can be written as neither.
        """
        arrays = _as_arrays(value)
        target = self.path / (name + (ENDINGS[1] if arrays is None else ENDINGS[0]))
        target.parent.mkdir(parents=True, exist_ok=True)
        if arrays is None:
            write_atomically(target, [json.dumps(value, ensure_ascii=False, default=_number).encode()])
            return
        file = io.BytesIO()
        np.savez(file, **arrays)  # type: ignore[arg-type]  # the stubs take allow_pickle for one of the arrays
        write_atomically(target, [file.getbuffer()])

    def list_failed(self, failures: Sequence[Failure]) -> Path | None:
        """Write the list of failed items, or remove the one of before if there are none."""
        path = self.path / FAILED
        if not failures:
            path.unlink(missing_ok=True)
            return None
        lines = [json.dumps(plain(failure), ensure_ascii=False) + "\n" for failure in failures]
        write_atomically(path, ["".join(lines).encode()])
        return path

    def _note(self) -> dict[str, object] | None:
        try:
            found = json.loads((self.path / NOTE).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return found if isinstance(found, dict) else None


def _as_arrays(value: object) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] | None:
    if isinstance(value, Result):
        return dict(zip(value.names, value.arrays))
    if isinstance(value, np.ndarray):
        return {"result": value}
    if isinstance(value, Mapping) and value and all(isinstance(one, np.ndarray) for one in value.values()):
        return {str(name): array for name, array in value.items()}
    return None


def _number(value: object) -> object:
    """numpy's numbers and arrays inside what `--post` gave."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"--post returned a {type(value).__name__}, which is neither arrays nor JSON")
