"""What to do with a model when it is read: which tensors, in which order, with which types and shapes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dflow_core.errors import CompileError, OptionError
from dflow_core.types import DataType, TensorSpec
from dflow_pne_cpu.facts import FileFacts
from dflow_pne_cpu.names import find_name, near
from dflow_pne_cpu.settings import Asked, InputDesc

Dims = tuple[tuple[int, int], ...]
"""Smallest and largest size of each dimension; -1 as the largest is no limit."""

Shapes = tuple[tuple[int, ...], ...]
"""A shape for each input."""


@dataclass(frozen=True, slots=True)
class InputRecipe:
    """One input: its name in the file, and what is to be changed; None keeps it."""

    name: str
    dtype: DataType | None = None
    dims: Dims | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """Inputs and outputs by name, in the order of the node's ports.

    Args:
        inputs: Inputs.
        outputs: Names of outputs; `node:port` where the port is not 0.
        file_order: Whether the outputs are the file's own, so that nothing need be asked for.
        precision: `f32` or `bf16`.
        streams: Calls that run at the same time.
        fixed_shapes: Shapes of all inputs that the model is compiled for besides its free ones.
    """

    inputs: tuple[InputRecipe, ...]
    outputs: tuple[str, ...]
    file_order: bool = True
    precision: str = "f32"
    streams: int = 1
    fixed_shapes: tuple[Shapes, ...] = ()

    def to_text(self) -> str:
        """As JSON."""
        inputs = [[i.name, None if i.dtype is None else int(i.dtype), i.dims] for i in self.inputs]
        return json.dumps(
            [inputs, self.outputs, self.file_order, self.precision, self.streams, self.fixed_shapes]
        )

    @classmethod
    def from_text(cls, text: str) -> Recipe:
        """The inverse of `to_text`."""
        inputs, outputs, file_order, precision, streams, fixed_shapes = json.loads(text)
        return cls(
            tuple(InputRecipe(name, None if dtype is None else DataType(dtype),
                              None if dims is None else tuple((low, high) for low, high in dims))
                  for name, dtype, dims in inputs),
            tuple(outputs), file_order, precision, streams,
            tuple(tuple(map(tuple, shapes)) for shapes in fixed_shapes),
        )

    def fixed_to(self, shapes: Shapes) -> Recipe:
        """The recipe of the form for inputs of these shapes alone."""
        inputs = (
            replace(wanted, dims=tuple((size, size) for size in shape)) for wanted, shape in zip(self.inputs, shapes)
        )
        return replace(self, inputs=tuple(inputs), fixed_shapes=())


def make_recipe(facts: FileFacts, asked: Asked, label: str) -> Recipe:
    """What to do with a model so that the user gets what he asks for.

    Raises:
        CompileError: if a name is none of the model's, or a tensor cannot be sent.
        OptionError: if a shape is not written as it has to be, or the numbers of inputs differ.
    """
    inputs = _inputs(facts, asked, label)
    outputs, file_order = _outputs(facts, asked, label)
    for name in [*(i.name for i in inputs), *outputs]:
        if name in facts.unsupported:
            raise CompileError(f"{label}: {name!r} {facts.unsupported[name]}",
                               hint="choose other outputs with load_params={'output_names': ...}")
    fixed = tuple(_fixed(text, inputs, facts, label) for text in asked.fixed_shapes.split("|") if text.strip())
    return Recipe(inputs, outputs, file_order, asked.precision, asked.streams, fixed)


def expected_io(facts: FileFacts, recipe: Recipe) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Inputs and outputs after the recipe, as far as that can be told without a model library."""
    known = {spec.name: spec for spec in facts.inputs}
    inputs = tuple(_changed(known[i.name], i) for i in recipe.inputs)
    retyped = any(i.dtype not in (None, known[i.name].dtype) for i in recipe.inputs)
    reshaped = any(i.dims is not None and known[i.name].shape != _shape(i.dims) for i in recipe.inputs)
    file_outputs = {spec.name: spec for spec in facts.outputs}
    outputs = []
    for name in recipe.outputs:
        spec = file_outputs.get(name, TensorSpec(DataType.UNDEFINED, None, name))
        dtype = DataType.UNDEFINED if retyped else spec.dtype
        outputs.append(TensorSpec(dtype, None if reshaped else spec.shape, name))
    return inputs, tuple(outputs)


def parse_input_shape(text: str, key: str = "ge.inputShape") -> list[tuple[str, Dims]]:
    """The entries of `ge.inputShape`: `name:1,3,-1;other:1~8,4`, or by position without names.

    Args:
        text: The entries.
        key: What the setting is called in errors.

    Raises:
        OptionError: if it is not written so.
    """
    entries = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, _, sizes = part.rpartition(":")
        dims = tuple(_dim(size.strip(), text, key) for size in sizes.split(",") if size.strip())
        entries.append((name.strip(), dims))
    return entries


