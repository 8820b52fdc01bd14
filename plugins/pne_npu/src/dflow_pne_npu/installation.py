"""Where CANN is installed, and what of it is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
STANDARD = ("/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest", "~/Ascend/cann",
            "~/Ascend/ascend-toolkit/latest")


@dataclass(frozen=True)
class Installation:
    """What the environment and the standard places say.

    Args:
        roots: Folders of installations, the one to use first.
        fault: What is wrong with the environment, one sentence; "" if nothing is.
        search_path: Folders in which commands are looked for after those of the roots.
    """

    roots: tuple[Path, ...]
    fault: str = ""
    search_path: str = ""

    @classmethod
    def of(cls, environ: Mapping[str, str] | None = None) -> Installation:
        """What an environment leads to; this process's if none is given."""
        environ = os.environ if environ is None else environ
        named = {name: Path(environ[name]) for name in VARIABLES if environ.get(name)}
        wrong = [f"{name}={path}" for name, path in named.items() if not path.is_dir()]
        fault = f"{' and '.join(wrong)} is no folder: the CANN environment is half set" if wrong else ""
        home = environ.get("HOME", "")
        standard = [Path(place.replace("~", home, 1)) for place in STANDARD if home or not place.startswith("~")]
        roots = [path for path in (*named.values(), *standard) if path.is_dir()]
        return cls(tuple(dict.fromkeys(roots)), fault, environ.get("PATH", ""))

    @property
    def library_folders(self) -> tuple[Path, ...]:
        """Folders of libraries."""
        return tuple(root / name for root in self.roots for name in ("lib64", "devlib"))

    def atc(self) -> Path | None:
        """The model compiler; None if there is none."""
        for root in self.roots:
            path = root / "bin" / "atc"
            if path.is_file() and os.access(path, os.X_OK):
                return path
        found = shutil.which("atc", path=self.search_path)
        return None if found is None else Path(found)

    def version(self) -> str:
        """Version of the toolkit as its files say; "" if they do not."""
        for root in self.roots:
            for name in ("version.cfg", "version.info", "compiler/version.info"):
                try:
                    return (root / name).read_text(encoding="utf-8", errors="replace").strip().replace("\n", " ")
                except OSError:
                    continue
        return ""

    def places(self) -> str:
        """Where things are looked for, in words."""
        return ", ".join(map(str, self.roots)) or f"no installation ({', '.join(VARIABLES)}, {', '.join(STANDARD)})"
