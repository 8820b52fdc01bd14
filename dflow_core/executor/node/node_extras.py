"""What a node does besides its calls where a graph asks for it: gives up sets, and takes part in exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from dflow_core.errors import UsageError
from dflow_core.executor.exceptions import ExceptionDesk, no_catch
from dflow_core.executor.node.call_context import CallContext
from dflow_core.executor.node.node_function import NodeFunction
from dflow_core.executor.pairing.incomplete import late_error, with_stand_ins
from dflow_core.message import DataFlag, ErrorInfo, FlowMsg, MsgInfo
from dflow_core.model import ExceptionNote
from dflow_core.types import AlignLimits

_ENDED = (DataFlag.ERROR, DataFlag.SKIP | DataFlag.END)


class Caller(Protocol):
    """What calls the functions of a node."""

    def call(
        self, function: NodeFunction, inputs: Sequence[FlowMsg], call: Callable[[CallContext], None],
        head: FlowMsg | None = None, started: float | None = None,
    ) -> None:
        """Call a function with inputs."""

    def pass_on(self, function: NodeFunction, msg: FlowMsg) -> None:
        """End a message on every output of a function."""


class NodeExtras:
    """Gives up incomplete sets of a node, and takes and delivers exceptions.

    Args:
        functions: The functions of the node.
        caller: Calls them.
        node, instance: Which.
        limits: When sets are given up.
        desk: What the node knows of exceptions; None where functions may raise none.
    """

    def __init__(
        self, functions: Sequence[NodeFunction], caller: Caller, node: str, instance: int, limits: AlignLimits,
        desk: ExceptionDesk | None,
    ) -> None:
        self._functions, self._caller = functions, caller
        self._node, self._instance = node, instance
        self._drops, self._desk = limits.drop, desk
        self._limited = [function for function in functions if function.limited is not None]

    @classmethod
    def of(
        cls, functions: Sequence[NodeFunction], caller: Caller, node: str, instance: int, limits: AlignLimits,
        desk: ExceptionDesk | None,
    ) -> NodeExtras | None:
        """For a node; None where it needs none. Arguments as for the class."""
        needs = desk is not None or any(function.limited is not None for function in functions)
        return cls(functions, caller, node, instance, limits, desk) if needs else None

    def deadline(self) -> float | None:
        """When `tick` has something to do at the latest, on the clock; None if never."""
        if self._desk is not None and self._desk.has_news:
            return 0.0
        limits = [function.limited.deadline() for function in self._limited if function.limited is not None]
        return min((limit for limit in limits if limit is not None), default=None)

    def tick(self) -> None:
        """Deliver exceptions, then give up what has waited too long."""
        if self._desk is not None and self._desk.has_news:
            for note in self._desk.take():
                self._take_note(note)
        for function in self._limited:
            self.give_up(function)

    def notify(self, note: ExceptionNote) -> None:
        """Take an exception of some node; any thread."""
        if self._desk is not None:
            self._desk.notify(note)

    def give_up(self, function: NodeFunction) -> None:
        """Give up the sets of a function that have waited too long, or are too many."""
        assert function.limited is not None
        while (overdue := function.limited.take_overdue()) is not None:
            ended = next((msg for stops in _ENDED for msg in overdue.came if msg.info.data_flag & stops), None)
            if ended is not None:
                self._caller.pass_on(function, ended)
            elif self._drops or not function.func.takes_gaps:
                error = late_error(overdue, self._node, self._instance)
                self._caller.pass_on(function, error)
                self._tell(function, error.info.trans_id)
            else:
                self._call_with_gaps(function, with_stand_ins(overdue), overdue.came[0])

    def raise_exception(self, context: CallContext, code: int, user_context_id: int) -> None:
        """A function raises an exception for the transaction of its current call.

        Raises:
            UsageError: the graph catches none, or the call has no input.
        """
        if self._desk is None:
            raise no_catch(self._node)
        if context.head is None or not context.inputs:
            raise UsageError("an exception belongs to a transaction, and this call has no input", node=self._node)
        number = next(i for i, function in enumerate(self._functions) if function.spec == context.spec)
        if self._desk.raise_exception(number, context.head.info, code, user_context_id) is None:
            return
        self._functions[number].poison(context.head.info.trans_id)
        name = context.spec.name or self._node
        text = f"{name} raised exception {code} (user context {user_context_id})"
        error = ErrorInfo("raised", text, "RaisedError", self._node, self._instance, context=user_context_id)
        context.raised = error, code

    def _take_note(self, note: ExceptionNote) -> None:
        assert self._desk is not None
        if note.expired:
            self._desk.forget(note)
            for function in self._functions:
                function.unpoison(note.trans_id)
            return
        for number, function in enumerate(self._functions):
            function.poison(note.trans_id)
            if not self._desk.is_own(number, note):
                self._call_with_note(function, note)
        self._tell(self._functions[0], note.trans_id)

    def _call_with_gaps(self, function: NodeFunction, inputs: Sequence[FlowMsg], head: FlowMsg) -> None:
        self._caller.call(function, inputs, lambda context: function.func.proc(context, inputs), head)

    def _call_with_note(self, function: NodeFunction, note: ExceptionNote) -> None:
        """Tell a function of an exception, which needs no answer: its transaction has ended."""
        head = MsgInfo.unpack(note.head)[0]

        def tell(context: CallContext) -> None:
            context.owes_nothing = True
            function.func.on_exception(context, note.code, note.user_context_id, head)

        self._caller.call(function, (), tell, FlowMsg(head))

    def _tell(self, function: NodeFunction, trans_id: int) -> None:
        """Tell a function that a transaction will not be completed."""
        self._caller.call(function, (), lambda _: function.func.on_lost(trans_id))
