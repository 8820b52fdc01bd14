"""What is run: an item for each file of a folder or pattern, row of an `.npz` file, or line of a `.jsonl` file."""

from __future__ import annotations

import fnmatch
import glob
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dflow_core.cli.command import Refused
from dflow_core.types import Array, DataType, TensorSpec, numpy_dtype_of

ARRAYS = (".npy", ".npz")
_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to be run.

    Args:
        name: Its name, which its result gets too; a relative path.
        load: Gives the inputs of the model, or what `--pre` makes them of.
        priority: Higher goes first.
    """

    name: str
    load: Callable[[], object]
    priority: float = 0.0


def find_items(text: str, specs: Sequence[TensorSpec], has_pre: bool, target: Path) -> list[Item]:
    """The items that `--input` names, in order of their names.

    Args:
        text: A folder, a pattern, an `.npz` file with one array for each input and one row for each item, or a
            `.jsonl` file with one object for each item.
        specs: What the model takes.
        has_pre: Whether a function makes the inputs; else files must hold arrays.
        target: Folder of the results; what is in it is none of the items.

    Raises:
        Refused: there is nothing, or something that cannot be read, or results would lie among the items.
    """
    path = Path(text)
    if path.is_dir():
        if path.resolve() == target.resolve():
            raise Refused(f"--output {target}: that is where the items are", "give another folder for the results")
        files = {str(file.relative_to(path)): file for file in sorted(path.rglob("*")) if _counts(file, path)}
    elif path.suffix == ".npz" and path.is_file():
        return _rows(path)
    elif path.suffix == ".jsonl" and path.is_file():
        return _lines(path, specs, has_pre)
    else:
        files = _matching(text)
    results = target.resolve()
    files = {name: file for name, file in files.items() if results not in file.resolve().parents}
    if not files:
        raise Refused(f"--input {text}: no file found", "give a folder, a pattern in quotes, an .npz or a .jsonl file")
    foreign = [name for name, file in files.items() if file.suffix not in ARRAYS]
    if foreign and not has_pre:
        raise Refused(f"--input {text}: {foreign[0]} and {len(foreign) - 1} more hold no arrays",
                      "name a function that makes arrays of a path: --pre module:function; or a pattern: '*.npy'")
    return [Item(name, _PathOf(file) if has_pre else _ArraysOf(file)) for name, file in files.items()]


def prioritized(items: Sequence[Item], wanted: Sequence[str]) -> list[Item]:
    """Items with their priorities, the highest first.

    Args:
        items: They.
        wanted: `PATTERN=NUMBER`, the last that matches an item's name counts; or `NUMBER` for all.

    Raises:
        Refused: what is not written so.
    """
    rules = [_rule(text) for text in wanted]
    found = []
    for item in items:
        numbers = [number for pattern, number in rules if fnmatch.fnmatch(item.name, pattern)]
        found.append(Item(item.name, item.load, numbers[-1] if numbers else 0.0))
    return sorted(found, key=lambda item: -item.priority)


@dataclass(frozen=True, slots=True)
class _PathOf:
    path: Path

    def __call__(self) -> object:
        return self.path


@dataclass(frozen=True, slots=True)
class _ArraysOf:
    path: Path

    def __call__(self) -> object:
        loaded = np.load(self.path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            arrays = {name: loaded[name] for name in loaded.files}
        return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def _counts(file: Path, folder: Path) -> bool:
    return file.is_file() and not any(part.startswith(".") for part in file.relative_to(folder).parts)


def _matching(text: str) -> dict[str, Path]:
    fixed = Path(text)
    while _WILD & set(str(fixed)):
        fixed = fixed.parent
    base = fixed if fixed.is_dir() else fixed.parent
    found = sorted(Path(name) for name in glob.glob(text, recursive=True))
    return {str(file.relative_to(base)): file for file in found if file.is_file()}


def _rows(path: Path) -> list[Item]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays: dict[str, Array] = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, TypeError) as error:
        raise Refused(f"{path}: cannot be read as .npz: {error}") from error
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(counts.values())) != 1 or not any(counts.values()):
        told = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise Refused(f"{path}: its arrays need the same number of rows, one for each item ({told})")
    count = next(iter(counts.values()))
    digits = math.ceil(math.log10(count + 1))

    def row(number: int) -> Mapping[str, Array] | Array:
        found = {name: array[number : number + 1] for name, array in arrays.items()}
        return found if len(found) > 1 else next(iter(found.values()))

    return [Item(f"{path.stem}-{n:0{digits}}", lambda n=n: row(n)) for n in range(count)]  # type: ignore[misc]


def _lines(path: Path, specs: Sequence[TensorSpec], has_pre: bool) -> list[Item]:
    names: dict[str, int] = {}
    items = []
    for number, line in _objects(path):
        name = str(line.pop("id", f"{path.stem}-{number}"))
        if name in names or not name or Path(name).is_absolute() or ".." in Path(name).parts:
            other = f"also that of line {names[name]}" if name in names else "not a relative path"
            raise Refused(f"{path}:{number}: the id {name!r} is {other}")
        names[name] = number
        items.append(Item(name, _Line(line) if has_pre else _TypedLine(line, tuple(specs))))
    return items


@dataclass(frozen=True, slots=True)
class _Line:
    values: Mapping[str, object]

    def __call__(self) -> object:
        return dict(self.values)


@dataclass(frozen=True, slots=True)
class _TypedLine:
    """Numbers of a line as arrays of the types that the model takes: JSON has but one kind of number."""

    values: Mapping[str, object]
    specs: tuple[TensorSpec, ...]

    def __call__(self) -> object:
        known = {spec.name: spec.dtype for spec in self.specs}
        return {name: np.asarray(value, _dtype(known.get(name))) for name, value in self.values.items()}


def _dtype(dtype: DataType | None) -> np.dtype[np.generic] | None:
    return None if dtype in (None, DataType.STRING, DataType.UNDEFINED) else numpy_dtype_of(dtype)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except ValueError as error:
                raise Refused(f"{path}:{number}: no JSON: {error}") from error
            if not isinstance(found, dict):
                raise Refused(f"{path}:{number}: expected an object with one value for each input")
            yield number, found


def _rule(text: str) -> tuple[str, float]:
    pattern, equals, number = text.rpartition("=")
    try:
        return (pattern if equals else "*"), float(number)
    except ValueError:
        raise Refused(f"--priority {text!r}: expected a number, or PATTERN=NUMBER") from None
