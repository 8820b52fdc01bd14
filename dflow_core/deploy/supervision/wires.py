"""What processes say and how they end, heard in the supervisor's loop."""

from __future__ import annotations

from collections.abc import Callable

from dflow_core.deploy.children.executor_process import ExecutorProcess
from dflow_core.deploy.supervision.loop import Loop
from dflow_core.deploy.supervision.member import Member
from dflow_core.errors import PeerGoneError
from dflow_core.model.control_serde import ControlMessage

_POLL_EXIT = 0.1
_EXIT_AFTER_EOF = 1.0


class Wires:
    """Joins processes to a loop; belongs to the loop's thread.

    Args:
        loop: The loop.
        take: Takes a message of a member.
    """

    def __init__(self, loop: Loop, take: Callable[[Member, ControlMessage], None]) -> None:
        self._loop, self._take = loop, take

    def join(self, member: Member, process: ExecutorProcess) -> None:
        """Hear a process, send it what does not fit now as soon as it does, and notice its end."""
        process.connection.on_unsent = lambda: self._listen(member, process)
        self._listen(member, process)
        self._watch_exit(process)

    def part(self, process: ExecutorProcess) -> None:
        """Hear no more of a process, and let its descriptors go."""
        self._loop.forget(process.connection.fileno())
        self._loop.forget(process.watch_fd)
        process.close()

    def take_last_words(self, member: Member, process: ExecutorProcess) -> None:
        """Take what a process that has ended had said before."""
        while messages := _received(process):
            for message in messages:
                self._take(member, message)

    def _listen(self, member: Member, process: ExecutorProcess) -> None:
        connection = process.connection
        self._loop.listen(connection.fileno(), lambda: self._hear(member, process), writable=connection.wants_write)

    def _hear(self, member: Member, process: ExecutorProcess) -> None:
        if process.connection.wants_write:
            process.connection.flush()
            self._listen(member, process)
        try:
            messages = process.connection.receive()
        except PeerGoneError:
            messages = None
            process.kill()
        if messages is None:
            # Its end; the exit code follows, or it has only closed the connection and has to go.
            process.connection.on_unsent = _nothing
            self._loop.forget(process.connection.fileno())
            self._loop.after(_EXIT_AFTER_EOF, process.kill)
        for message in messages or ():
            self._take(member, message)

    def _watch_exit(self, process: ExecutorProcess) -> None:
        """Have its end noticed: the template tells of a process it has forked; of others the system, or asking does."""
        if process.watch_fd >= 0:
            self._loop.listen(process.watch_fd, process.poll)
        elif not process.exited and not process.forked:
            process.poll()
            self._loop.after(_POLL_EXIT, lambda: self._watch_exit(process))


def _received(process: ExecutorProcess) -> list[ControlMessage] | None:
    try:
        return process.connection.receive()
    except PeerGoneError:
        return None


def _nothing() -> None:
    pass
