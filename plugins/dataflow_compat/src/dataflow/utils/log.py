"""The logger of the package: `DATAFLOW`, on standard output, as loud as `ASCEND_GLOBAL_LOG_LEVEL` says."""

from __future__ import annotations

import logging
import os
import sys

__all__ = [
    "DEBUG",
    "ERROR",
    "INFO",
    "WARNING",
    "debug",
    "error",
    "get_log_level",
    "get_logger",
    "info",
    "log",
    "set_log_level",
    "warning",
]

DEBUG = logging.DEBUG
INFO = logging.INFO
WARNING = logging.WARNING
ERROR = logging.ERROR

_LEVELS = {"0": DEBUG, "1": INFO, "2": WARNING, "3": ERROR}
_FORMAT = (
    "[%(levelname)s] DATAFLOW(%(process)d,%(processName)s):%(asctime)s.%(msecs)03d "
    "[%(filename)s:%(lineno)d]%(thread)d %(funcName)s: %(message)s"
)


class _StdoutHandler(logging.Handler):
    """Writes to what standard output is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        try:
            print(self.format(record), file=sys.stdout, flush=True)
        except (OSError, ValueError):
            self.handleError(record)


def get_logger() -> logging.Logger:
    """The logger; made ready when first asked for."""
    logger = logging.getLogger("DATAFLOW")
    if not any(isinstance(handler, _StdoutHandler) for handler in logger.handlers):
        handler = _StdoutHandler()
        handler.setFormatter(logging.Formatter(_FORMAT, "%Y-%m-%d %H:%M:%S"))
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(_LEVELS.get(os.environ.get("ASCEND_GLOBAL_LOG_LEVEL", ""), ERROR))
    return logger


def log(level: int, msg: object, *args: object) -> None:
    """Write `msg % args` at a level."""
    get_logger().log(level, msg, *args, stacklevel=2)


def debug(msg: object, *args: object) -> None:
    """Write `msg % args` for people who debug."""
    get_logger().debug(msg, *args, stacklevel=2)


def info(msg: object, *args: object) -> None:
    """Write `msg % args` about what happens."""
    get_logger().info(msg, *args, stacklevel=2)


def warning(msg: object, *args: object) -> None:
    """Write `msg % args` about something odd."""
    get_logger().warning(msg, *args, stacklevel=2)


def error(msg: object, *args: object) -> None:
    """Write `msg % args` about something wrong."""
    get_logger().error(msg, *args, stacklevel=2)


def set_log_level(level: int) -> None:
    """Say which lines are written from now on."""
    get_logger().setLevel(level)


def get_log_level() -> int:
    """The least important level that is written."""
    return get_logger().getEffectiveLevel()
