"""`@df.npu_model`: functions and classes that get and give torch tensors.

Upstream runs them on an NPU. Here they run on the CPU, in a process of their own as every node, over the memory of the
messages; a class with `optimize_level=2` becomes an ONNX model that the engine for models runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dataflow import codes
from dataflow.flow_func import flowfunc_wrapper as native
from dataflow.nodes import FlowNode
from dataflow.plugin.torch.conversion import (
    _convert_df_to_torch_tensor_dtype,
    _convert_torch_to_df_tensor_dtype,
    _deserialize_with_torch_tensor,
    _register_torch_tensor,
    _serialize_with_torch_tensor,
    from_torch,
    to_torch,
)
from dataflow.plugin.torch.export import export_onnx
from dataflow.points import Framework, GraphProcessPoint
from dataflow.pyflow import Options, PyActorProcessPoint, PyFunctionProcessPoint, count_returns, methods_of
from dataflow.tensor import Tensor, TensorDesc
from dflow_core.errors import NodeError

if TYPE_CHECKING:
    import torch

__all__ = [
    "NpuActorProcessPoint",
    "NpuFunctionProcessPoint",
    "_convert_df_to_torch_tensor_dtype",
    "_convert_torch_to_df_tensor_dtype",
    "_deserialize_with_torch_tensor",
    "_serialize_with_torch_tensor",
    "npu_model",
]

_FUNCTION_OPTIONS = ("num_returns", "resources", "env_hook_func", "visible_device_enable")
_CLASS_OPTIONS = (*_FUNCTION_OPTIONS, "optimize_level", "input_descs")
_SCHED_MODEL = "_npu_sched_model"


class TorchFunction:
    """A function of torch tensors as one of Tensors.

    Args:
        func: The function.
    """

    def __init__(self, func: Callable[..., object]) -> None:
        functools.update_wrapper(self, func)
        self._func = func
        self.__code__ = getattr(func, "__code__", None)

    def __call__(self, *values: object) -> object:
        """Call it."""
        result = self._func(*[_tensor_in(value) for value in values])
        if isinstance(result, tuple):
            return tuple(_tensor_out(item, self._func) for item in result)
        return _tensor_out(result, self._func)


class NpuFunctionProcessPoint(PyFunctionProcessPoint):
    """A decorated function of torch tensors."""

    def __init__(self, func: Callable[..., object], options: Options) -> None:
        super().__init__(func, options, TorchFunction(func))

    def fnode(self, *args: object, **kwargs: object) -> FlowNode:
        """A node that calls the function."""
        node = super().fnode(*args, **kwargs)
        node.set_attr(_SCHED_MODEL, 1)
        return node


class NpuActorProcessPoint(PyActorProcessPoint):
    """Base of decorated classes of torch tensors."""

    _df_level: ClassVar[int]
    _df_descs: ClassVar[Sequence[TensorDesc] | None]
    _df_wrap = TorchFunction

    @classmethod
    def fnode(cls, *args: object, **kwargs: object) -> FlowNode:
        """A node with the class's methods, or with the model it is.

        Args:
            args, kwargs: Arguments of the class.

        Raises:
            TypeError: an `optimize_level` that is neither 1 nor 2, or 2 without `input_descs`.
        """
        if not isinstance(cls._df_level, int) or cls._df_level not in (1, 2):
            raise TypeError(f"optimize_level must be 1 or 2, got {cls._df_level!r}")
        node = super().fnode(*args, **kwargs) if cls._df_level == 1 else cls._exported(args, kwargs)
        node.set_attr(_SCHED_MODEL, 1)
        return node

    @classmethod
    def _exported(cls, args: tuple[object, ...], kwargs: Mapping[str, object]) -> FlowNode:
        descs = cls._df_descs
        if not isinstance(descs, (list, tuple)) or not all(isinstance(desc, TensorDesc) for desc in descs):
            raise TypeError("optimize_level=2 needs input_descs, a list of TensorDesc")
        model = cls._df_clz(*args, **kwargs)
        outputs = count_returns(model.forward, cls._df_options.num_returns)
        node = FlowNode(len(descs), outputs, f"{cls._df_clz.__name__}_fnode")
        file = _dynamo_export(model, descs, f"./{node.name}_ws")
        node.add_process_point(GraphProcessPoint(Framework.ONNX, str(file), name=cls._df_clz.__name__))
        for function in methods_of(cls._df_clz, cls._df_options):
            setattr(node, function.name, node)
        return node


def npu_model(*args: object, **kwargs: object) -> object:
    """Let a function or class of torch tensors make nodes.

    Args:
        args: The function or class, where there are no options.
        kwargs: `num_returns`, `resources`, `env_hook_func`, `visible_device_enable`; for classes also
            `optimize_level` (1 or 2) and `input_descs`.

    Raises:
        ImportError: torch is not installed.
        TypeError: an unknown option, or neither a function nor a class.
    """
    _register_torch_tensor()
    if len(args) == 1 and not kwargs:
        return _make_npu_model(args[0], {})
    if args:
        raise TypeError("@npu_model takes a function or class, or options by name")
    return lambda target: _make_npu_model(target, kwargs)


def _make_npu_model(obj: object, options: Mapping[str, object]) -> object:
    """What `npu_model` makes of a function or class."""
    is_class = isinstance(obj, type)
    for key in options:
        if key not in (_CLASS_OPTIONS if is_class else _FUNCTION_OPTIONS):
            kind = "class" if is_class else "function"
            raise TypeError(f"param:{key} is not support in @npu_model on a {kind}.")
    common = Options(**{key: options[key] for key in _FUNCTION_OPTIONS if key in options})  # type: ignore[arg-type]
    if isinstance(obj, type):
        body = {
            "_df_clz": obj, "_df_options": common, "_df_level": options.get("optimize_level", 1),
            "_df_descs": options.get("input_descs"), "__module__": obj.__module__, "__qualname__": obj.__qualname__,
        }
        return type(obj.__name__, (NpuActorProcessPoint,), body)
    if not callable(obj) or not hasattr(obj, "__code__"):
        raise TypeError("@npu_model takes a function or a class")
    return NpuFunctionProcessPoint(obj, common)


def _prepare_inputs(inputs: Sequence[object], input_num: int) -> tuple[int, list[torch.Tensor]]:
    """Torch tensors of messages, over their memory; a code if there are too few, or one has no tensor."""
    if len(inputs) != input_num:
        return codes.FUNC_FAILED, []
    found = []
    for msg in inputs:
        tensor = msg.get_tensor() if isinstance(msg, native.FlowMsg) else None
        if tensor is None:
            return codes.FUNC_ERR_PARAM_INVALID, []
        found.append(to_torch(tensor.native_array()))
    return codes.FUNC_SUCCESS, found


def _prepare_outputs(
    context: native.MetaRunContext, outputs: object, output_num: int
) -> tuple[int, list[native.FlowMsg]]:
    """Messages of torch tensors; a code if there are not `output_num` of them."""
    items = outputs if isinstance(outputs, tuple) else (outputs,)
    if len(items) != output_num or not all(_check_torch_output(item) for item in items):
        return codes.FUNC_FAILED, []
    return codes.FUNC_SUCCESS, [context.to_flow_msg(native.Tensor(from_torch(item)._impl)) for item in items]


def _check_torch_output(output: object) -> bool:
    """Whether a result is a torch tensor."""
    import torch

    return isinstance(output, torch.Tensor)


def _dynamo_export(class_ins: torch.nn.Module, input_descs: Sequence[TensorDesc], workspace_dir: str) -> Path:
    """Export a model into a workspace; gives the file."""
    return export_onnx(class_ins, input_descs, Path(workspace_dir))


def _tensor_in(value: object) -> object:
    if isinstance(value, Tensor):
        return to_torch(value._impl)
    return _deserialize_with_torch_tensor(value) if isinstance(value, memoryview) else value


def _tensor_out(item: object, func: Callable[..., object]) -> Tensor:
    import torch

    if not isinstance(item, torch.Tensor):
        name = getattr(func, "__name__", repr(func))
        raise NodeError(
            f"{name} returned a {type(item).__name__}, expected a torch.Tensor", ret_code=codes.FUNC_FAILED
        )
    return from_torch(item)
