"""How many inputs a function has, from its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from dflow_core.errors import OptionError, UsageError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def count_inputs(func: Callable[..., object], num_inputs: int | None, *, is_method: bool = False) -> int:
    """Inputs of a function: one for each parameter that can be given by position, also those with a default.

    Args:
        func: The function.
        num_inputs: What the user says: needed for `*args` and for functions without a readable signature; may leave out
            parameters at the end that have a default.
        is_method: Whether the first parameter is the object.

    Raises:
        OptionError: `num_inputs` is missing where it is needed, or the function cannot be called with so many.
        UsageError: a parameter that no input can fill.
    """
    name = getattr(func, "__qualname__", type(func).__name__)
    if num_inputs is not None and (isinstance(num_inputs, bool) or not isinstance(num_inputs, int) or num_inputs < 0):
        raise OptionError(f"num_inputs: expected a whole number of at least 0, got {num_inputs!r}")
    try:
        parameters = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):
        if num_inputs is None:
            hint = f"say how many inputs it has: pyflow({name}, num_inputs=...)"
            raise OptionError(f"the parameters of {name} cannot be read", hint=hint) from None
        return num_inputs
    fixed = [p for p in parameters if p.kind in _POSITIONAL][1 if is_method else 0 :]
    has_rest = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    for p in parameters:
        if p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is inspect.Parameter.empty:
            hint = "inputs are given by position: give it a default, or move it before the *"
            raise UsageError(f"{name}: parameter {p.name!r} can only be given by name", hint=hint)
    if num_inputs is None and has_rest:
        raise OptionError(f"{name} takes any number of inputs (*args)", hint="say how many: @pyflow(num_inputs=...)")
    return _agreed(name, fixed, has_rest, num_inputs)


def _agreed(name: str, fixed: list[inspect.Parameter], has_rest: bool, num_inputs: int | None) -> int:
    if num_inputs is None:
        return len(fixed)
    least = sum(p.default is inspect.Parameter.empty for p in fixed)
    if num_inputs < least or (num_inputs > len(fixed) and not has_rest):
        most = "any number" if has_rest else str(len(fixed))
        raise OptionError(f"num_inputs: {name} takes {least} to {most} inputs, got {num_inputs}")
    return num_inputs
