"""Element types, tensor descriptions and how they map to numpy; what a node's functions and options are.

The numbers are CANN's (`ge::DataType`), because they travel in message descriptors and model files.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from dflow_core.errors import TensorError

Array: TypeAlias = npt.NDArray[np.generic]


def is_plain_array(value: object) -> TypeGuard[Array]:
    """Whether a value is an array that is no more than its elements.

    Subclasses may hold more (a mask, a unit) or calculate otherwise (`np.matrix`), so they are objects; memory-mapped
    files are plain.
    """
    return type(value) in (np.ndarray, np.memmap)


class DataType(enum.IntEnum):
    """Element type of a tensor; the value is the number used on the wire."""

    FLOAT = 0
    FLOAT16 = 1
    INT8 = 2
    INT32 = 3
    UINT8 = 4
    INT16 = 6
    UINT16 = 7
    UINT32 = 8
    INT64 = 9
    UINT64 = 10
    DOUBLE = 11
    BOOL = 12
    STRING = 13
    BF16 = 27
    UNDEFINED = 33

    @property
    def itemsize(self) -> int:
        """Bytes of one element; 0 where elements have no fixed size."""
        return _ITEMSIZE.get(self, 0)


_NUMPY: dict[DataType, np.dtype[np.generic]] = {
    DataType.FLOAT: np.dtype(np.float32),
    DataType.FLOAT16: np.dtype(np.float16),
    DataType.INT8: np.dtype(np.int8),
    DataType.INT32: np.dtype(np.int32),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.INT16: np.dtype(np.int16),
    DataType.UINT16: np.dtype(np.uint16),
    DataType.UINT32: np.dtype(np.uint32),
    DataType.INT64: np.dtype(np.int64),
    DataType.UINT64: np.dtype(np.uint64),
    DataType.DOUBLE: np.dtype(np.float64),
    DataType.BOOL: np.dtype(np.bool_),
}
_FROM_NUMPY = {dtype: data_type for data_type, dtype in _NUMPY.items()}
_ITEMSIZE = {data_type: dtype.itemsize for data_type, dtype in _NUMPY.items()} | {DataType.BF16: 2}


def bfloat16_dtype() -> np.dtype[np.generic] | None:
    """The numpy dtype of bfloat16, or None where `ml_dtypes` is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    found: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
    return found


def data_type_of(dtype: npt.DTypeLike) -> DataType:
    """The `DataType` of a numpy dtype of either byte order.

    Raises:
        TensorError: if tensors cannot have this dtype (complex, datetime, structured, ...).
    """
    resolved = np.dtype(dtype)
    if resolved.kind == "T":
        hint = "convert it with .astype(object)"
        raise TensorError(f"arrays of dtype {resolved} cannot be sent as a tensor", hint=hint)
    exact = _FROM_NUMPY.get(resolved)
    if exact is not None and resolved.isnative:
        return exact
    if resolved.kind in "US":
        return DataType.STRING
    if resolved.name == "bfloat16":
        return DataType.BF16
    found = _FROM_NUMPY.get(resolved.newbyteorder("="))
    if found is None:
        raise TensorError(
            f"arrays of dtype {resolved} cannot be sent as a tensor",
            hint="convert it to one of " + ", ".join(str(d) for d in _FROM_NUMPY) + ", or send it inside an object",
        )
    return found


