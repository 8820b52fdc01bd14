"""Runs a function that takes messages from queues itself: calls it until its inputs have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from dflow_core.errors import AbortError, NodeError
from dflow_core.executor.node.call_context import CallOwner, OutputSink
from dflow_core.executor.node.explanation import explain
from dflow_core.executor.streams.context import StreamContext
from dflow_core.executor.streams.halves import HalfLostError
from dflow_core.executor.streams.ledger_context import LedgerContext
from dflow_core.executor.streams.segment_context import SegmentContext
from dflow_core.executor.streams.taken_log import TakenLog
from dflow_core.message import ALIGN_FAILED, Alloc, ErrorInfo, FlowMsg
from dflow_core.recording import FailedCall
from dflow_core.spi import FlowFunc, InputQueue
from dflow_core.types import FuncSpec

TellFailure: TypeAlias = Callable[[FailedCall, BaseException], None]
"""Takes a call that failed, with what it had taken, before its error is sent; and what it raised."""


class StreamOwner(CallOwner, Protocol):
    """What keeps account of the calls of functions with queues."""

    def wanted(self, msg: FlowMsg) -> FlowMsg:
        """A message, or a skip in its place if its transaction was cancelled."""

    def note_stream_call(self, error: ErrorInfo | None) -> None:
        """A call has ended; what failed."""


class Source(Protocol):
    """Where messages of an input come from."""

    depth: int

    def take(self, timeout: float | None, lets_look: bool = False) -> FlowMsg | None:
        """The next message, whatever it is, or None within the limit.

        Args:
            timeout: Seconds; None waits.
            lets_look: Give None now and then before that, so that the caller can look around.

        Raises:
            AbortError: none will come any more.
        """

    def level(self) -> int:
        """How many wait."""

    @property
    def has_ended(self) -> bool:
        """Whether none will come any more."""

    def until(self, timeout: float | None) -> float | None:
        """When a wait that begins now is over, on the clock of `left`."""

    def left(self, until: float | None) -> float | None:
        """What is left of it, seconds."""


class StreamPort(InputQueue):
    """An input of a function with queues: what passes by the function is kept from it.

    Args:
        port: Input of the function, from 0.
        source: Where its messages come from.
        context: The function's book.
        wanted: Gives a skip for a message nobody wants any more.
        log: Remembers what the function takes; None where nobody asks.
    """

    def __init__(
        self, port: int, source: Source, context: StreamContext, wanted: Callable[[FlowMsg], FlowMsg],
        log: TakenLog | None = None,
    ) -> None:
        self.depth = source.depth
        self.source = source
        self._port = port
        self._context = context
        self._wanted = wanted
        self._log = log
        self._ahead: FlowMsg | None = None  # came while the function had to be told of another

    def get(self, timeout: float | None = None) -> FlowMsg | None:
        until = self.source.until(timeout)
        while True:
            if timeout is None and not self.source.level():  # also after messages that passed by it
                self._context.waits(self._port, forever=True)
                if self._log is not None:
                    self._log.settle(self._context.answers)
            self._context.check_halves(self._port)
            left = self.source.left(until)
            msg = self._take(left)
            if msg is None:
                if left is None or self.source.left(until):
                    continue
                if timeout:
                    self._context.waits(self._port, forever=False)
                return None
            msg = self._wanted(msg)
            given = self._context.took(self._port, msg)
            if given is not None and self._log is not None:
                self._log.take(self._port, msg, self._context.answers)
            del msg  # the function alone says how long it is wanted
            if given is not None:
                return given

    def _take(self, left: float | None) -> FlowMsg | None:
        msg, self._ahead = self._ahead, None
        lacks = self._context.lacks(self._port)
        if msg is None:
            msg = self.source.take(left, lets_look=lacks)
        if lacks and msg is not None:  # what was cancelled meanwhile comes before it
            self._ahead = msg
            self._context.check_halves(self._port)
            self._ahead = None
        return msg

    def level(self) -> int:
        return self.source.level() + (self._ahead is not None)

    def reset(self) -> None:
        """Throw away what it has itself."""
        self._ahead = None


class StreamRunner:
    """Calls one function with queues.

    Attributes:
        has_given_up: Whether the function has ended although some input has not.

    Args:
        spec: The function.
        func: What it does.
        sources: Where the messages of its inputs come from.
        sink: Takes (node output index, message); may block.
        alloc: Gives blocks.
        owner: Keeps account of the calls.
        node, instance: Where, for errors.
        stops: Whether a failing call ends the node.
        number: Number of the function in its node.
        tell: Told of each call that fails, with what it had taken; None where nobody asks.
    """

    def __init__(
        self, spec: FuncSpec, func: FlowFunc, sources: Sequence[Source], sink: OutputSink, alloc: Alloc,
        owner: StreamOwner, *, node: str, instance: int = 0, stops: bool = False, number: int = 0,
        tell: TellFailure | None = None,
    ) -> None:
        made = LedgerContext if func.names_answers else SegmentContext
        self._context = made(spec, sink, alloc, owner)
        self._func = func
        self._owner = owner
        self._place = node, instance
        self._stops = stops
        self._name = spec.name
        self.has_given_up = False
        self._number, self._tell = number, tell
        self._log = log = TakenLog(self._context.owes) if tell is not None else None
        self.ports = tuple(StreamPort(i, source, self._context, owner.wanted, log) for i, source in enumerate(sources))

    @property
    def has_ended(self) -> bool:
        """Whether no message will come any more, at any input."""
        return all(port.source.has_ended for port in self.ports)

    def call(self) -> bool:
        """Call the function once; whether it did anything.

        Raises:
            NodeError: it failed, and holds no message whose transaction could say so; or its failures end the node.
        """
        before, self._context.has_lost = self._context.activity, False
        failed: ErrorInfo | None = None
        try:
            self._func.proc_queues(self._context, self.ports)
        except AbortError:
            # One that has taken nothing since an input has ended will take nothing from the others either.
            has_ended = any(port.source.has_ended for port in self.ports)
            self.has_given_up = has_ended and self._context.activity == before
            self._context.end_call()
        except HalfLostError:  # what it was about has ended; it begins anew with the next
            self._context.end_call()
        except BaseException as error:
            if self._context.has_lost and isinstance(error, NodeError) and error.ret_code == ALIGN_FAILED:
                self._context.end_call()
            else:
                failed = self._fail(error)
        else:
            self._context.end_call()
        if self._log is not None:
            self._log.clear()
        self._owner.note_stream_call(failed)
        return self._context.activity != before

    def settle(self) -> None:
        """End what is owed, because the function takes no message any more."""
        self._context.settle()

    def reset(self) -> bool:
        """Forget what the function owes; whether that was something."""
        for port in self.ports:
            port.reset()
        return self._context.reset()

    def let_pass(self, port: int, msg: FlowMsg) -> None:
        """End a message that the function will not take."""
        self._context.took(port, msg)
        self._context.settle()

    def _fail(self, error: BaseException) -> ErrorInfo:
        info = explain(error, (), *self._place)
        if self._log is not None and self._tell is not None:
            taken, (node, instance) = self._log.taken, self._place
            messages, ports = tuple(msg for _, msg in taken), tuple(port for port, _ in taken)
            self._tell(FailedCall(node, instance, self._number, None, messages, info, ports), error)
            self._log.clear()
        code = error.ret_code if isinstance(error, NodeError) else 0
        is_told = self._context.fail_all(info, code)
        if self._stops or not (is_told or self._context.has_lost):
            raise NodeError(
                f"{self._name} failed" + ("" if is_told else f" and owes no message an answer: {info.message}"),
                node=info.node, instance=info.instance, error_type=info.error_type, remote_traceback=info.traceback,
            ) from error
        return info
