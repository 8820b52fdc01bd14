"""Names of what a graph is made of: given by the user, or made unique when the graph is built.

There is no counter behind automatic names: a graph settles the names of its own nodes and inputs when it is built, in
the order they were created, so the same program gives the same names however many graphs and threads it has. A settled
name never changes again.
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dflow_core.errors import UsageError

_scope: ContextVar[str] = ContextVar("dflow_name_scope", default="")
_creation_order = itertools.count()
_settling = threading.Lock()


@contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Put `name/` before the names of nodes and inputs that are created inside the `with` block.

    Scopes nest, and belong to the thread or task that entered them.

    Args:
        name: One or several parts, such as `detector` or `ocr/detector`.

    Returns:
        The whole prefix in force inside the block.

    Raises:
        UsageError: the name is not a text, or is empty.
    """
    if not isinstance(name, str) or not name.strip("/"):
        raise UsageError(f"a name scope needs a text that is not empty, got {name!r}")
    token = _scope.set(f"{_scope.get()}{name.strip('/')}/")
    try:
        yield _scope.get()
    finally:
        _scope.reset(token)


class Name:
    """The name of one node or input.

    Args:
        given: What the user called it, or None to make one from `base` later.
        base: What automatic names begin with.

    Raises:
        UsageError: the given name is not a text.
    """

    __slots__ = ("_scope", "_settled", "order", "text")

    def __init__(self, given: str | None, base: str) -> None:
        if given is not None and not isinstance(given, str):
            raise UsageError(f"a name must be a text, got {type(given).__name__}")
        self._scope = _scope.get()
        self.text = self._scope + (base if given is None else given)
        self.order = next(_creation_order)
        self._settled = given is not None

    @classmethod
    def exactly(cls, text: str) -> Name:
        """A given name that no scope is put before (it comes from a file)."""
        name = cls(None, "")
        name.text, name._settled = text, True
        return name

    def rebase(self, base: str) -> None:
        """Let the automatic name begin with something else; a given or settled name stays."""
        if not self._settled:
            self.text = self._scope + base


def settle(names: Iterable[Name], *, sortable: bool = False) -> None:
    """Give every automatic name its final form, different from all others of `names`.

    Args:
        names: Names that must differ from each other. Given ones are left alone, also when they are equal.
        sortable: Whether the numbers get leading zeros, so that sorting as text keeps the order of creation.
    """
    with _settling:
        everything = sorted(names, key=lambda name: name.order)
        taken = {name.text for name in everything if name._settled}
        groups: dict[str, list[Name]] = defaultdict(list)
        for name in everything:
            if not name._settled:
                groups[name.text].append(name)
        for base, group in groups.items():
            width = len(str(len(group) - 1)) if sortable else 1
            candidates = itertools.chain((base,), (f"{base}_{i:0{width}}" for i in itertools.count(1)))
            for name in group:
                name.text = next(text for text in candidates if text not in taken)
                name._settled = True
                taken.add(name.text)
