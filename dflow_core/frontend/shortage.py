"""What is said where the system has no more to give."""

from __future__ import annotations

import contextlib
import errno
import resource
from collections.abc import Iterator

from dflow_core.errors import DeployError


@contextlib.contextmanager
def told_shortages(what: str) -> Iterator[None]:
    """Raise a `DeployError` that says what to do where no file can be opened any more.

    Args:
        what: What could not be done.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        mine, whose = error.errno == errno.EMFILE, "this process" if error.errno == errno.EMFILE else "this machine"
        limit = f" than {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}" if mine else ""
        raise DeployError(
            f"{what}: {whose} may have no more files open{limit}",
            hint="raise the limit (`ulimit -n`), or close what is open" if mine else "end what holds so many",
        ) from error
