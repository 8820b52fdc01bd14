"""What `dflow run` feeds: arrays from files, or made up from what the models say they take."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dflow_core.cli.command import Refused
from dflow_core.options import nearest
from dflow_core.types import Array, DataType, TensorSpec, numpy_dtype_of

FREE_DIMENSION = 1
FILES = "name=file.npy, or file.npz with arrays called like the inputs"


@dataclass(frozen=True, slots=True)
class Feed:
    """Everything one transaction is fed with: arrays by input name."""

    label: str
    values: Mapping[str, Array]


def from_files(given: Sequence[str], inputs: Sequence[str]) -> list[Feed]:
    """Feeds from the command line.

    Args:
        given: `file.npz` for a whole transaction, `name=file.npy` for one input; the n-th file of each input goes into
            the n-th transaction.
        inputs: Names of the graph's inputs.

    Raises:
        Refused: a file that cannot be read, an input the graph has not, or one that lacks a file.
    """
    wholes: list[Feed] = []
    singles: dict[str, list[tuple[str, Array]]] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if equals:
            singles.setdefault(_known(name, inputs, text), []).append((path, _load_array(Path(path))))
        elif text.endswith(".npy") and len(inputs) == 1:
            singles.setdefault(inputs[0], []).append((text, _load_array(Path(text))))
        else:
            wholes.append(Feed(text, _load_arrays(Path(text), inputs)))
    return [*wholes, *_zip(singles, inputs)]


def made_up(specs: Mapping[str, TensorSpec], count: int, shapes: Sequence[str], seed: int) -> Iterator[Feed]:
    """Random feeds.

    Args:
        specs: What is known of each input.
        count: How many transactions.
        shapes: `name=1x3x224x224` or `name=1x3x224x224:float32`, for what the models leave open; the name may be left
            out where there is one input.
        seed: Makes the same data again.

    Raises:
        Refused: a shape that cannot be read, or an input of which too little is known.
    """
    wanted = dict(_parse_shape(text, list(specs)) for text in shapes)
    chosen = {name: _settle(name, spec, wanted.get(name)) for name, spec in specs.items()}
    random = np.random.default_rng(seed)
    for number in range(count):
        yield Feed(f"made up {number + 1}", {name: _array(random, *spec) for name, spec in chosen.items()})


def _known(name: str, inputs: Sequence[str], text: str) -> str:
    if name not in inputs:
        raise Refused(f"{text!r}: the graph has no input {name!r}", nearest(name, inputs))
    return name


def _load_array(path: Path) -> Array:
    if path.suffix not in (".npy", ".npz"):
        raise Refused(f"{path}: is no .npy file", f"give {FILES}")
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Refused(f"{path}: cannot be read as an array: {error}", f"give {FILES}") from error
    if not isinstance(loaded, np.ndarray):
        raise Refused(f"{path}: holds several arrays", "give .npz files without a name in front")
    return loaded


def _load_arrays(path: Path, inputs: Sequence[str]) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise Refused(f"{path}: cannot be read as .npz: {error}", f"give {FILES}") from error
    if len(inputs) == 1 and len(arrays) == 1:
        return {inputs[0]: next(iter(arrays.values()))}
    for name in arrays:
        _known(name, inputs, str(path))
    if missing := [name for name in inputs if name not in arrays]:
        raise Refused(f"{path}: has no array for input {missing[0]!r}", "arrays in it: " + ", ".join(arrays))
    return arrays


def _zip(singles: Mapping[str, Sequence[tuple[str, Array]]], inputs: Sequence[str]) -> Iterator[Feed]:
    if not singles:
        return
    counts = {name: len(singles.get(name, ())) for name in inputs}
    if len(set(counts.values())) != 1:
        told = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise Refused(f"every input needs the same number of files ({told})", f"give {FILES}")
    for number in range(next(iter(counts.values()))):
        label = ", ".join(singles[name][number][0] for name in inputs)
        yield Feed(label, {name: singles[name][number][1] for name in inputs})


def _parse_shape(text: str, inputs: Sequence[str]) -> tuple[str, tuple[tuple[int, ...], str]]:
    name, equals, rest = text.rpartition("=")
    if not equals:
        if len(inputs) != 1:
            raise Refused(f"--shape {text!r}: which input?", "write name=1x3x224x224; inputs: " + ", ".join(inputs))
        name = inputs[0]
    shape, _, dtype = rest.partition(":")
    try:
        dims = tuple(int(part) for part in shape.split("x")) if shape != "scalar" else ()
        np.dtype(dtype or "float32")
    except (ValueError, TypeError):
        raise Refused(f"--shape {text!r}: expected name=1x3x224x224 or name=1x3x224x224:float32") from None
    if any(dim < 0 for dim in dims):
        raise Refused(f"--shape {text!r}: a dimension cannot be negative")
    return _known(name, inputs, f"--shape {text}"), (dims, dtype)


def _settle(
    name: str, spec: TensorSpec, wanted: tuple[tuple[int, ...], str] | None
) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    known = spec.dtype not in (DataType.UNDEFINED, DataType.STRING)
    own = numpy_dtype_of(spec.dtype) if known else np.dtype(np.float32)
    if wanted is not None:
        return wanted[0], np.dtype(wanted[1]) if wanted[1] else own
    if spec.shape is None or spec.dtype is DataType.STRING:
        hint = f"give its shape, such as --shape {name}=1x3x224x224, or data: {FILES}"
        raise Refused(f"the graph does not say what input {name!r} takes", hint)
    return tuple(FREE_DIMENSION if dim < 0 else dim for dim in spec.shape), own


def _array(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    # Small whole numbers are valid where a model reads them as indexes.
    values = random.random(shape) if dtype.kind == "f" else random.integers(0, 2, shape)
    return np.asarray(values, dtype)
