"""Which modules a fresh interpreter can import, and which therefore have to travel by value."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from types import ModuleType

from dflow_core.message import home_of

_ALWAYS = frozenset(sys.stdlib_module_names) | frozenset(sys.builtin_module_names) | {"dflow_core"}


class ImportPath:
    """Where a fresh interpreter with this environment would look: not the script's folder, nor what was added later."""

    def __init__(self) -> None:
        packages = _package_folders()
        self._folders = _folders(packages, os.environ.get("PYTHONPATH", ""), tuple(map(_changed_at, packages)))
        self._verdicts: dict[str, bool] = {}

    def has(self, module: ModuleType) -> bool:
        """Whether it could import this module, and would get this one."""
        top = module.__name__.partition(".")[0]
        if top not in self._verdicts:
            self._verdicts[top] = top in _ALWAYS or self._finds(top, sys.modules.get(top, module))
        return self._verdicts[top]

    def by_value(self) -> list[ModuleType]:
        """The loaded modules it could not import. `__main__` is not among them: pickling knows that one itself."""
        loaded = list(sys.modules.items())
        # Most modules belong to a few packages; the others are told apart one by one.
        elsewhere = {
            top for top in {name.partition(".")[0] for name, _ in loaded}
            if not isinstance(sys.modules.get(top), ModuleType) or not self.has(sys.modules[top])
        }
        return [
            module for name, module in loaded
            if name.partition(".")[0] in elsewhere and isinstance(module, ModuleType)
            and name != "__main__" and module.__name__ == name and not self.has(module)
        ]

    def _finds(self, top: str, module: ModuleType) -> bool:
        parents = [os.path.realpath(os.path.dirname(place)) for place in _places(module)]
        if any(parent in self._folders for parent in parents):
            return True
        return _is_editable(top) or not parents


def is_importable(obj: object, named: object = None, path: ImportPath | None = None) -> bool:
    """Whether a fresh interpreter can import an object by its name, and would get this one.

    Args:
        obj: The object.
        named: Object whose `__module__` and `__qualname__` say where; `obj` itself if not given.
        path: Where the interpreter looks, if it is known already.
    """
    module = home_of(obj, named)
    return module is not None and (path or ImportPath()).has(module)


def _places(module: ModuleType) -> list[str]:
    """Files or folders of a top-level module; none for frozen ones and those made by hand."""
    folders = getattr(module, "__path__", None)
    if folders is not None:
        return [str(folder) for folder in folders]
    file = getattr(module, "__file__", None)
    # What was made by hand (exec in a notebook, types.ModuleType) has no spec, and nobody else can import it.
    is_made_by_hand = getattr(module, "__spec__", None) is None
    return [str(file)] if file else [os.devnull] if is_made_by_hand else []


def _is_editable(top: str) -> bool:
    """Whether a finder that an editable install left behind knows the module."""
    for finder in sys.meta_path:
        owner = finder if isinstance(finder, type) else type(finder)
        if owner.__module__.startswith("__editable__") and finder.find_spec(top, None) is not None:
            return True
    return False


def _package_folders() -> tuple[str, ...]:
    """Where packages are installed."""
    return (*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else []))


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=4)
def _folders(packages: tuple[str, ...], pythonpath: str, _state: tuple[int, ...]) -> frozenset[str]:
    """Every folder modules are imported from; looked up again when something was installed."""
    folders = [*sysconfig.get_paths().values(), *pythonpath.split(os.pathsep)]
    for folder in packages:
        folders += [folder, *_added_by_pth(folder)]
    return frozenset(os.path.realpath(folder) for folder in folders if folder)


def _added_by_pth(folder: str) -> Iterator[str]:
    """Folders that the `.pth` files of a packages folder add to the path."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".pth"))
    except OSError:
        return
    for name in names:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        for line in lines:
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                yield os.path.join(folder, line.strip())
