# mypy: disallow-any-explicit=False
"""From a model file to OpenVINO's model, with the outputs, types and shapes that are wanted.

The front-end API is used for both kinds of files: it does not guess what a file is, takes any tensor of a TensorFlow
graph as an output in any order (plain reading sorts outputs and shows port 0 alone), and changes types and shapes of
inputs before the graph is converted.
"""

from __future__ import annotations

from typing import Any

from dflow_core.types import DataType
from dflow_pne_cpu.model_file import TENSORFLOW, ModelFile
from dflow_pne_cpu.names import spellings
from dflow_pne_cpu.recipe import Recipe
from dflow_pne_cpu.runtimes.base import RefusedError, words_of

ELEMENT_TYPES = {
    DataType.FLOAT: "f32", DataType.FLOAT16: "f16", DataType.INT8: "i8", DataType.INT32: "i32", DataType.UINT8: "u8",
    DataType.INT16: "i16", DataType.UINT16: "u16", DataType.UINT32: "u32", DataType.INT64: "i64",
    DataType.UINT64: "u64", DataType.DOUBLE: "f64", DataType.BOOL: "boolean", DataType.BF16: "bf16",
    DataType.STRING: "string",
}
FRONT_ENDS = {"onnx": "onnx", TENSORFLOW: "tf"}


def read_model(file: ModelFile, recipe: Recipe) -> Any:
    """The model of a file, changed as the recipe says.

    Raises:
        RefusedError: if OpenVINO does not take it.
    """
    from openvino.frontend import FrontEndManager

    try:
        front_end = FrontEndManager().load_by_framework(FRONT_ENDS[file.framework])
        with file.opened() as path:
            wish = front_end.load(path)
            _choose_outputs(wish, file, recipe)
            _change_inputs(wish, recipe)
            model = front_end.convert(wish)
    except RefusedError:
        raise
    except Exception as cause:
        raise RefusedError(f"OpenVINO cannot read {file.label}: {words_of(cause)}") from cause
    if any(port.get_element_type().to_string() == "string" for port in (*model.inputs, *model.outputs)):
        raise RefusedError("OpenVINO runs no string tensors")
    return model


def _choose_outputs(wish: Any, file: ModelFile, recipe: Recipe) -> None:
    if recipe.file_order:
        return
    if file.framework == TENSORFLOW:
        names = [name if ":" in name else f"{name}:0" for name in recipe.outputs]
    else:
        names = list(recipe.outputs)
    places = [wish.get_place_by_tensor_name(name) for name in names]
    missing = [name for name, place in zip(names, places) if place is None]
    if missing:
        raise RefusedError(f"OpenVINO finds no tensor {', '.join(missing)} in {file.label}")
    wish.override_all_outputs(places)


def _change_inputs(wish: Any, recipe: Recipe) -> None:
    import openvino

    for wanted in recipe.inputs:
        if wanted.dtype is None and wanted.dims is None:
            continue
        place = next((p for p in wish.get_inputs() if set(p.get_names()) & set(spellings(wanted.name))), None)
        if place is None:
            raise RefusedError(f"OpenVINO finds no input {wanted.name}")
        if wanted.dtype is not None:
            wish.set_element_type(place, getattr(openvino.Type, ELEMENT_TYPES[wanted.dtype]))
        if wanted.dims is not None:
            dims = [openvino.Dimension(low, high) for low, high in wanted.dims]
            wish.set_partial_shape(place, openvino.PartialShape(dims))
