"""A torch model as an ONNX file."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dataflow.tensor import TensorDesc

if TYPE_CHECKING:
    import torch

__all__ = ["export_onnx"]


def export_onnx(model: torch.nn.Module, descs: Sequence[TensorDesc], folder: Path) -> Path:
    """Write a model to `export.onnx`.

    Args:
        model: The model.
        descs: What it takes; a negative dimension may have any size.
        folder: Where the file goes.
    """
    import torch

    from dataflow.plugin.torch.conversion import _convert_df_to_torch_tensor_dtype

    folder.mkdir(parents=True, exist_ok=True)
    file = folder.resolve() / "export.onnx"
    examples = tuple(
        torch.ones([abs(dim) for dim in desc._shape], dtype=_convert_df_to_torch_tensor_dtype(desc._dtype))
        for desc in descs
    )
    names = [f"input_{i}" for i in range(len(descs))]
    free = {
        name: {axis: f"{name}_{axis}" for axis, dim in enumerate(desc._shape) if dim < 0}
        for name, desc in zip(names, descs) if any(dim < 0 for dim in desc._shape)
    }
    has_script = importlib.util.find_spec("onnxscript") is not None  # what torch's newer exporter needs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            model.eval(), examples, str(file), input_names=names, dynamic_axes=free or None, dynamo=has_script
        )
    return file
