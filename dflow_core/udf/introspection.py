"""What functions and objects hold: the variables they use, and their attributes."""

from __future__ import annotations

from types import CellType, CodeType, FunctionType


def used_globals(function: FunctionType) -> dict[str, object]:
    """The global variables that a function and the functions inside it name."""
    names: dict[str, None] = {}
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        names.update(dict.fromkeys(code.co_names))
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


def closure_of(function: FunctionType) -> dict[str, object]:
    """The variables around a function that it uses; those not set yet are left out."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def state_of(obj: object) -> dict[str, object]:
    """Attributes of an object, from its dict and its slots."""
    state: dict[str, object] = {}
    for cls in type(obj).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            own = f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            if name not in ("__dict__", "__weakref__") and hasattr(obj, own):
                state[own] = getattr(obj, own)
    return state | dict(getattr(obj, "__dict__", {}))


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
