"""Compiled models kept in a folder, under a name made of everything that went into them.

    <folder>/<key>.model      header 128 | label | packed submodel

A key is the SHA-256 of all that could give another result, so an entry never has to be invalidated: a change gives
another key. Entries are written beside their place and renamed into it, so any number of processes may share a folder
without locks; the last one to write an entry replaces it by an equal one. Whatever is wrong with the folder or an
entry costs the entry, not the build: it is said once (logger `dflow.cache`), and the model is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dflow_core.errors import ModelFormatError
from dflow_core.model import PneModel, pack_submodel, unpack_submodel, write_atomically

logger = logging.getLogger("dflow.cache")

_MAGIC = b"\x89DFCE\r\n\x1a"
_VERSION = 2
_HEAD = struct.Struct("<8sIIQ32s32s")
_HEAD_SIZE = 128
_MAX_LABEL = 1 << 20
_SUFFIX = ".model"
_LEFTOVER_AGE = 3600.0


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One entry of a cache.

    Args:
        key: Its key, as hexadecimal text.
        size: Bytes of its file.
        used: When it was last written or read, in seconds since the epoch.
        label: What it is: `node`, `engine`, `graph` and so on; empty where the entry is broken.
    """

    key: str
    size: int
    used: float
    label: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a cache holds under a key: a model, and what its engine found worth telling when it was compiled."""

    model: PneModel
    notes: tuple[str, ...] = ()


class CompileCache:
    """Compiled models in a folder. Any number of threads and processes may use it at once.

    Args:
        folder: Where entries lie; made when the first one is written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(os.fspath(folder))
        self._lock = threading.Lock()
        self._said = False
        self._writable = True

    def load(self, key: bytes) -> Kept | None:
        """What is kept under a key, or None if there is none or it is broken; broken ones are deleted."""
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._say_once("read", error)
            return None
        try:
            text, packed = _unpack(data, key)
            kept = Kept(unpack_submodel(packed), _notes_in(text))
        except ModelFormatError as error:
            logger.warning("%s: broken entry of the compile cache, deleted: %s", path, error.message)
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return kept

    def store(self, key: bytes, model: PneModel, label: Mapping[str, str], notes: Sequence[str] = ()) -> bool:
        """Keep a model under a key.

        Args:
            key: Everything that went into it, as `entry_key` gives it.
            model: The model.
            label: What it is, for listings.
            notes: What its engine found worth telling.

        Returns:
            Whether it was kept; after a failure nothing is tried any more.

        Raises:
            PackagingError: the model cannot be saved.
        """
        if not self._writable:
            return False
        text = json.dumps({"label": dict(label), "notes": list(notes)}, sort_keys=True).encode()
        chunks = pack_submodel(model)
        digest = hashlib.sha256(text)
        for chunk in chunks:
            digest.update(chunk)
        head = _HEAD.pack(_MAGIC, _VERSION, len(text), sum(map(len, chunks)), key, digest.digest())
        try:
            if not os.path.isdir(self.folder):
                # Entries hold code that will be run: they are nobody else's to write.
                os.makedirs(self.folder, mode=0o700, exist_ok=True)
            write_atomically(self._path(key), [head.ljust(_HEAD_SIZE, b"\0"), text, *chunks])
        except OSError as error:
            self._writable = False
            self._say_once("written", error)
            return False
        return True

    def entries(self) -> list[CacheEntry]:
        """Every entry, the one used last first."""
        found = []
        for item in self._files():
            if item.name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):
                    stat = item.stat()
                    key = item.name.removesuffix(_SUFFIX)
                    found.append(CacheEntry(key, stat.st_size, stat.st_mtime, _label_of(item.path)))
        return sorted(found, key=lambda entry: -entry.used)

    def size(self) -> int:
        """Bytes of all entries."""
        return sum(entry.size for entry in self.entries())

    def clear(self) -> tuple[int, int]:
        """Delete every entry, and what killed writers left.

        Returns:
            How many entries were deleted, and their bytes.
        """
        count = freed = 0
        for item in self._files():
            entry = item.name.endswith(_SUFFIX)
            old = item.name.startswith(".tmp-") and self._age(item) > _LEFTOVER_AGE
            if entry or old:
                with contextlib.suppress(OSError):
                    size = item.stat().st_size
                    os.unlink(item.path)
                    count, freed = count + entry, freed + size
        return count, freed

    def _files(self) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self.folder) as items:
                yield from list(items)
        except OSError:
            return

    def _path(self, key: bytes) -> str:
        return os.path.join(self.folder, key.hex() + _SUFFIX)

    def _age(self, item: os.DirEntry[str]) -> float:
        try:
            return time.time() - item.stat().st_mtime
        except OSError:
            return 0.0

    def _say_once(self, what: str, error: OSError) -> None:
        with self._lock:
            first, self._said = not self._said, True
        if first:
            text = error.strerror or str(error)
            logger.warning("the compile cache %s cannot be %s: %s; going on without", self.folder, what, text)


def entry_key(parts: Mapping[str, bytes | str]) -> bytes:
    """Key of an entry: a hash of named parts, in which neither names nor borders can be confused."""
    digest = hashlib.sha256()
    for name in sorted(parts):
        part = parts[name]
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        for piece in (name.encode(), data):
            digest.update(struct.pack("<Q", len(piece)))
            digest.update(piece)
    return digest.digest()


def _unpack(data: bytes, key: bytes) -> tuple[bytes, memoryview]:
    """Label and packed model of an entry, checked."""
    label_size, packed_size = _sizes(data[:_HEAD_SIZE])
    if len(data) != _HEAD_SIZE + label_size + packed_size:
        raise ModelFormatError(f"{len(data)} bytes instead of {_HEAD_SIZE + label_size + packed_size}")
    found_key, digest = _HEAD.unpack_from(data)[4:]
    if found_key != key:
        raise ModelFormatError("it belongs to another key")
    if hashlib.sha256(memoryview(data)[_HEAD_SIZE:]).digest() != digest:
        raise ModelFormatError("the checksum differs")
    return data[_HEAD_SIZE : _HEAD_SIZE + label_size], memoryview(data)[_HEAD_SIZE + label_size :]


def _sizes(head: bytes) -> tuple[int, int]:
    if len(head) < _HEAD_SIZE:
        raise ModelFormatError(f"{len(head)} bytes, the header alone has {_HEAD_SIZE}")
    magic, version, label_size, packed_size = _HEAD.unpack_from(head)[:4]
    if magic != _MAGIC or version != _VERSION or any(head[_HEAD.size :]):
        raise ModelFormatError("it is not an entry of this format")
    return label_size, packed_size


def _label_of(path: str) -> dict[str, str]:
    """What an entry says it is; nothing where it is broken."""
    try:
        with open(path, "rb") as file:
            label_size, _ = _sizes(file.read(_HEAD_SIZE))
            found = json.loads(file.read(min(label_size, _MAX_LABEL)))["label"]
    except (OSError, ValueError, LookupError, TypeError, ModelFormatError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _notes_in(text: bytes) -> tuple[str, ...]:
    try:
        return tuple(str(note) for note in json.loads(text)["notes"])
    except (ValueError, LookupError, TypeError) as cause:
        raise ModelFormatError("its label is broken") from cause
