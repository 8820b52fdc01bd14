"""The command line of atc."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dflow_core.errors import OptionError
from dflow_core.graph import Framework
from dflow_pne_npu.model_inputs import onnx_ports, tensorflow_inputs
from dflow_pne_npu.settings import Asked

NUMBERS = {Framework.MINDSPORE: 1, Framework.TENSORFLOW: 3, Framework.ONNX: 5}


def arguments(framework: Framework, model: Path, output: Path, soc: str, asked: Asked) -> list[str]:
    """Words of the command line, without the program.

    Args:
        framework: What wrote the model.
        model: The file.
        output: Path of the result, without `.om`.
        soc: The chip.
        asked: What the user asks.

    Raises:
        OptionError: shapes are given for another number of inputs than the model has.
    """
    options = dict(asked.atc)
    shape = _named_shapes(framework, model, options.get("input_shape", ""), asked.shapes)
    if shape:
        options["input_shape"] = shape
    words = [f"--framework={NUMBERS[framework]}", f"--model={model}", f"--output={output}", f"--soc_version={soc}"]
    return [*words, *(f"--{name}={value}" for name, value in options.items()), *asked.extra]


def _named_shapes(
    framework: Framework, model: Path, text: str, shapes: Sequence[tuple[int, ...] | None]
) -> str:
    """Shapes as atc wants them, `name:sizes`; positional ones are given names, those of a config come first."""
    positional = [part for part in text.split(";") if part and ":" not in part]
    if not positional and not any(shape is not None for shape in shapes):
        return text
    names = _names(framework, model)
    if shapes and len(shapes) != len(names):
        raise OptionError(f"inputs_tensor_desc has {len(shapes)} entries, the model has {len(names)} inputs: "
                          f"{', '.join(names)}")
    found: dict[str, str] = {name: ",".join(map(str, shape)) for name, shape in zip(names, shapes) if shape is not None}
    if positional and len(positional) != len(names):
        raise OptionError(f"ge.inputShape gives {len(positional)} shapes, the model has {len(names)} inputs: "
                          f"{', '.join(names)}")
    found |= dict(zip(names, positional))
    named = [part.rpartition(":") for part in text.split(";") if ":" in part]
    found |= {name: sizes for name, _, sizes in named}
    return ";".join(f"{name}:{sizes}" for name, sizes in found.items())


def _names(framework: Framework, model: Path) -> tuple[str, ...]:
    data = model.read_bytes()
    if framework is Framework.ONNX:
        return onnx_ports(data)[0]
    if framework is Framework.TENSORFLOW:
        return tensorflow_inputs(data)
    raise OptionError("shapes of a MindSpore model must be given by name: ge.inputShape=name:1,2")
