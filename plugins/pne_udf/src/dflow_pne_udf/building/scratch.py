"""Folders for one process where nothing may be kept; those of killed processes are removed by the next one."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile

_NAME = re.compile(r"dflow-udf-(\d+)-\w+")


class Scratch:
    """A folder of this process; `remove` ends it."""

    def __init__(self) -> None:
        _sweep()
        self.folder = tempfile.mkdtemp(prefix=f"dflow-udf-{os.getpid()}-")

    def remove(self) -> None:
        """Remove the folder and everything in it. Idempotent."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _sweep() -> None:
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as items:
        for item in items:
            match = _NAME.fullmatch(item.name)
            if match is not None and not os.path.exists(f"/proc/{match[1]}") and item.is_dir(follow_symlinks=False):
                shutil.rmtree(item.path, ignore_errors=True)
