"""What travels to an executor and is called there: user code that gets and gives Tensors, seen by the core as functions
of arrays.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dataflow import codes
from dataflow.flow_func.queues import FlowMsgQueue, ValueQueue
from dataflow.tensor import Tensor
from dataflow.utils import log
from dataflow.utils.errors import DfAbortException
from dataflow.utils.msg_type_register import MsgTypeRegister, set_msg_type_register
from dataflow.values import from_core, to_core
from dflow_core import udf
from dflow_core.errors import AbortError, NodeError

__all__ = ["ActorMaker", "Call", "Choice", "Setup"]


class Setup:
    """What is done in the executor before user code is unpickled, for being the first thing in its pickle.

    Args:
        hook: The user's `env_hook_func`.
        register: Message types that were registered when the node was made.
    """

    def __init__(self, hook: Callable[[], object] | None, register: MsgTypeRegister) -> None:
        self.hook = hook
        self.register = register

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _set_up, (self.hook, self.register)


def _set_up(hook: Callable[[], object] | None, register: MsgTypeRegister) -> Setup:
    set_msg_type_register(register)
    if hook is not None:
        hook()
    return Setup(hook, register)


@dataclass
class Call:
    """A function or method of a script as the core calls it.

    Args:
        setup: What comes before it.
        func: The function.
        outputs: How many it has.
    """

    setup: Setup
    func: Callable[..., object]
    outputs: int
    name: str = ""

    def __call__(self, *values: object) -> object:
        """Call it: Tensors for arrays, and the other way round."""
        takes = any(isinstance(value, udf.FlowMsgQueue) for value in values)
        try:
            result = self.func(*[_incoming(value) for value in values])
        except DfAbortException as error:
            self._broken_off(error, takes)
            return _nothing()
        if isinstance(result, types.GeneratorType):
            return self._stream(result, takes)
        return self._outgoing(result)

    def _stream(self, results: Iterator[object], takes: bool) -> Iterator[object]:
        try:
            for result in results:
                yield self._outgoing(result)
        except DfAbortException as error:
            self._broken_off(error, takes)

    def _broken_off(self, error: DfAbortException, takes: bool) -> None:
        log.warning("%s was broken off: %s", self.name, error)
        if takes:
            raise AbortError(str(error)) from error  # how functions that take queues end

    def _outgoing(self, result: object) -> object:
        if self.outputs == 1:
            return to_core(result)
        if not isinstance(result, tuple) or len(result) != self.outputs:
            got = f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
            raise NodeError(
                f"{self.name} returned {got}, expected a tuple of {self.outputs}", ret_code=codes.FUNC_FAILED
            )
        return tuple(map(to_core, result))


@dataclass
class Choice:
    """The user's `choice_output` as the core asks it.

    Args:
        choose: Says for an object whether it is sent.
    """

    choose: Callable[[object], object]

    def __call__(self, value: object) -> object:
        """Ask it with what the user's function gave."""
        return self.choose(Tensor.over(value) if type(value) is np.ndarray else from_core(value))


@dataclass
class ActorMaker:
    """Makes the object of a decorated class in the executor.

    Args:
        setup: What comes before it.
        clz: The class.
        outputs: How many outputs each of its methods has.
        wrap: Makes of a method what is called in its place.
    """

    setup: Setup
    clz: type
    outputs: Mapping[str, int] = field(default_factory=dict)
    wrap: Callable[..., Callable[..., object]] | None = None

    def __call__(self, *args: object, **kwargs: object) -> types.SimpleNamespace:
        """The object's methods, as the core calls them."""
        obj = self.clz(*args, **kwargs)
        calls = {}
        for name, count in self.outputs.items():
            method = getattr(obj, name)
            called = method if self.wrap is None else self.wrap(method)
            calls[name] = Call(self.setup, called, count, f"{self.clz.__name__}.{name}")
        return types.SimpleNamespace(**calls)


def _incoming(value: object) -> object:
    if isinstance(value, udf.FlowMsgQueue):
        return FlowMsgQueue(ValueQueue(value))
    return from_core(value)


def _nothing() -> Iterator[object]:
    """A stream without anything in it: the call sends nothing."""
    yield from ()


def is_generator(func: Callable[..., object]) -> bool:
    """Whether a function yields its results."""
    return inspect.isgeneratorfunction(func)


def port_ranges(counts: Sequence[tuple[int, int]]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Ports of functions that are numbered one after the other.

    Args:
        counts: Inputs and outputs of each function.
    """
    ranges = []
    first_in = first_out = 0
    for inputs, outputs in counts:
        ranges.append(
            (tuple(range(first_in, first_in + inputs)), tuple(range(first_out, first_out + outputs)))
        )
        first_in, first_out = first_in + inputs, first_out + outputs
    return ranges
