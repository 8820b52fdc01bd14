"""Watches processes while they load: a word to the user from time to time, and an end at the limit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from dflow_core.deploy.children.executor_process import ExecutorProcess
from dflow_core.deploy.children.output import OutputForwarder
from dflow_core.deploy.supervision.lifecycle import State
from dflow_core.deploy.supervision.loop import Loop
from dflow_core.deploy.supervision.member import Member

_FORK_LIMIT = 20.0
_NOTE_EVERY = 10.0


class StartWatch:
    """Belongs to the supervisor's thread.

    Args:
        loop: The supervisor's loop.
        output: Takes notes for the user.
        limit: Seconds a process may take to load; 0 is no limit.
        overdue: Told of a process that is over the limit, and how, in words.
    """

    def __init__(
        self, loop: Loop, output: OutputForwarder, limit: float, overdue: Callable[[Member, str], None]
    ) -> None:
        self._loop, self._output, self._limit, self._overdue = loop, output, limit, overdue

    def watch(self, member: Member, process: ExecutorProcess) -> None:
        """Tell the user every ten seconds that a start takes long; end it at the limit."""
        age = time.monotonic() - process.started_at
        wait = min(_NOTE_EVERY, self._limit - age) if self._limit else _NOTE_EVERY
        self._loop.after(max(0.0, wait), lambda: self._look(member, process))

    def _look(self, member: Member, process: ExecutorProcess) -> None:
        if member.process is not process or member.life.state is not State.STARTING:
            return
        age = time.monotonic() - process.started_at
        if age > _FORK_LIMIT:
            process.give_up_template()
        if self._limit and age >= self._limit:
            stack = process.stack()
            os.write(member.log.fd, f"still loading after {age:.1f} s, in:\n{stack}".encode())
            self._overdue(member, f"it did not load within start_timeout={self._limit:g} s")
            return
        limit = f"at most {self._limit:g} s" if self._limit else "no limit"
        self._output.note(f"{member.log.label} is still loading after {age:.0f} s ({limit})")
        self.watch(member, process)