def numpy_dtype_of(data_type: DataType) -> np.dtype[np.generic]:
    """The numpy dtype that holds a `DataType`; bfloat16 needs `ml_dtypes`, else its bits as uint16.

    Raises:
        TensorError: if no fixed numpy dtype holds it (strings, undefined).
    """
    if data_type is DataType.BF16:
        return bfloat16_dtype() or np.dtype(np.uint16)
    found = _NUMPY.get(data_type)
    if found is None:
        raise TensorError(f"{data_type.name} has no fixed numpy dtype")
    return found


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What is known of a tensor before it exists.

    Args:
        dtype: Element type.
        shape: Dimensions; -1 where free; None when not even the rank is known.
        name: Name the model file gives it, or "".
    """

    dtype: DataType
    shape: tuple[int, ...] | None = None
    name: str = ""

    def __str__(self) -> str:
        dims = "..." if self.shape is None else ", ".join("?" if d < 0 else str(d) for d in self.shape)
        return f"{self.dtype.name.lower()}[{dims}]"

    def mismatch(self, dtype: DataType, shape: Sequence[int]) -> str | None:
        """Why an array of this dtype and shape does not fit, or None if it does."""
        got = TensorSpec(dtype, tuple(shape))
        if self.dtype not in (dtype, DataType.UNDEFINED):
            return f"expected {self}, got {got}: dtype differs"
        if self.shape is None:
            return None
        if len(self.shape) != len(shape):
            return f"expected {self}, got {got}: rank differs"
        if any(want >= 0 and want != have for want, have in zip(self.shape, shape)):
            return f"expected {self}, got {got}: shape differs"
        return None

    def conflict(self, other: TensorSpec) -> str | None:
        """Why no tensor can satisfy both specs, or None if one can."""
        undefined = DataType.UNDEFINED
        if self.dtype is not other.dtype and undefined not in (self.dtype, other.dtype):
            return f"{other} cannot feed {self}: dtype differs"
        if self.shape is None or other.shape is None:
            return None
        if len(self.shape) != len(other.shape):
            return f"{other} cannot feed {self}: rank differs"
        if any(a >= 0 and b >= 0 and a != b for a, b in zip(self.shape, other.shape)):
            return f"{other} cannot feed {self}: shape differs"
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """An array with a declared element type, for what numpy alone cannot say (bfloat16 bits in a uint16 array).

    Args:
        data: The array; for BF16 either `ml_dtypes.bfloat16` or the raw bits as uint16.
        dtype: Element type; taken from the array if not given.
    """

    data: Array
    dtype: DataType | None = None

    def __post_init__(self) -> None:
        own = data_type_of(self.data.dtype)
        declared = own if self.dtype is None else self.dtype
        if declared is not own and not (declared is DataType.BF16 and own is DataType.UINT16):
            raise TensorError(f"a {self.data.dtype} array cannot be declared {declared.name}")
        object.__setattr__(self, "dtype", declared)


@dataclass(frozen=True, slots=True)
class FuncSpec:
    """One function of a node: which of the node's ports are its own, and how it is called.

    Args:
        name: Function or method name; "" for a model, which has one.
        inputs: Node input indexes, in the order the function takes them.
        outputs: Node output indexes, in the order it returns them.
        gather: Whether it is called once per transaction with all parts an upstream generator made of it.
        holds_inputs: Whether it may keep inputs beyond the call (batching); the framework then does not end
            their transactions when a call sends nothing.
        stream_input: Whether it takes queues instead of values.
        n_mapping: Whether it may send several messages, or none, for one call.
        generator: Whether one call may send several messages to an output, which are parts of the input's transaction.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    gather: bool = False
    holds_inputs: bool = False
    stream_input: bool = False
    n_mapping: bool = False
    generator: bool = False


@dataclass(frozen=True, slots=True)
class AlignLimits:
    """How long parts that belong together wait for each other, at joins and at the outputs of a graph.

    Args:
        max_cache: Incomplete sets kept; 0 puts no limits at all in force.
        timeout: Seconds after which an incomplete set is given up; 0 never.
        drop: Whether what is given up is dropped; else it is given out as it is.
    """

    max_cache: int = 0
    timeout: float = 0.0
    drop: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str], node: NodeOptions | None = None) -> AlignLimits:
        """From graph options as texts; what a node says itself goes before them."""
        found = cls(
            int(options.get("align_max_cache") or 0), float(options.get("align_timeout") or 0),
            options.get("align_drop", "0") == "1",
        )
        return found if node is None else found.with_own(node)

    def with_own(self, node: NodeOptions) -> AlignLimits:
        """The limits that are in force at a node, where these are those of the graph."""
        own = {"max_cache": node.align_max_cache, "timeout": node.align_timeout, "drop": node.align_drop}
        return replace(self, **{name: value for name, value in own.items() if value is not None})  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return self.max_cache > 0


NO_LIMITS = AlignLimits()


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """How a node wants to be run.

    Args:
        instances: How many executors share its work.
        threads: Threads each instance may use; 0 lets the plan share out the CPUs.
        env: Python interpreter (or virtual environment folder) to run it with; "" is this one.
        call_timeout: Seconds one call may take before its process is ended; 0 is no limit.
        on_error: `continue` ends the transaction of a failing call; `stop` ends the graph.
        restarts: How often an executor that died may be started again within `restart_window`.
        process: Name of a process to share with other instances of the same engine; "" lets the plan decide.
        dispatch: How messages are shared out over several instances: `free` (who is free takes the next one),
            `transaction` (one after the other by transaction id, or by transaction and route label), `least_loaded`
            (who has the fewest waiting) or `sticky` (by route label: all that has one label meets in one instance). ""
            is `transaction` for nodes that a deploy file places, else `free`; what joins cannot be `free`.
        when_lost: What follows when an executor dies: `restart` starts it again within `restarts`, and lets the other
            instances go on when that is over; `degrade` lets them go on at once, and starts only the last one again;
            `always` starts it again however often; `never` does not. Without another instance the graph ends.
        restart_window: Seconds in which `restarts` are counted.
        restart_delay: Seconds before an executor that died soon after its start is started for the second time in a
            row; the first start follows at once, and each further pause is twice as long.
        restart_delay_max: The longest such pause, seconds. One that has lived longer than that did not die soon.
        align_max_cache, align_timeout, align_drop: Limits of the alignment of its inputs, as the options of the graph
            that have these names; None is what the graph says.
    """

    instances: int = 1
    threads: int = 0
    env: str = ""
    call_timeout: float = 0.0
    on_error: str = "continue"
    restarts: int = 3
    process: str = ""
    dispatch: str = ""
    when_lost: str = "restart"
    restart_window: float = 60.0
    restart_delay: float = 0.05
    restart_delay_max: float = 1.0
    align_max_cache: int | None = None
    align_timeout: float | None = None
    align_drop: bool | None = None
