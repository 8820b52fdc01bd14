"""What `dflow run` shows of results, and keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dflow_core.types import Array

SHOWN = 6
LISTED = 256


def outputs_of(result: object, count: int) -> tuple[object, ...]:
    """The values of one result, one for each output of the graph."""
    return tuple(result) if count != 1 and isinstance(result, (tuple, list)) else (result,)


def summary(value: object) -> str:
    """A value in one line: `float32[2, 3] 0.1 0.2 ...`."""
    if not isinstance(value, np.ndarray):
        text = repr(value)
        return text if len(text) <= 100 else text[:97] + "..."
    flat = value.ravel()[: SHOWN + 1].tolist()
    numbers = " ".join(f"{item:.6g}" if isinstance(item, float) else str(item) for item in flat[:SHOWN])
    return f"{value.dtype}{list(value.shape)} {numbers}{' ...' if len(flat) > SHOWN else ''}"


def as_data(value: object) -> object:
    """A value as JSON can hold it; the numbers of large arrays are left out."""
    if not isinstance(value, np.ndarray):
        return {"value": value if isinstance(value, (str, int, float, bool, type(None), list, dict)) else repr(value)}
    found: dict[str, object] = {"dtype": str(value.dtype), "shape": list(value.shape)}
    if value.size <= LISTED:
        found["values"] = value.tolist() if value.dtype.kind in "biufSU" else [str(item) for item in value.ravel()]
    return found


def save(path: Path, names: Sequence[str], results: Sequence[Sequence[object]]) -> list[str]:
    """Write arrays into an .npz file: `<output>` if there is one result, else `<output>.<number>`.

    Returns:
        Names of what could not be kept, because it is no array.
    """
    arrays: dict[str, Array] = {}
    left_out = []
    for number, result in enumerate(results):
        for name, value in zip(names, result):
            key = name if len(results) == 1 else f"{name}.{number}"
            kept = np.asarray(value) if isinstance(value, (np.ndarray, np.generic, int, float, bool, str)) else None
            if kept is None or kept.dtype.hasobject:
                left_out.append(key)
            else:
                arrays[key] = kept
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # the stubs take allow_pickle for one of the arrays
    return left_out
