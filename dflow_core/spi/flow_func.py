"""A function over messages, and what it may do while it runs.

FlowFunc is the contract below Python functions, built-in UDFs and C++ UDFs: messages in, outputs through the context.
The executor has already ended transactions whose inputs were errors or skipped, so a FlowFunc sees data only
(and null messages, which carry flags such as EOS).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dflow_core.errors import DflowError, UsageError
from dflow_core.message import FlowMsg, Member, MsgInfo
from dflow_core.types import Array


@dataclass(frozen=True, slots=True)
class FuncParams:
    """What a function is told when it is initialised.

    Args:
        name: Name of the node.
        instance, instance_count: Which instance this is, and of how many.
        device: Device it is bound to.
        threads: Threads it may use.
        input_num, output_num: Ports of the whole node.
        attrs: Init parameters.
        called: Keys of the graphs its functions may call.
        balance: `scatter` or `gather`, for a node that deals out over instances or collects; else "".
    """

    name: str
    instance: int = 0
    instance_count: int = 1
    device: str = "cpu:0"
    threads: int = 1
    input_num: int = 1
    output_num: int = 1
    attrs: Mapping[str, object] = field(default_factory=dict)
    called: tuple[str, ...] = ()
    balance: str = ""


class InputQueue(abc.ABC):
    """An input as a function with `stream_input` sees it, which takes messages itself; one thread at a time."""

    depth: int

    @abc.abstractmethod
    def get(self, timeout: float | None = None) -> FlowMsg | None:
        """The next message with data, or None if there is none within the limit (seconds; None waits, 0 tries once).

        Raises:
            AbortError: none will come any more.
        """

    @abc.abstractmethod
    def level(self) -> int:
        """How many messages wait in it."""


class GraphCall(abc.ABC):
    """A call of a graph by a function; any thread may use it."""

    @abc.abstractmethod
    def results(self, timeout: float | None = None) -> Sequence[Sequence[FlowMsg | None]]:
        """Wait for the end of the call, up to `timeout` seconds; the same again once it has ended.

        Returns:
            For each result (one, unless a node in there sends several) a message for each output, in order; None where
            a branch was not taken. Nothing at all if no node sent anything.

        Raises:
            NodeError: a node in there failed; names it, with its traceback.
            InstanceLostError: an executor in there died.
            WaitTimeoutError: it has not ended within the limit; it goes on.
            ClosedError: it was cancelled, or the graph ends.
        """

    @abc.abstractmethod
    def cancel(self) -> None:
        """Let it go: what still comes of it is dropped, and who waits for it gets a ClosedError. Idempotent."""


class RunContext(abc.ABC):
    """What a FlowFunc may do during a call. Output indexes count the function's own outputs from 0.

    A message sent without `like` inherits the head of the current call's first input. For a call without inputs
    (a timer) `like` is required.
    """

    @abc.abstractmethod
    def now(self) -> float:
        """Seconds on the monotonic clock (a test's clock in tests)."""

    @abc.abstractmethod
    def alloc(self, shape: Sequence[int], dtype: np.dtype[np.generic], members: int = 0) -> Array:
        """A writable array that can be sent without a copy, as a batch of up to `members` members if that is given."""

    @abc.abstractmethod
    def send(
        self, index: int, value: object, *, like: FlowMsg | None = None, members: Sequence[Member] = (),
        changes: Mapping[str, object] | None = None,
    ) -> None:
        """Send a value to an output.

        Args:
            index: Output of this function.
            value: Array, Tensor, object, None for a null message, or a FlowMsg to pass on.
            like: Message whose head to inherit.
            members: What went into it, if it is a batch; the batch then stands for all their transactions.
            changes: Fields of `MsgInfo` to change in the head.
        """

    @abc.abstractmethod
    def open_parts(self) -> None:
        """Announce that the current input turns into a stream of parts on every output, perhaps an empty one."""

    @abc.abstractmethod
    def send_part(self, index: int, value: object) -> None:
        """Send one of several values made of the current input, at once; they are closed after the call."""

    @abc.abstractmethod
    def skip(self, msg: FlowMsg, index: int | None = None) -> None:
        """End a held message without data on one output or on all: 'branch not taken'."""

    @abc.abstractmethod
    def fail(self, msg: FlowMsg, error: BaseException) -> None:
        """End a held message with an error on all outputs."""

    @property
    def cancelled(self) -> bool:
        """Whether the transaction of the call was cancelled meanwhile, so that nobody waits for what it gives."""
        return False

    def is_cancelled(self, trans_id: int) -> bool:
        """The same of any transaction: a function that holds several messages, or takes from queues, asks for each."""
        return False

    @abc.abstractmethod
    def defer(self) -> bool:
        """Ask to leave the current call open when `proc` returns, so that the next one can begin meanwhile.

        Returns:
            True if more input waits: this context then stays valid and its inputs held until `complete`, which the
            function calls from a later `proc` or from `settle`. False if the call must end with `proc`, as always.
        """

    @abc.abstractmethod
    def complete(self, error: BaseException | None = None) -> None:
        """End a call that `defer` left open: sends what it sent, or ends its inputs with the error, as `proc` would."""

    def call_graph(self, key: str, inputs: Sequence[object]) -> GraphCall:
        """Call a graph that was given to the node with `add_invoked_closure`.

        Its messages inherit the head of the current call's first input, transaction included.

        Args:
            key: What it is called by.
            inputs: One value or message for each of its inputs.

        Raises:
            UsageError: the node has no such graph, or it has another number of inputs.
            PoolExhaustedError: there is no memory for the inputs.
        """
        raise UsageError(f"there is no graph {key!r} to call here", hint="give the node one with add_invoked_closure")

    def raise_exception(self, code: int, user_context_id: int = 0) -> None:
        """Raise an exception for the transaction of the current input: it ends for the caller with this code.

        Every other function of the graph is told (`FlowFunc.on_exception`), and what the call sends is let go.

        Args:
            code: Any signed 32 bit number.
            user_context_id: Any unsigned 64 bit number, handed on.

        Raises:
            UsageError: the graph catches no exceptions, or the call has no input.
        """
        raise UsageError("this context cannot raise exceptions for other functions")


class FlowFunc(abc.ABC):
    """Work of one function of a node. Calls never overlap, unless several functions share state of their own."""

    def init(self, params: FuncParams) -> None:
        """Called once in the executor before the first message."""

    @abc.abstractmethod
    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        """Work on one set of inputs that belong together (all parts of a transaction, for a gathering function).

        Whatever it raises ends the transactions of `inputs` with an error; the executor goes on.
        """

    def proc_queues(self, context: RunContext, queues: Sequence[InputQueue]) -> None:
        """Work on messages taken from queues, one for each input; for functions with `stream_input`, instead of `proc`.

        Called in a thread of its own, and again whenever it returns, until every queue has ended. Whatever it raises
        ends the transactions it has taken and not answered; AbortError is a good end.
        """
        raise NotImplementedError("a function with stream_input has `proc_queues`")

    @property
    def names_answers(self) -> bool:
        """Whether what it sends from `proc_queues` says which message it answers, by `like` or by its transaction.

        Else it answers the messages that were taken last.
        """
        return False

    def direct(self) -> Callable[..., object] | None:
        """The function itself, where `proc` is no more than a call of it with the value of each input.

        The executor may then call it without a context. An array it returns (a tuple of them, for several outputs) is
        sent as `RunContext.send` would; what it returns besides goes to `deliver`.
        """
        return None

    def deliver(self, context: RunContext, result: object) -> None:
        """Send what the function that `direct` gave has returned; whatever that is, and whatever this raises.

        Args:
            context: The call's; as for `proc`.
            result: What was returned.
        """
        raise NotImplementedError("a function with `direct` has `deliver` too")

    def failure(self) -> DflowError | None:
        """Why it can run nothing any more (its device is gone), or None while it can.

        Asked for after a failed call. The executor's process then ends, and is started anew by the node's policy.
        """
        return None

    def deadline(self) -> float | None:
        """When `on_timer` wants to be called, on the clock of `RunContext.now`; None for never."""
        return None

    def on_timer(self, context: RunContext) -> None:
        """Called when the deadline has passed."""

    takes_gaps: bool = True
    """Whether it can be called with a null message of code 364000 where an input did not come in time."""

    def on_exception(self, context: RunContext, code: int, user_context_id: int, head: MsgInfo) -> None:
        """Called when another function of the graph has raised an exception; its transaction has ended.

        Args:
            context: As for `proc`; what is sent inherits `head`.
            code: Code it gave.
            user_context_id: Number it gave along.
            head: Head of the message it was working on.
        """

    def on_lost(self, trans_id: int) -> None:
        """Called when a transaction will never be completed here: its set was given up, or an exception ended it.

        What is kept for the transaction can be let go.
        """

    def settle(self) -> None:
        """End all calls that `RunContext.defer` left open, oldest first.

        Asked for when no input waits, before a message passes by the function, when memory is short and at the end.
        """

    def on_cancel(self, context: RunContext, is_cancelled: Callable[[int], bool]) -> None:
        """Let go of held inputs of transactions that were cancelled; called for functions that hold inputs.

        Args:
            context: To end them with `skip`, as every held input has to be.
            is_cancelled: Says it of a transaction id.
        """

    def on_stop(self, context: RunContext) -> None:
        """Called when the graph ends in good order and no more input will come; may send what is still held."""

    def reset(self) -> None:
        """Forget everything that came of earlier transactions, because all that was in flight has been discarded."""

    def close(self) -> None:
        """Called once at the end."""


class LibraryFunc(FlowFunc):
    """A function in a library that was built with the C++ SDK and shipped ready-made.

    The engine for user functions takes it as it is and runs it without Python; see `UdfEntry`.

    Args:
        library: Path of the library; the folder it lies in is the function's work path.
        function: Name it is registered under in there.
    """

    def __init__(self, library: str, function: str) -> None:
        self.library = library
        self.function = function

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        raise UsageError(f"{self.function!r} is a C++ function: only the engine for user functions can run it")
