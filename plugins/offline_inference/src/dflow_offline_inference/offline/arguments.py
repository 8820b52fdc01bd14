"""What callers may say of a request, checked before anything is done with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence

from dflow_core.errors import UsageError
from dflow_offline_inference.offline.handle import Handle

_MOST_PRIORITY = 1e6


def check_priority(priority: float) -> None:
    """Refuse what is no number, or too large a one.

    Raises:
        UsageError: it is.
    """
    if not _between(-_MOST_PRIORITY, priority, _MOST_PRIORITY):
        raise UsageError(
            f"priority={priority!r}: expected a number from {-_MOST_PRIORITY:g} to {_MOST_PRIORITY:g}"
        )


def check_times(deadline: float | None, timeout: float | None) -> None:
    """Refuse a deadline that has passed, and what is no number of seconds.

    Raises:
        UsageError: either is.
    """
    for name, value in (("deadline", deadline), ("timeout", timeout)):
        if value is not None and not _between(-math.inf, value, math.inf):
            raise UsageError(f"{name}={value!r}: expected seconds, or None")
    if deadline is not None and not deadline > 0:
        raise UsageError(f"deadline={deadline}: it is in the past", hint="give seconds from now")


def check_chain(chain: object) -> None:
    """Refuse what cannot be told from other chains.

    Raises:
        UsageError: it cannot be hashed.
    """
    if not isinstance(chain, Hashable):
        raise UsageError(f"chain={chain!r}: a {type(chain).__name__} names no chain", hint="give a text or a number")


def check_callback(callback: Callable[[Handle], object] | None) -> None:
    """Refuse what cannot be called.

    Raises:
        UsageError: it cannot.
    """
    if callback is not None and not callable(callback):
        raise UsageError(f"callback={callback!r}: a {type(callback).__name__} cannot be called")


def others_of(after: Iterable[Handle | int]) -> Sequence[Handle | int]:
    """The requests that another depends on.

    Raises:
        UsageError: something among them is neither a handle nor an id.
    """
    hint = "give a list of handles, or of their ids"
    if isinstance(after, (str, Handle)) or not isinstance(after, Iterable):
        raise UsageError(f"after={after!r}: expected several requests", hint=hint)
    others = tuple(after)
    for other in others:
        if not isinstance(other, (Handle, int)) or isinstance(other, bool):
            raise UsageError(f"after: {other!r} is no request", hint=hint)
    return others


def _between(low: float, value: float, high: float) -> bool:
    try:
        return low <= value <= high
    except TypeError:  # it is no number at all
        return False
