"""gRPC and processes that are forked from one that uses it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "GRPC_ENABLE_FORK_SUPPORT"


@contextmanager
def without_fork_support() -> Iterator[None]:
    """Have gRPC, if it is imported in the block, do nothing in forks, unless the environment says what it is to do.

    Otherwise it starts its threads in every fork anew. Where that is on its way to another program its descriptors are
    closed under them, and the fork aborts or hangs now and then. No fork may use a link, so that none needs them.
    """
    if _VARIABLE in os.environ:
        yield
        return
    os.environ[_VARIABLE] = "0"
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)
