"""What executors print: it never blocks them, and it reaches the user line by line with the name of its node.

Each executor writes stdout and stderr into one memory file, which never blocks whatever becomes of the reader. A
thread of the application looks there twenty times a second (and less and less often while nobody prints, down to twice
a second), passes whole lines on, and gives the memory of what it has read back. When nobody takes the lines (a full
pipe), they stay in the memory file up to a limit and are then left out, with a note that says how much. The last part
of the file stays readable for error texts.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence

from dflow_core.deploy.children.memory_file import memory_file, punch_hole
from dflow_core.deploy.children.sinks import Sink

TAIL = 16 << 10
_BACKLOG = 64 << 20
_CHUNK = 256 << 10
_LONGEST_LINE = 64 << 10
_PERIOD = 0.05
_LONGEST_PERIOD = 0.5
_SLOWER = 1.25
_PARTIAL_AFTER = 10  # periods without news after which an unfinished line is passed on
_FINAL_LIMIT = 1.0


class ProcessLog:
    """What one executor, with all its restarts, has printed.

    Args:
        label: What its lines are marked with.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.fd = memory_file(f"dflow output {label}")
        self._read = 0
        self._punched = 0
        self._life = 0
        self._idle = 0

    def begin_life(self) -> None:
        """A new process begins to write here; `tail` gives only what it prints."""
        self._life = os.fstat(self.fd).st_size

    def tail(self, limit: int = TAIL) -> str:
        """The last part of what the current process has printed, from the start of a line; empty once closed."""
        if self.fd < 0:
            return ""
        size = os.fstat(self.fd).st_size
        start = max(self._life, size - min(limit, TAIL))
        data = os.pread(self.fd, size - start, start)
        if start > self._life:
            data = data.partition(b"\n")[2] or data
        return data.decode("utf-8", "backslashreplace")

    def take(self, final: bool = False) -> bytes:
        """Whole lines not taken yet, marked; an unfinished one too after a while or at the end."""
        size = os.fstat(self.fd).st_size
        note = b""
        if size == self._read:
            return note
        if size - self._read > _BACKLOG:
            skipped = size - self._read - _BACKLOG // 2
            self._read += skipped
            note = self._mark([b"... %d bytes of output left out: they came faster than they were taken" % skipped])
        data = os.pread(self.fd, _CHUNK, self._read)
        end = data.rfind(b"\n") + 1
        self._idle = self._idle + 1 if data and not end else 0
        if data and not end and (final or self._idle > _PARTIAL_AFTER or len(data) > _LONGEST_LINE):
            end = len(data)
        self._read += end
        self._free()
        return note + self._mark(data[:end].splitlines()) if end else note

    @property
    def is_read(self) -> bool:
        """Whether everything was taken."""
        return os.fstat(self.fd).st_size == self._read

    def close(self) -> None:
        """Let the memory go. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _mark(self, lines: Sequence[bytes]) -> bytes:
        prefix = f"[{self.label}] ".encode("utf-8", "replace")
        text = b"".join(prefix + line + b"\n" for line in lines)
        return text.decode("utf-8", "backslashreplace").encode()

    def _free(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        upto = (self._read - TAIL) // page * page
        if upto - self._punched >= _LONGEST_LINE:
            punch_hole(self.fd, self._punched, upto)
            self._punched = upto


class OutputForwarder:
    """Passes on what executors print; a thread of its own.

    Args:
        sink: Where lines go.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._logs: list[ProcessLog] = []
        self._pending = b""
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._started = False
        self._thread = threading.Thread(target=self._run, name="dflow-output", daemon=True)

    def start(self) -> None:
        """Begin to pass on."""
        self._started = True  # first: an interrupt may come while the thread starts
        self._thread.start()

    def open_log(self, label: str) -> ProcessLog:
        """A log whose lines are passed on from now on; closed with the forwarder."""
        log = ProcessLog(label)
        with self._lock:
            self._logs.append(log)
        return log

    def note(self, text: str) -> None:
        """Tell the user something of our own; never blocks."""
        with self._lock:
            self._pending += f"[dflow] {text}\n".encode("utf-8", "backslashreplace")

    def close(self) -> None:
        """Pass on what is left, as far as it is taken within a second, and end. Idempotent."""
        self._stop.set()
        if self._started:
            with contextlib.suppress(RuntimeError):  # interrupted before it began; it ends when it does
                self._thread.join(_FINAL_LIMIT + 1.0)
        with self._lock:
            for log in self._logs:
                log.close()
            self._logs.clear()
        self._sink.close()

    def _run(self) -> None:
        pause = _PERIOD
        while not self._stop.wait(pause):
            found = self._pass_on(final=False) or not all(log.is_read for log in self._logs)
            pause = _PERIOD if found else min(pause * _SLOWER, _LONGEST_PERIOD)
        for _ in range(int(_FINAL_LIMIT / _PERIOD)):
            if not self._pass_on(final=True):
                return
            if self._pending:  # the sink is full: give its reader a moment
                threading.Event().wait(_PERIOD)

    def _pass_on(self, final: bool) -> bool:
        """One round; whether anything was left or found."""
        found = False
        with self._lock:
            logs = list(self._logs)
        for log in logs:
            while self._flush():
                text = log.take(final)
                if not text:
                    break
                found = True
                with self._lock:
                    self._pending += text
        return not self._flush() or found

    def _flush(self) -> bool:
        """Offer what is pending to the sink; whether it took all."""
        with self._lock:
            pending = self._pending
        if not pending:
            return True
        taken = len(pending)
        with contextlib.suppress(Exception):  # a broken sink must not end what it listens to
            taken = self._sink.write(pending)
        with self._lock:
            self._pending = self._pending[taken:]
            return not self._pending
