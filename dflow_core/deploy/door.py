"""Where a running graph answers questions of this machine's users, such as `dflow ps`.

An abstract unix socket, so nothing of it lies in a file system and it ends with its process. Its name holds the user
and the process; the kernel says who knocks, and only this user and root are let in. A question is a word on a line,
the answer one JSON document. Each visitor is served by a thread of his own with a limit, a few at a time.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dflow_core.errors import PeerGoneError, WaitTimeoutError

Answer: TypeAlias = Callable[[str], Mapping[str, object]]
"""Gives the answer to a question."""

_CREDENTIALS = struct.Struct("3i")
_NAME = re.compile(r"@dflow-(\d+)-(\d+)-(\d+)$")
_LISTENING = 0x10000
_VISITORS = 4
_PATIENCE = 5.0
_LONGEST_QUESTION = 64
_MOST_BYTES = 16 << 20
_MOST_DOORS = 10_000


class Door:
    """Listens for this process.

    Args:
        answer: Gives answers; called in threads of the door.

    Raises:
        OSError: no socket can be made here.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._free = threading.Semaphore(_VISITORS)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _bind(self.socket)
            self.socket.listen(_VISITORS)
            self.socket.setblocking(False)
        except BaseException:
            self.socket.close()
            raise

    def let_in(self) -> None:
        """Serve who has come; called when the socket is readable."""
        try:
            visitor, _ = self.socket.accept()
        except OSError:
            return  # gone again
        if _user_of(visitor) not in (0, os.geteuid()) or not self._free.acquire(blocking=False):
            visitor.close()
            return
        threading.Thread(target=self._serve, args=(visitor,), name="dflow-answer", daemon=True).start()

    def close(self) -> None:
        """Listen no more. Idempotent."""
        self.socket.close()

    def _serve(self, visitor: socket.socket) -> None:
        try:
            with visitor, contextlib.suppress(OSError):
                visitor.settimeout(_PATIENCE)
                question = visitor.recv(_LONGEST_QUESTION).partition(b"\n")[0].decode("ascii", "replace")
                visitor.sendall(self._document(question))
        finally:
            self._free.release()

    def _document(self, question: str) -> bytes:
        try:
            answer = self._answer(question)
        except Exception as error:  # the graph may be ending
            answer = {"error": f"{type(error).__name__}: {error}"}
        text = json.dumps(answer, default=str).encode("utf-8", "backslashreplace")
        return text if len(text) <= _MOST_BYTES else b'{"error": "the answer is too large"}'


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A door of a running graph.

    Args:
        pid: Process of the application.
        user: Its user id.
        number: Which graph of the process.
    """

    pid: int
    user: int
    number: int

    @property
    def name(self) -> str:
        """Name of the socket."""
        return f"\0dflow-{self.user}-{self.pid}-{self.number}"


def addresses() -> list[Address]:
    """The doors of this user's running graphs; of everybody's, for root."""
    try:
        lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    except OSError:
        return []
    found = set()
    for line in lines:
        match = _NAME.search(line)
        if match and int(line.split()[3], 16) & _LISTENING:
            user, pid, number = map(int, match.groups())
            if os.geteuid() in (0, user) and os.path.exists(f"/proc/{pid}"):
                found.add(Address(pid, user, number))
    return sorted(found)


def ask(address: Address, question: str, patience: float = _PATIENCE) -> Mapping[str, object]:
    """The answer of a running graph.

    Args:
        address: Its door.
        question: `ps` or `stacks`.
        patience: Seconds until it has to be here.

    Raises:
        WaitTimeoutError: the application is stopped or hangs.
        PeerGoneError: it has ended, or says nothing that can be read.
    """
    pieces, size = [], 0
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.settimeout(patience)
            door.connect(address.name)
            if _user_of(door) not in (0, address.user):
                raise PeerGoneError(f"somebody else listens in the place of process {address.pid}")
            door.sendall(question.encode("ascii") + b"\n")
            while data := door.recv(1 << 16):
                pieces.append(data)
                size += len(data)
                if size > _MOST_BYTES:
                    raise PeerGoneError(f"process {address.pid} does not stop talking")
    except (TimeoutError, BlockingIOError) as cause:
        state = "is stopped" if _is_stopped(address.pid) else "hangs"
        raise WaitTimeoutError(f"process {address.pid} {state}: no answer within {patience:g} s") from cause
    except OSError as cause:
        raise PeerGoneError(f"process {address.pid} has ended") from cause
    try:
        answer = json.loads(b"".join(pieces))
    except ValueError as cause:
        raise PeerGoneError(f"process {address.pid} did not finish its answer") from cause
    if not isinstance(answer, dict):
        raise PeerGoneError(f"process {address.pid} gave no answer")
    return answer


def ask_all(
    found: list[Address], question: str, patience: float = _PATIENCE
) -> list[tuple[Address, Mapping[str, object]]]:
    """What each says, asked all at once; where one does not answer, `{"error": why}`."""

    def one(address: Address) -> tuple[Address, Mapping[str, object]]:
        try:
            return address, ask(address, question, patience)
        except (PeerGoneError, WaitTimeoutError) as error:
            return address, {"error": error.message}

    if not found:
        return []
    with ThreadPoolExecutor(min(32, len(found)), "dflow-ask") as pool:
        return list(pool.map(one, found))


def _bind(door: socket.socket) -> None:
    """Give it the first name of this process that no other door has.

    Raises:
        OSError: there is none.
    """
    for number in range(_MOST_DOORS):
        try:
            return door.bind(Address(os.getpid(), os.geteuid(), number).name)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or number == _MOST_DOORS - 1:
                raise


def _user_of(end: socket.socket) -> int:
    """User id of the process at the other end."""
    data = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(data)[1])


def _is_stopped(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] in "Tt"
