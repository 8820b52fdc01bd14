"""The application's side of the template process (`forkserver.py`), from which executors are forked in milliseconds.

A thread of its own starts the template and waits for its replies; the template lives as long as that thread. If it
cannot start, or dies, its executors die with it and everybody who asks is told to start executors as programs of their
own.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from dflow_core.deploy.children.child import ChildFds, ChildSettings
from dflow_core.deploy.children.forkserver import JsonReader, Preparation, frame_json, template_command
from dflow_core.deploy.children.processes import Child, OwnedByProcess, own_interpreter, spawn, start_environment
from dflow_core.errors import DflowError, PeerGoneError

_SEND_LIMIT = 5.0
_SPAWN_LIMIT = 1.0
_QUIET_NUMPY = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class ForkListener:
    """Who is told what became of a forked executor; called in the template's thread, in this order, once each.

    Args:
        started: Takes the process id, or None if there is no process.
        ended: Takes the exit code, or None if the template died with it; only after a process id.
    """

    started: Callable[[int | None], None]
    ended: Callable[[int | None], None]


class Template:
    """A template process. Thread-safe.

    Args:
        preparation: What it does before it forks anything.
    """

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._owner = OwnedByProcess.here("the template process")
        self._lock = threading.Lock()
        self._waiting: dict[int, ForkListener] = {}
        self._running: dict[int, ForkListener] = {}
        self._number = 0
        self._gone = False
        self._child: Child | None = None
        self._socket, self._far = socket.socketpair()
        self._started = False
        self._spawned = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="dflow-template", daemon=True)

    def start(self) -> None:
        """Start the process; requests may be made at once and are answered when it is there.

        Returns as soon as the system has it: the caller is about to import a lot, and would keep the thread from it.
        """
        self._started = True  # first: an interrupt may come while the thread starts
        self._thread.start()
        self._spawned.wait(_SPAWN_LIMIT)

    @property
    def gone(self) -> bool:
        """Whether it cannot fork any more."""
        return self._gone

    @property
    def pid(self) -> int:
        """Its process id; 0 before it has started and after its end."""
        return self._child.pid if self._child is not None and not self._gone else 0

    def fork(self, settings: ChildSettings, fds: ChildFds, listener: ForkListener) -> None:
        """Ask for an executor.

        Args:
            settings: How it is set up.
            fds: Its descriptors; they stay the caller's and may be closed at once.
            listener: Who is told.

        Raises:
            PeerGoneError: if the template is gone; the listener is not called then.
        """
        self._owner.check()
        with self._lock:
            if self._gone:
                raise PeerGoneError("the template process is gone")
            self._number += 1
            number = self._number
            self._waiting[number] = listener
            data = frame_json({"number": number, "settings": settings.to_json()})
            try:
                self._send(data, fds)
            except OSError as cause:
                del self._waiting[number]
                self._shut()
                raise PeerGoneError(f"the template process does not take requests: {cause}") from cause

    def abandon(self) -> None:
        """Give up on a template that does not answer: it is killed, and whoever waits for it is told."""
        child = self._child
        if child is not None:
            child.kill()
        self._shut()

    def close(self, timeout: float = 2.0) -> None:
        """End it and, with it, every executor that still runs. Idempotent; in a fork it does nothing."""
        if self._owner.foreign:
            return
        self._shut()
        if not self._started:
            self._socket.close()
            self._far.close()
            return
        with contextlib.suppress(RuntimeError):  # interrupted before it began; it ends when it does
            self._thread.join(timeout)
            if self._thread.is_alive():
                self.abandon()
                self._thread.join(timeout)

    def _send(self, data: bytes, fds: ChildFds) -> None:
        self._socket.settimeout(_SEND_LIMIT)
        sent = socket.send_fds(self._socket, [data], [fds.control, fds.output, fds.stacks])
        self._socket.sendall(data[sent:])

    def _shut(self) -> None:
        # Ends the connection also for copies of the descriptor in forks of the application.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        try:
            try:
                with self._far:
                    self._child = self._start()
            finally:
                self._spawned.set()
            self._dispatch()
        except (DflowError, OSError, ValueError, KeyError):
            pass  # gone is gone: executors are started without it
        finally:
            self._end()

    def _start(self) -> Child:
        python = own_interpreter()
        environment = start_environment(python) | _QUIET_NUMPY
        command = template_command(python, self._far.fileno(), self._preparation)
        # What it prints is of no interest: modules that fail here fail again where they are needed.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            return spawn(command, output=nowhere, keep=(self._far.fileno(),), environment=environment)
        finally:
            os.close(nowhere)

    def _dispatch(self) -> None:
        reader = JsonReader()
        poll = select.poll()  # without end, while the limit of a send would hold for `recv` too
        poll.register(self._socket, select.POLLIN)
        while True:
            poll.poll()
            data = self._socket.recv(65536)
            if not data:
                return
            for reply in reader.feed(data):
                self._take(reply)

    def _take(self, reply: dict[str, object]) -> None:
        pid = reply.get("pid")
        if "number" in reply:
            with self._lock:
                listener = self._waiting.pop(int(str(reply["number"])))
                if isinstance(pid, int):
                    self._running[pid] = listener
            listener.started(pid if isinstance(pid, int) else None)
        elif isinstance(pid, int):
            with self._lock:
                listener = self._running.pop(pid)
            listener.ended(int(str(reply["code"])))

    def _end(self) -> None:
        with self._lock:
            self._gone = True
            waiting, running = list(self._waiting.values()), list(self._running.values())
            self._waiting.clear()
            self._running.clear()
        self._shut()
        self._socket.close()
        if self._child is not None:
            self._child.end(1.0)
        for listener in waiting:
            listener.started(None)
        for listener in running:
            listener.ended(None)
