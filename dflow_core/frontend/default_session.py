"""The session that graphs run in when none is named: `df.init` and `df.finalize`.

This is the one thing in the core that belongs to the whole process, because `with df.FlowGraph(...)` names no session.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from dflow_core.errors import ClosedError, UsageError
from dflow_core.message import HeapBlock
from dflow_core.message import alloc_tensor as alloc_in
from dflow_core.types import Array

if TYPE_CHECKING:
    from dflow_core.session import DFlowSession
    from dflow_core.spi import Deployer


class DefaultSession:
    """Holder of the process's default session; made when first needed."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _session: ClassVar[DFlowSession | None] = None
    _pid: ClassVar[int] = 0

    @classmethod
    def get(cls, options: Mapping[str, str] | None = None, *, deployer: str = "") -> DFlowSession:
        """The default session, made with `options` if there is none yet.

        Args:
            options: Options of the session.
            deployer: What the caller is about to start a graph with. Where that is this machine, its template process
                starts while the rest of dflow is imported here.

        Raises:
            ClosedError: in a process forked after dflow was used; its processes belong to the parent.
        """
        if cls._session is not None and cls._pid != os.getpid():  # a fork: a lock may be held by a thread that is gone
            raise ClosedError(
                "this process was forked after dflow had been used",
                hint="start processes before dflow, or with the spawn method",
            )
        with cls._lock:
            if cls._session is None:
                cls._pid = os.getpid()
                cls._session = _make_session(options, deployer)
                atexit.register(cls.drop)
            elif options:
                raise UsageError("dflow is initialised already", hint="call df.finalize() before df.init(...)")
            return cls._session

    @classmethod
    def drop(cls) -> None:
        """Close the default session and everything in it. Idempotent."""
        if cls._pid not in (0, os.getpid()):
            return
        with cls._lock:
            session, cls._session = cls._session, None
        if session is not None:
            atexit.unregister(cls.drop)
            session.close()


def _make_session(options: Mapping[str, str] | None, deployer: str) -> DFlowSession:
    with contextlib.ExitStack() as undo:
        begun: dict[str, Deployer] = {}
        if deployer == "local":
            from dflow_core.deploy import LocalDeployer

            begun[deployer] = LocalDeployer()
            undo.callback(begun[deployer].close)
            begun[deployer].warm_up()
        from dflow_core.session import DFlowSession

        session = DFlowSession(options, deployers=begun)
        undo.pop_all()
    return session


def init(options: Mapping[str, str] | None = None) -> None:
    """Set options for every graph that names no session; not needed otherwise.

    Args:
        options: Option names and values; `dflow config show` lists them.

    Raises:
        OptionError: for an unknown option, with the nearest known one.
        UsageError: if dflow is initialised already.
    """
    DefaultSession.get(options or {})


def finalize() -> None:
    """End every graph and process of the default session. Idempotent; also done when Python ends."""
    DefaultSession.drop()


def alloc_tensor(shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """An uninitialised array to fill and feed.

    If one graph of the default session runs, the array lies in its shared memory and is fed without a copy;
    otherwise it is an ordinary array. With several graphs running, use `graph.alloc_tensor`.

    Args:
        shape: Dimensions.
        dtype: Any dtype a tensor can have, strings excepted.
    """
    running = DefaultSession.get().running
    alloc = running[0].alloc if len(running) == 1 else HeapBlock
    return alloc_in(shape, np.dtype(dtype), alloc)
