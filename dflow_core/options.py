"""Every option there is: one table with type, default, unit and meaning, and the one way values are found.

An option is looked up at the node, then the graph, then the session (`df.init`), then the environment; what is nowhere
has its default. Values may be texts (from a file or the command line) or Python values.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from datetime import timedelta
from typing import TypeAlias

from dflow_core.errors import OptionError

Value: TypeAlias = bool | int | float | str

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names what `name` was probably meant to be, and where there is nothing near, all there is."""
    names = sorted(known)
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.55)
    if close:
        return "did you mean " + " or ".join(repr(text) for text in close) + "?"
    return "known: " + ", ".join(names) if names else "none is known"


def seconds(value: object, what: str) -> float:
    """A duration as seconds.

    Args:
        value: A number of seconds, or a timedelta.
        what: What it is for, for the error.

    Raises:
        OptionError: not a number, negative, infinite or NaN.
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise OptionError(f"{what}: expected seconds or a timedelta, got {value!r}")
    if not math.isfinite(value) or value < 0:
        raise OptionError(f"{what}: expected 0 seconds or more, got {value!r}")
    return float(value)
