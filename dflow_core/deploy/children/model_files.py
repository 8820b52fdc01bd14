"""Submodels as memory files, for processes that start; kept only while some do."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from dflow_core.deploy.children.memory_file import memory_file, write_all
from dflow_core.model import PneModel, pack_submodel


class ModelFiles:
    """Memory files of submodels, one for each, however many processes load it. Thread-safe.

    Args:
        models: Submodels by name.
    """

    def __init__(self, models: Mapping[str, PneModel]) -> None:
        self._models = models
        self._fds: dict[str, int] = {}
        self._lock = threading.Lock()

    @contextmanager
    def lent(self, names: Sequence[str]) -> Iterator[list[int]]:
        """Descriptors of these submodels' files, in order; they stay this object's, and open inside the block."""
        with self._lock:
            for name in names:
                if name not in self._fds:
                    fd = self._fds[name] = memory_file(f"dflow model {name}")
                    write_all(fd, pack_submodel(self._models[name]))
            yield [self._fds[name] for name in names]

    def drop(self) -> None:
        """Let them go; they are written again when needed."""
        with self._lock:
            for fd in self._fds.values():
                os.close(fd)
            self._fds.clear()
