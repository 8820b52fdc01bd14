"""Names made unique with one counter for each requested name, as scripts that print or compare names expect them."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator

__all__ = ["name_scope", "reset_name_scope"]


class _Counters:
    """How often each name was asked for, by namespace. One for the process; any thread."""

    def __init__(self) -> None:
        self._used: Counter[tuple[str | None, str]] = Counter()
        self._lock = threading.Lock()

    def take(self, namespace: str | None, name: str) -> str:
        """The name, or the next one made of it."""
        with self._lock:
            self._used[namespace, name] += 1
            count = self._used[namespace, name]
        return name if count == 1 else f"{name}_{count - 1}"

    def claim(self, namespace: str | None, name: str) -> None:
        """Take the name itself.

        Raises:
            ValueError: it was taken before.
        """
        with self._lock:
            if self._used[namespace, name]:
                raise ValueError(f"name:{name} is already used, please modify.")
            self._used[namespace, name] = 1

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._used.clear()


_COUNTERS = _Counters()


@contextlib.contextmanager
def name_scope(
    name: str | None, default_name: str | None = None, namespace: str | None = None, auto_name: bool = True
) -> Iterator[str]:
    """A name nobody else has.

    Args:
        name: What is asked for; `default_name` if None.
        default_name: What names are made of where none is asked for.
        namespace: Names differ from each other within one.
        auto_name: Whether a name that is taken becomes `name_1`, `name_2`, ...; else it is refused.

    Raises:
        TypeError: a name that is no text.
        ValueError: a name that is taken, with `auto_name=False`.
    """
    wanted = default_name if name is None else name
    if not isinstance(wanted, str):
        raise TypeError("name for name_scope must be a string.")
    if namespace is not None and not isinstance(namespace, str):
        raise TypeError("namespace for name_scope must be a string.")
    if auto_name:
        yield _COUNTERS.take(namespace, wanted)
    else:
        _COUNTERS.claim(namespace, wanted)
        yield wanted


def reset_name_scope() -> None:
    """Count every name from the start again."""
    _COUNTERS.clear()
