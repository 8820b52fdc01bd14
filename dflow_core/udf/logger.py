"""Logging of hand-written functions, with the names, levels and limits of C++ functions (python-api.md section 12.2).

Lines go to standard error, which an executor's application passes on under the node's name.
"""

from __future__ import annotations

import enum
import os
import sys
import threading
import time
from collections.abc import Callable


class LogType(enum.IntEnum):
    """What a line is for: people who debug, or people who operate."""

    DEBUG_LOG = 0
    RUN_LOG = 1


class LogLevel(enum.IntEnum):
    """How important a line is."""

    DEBUG = 0
    INFO = 1
    WARN = 2
    ERROR = 3


class _Bucket:
    """Lines a second: so many on average, so many at once."""

    def __init__(self, rate: int, burst: int) -> None:
        self._rate, self._burst, self._tokens, self._filled = rate, burst, burst, 0.0
        self._noticed = False

    def take(self, now: float) -> bool | None:
        """Whether a line may pass; None for the first one that may not."""
        seconds = int(now - self._filled)
        if seconds:
            self._tokens = min(self._burst, self._tokens + seconds * self._rate)
            self._filled = now
        if self._tokens > 0:
            self._tokens -= 1
            self._noticed = False
            return True
        first, self._noticed = not self._noticed, True
        return None if first else False


class FlowFuncLogger:
    """Logs from inside a function.

    Args:
        write: Takes whole lines; standard error by default.
        clock: Monotonic seconds.
    """

    def __init__(
        self, write: Callable[[str], object] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._clock = clock
        self._lock = threading.Lock()
        run = _Bucket(50, 400)
        self._buckets = {
            (LogType.DEBUG_LOG, LogLevel.INFO): _Bucket(100, 1000),
            (LogType.DEBUG_LOG, LogLevel.WARN): _Bucket(50, 400),
            (LogType.DEBUG_LOG, LogLevel.ERROR): _Bucket(50, 400),
            (LogType.RUN_LOG, LogLevel.INFO): run,
            (LogType.RUN_LOG, LogLevel.ERROR): run,
        }

    def __reduce__(self) -> str | tuple[object, ...]:
        """The one of this module goes by its name, with functions of scripts that use it."""
        return "logger" if self is logger else super().__reduce__()

    def is_log_enable(self, log_type: object, log_level: object) -> bool:
        """Whether lines of a level are written; False for anything that is no member of the two enumerations."""
        if not isinstance(log_type, LogType) or not isinstance(log_level, LogLevel):
            return False
        least = _level()
        if log_type is LogType.RUN_LOG:
            return least <= (LogLevel.INFO if log_level < LogLevel.ERROR else LogLevel.ERROR)
        return log_level >= least

    def get_log_header(self) -> str:
        """What stands before a line of this thread: `[tid:N]`."""
        return f"[tid:{threading.get_native_id()}]"

    def debug(self, message: str, *args: object) -> None:
        """Write `message % args` for people who debug."""
        self._log(LogType.DEBUG_LOG, LogLevel.DEBUG, message, args)

    def info(self, message: str, *args: object) -> None:
        """Write `message % args` for people who debug."""
        self._log(LogType.DEBUG_LOG, LogLevel.INFO, message, args)

    def warn(self, message: str, *args: object) -> None:
        """Write `message % args` about something odd."""
        self._log(LogType.DEBUG_LOG, LogLevel.WARN, message, args)

    def error(self, message: str, *args: object) -> None:
        """Write `message % args` about something wrong."""
        self._log(LogType.DEBUG_LOG, LogLevel.ERROR, message, args)

    def run_info(self, message: str, *args: object) -> None:
        """Write `message % args` for people who operate."""
        self._log(LogType.RUN_LOG, LogLevel.INFO, message, args)

    def run_error(self, message: str, *args: object) -> None:
        """Write `message % args` about something wrong, for people who operate."""
        self._log(LogType.RUN_LOG, LogLevel.ERROR, message, args)

    def _log(self, kind: LogType, level: LogLevel, message: str, args: tuple[object, ...]) -> None:
        if not self.is_log_enable(kind, level):
            return
        bucket = self._buckets.get((kind, level))
        with self._lock:
            passes = True if bucket is None else bucket.take(self._clock())
        if passes is False:
            return
        text = "too many lines of this level; some are dropped" if passes is None else _formatted(message, args)
        frame = sys._getframe(2)  # who called debug(), info() and so on
        place = f"[{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}][{frame.f_code.co_name}]"
        run = "[RUN]" if kind is LogType.RUN_LOG else ""
        line = f"{level.name} {place}{self.get_log_header()}{run}: {text}\n"
        (self._write or sys.stderr.write)(line)


def _formatted(message: str, args: tuple[object, ...]) -> str:
    try:
        return message % args if args else message
    except (TypeError, ValueError):
        return message


def _level() -> int:
    """The least important level that is written; 4 for none."""
    for name in ("ASCEND_MODULE_LOG_LEVEL", "ASCEND_GLOBAL_LOG_LEVEL"):
        text = os.environ.get(name, "").rpartition("=")[2]
        if text in ("0", "1", "2", "3", "4"):
            return int(text)
    return LogLevel.ERROR


logger = FlowFuncLogger()
