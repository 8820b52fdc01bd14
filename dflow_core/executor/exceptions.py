"""Exceptions of users, without I/O: what one node knows of them, and what the caller gets.

A function raises an exception for the transaction it is working on (runtime-semantics.md section 14). Its own node
drops what still comes of that transaction. The caller's side ends the transaction, and tells every instance of every
node in the same scope, where each other function that takes messages is called once without any.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from dflow_core.errors import RaisedError, UsageError
from dflow_core.executor.pairing.aligner import RecentKeys
from dflow_core.message import MsgInfo
from dflow_core.model import ExceptionNote, scope_of


class ExceptionDesk:
    """What one node instance knows of exceptions.

    Args:
        node, instance: Which.
        report: Takes an exception that a function of it raised.
    """

    def __init__(self, node: str, instance: int, report: Callable[[ExceptionNote], None]) -> None:
        self._node, self._instance, self._report = node, instance, report
        self._scope = scope_of(node)
        self._lock = threading.Lock()
        self._notes: deque[ExceptionNote] = deque()
        self._raised = RecentKeys()
        self.has_news = False

    def notify(self, note: ExceptionNote) -> None:
        """Take an exception of this or another node; any thread."""
        if note.scope == self._scope:
            with self._lock:
                self._notes.append(note)
                self.has_news = True

    def take(self) -> list[ExceptionNote]:
        """What is new: first what is to be forgotten, then exceptions, the lowest transaction first."""
        with self._lock:
            notes = list(self._notes)
            self._notes.clear()
            self.has_news = False
        return sorted(notes, key=lambda note: (not note.expired, note.trans_id))

    def raise_exception(self, function: int, info: MsgInfo, code: int, user_context_id: int) -> ExceptionNote | None:
        """Report an exception of a function of this node; None if it has raised one for the transaction before."""
        if (function, info.trans_id) in self._raised:
            return None
        self._raised.add((function, info.trans_id))
        note = ExceptionNote(
            info.trans_id, code, user_context_id, bytes(info.pack(0)), self._node, self._instance, function
        )
        self._report(note)
        return note

    def is_own(self, function: int, note: ExceptionNote) -> bool:
        """Whether a function of this instance has raised an exception itself."""
        return (note.node, note.instance, note.function) == (self._node, self._instance, function)

    def forget(self, note: ExceptionNote) -> None:
        """Let the functions raise an exception for a transaction again."""
        if note.node == self._node:
            self._raised.discard((note.function, note.trans_id))


def raised_error(head: MsgInfo, code: int, user_context_id: int, node: str, instance: int) -> RaisedError:
    """What the caller gets for an exception.

    Args:
        head: Head of the message the function was working on.
        code, user_context_id: What it gave.
        node, instance: Where it ran.
    """
    return RaisedError(
        f"exception {code} was raised (user context {user_context_id})", code=code, user_context_id=user_context_id,
        node=node, instance=instance, trans_id=head.trans_id, start_time=head.start_time, end_time=head.end_time,
        flow_flags=head.flags, user_data=head.user_data,
    )


def error_of_note(note: ExceptionNote) -> RaisedError:
    """The same for an exception that came by itself."""
    head = MsgInfo.unpack(note.head)[0]
    return raised_error(head, note.code, note.user_context_id, note.node, note.instance)


def no_catch(node: str) -> UsageError:
    """Why a function may not raise an exception."""
    hint = "graph.set_exception_catch(True) allows them; in a graph that a function calls, return a code instead"
    return UsageError("this graph catches no exceptions", node=node, hint=hint)
