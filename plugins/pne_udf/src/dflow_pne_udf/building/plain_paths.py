"""Paths that CMake and make can take.

A quote, a semicolon, a hash or a colon in the name of a folder means something to CMake, make or the files they write.
Where there is one above the sources, they are built through a link that has a plain name; where there is one above the
folder for builds, that folder is elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dflow_core.errors import CompileError
from dflow_pne_udf.building.scratch import Scratch

_PLAIN = re.compile(r"[\w/.+@ -]*")
_LINK = "source"


@dataclass(frozen=True, slots=True)
class PlainSource:
    """How the tools reach a folder of sources.

    Args:
        path: The folder as they are told.
        link: A link on the way to it; "" where there is none.
        target: What the link stands for.
    """

    path: str
    link: str = ""
    target: str = ""

    def real(self, path: str) -> str:
        """The place of a file that the tools name."""
        if self.link and path.startswith(self.link + os.sep):
            return self.target + path[len(self.link) :]
        return path


def is_plain(path: str) -> bool:
    """Whether nothing in a path means something to the tools."""
    return _PLAIN.fullmatch(path) is not None


def plain_source(source: str, tree: Path) -> PlainSource:
    """How the tools reach a folder of sources, with a link in the build folder if that is needed.

    The link stands for the last folder on the way whose name is not plain, so `..` leads out of the sources as ever.

    Args:
        source: The folder.
        tree: The build folder.
    """
    link = tree / _LINK
    link.unlink(missing_ok=True)
    if is_plain(source):
        return PlainSource(source)
    parts = Path(source).parts
    odd = max(number for number, part in enumerate(parts) if not is_plain(part))
    target = os.path.join(*parts[: odd + 1])
    link.symlink_to(target, target_is_directory=True)
    return PlainSource(os.path.join(link, *parts[odd + 1 :]), str(link), target)


@contextlib.contextmanager
def plain_tree(tree: Path) -> Iterator[Path]:
    """A build folder for the tools: the one given, or for once another one.

    Args:
        tree: The folder for builds of this project.

    Raises:
        CompileError: no folder has a plain name.
    """
    if is_plain(str(tree)):
        yield tree
        return
    scratch = Scratch()
    try:
        if not is_plain(scratch.folder):
            raise CompileError(
                f"CMake can build neither in {tree} nor in {scratch.folder}: their names hold letters that mean "
                "something to it", hint="set the option cache_dir, or TMPDIR, to a folder with a plain name",
            )
        yield Path(scratch.folder)
    finally:
        scratch.remove()
