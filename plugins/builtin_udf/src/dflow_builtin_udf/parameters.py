"""Init parameters of the built-in UDFs, checked when the function is initialised."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping

from dflow_core.errors import OptionError


class Parameters:
    """Reads init parameters and refuses those that cannot be.

    Args:
        function: Name of the function, for errors.
        node: Name of the node, for errors.
        given: Parameters as set.
        known: Names it knows.
    """

    def __init__(self, function: str, node: str, given: Mapping[str, object], known: tuple[str, ...]) -> None:
        self._function, self._node, self._given = function, node, given
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(known)}"
                raise OptionError(f"{function} has no parameter {name!r}", node=node, hint=hint)

    def whole(self, name: str, default: int | None, low: int, high: int | None = None) -> int:
        """A whole number within limits."""
        value = self._get(name, default)
        span = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
        if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
            raise self._error(name, span, value)
        return value

    def flag(self, name: str, default: bool) -> bool:
        """True or False."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self._error(name, "True or False", value)
        return value

    def seconds(self, name: str) -> float:
        """A time span; 0, the default, for none."""
        value = self._number(name, 0.0)
        if value < 0:
            raise self._error(name, "seconds, 0 or more", value)
        return value

    def window(self, name: str) -> float:
        """A span of message times: -1 or more than 0."""
        value = self._number(name, None)
        if value <= 0 and value != -1:
            raise self._error(name, "-1 or more than 0", value)
        return value

    def _number(self, name: str, default: float | None) -> float:
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self._error(name, "a number", value)
        return value

    def _get(self, name: str, default: object) -> object:
        value = self._given.get(name, default)
        if value is None:
            raise OptionError(f"{self._function} needs parameter {name!r}", node=self._node)
        return value

    def _error(self, name: str, wanted: str, value: object) -> OptionError:
        return OptionError(f"{self._function} {name}: expected {wanted}, got {value!r}", node=self._node)
