"""`init` and `finalize`: the options of the process, and the one session all its graphs run in."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from dataflow import codes
from dataflow.data_type import DType, _dflow_dtype_to_np_dtype, _np_dtype_to_dflow_dtype
from dataflow.settings import session_options, translated
from dataflow.tensor import MAX_RANK, Tensor
from dataflow.utils import log
from dataflow.utils.arguments import assert_args_type
from dataflow.utils.errors import DfException, code_of
from dataflow.utils.name_scope import reset_name_scope
from dflow_core.errors import DflowError
from dflow_core.message import HeapBlock
from dflow_core.message import alloc_tensor as alloc_in
from dflow_core.session import DFlowSession

__all__ = ["Context", "Runtime", "alloc_tensor", "finalize", "init"]

_ALIGNMENTS: Final = (32, 64, 128, 256, 512, 1024)
_RUN_MODE: Final = "ge.graphRunMode"


class Context:
    """The session of the process."""

    def __init__(self, session: DFlowSession) -> None:
        self.session = session


class Runtime:
    """What `init` keeps. Upstream has one of it for each process, and so have we."""

    lock: ClassVar[threading.RLock] = threading.RLock()
    options: ClassVar[dict[str, str] | None] = None
    context: ClassVar[Context | None] = None
    next_graph: ClassVar[int] = 0

    @classmethod
    def session(cls) -> DFlowSession:
        """The session, made when first asked for.

        Raises:
            DfException: 145001 before `init`; 145000 for options that cannot be.
        """
        with cls.lock:
            if cls.options is None:
                raise DfException("df.init has not been called", codes.NOT_INIT)
            if cls.context is None:
                try:
                    cls.context = Context(DFlowSession(session_options(cls.options, os.environ)))
                except DflowError as error:
                    raise DfException(error, codes.PARAM_INVALID) from error
            return cls.context.session

    @classmethod
    def graph_id(cls) -> int:
        """The number of the next graph, from 0."""
        with cls.lock:
            cls.next_graph += 1
            return cls.next_graph - 1

    @classmethod
    def end(cls) -> None:
        """Close the session and forget the options."""
        with cls.lock:
            context, cls.context, cls.options = cls.context, None, None
        reset_name_scope()
        if context is not None:
            context.session.close()


@assert_args_type(flow_options=dict[str, str])
def init(flow_options: dict[str, str]) -> None:
    """Set the options of every graph of the process; starts nothing.

    A second call before `finalize` keeps the first options, and says so in the log.

    Args:
        flow_options: Options by name; unknown ones are told in the log. `ge.graphRunMode` is written into it.

    Raises:
        DfException: 145000 for something else than a dict of texts.
    """
    with Runtime.lock:
        if Runtime.options is not None:
            log.warning("df.init was called before; its options stay in force")
            return
        flow_options[_RUN_MODE] = "0"
        Runtime.options = flow_options
    atexit.unregister(finalize)
    atexit.register(finalize)


def finalize() -> None:
    """End every graph, and forget the options. May be called at any time; also done when Python ends."""
    Runtime.end()


def alloc_tensor(shape: Sequence[int], dtype: DType | npt.DTypeLike, align: int = 64) -> Tensor:
    """An uninitialised tensor to fill.

    On the graph side it lies in the memory of the graph that runs, if there is one, and `feed` sends it without a copy.

    Args:
        shape: Dimensions, at most 32.
        dtype: A DType or a numpy type.
        align: 32, 64, 128, 256, 512 or 1024; messages begin on multiples of 64 in any case.

    Raises:
        TypeError: no such element type.
        DfException: a shape or alignment that cannot be, or no memory.
    """
    from dataflow.utils.running import get_running_in_udf

    numpy_type = numpy_type_of(dtype)
    if align not in _ALIGNMENTS:
        raise DfException(f"align must be one of {_ALIGNMENTS}, got {align}")
    if not isinstance(shape, (list, tuple)) or len(shape) > MAX_RANK or any(int(dim) < 0 for dim in shape):
        raise DfException(f"shape must be a list of at most {MAX_RANK} dimensions, got {shape!r}", codes.SHAPE_INVALID)
    context = Runtime.context
    running = context.session.running if context is not None else ()
    alloc = running[0].alloc if len(running) == 1 else HeapBlock
    try:
        array = alloc_in(shape, np.dtype(numpy_type), alloc)
    except DflowError as error:
        raise DfException(error, code_of(error)) from error
    return Tensor.over(array, in_function=get_running_in_udf())


def numpy_type_of(dtype: DType | npt.DTypeLike) -> npt.DTypeLike:
    """A numpy type of a DType or of one of the twelve numpy types tensors have.

    Raises:
        TypeError: anything else.
    """
    if isinstance(dtype, DType):
        found = _dflow_dtype_to_np_dtype.get(dtype)
        if found is not None and found is not np.bytes_:
            return found
    elif np.dtype(dtype) in _np_dtype_to_dflow_dtype:
        return dtype
    raise TypeError(f"the data type {dtype} is not supported here")


def given_options(options: Mapping[str, str] | None) -> dict[str, str]:
    """Options of a graph as the core takes them."""
    return translated(options or {}, "graph")
