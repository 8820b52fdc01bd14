"""Submodels as memory files, for processes that start; kept only while some do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from dflow_core.deploy.memory_file import memory_file, write_all
from dflow_core.model import PneModel, pack_submodel


class ModelFiles:
    """Memory files of submodels, one for each, however many processes load it.

    Args:
        models: Submodels by name.
    """

    def __init__(self, models: Mapping[str, PneModel]) -> None:
        self._models = models
        self._fds: dict[str, int] = {}

    def fds(self, names: Sequence[str]) -> list[int]:
        """Descriptors of these submodels' files, in order; they stay this object's."""
        for name in names:
            if name not in self._fds:
                fd = self._fds[name] = memory_file(f"dflow model {name}")
                write_all(fd, pack_submodel(self._models[name]))
        return [self._fds[name] for name in names]

    def drop(self) -> None:
        """Let them go; they are written again when needed."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()
