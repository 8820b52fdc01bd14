"""One life of one executor process: how it is started, how its end is noticed, how it is ended."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import TypeAlias

from dflow_core.deploy.children.child import ChildFds, ChildSettings, child_command
from dflow_core.deploy.children.connection import Connection
from dflow_core.deploy.children.memory_file import memory_file, write_all
from dflow_core.deploy.children.output import ProcessLog
from dflow_core.deploy.children.processes import (
    Child,
    kill_group,
    kill_process,
    own_interpreter,
    poll_until,
    process_runs,
    reap_orphan,
    spawn,
    start_environment,
)
from dflow_core.deploy.children.template import ForkListener, Template
from dflow_core.errors import PeerGoneError, StartupError

Post: TypeAlias = Callable[[Callable[[], None]], None]
"""Has a function called in the supervisor's thread; any thread may call it."""

_STACK_LIMIT = 1.0
_STACK_QUIET = 0.03


class ExecutorProcess:
    """A process from its start to its end. Used by the supervisor's thread only, except `stack`.

    Args:
        settings: How it is set up.
        python: Interpreter; one other than this process's own cannot be forked from the template.
        log: Where its output goes.
        template: What to fork it from, or None.
        post: Has a function called in the supervisor's thread.
        ended: Called once, in the supervisor's thread, with the exit code, or None if nobody knows it.

    Raises:
        StartupError: if it cannot be started.
    """

    def __init__(
        self, settings: ChildSettings, python: str, log: ProcessLog, template: Template | None, post: Post,
        ended: Callable[[int | None], None],
    ) -> None:
        self.pid = 0
        self.watch_fd = -1  # becomes readable at its end; -1 where the template or `poll` tells
        self.started_at = time.monotonic()
        self.exited = False
        self._settings, self._python, self._log = settings, python, log
        self._post, self._ended = post, ended
        self._template = template
        self._child: Child | None = None
        self._kill_asked = False
        near, self._far = socket.socketpair()
        self.connection = Connection(near)
        self.stacks_fd = memory_file(f"dflow stacks {settings.name}")
        log.begin_life()
        try:
            if template is None or python != own_interpreter() or not self._fork(template):
                self._spawn()
        except BaseException:
            self.close()
            raise

    @property
    def forked(self) -> bool:
        """Whether the template has started it."""
        return bool(self.pid) and self._child is None

    def poll(self) -> None:
        """Notice its end, if it is this process's own child."""
        if self._child is not None and not self.exited:
            code = self._child.poll()
            if code is not None:
                self._finish(code)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal; one that is being started is killed when it is there."""
        if self.exited:
            return
        if self._child is not None:
            self._child.kill(number)
        elif self.pid:
            kill_process(self.pid, number)
        else:
            self._kill_asked = self._kill_asked or number == signal.SIGKILL

    def give_up_template(self) -> None:
        """Start it without the template if that has not answered yet."""
        if not self.pid and self._template is not None:
            self._template.abandon()

    def stack(self) -> str:
        """Python stacks of all its threads; also while it sits in C code. Empty if it gives none in two seconds."""
        if not self.pid or self.exited:
            return ""
        try:
            return self._stack()
        except OSError:
            return ""  # it ended meanwhile

    def _stack(self) -> str:
        """Ask the interpreter; where it does not come to answer, so that nothing moves, read it from outside."""
        return self._stack_by(signal.SIGUSR1, _STACK_LIMIT) or self._stack_by(signal.SIGUSR2, _STACK_LIMIT)

    def _stack_by(self, number: signal.Signals, patience: float) -> str:
        before = os.fstat(self.stacks_fd).st_size
        kill_process(self.pid, number)
        limit, size, since = time.monotonic() + patience, before, time.monotonic()
        while time.monotonic() < limit and (size == before or time.monotonic() - since < _STACK_QUIET):
            time.sleep(0.005)
            now = os.fstat(self.stacks_fd).st_size
            if now != size:
                size, since = now, time.monotonic()
        return os.pread(self.stacks_fd, size - before, before).decode("utf-8", "backslashreplace")

    def close(self) -> None:
        """Let its descriptors go; the process must have ended, or is ended by that. Idempotent."""
        self.connection.close()
        self._close_far()
        if self.watch_fd >= 0:
            os.close(self.watch_fd)
            self.watch_fd = -1
        if self.stacks_fd >= 0:
            os.close(self.stacks_fd)
            self.stacks_fd = -1

    def _fds(self) -> ChildFds:
        return ChildFds(self._far.fileno(), self._log.fd, self.stacks_fd)

    def _fork(self, template: Template) -> bool:
        listener = ForkListener(
            started=lambda pid: self._post(lambda: self._forked(pid)),
            ended=lambda code: self._post(lambda: self._forked_ended(code)),
        )
        try:
            template.fork(self._settings, self._fds(), listener)
        except PeerGoneError:
            return False
        return True

    def _spawn(self) -> None:
        settings_fd = memory_file("dflow settings")
        try:
            write_all(settings_fd, [self._settings.to_json().encode()])
            fds = self._fds()
            self._child = spawn(
                child_command(self._python, fds, settings_fd), output=self._log.fd,
                keep=(fds.control, fds.output, fds.stacks, settings_fd), environment=start_environment(self._python),
            )
        finally:
            os.close(settings_fd)
            self._close_far()
        self.pid = self._child.pid
        self.watch_fd = self._child.watch_fd()
        if self._kill_asked:
            self.kill()

    def _forked(self, pid: int | None) -> None:
        if self.stacks_fd < 0:
            return  # closed before it was there: its connection is at its end, and so is it
        if pid is None:
            self._start_after_all()
            return
        self.pid = pid
        self._close_far()
        if self._kill_asked:
            self.kill()

    def _start_after_all(self) -> None:
        """The template did not start it."""
        if self._kill_asked:
            self._finish(-signal.SIGKILL)
            return
        try:
            self._spawn()
        except StartupError as error:
            write_all(self._log.fd, [f"{error}\n".encode("utf-8", "backslashreplace")])
            self._finish(None)

    def _forked_ended(self, code: int | None) -> None:
        if code is None:
            # The template died, and the kernel kills what it has forked.
            kill_process(self.pid)
            poll_until(lambda: reap_orphan(self.pid) or (0 if not process_runs(self.pid) else None), 1.0)
        self._finish(code)

    def _finish(self, code: int | None) -> None:
        if self.exited:
            return
        self.exited = True
        kill_group(self.pid)
        self._ended(code)

    def _close_far(self) -> None:
        self._far.close()
