"""The template process: a warm interpreter that forks executors on request.

It has one thread and stays that way, so forking it is safe. Requests and replies are JSON with a length of four
bytes in front; the descriptors of an executor come along with the request for it.

    -> {"number": 7, "settings": "..."} + 3 descriptors
    <- {"number": 7, "pid": 1234}  or  {"number": 7, "error": "..."}
    <- {"pid": 1234, "code": -11}                       when it has ended
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from dflow_core.deploy.children.child import ChildFds, ChildSettings, become_executor
from dflow_core.deploy.children.processes import die_with_parent, fork, name_process

MAX_REQUEST = 16 << 20
_LENGTH = struct.Struct("<I")
_FDS = 3
_PROGRAM = "import gc, sys; gc.disable(); from dflow_core.deploy.children.forkserver import main; main(sys.argv[2:])"
"""What is imported stays: looking for garbage meanwhile takes a tenth of the time until the template is there."""


def frame_json(fields: dict[str, object]) -> bytes:
    """Fields as they travel."""
    text = json.dumps(fields).encode()
    return _LENGTH.pack(len(text)) + text


class JsonReader:
    """Takes bytes as they come off a socket and gives whole replies or requests."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, object]]:
        """What is complete now that `data` has come."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_REQUEST:
                raise ValueError(f"a request of {length} bytes")
            if len(self._buffer) < _LENGTH.size + length:
                return
            text = bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])
            del self._buffer[: _LENGTH.size + length]
            yield json.loads(text)


class _Template:
    """Serves one connection until it ends."""

    def __init__(self, connection: socket.socket, prepared: object) -> None:
        self._connection = connection
        self._prepared = prepared
        self._reader = JsonReader()
        self._fds: list[int] = []
        self._children: set[int] = set()
        self._wake, self._alarm = socket.socketpair()
        for end in (self._wake, self._alarm):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._alarm.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        poll = select.poll()
        for end in (self._connection, self._wake):
            poll.register(end, select.POLLIN)
        while True:
            readable = {fd for fd, _ in poll.poll()}
            if self._wake.fileno() in readable:
                with contextlib.suppress(BlockingIOError):
                    self._wake.recv(4096)
                self._report_ended()
            if self._connection.fileno() in readable and not self._take_requests():
                return

    def _take_requests(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._connection, 65536, 4 * _FDS)
        self._fds += fds
        for request in self._reader.feed(data):
            given, self._fds = self._fds[:_FDS], self._fds[_FDS:]
            reply: dict[str, object] = {"number": request["number"]}
            try:
                reply["pid"] = self._fork(str(request["settings"]), ChildFds(*given))
            except OSError as cause:
                reply["error"] = str(cause)
            finally:
                for fd in given:
                    os.close(fd)
            self._connection.sendall(frame_json(reply))
        return bool(data)

    def _fork(self, settings: str, fds: ChildFds) -> int:
        parent = os.getpid()
        pid = fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            os.setsid()
            for end in (self._connection, self._wake, self._alarm):
                end.close()
            become_executor(ChildSettings.from_json(settings), fds, parent, self._prepared)
        self._children.add(pid)
        return pid

    def _report_ended(self) -> None:
        for pid in list(self._children):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                self._children.discard(pid)
                code = os.waitstatus_to_exitcode(status)
                self._connection.sendall(frame_json({"pid": pid, "code": code}))


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a template does before it forks anything.

    Args:
        module: Module the executors will run; its `prepare(**arguments)` gives what their `main` gets.
        arguments: For `prepare`; texts, lists of texts, or None.
        preload: Modules to import; those that fail are left out.
    """

    module: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    preload: tuple[str, ...] = ()


def template_command(python: str, connection: int, preparation: Preparation) -> list[str]:
    """The command that starts a template process.

    Args:
        python: Interpreter.
        connection: Descriptor of its connection, which it has to inherit.
        preparation: What it does first.
    """
    numbers = (str(connection), str(os.getpid()))
    return [python, "-c", _PROGRAM, "template", *numbers, json.dumps(asdict(preparation))]


def main(argv: list[str]) -> None:
    """Entry of a template process started with `template_command`."""
    connection, parent = int(argv[0]), int(argv[1])
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    name_process("dflow-template")
    os.set_inheritable(connection, False)
    prepared = _prepare(Preparation(**json.loads(argv[2])))
    if _threads() > 1:
        os._exit(1)  # a fork of a process with threads may hang: executors are started as programs of their own then
    gc.freeze()  # pages of what was imported stay shared: the children's collector leaves them alone
    gc.enable()
    with contextlib.suppress(ConnectionError):
        _Template(socket.socket(fileno=connection), prepared).serve()
    os._exit(0)


def _prepare(preparation: Preparation) -> object:
    """Import and prepare; what fails here tells why where it is needed."""
    for name in preparation.preload:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    prepared: object = None
    with contextlib.suppress(Exception):
        prepared = importlib.import_module(preparation.module).prepare(**preparation.arguments)
    return prepared


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()