def _dim(text: str, whole: str, key: str) -> tuple[int, int]:
    low, tilde, high = text.partition("~")
    try:
        first = int(low)
        last = int(high) if tilde else first
    except ValueError:
        raise OptionError(f"{key}={whole!r}: {text!r} is no size",
                          hint="write 'name:1,3,224,224;other:1~8,-1'") from None
    if first == -1 and not tilde:
        return 0, -1
    if first < 0 or (last < first and last != -1):
        raise OptionError(f"{key}={whole!r}: {text!r} is no size or range")
    return first, last


def _inputs(facts: FileFacts, asked: Asked, label: str) -> tuple[InputRecipe, ...]:
    known = [spec.name for spec in facts.inputs]
    order = [_known(name, known, label, "input") for name in asked.input_names] or list(range(len(known)))
    missing = [name for index, name in enumerate(known) if index not in order]
    if missing or len(set(order)) != len(order):
        raise CompileError(f"{label}: input_data_names must name each input once; the model has {', '.join(known)}")
    names = [known[index] for index in order]
    descs = asked.input_descs or (InputDesc(),) * len(names)
    if len(descs) != len(names):
        raise OptionError(f"inputs_tensor_desc has {len(descs)} entries, but the model {label} has {len(names)} "
                          f"inputs: {', '.join(names)}")
    shapes = _asked_shapes(asked.input_shape, names, label)
    recipes = []
    for name, desc in zip(names, descs):
        dims = shapes.get(name)
        if dims is None and desc.shape is not None:
            dims = tuple((0, -1) if dim < 0 else (dim, dim) for dim in desc.shape)
        recipes.append(InputRecipe(name, desc.dtype, dims))
    return tuple(recipes)


def _fixed(text: str, inputs: Sequence[InputRecipe], facts: FileFacts, label: str) -> Shapes:
    """The shapes of all inputs that one part of `fixed_shapes` gives; an input it leaves out must have a fixed one."""
    known = {spec.name: spec for spec in facts.inputs}
    asked = _asked_shapes(text, [wanted.name for wanted in inputs], label, "fixed_shapes")
    shapes = []
    for wanted in inputs:
        spec = _changed(known[wanted.name], wanted)
        dims = asked.get(wanted.name)
        shape = spec.shape if dims is None else _shape(dims)
        if shape is None or min(shape, default=0) < 0:
            raise OptionError(f"fixed_shapes={text!r}: input {wanted.name!r} of {label} needs all its sizes",
                              hint="write 'name:1,3,224,224', inputs separated by ';' and sets of shapes by '|'")
        fault = TensorSpec(DataType.UNDEFINED, spec.shape, spec.name).mismatch(spec.dtype, shape)
        if fault is not None:
            raise OptionError(f"fixed_shapes={text!r} does not fit {label}: {wanted.name!r}: {fault}")
        shapes.append(shape)
    return tuple(shapes)


def _asked_shapes(text: str, names: Sequence[str], label: str, key: str = "ge.inputShape") -> dict[str, Dims]:
    entries = parse_input_shape(text, key)
    if entries and not entries[0][0]:
        if len(entries) != len(names):
            raise OptionError(f"{key}={text!r} has {len(entries)} shapes, but the model {label} has "
                              f"{len(names)} inputs: {', '.join(names)}")
        return dict(zip(names, (dims for _, dims in entries)))
    return {names[_known(name, names, label, "input")]: dims for name, dims in entries}


def _outputs(facts: FileFacts, asked: Asked, label: str) -> tuple[tuple[str, ...], bool]:
    known = [spec.name for spec in facts.outputs]
    if not asked.output_names:
        return tuple(known), not facts.tensors
    if len(set(asked.output_names)) != len(asked.output_names):
        raise CompileError(f"{label}: an output is named twice in {', '.join(asked.output_names)}")
    chosen = []
    for name in asked.output_names:
        index = find_name(name, known)
        chosen.append(known[index] if index >= 0 else _inner_tensor(name, facts, label))
    return tuple(chosen), False


def _inner_tensor(name: str, facts: FileFacts, label: str) -> str:
    node, _, port = name.partition(":")
    if node not in facts.tensors:
        known = [*(spec.name for spec in facts.outputs), *facts.tensors]
        raise CompileError(f"{label}: no output {name!r}", hint=near(name, known))
    if port and (not port.isdigit() or 0 < facts.tensors[node] <= int(port)):
        raise CompileError(f"{label}: node {node!r} has no port {port!r}; it has {facts.tensors[node]}")
    return node if port in ("", "0") else name


def _known(name: str, known: Sequence[str], label: str, what: str) -> int:
    index = find_name(name, known)
    if index < 0:
        raise CompileError(f"{label}: no {what} {name!r}", hint=near(name, known))
    return index


def _shape(dims: Dims) -> tuple[int, ...]:
    return tuple(low if low == high else -1 for low, high in dims)


def _changed(spec: TensorSpec, change: InputRecipe) -> TensorSpec:
    shape = spec.shape if change.dims is None else _shape(change.dims)
    return TensorSpec(spec.dtype if change.dtype is None else change.dtype, shape, spec.name)
