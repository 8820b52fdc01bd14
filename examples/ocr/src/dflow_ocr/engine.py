"""A model on a CPU engine, without a framework around it: one thread, the caller's arrays, outputs by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

from dflow_ocr.errors import OcrExampleError
from dflow_pne_cpu.runtimes.signal_stack import signal_stack_kept

__all__ = ["ENGINES", "EngineName", "Model", "load_model", "openvino_config"]

EngineName = Literal["openvino-f32", "openvino-bf16", "onnxruntime"]
ENGINES: Final[tuple[EngineName, ...]] = ("openvino-f32", "openvino-bf16", "onnxruntime")

Answer = dict[str, npt.NDArray[Any]]


class Model(Protocol):
    """A compiled model with one input."""

    def __call__(self, feed: npt.NDArray[np.float32]) -> Answer:
        """Run the model.

        Args:
            feed: The input.

        Returns:
            The outputs by name; they may be overwritten by the next call.
        """


def openvino_config(precision: Literal["f32", "bf16"], threads: int = 1) -> dict[str, str]:
    """Say how OpenVINO has to run where several processes share the cores.

    Args:
        precision: The precision to compute in. Without it OpenVINO takes bfloat16 on CPUs that have it.
        threads: How many threads one call uses.

    Returns:
        The properties of the CPU device.
    """
    return {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": str(threads),
        "NUM_STREAMS": "1",
        # Pinned, two processes of one thread sit on the same core.
        "ENABLE_CPU_PINNING": "NO",
    }


def load_model(model: Path | bytes, engine: EngineName, threads: int = 1, shape: str = "") -> Model:
    """Compile a model.

    Args:
        model: An ONNX file or its content.
        engine: The engine and precision.
        threads: How many threads one call uses.
        shape: The one shape its input has, `1,3,960,1280`, which OpenVINO makes use of; "" is any.

    Returns:
        The model.

    Raises:
        OcrExampleError: The engine is unknown.
    """
    if engine == "onnxruntime":
        return _OnnxRuntimeModel(model, threads)
    if engine == "openvino-f32":
        return _OpenVinoModel(model, openvino_config("f32", threads), shape)
    if engine == "openvino-bf16":
        return _OpenVinoModel(model, openvino_config("bf16", threads), shape)
    raise OcrExampleError(f"unknown engine {engine!r}; known are {', '.join(ENGINES)}")


class _OpenVinoModel:
    def __init__(self, model: Path | bytes, config: dict[str, str], shape: str) -> None:
        import openvino

        core = openvino.Core()
        with signal_stack_kept():
            found = core.read_model(model)
            if shape:
                found.reshape([int(size) for size in shape.split(",")])
            self._compiled = core.compile_model(found, "CPU", config)
        self._request = self._compiled.create_infer_request()
        self._names: Final = [port.any_name for port in self._compiled.outputs]

    def __call__(self, feed: npt.NDArray[np.float32]) -> Answer:
        # `feed` stays referenced until the call is over: the request itself does not keep it alive.
        self._request.infer([feed], share_inputs=True)
        return {name: self._request.get_output_tensor(i).data for i, name in enumerate(self._names)}


class _OnnxRuntimeModel:
    def __init__(self, model: Path | bytes, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Idle threads would spin on cores that others need.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        source = model if isinstance(model, bytes) else str(model)
        self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self._input: Final = self._session.get_inputs()[0].name
        self._names: Final = [output.name for output in self._session.get_outputs()]

    def __call__(self, feed: npt.NDArray[np.float32]) -> Answer:
        return dict(zip(self._names, self._session.run(self._names, {self._input: feed}), strict=True))
