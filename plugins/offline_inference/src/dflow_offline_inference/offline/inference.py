"""OfflineInference: from arrays to requests, from requests to results. It runs nothing itself."""

from __future__ import annotations

import atexit
import functools
import itertools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from dflow_core.errors import PoolExhaustedError, UsageError
from dflow_core.graph import ProcessPoint
from dflow_core.session import DFlowSession
from dflow_core.types import TensorSpec
from dflow_offline_inference.config import ModelConfig, ModelSource, Settings
from dflow_offline_inference.offline.arguments import (
    check_callback,
    check_chain,
    check_priority,
    check_times,
    others_of,
)
from dflow_offline_inference.offline.handle import Handle
from dflow_offline_inference.offline.machinery import Machinery, Served
from dflow_offline_inference.offline.stream import Window, stream
from dflow_offline_inference.requests import Event, EventSink, NotStartedError, Request, Result, log
from dflow_offline_inference.scheduler import rank_of

_SMALL_WINDOW = 64


@dataclass(frozen=True, slots=True)
class Overview:
    """Where everything stands.

    Args:
        open: Requests that have not ended.
        waiting: Those of them that wait for a slot, for memory or for others.
        slots: For each model, slots in use and slots there are.
        memory: For each device with a limit, bytes in use by requests and bytes there are for them.
    """

    open: int
    waiting: int
    slots: Mapping[str, tuple[int, int]]
    memory: Mapping[str, tuple[int, int]]


class OfflineInference:
    """Runs models over many inputs.

    Use it as a context manager: entering loads the models, leaving waits for what is under way and takes all apart.

    Args:
        models: Models by name: a file, a process point, or a `ModelConfig`.
        workers: `thread` runs workers in threads of this process, `process` each in an executor process.
        max_waiting: Requests that may wait at once; more are blocked or refused.
        ageing: Seconds of waiting that are worth one level of priority.
        scan_interval: Longest time, in seconds, until something that was overlooked is seen.
        memory: Bytes that models and requests may take, by device.
        session: What compiles models and starts processes; one of its own if not given.
        on_event: Called with every handshake of every request, in the thread that does it; for tests and tracing.

    Raises:
        OptionError: a value that it cannot have.
    """

    def __init__(
        self, models: Mapping[str, ModelConfig | ModelSource], *, workers: Literal["thread", "process"] = "thread",
        max_waiting: int = 10_000, ageing: float = 10.0, scan_interval: float = 0.5,
        memory: Mapping[str, int] | None = None, session: DFlowSession | None = None,
        on_event: EventSink | None = None,
    ) -> None:
        if not isinstance(models, Mapping):
            raise UsageError(f"models={models!r}: expected models by name",
                             hint="OfflineInference({'net': 'net.onnx'})")
        if on_event is not None and not callable(on_event):
            raise UsageError(f"on_event={on_event!r}: a {type(on_event).__name__} cannot be called")
        if not models:
            raise UsageError("no model was given", hint="give at least one: OfflineInference({'net': 'net.onnx'})")
        self._configs = {name: _config(model) for name, model in models.items()}
        self._settings = Settings(workers, max_waiting, ageing, scan_interval, dict(memory or {}))
        self._session = session
        self._emit = None if on_event is None else functools.partial(_tell, on_event)
        self._ids = itertools.count(1)
        self._machinery: Machinery | None = None
        self._forgotten: weakref.finalize[..., OfflineInference] | None = None
        self._starting = threading.Lock()

    def __enter__(self) -> OfflineInference:
        self.init()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=error is not None)

    def init(self) -> None:
        """Compile and load every model, and start its workers.

        Raises:
            UsageError: it was done before.
            DflowError: what is wrong with a model; nothing is left then.
        """
        with self._starting:
            if self._machinery is not None:
                raise UsageError("init was called before", hint="make another OfflineInference")
            machinery = Machinery(self._configs, self._settings, self._session, self._emit)
            self._machinery = machinery
        at_exit = functools.partial(_close_at_exit, weakref.ref(self))
        atexit.register(at_exit)
        self._forgotten = weakref.finalize(self, _forget, machinery, at_exit)
        self._forgotten.atexit = False

    def infer(
        self, model: str, inputs: object, *, priority: float = 0, after: Iterable[Handle | int] = (),
        chain: object = None, deadline: float | None = None, callback: Callable[[Handle], object] | None = None,
        context: object = None, timeout: float | None = None,
    ) -> Handle:
        """Ask a model for one result.

        Args:
            model: Name of the model.
            inputs: Arrays by input name, or in order, or the only one, as the model takes them (its first dimension
                included). They are not copied here: leave them as they are until the request has ended.
            priority: Higher goes first; waiting raises it by one for every `ageing` seconds.
            after: Requests (or their ids) that must be done before; if one ends otherwise, so does this.
            chain: Requests with an equal `chain` run one after the other, in this order.
            deadline: Seconds from now after which the request ends with an error.
            callback: Called with the handle when the request has ended, in the thread that ends it.
            context: Anything; comes back with the handle and the result.
            timeout: Seconds to wait for room among the waiting; 0 refuses at once, None waits.

        Raises:
            UsageError: an unknown model, a request to depend on that does not exist, a deadline in the past, a
                priority that is no number.
            TensorError: inputs that do not fit the model.
            PoolExhaustedError: more memory is needed than there is.
            QueueFullError: no room within the limit.
            NotStartedError, ClosedError: called before `init` or after `close`.
        """
        machinery = self._running()
        served = machinery.served(model)
        check_priority(priority)
        check_times(deadline, timeout)
        check_chain(chain)
        check_callback(callback)
        desk = machinery.desk
        others, failed = desk.find(
            [other.request_for(desk) if isinstance(other, Handle) else other for other in others_of(after)]
        ) if after != () else ([], None)
        request = self._request(machinery, served, inputs, priority, context, chain)
        handle = Handle(request, desk)
        if callback is not None:
            handle.add_done_callback(callback)
        if failed is not None:
            desk.refuse(request, failed)
            return handle
        desk.admit(request, others, timeout)
        if deadline is not None:
            machinery.ticker.watch(request.history[0][1] + deadline, request.id)
        return handle

    def map(
        self, model: str, items: Iterable[object], *, ordered: bool = True, window: int | None = None,
        errors: Literal["raise", "return"] = "raise", priority: float = 0,
    ) -> Iterator[Result | Exception]:
        """Stream items through a model, with a bounded number under way.

        Args:
            model: Name of the model.
            items: What `infer` takes as inputs, one for each request.
            ordered: Whether results come in the order of the items; else as they are ready.
            window: Requests under way or waiting to be yielded; by default what keeps every worker busy, and more of
                small ones (of less than 4 MiB in all).
            errors: `raise` raises what ended a request at its turn; `return` yields the exception instead.
            priority: As for `infer`.

        Yields:
            Results, or exceptions.

        Raises:
            UsageError: an unknown model, a priority that is no number, a window without room.
            NotStartedError, ClosedError: called before `init` or after `close`.
        """
        machinery = self._running()
        served = machinery.served(model)
        check_priority(priority)
        if errors not in ("raise", "return"):
            raise UsageError(f"errors={errors!r}: use 'raise' or 'return'")
        if window is not None and (not isinstance(window, int) or window < 1):
            raise UsageError(f"window={window!r}: expected a whole number of at least 1")
        desk = machinery.desk

        def submit(item: object) -> Handle:
            request = self._request(machinery, served, item, priority, None, None)
            desk.admit(request, (), None)
            return Handle(request, desk)

        default = 2 * served.slots
        span = Window(window, window) if window else Window(default, max(default, _SMALL_WINDOW))
        return stream(submit, items, span, ordered, errors == "return", desk.check_process)

    def specs(self, model: str) -> tuple[Sequence[TensorSpec], Sequence[TensorSpec]]:
        """What a model takes and what it gives."""
        shapes = self._running().served(model).shapes
        return shapes.inputs, shapes.outputs

    def overview(self) -> Overview:
        """Where everything stands."""
        machinery = self._running()
        return Overview(
            machinery.desk.open, machinery.scheduler.waiting,
            {name: (machinery.scheduler.used(one.number), one.slots) for name, one in machinery.models.items()},
            {device: (machinery.scheduler.memory_used(device), limit) for device, limit in machinery.memory.items()},
        )

    def close(self, *, cancel: bool = False, timeout: float | None = None) -> None:
        """Wait for everything under way, then take all apart: intake, scheduler, workers, processes. Idempotent.

        Args:
            cancel: Whether to cancel what does not run yet.
            timeout: Seconds to wait for requests; those left are cancelled. None waits as long as it takes.

        Raises:
            DeployError: a worker is stuck in a call.
        """
        machinery = self._machinery
        if machinery is None:
            return
        try:
            machinery.shutdown(cancel=cancel, timeout=timeout)
        finally:
            if self._forgotten is not None and machinery.closed:
                found = self._forgotten.detach()
                if found is not None:
                    atexit.unregister(found[2][1])

    def _request(
        self, machinery: Machinery, served: Served, inputs: object, priority: float, context: object, chain: object
    ) -> Request:
        """Arrays to a request that fits its model."""
        arrays = served.shapes.arrays(inputs)
        fit = served.shapes.fit(arrays)
        if fit.bytes > served.largest:
            raise PoolExhaustedError(
                f"a request for model {served.name!r} needs {fit.bytes} bytes, and its device has {served.largest} for "
                "requests", hint="smaller inputs, or a larger limit (memory=)",
            )
        now = time.monotonic()
        rank = rank_of(priority, now, self._settings.ageing)
        request = Request(
            next(self._ids), now, served.number, arrays, fit.rows, fit.group, fit.padded, fit.bytes, rank, context,
            chain,
        )
        if machinery.desk.watched:
            machinery.desk.tell(request, "translate")
        return request

    def _running(self) -> Machinery:
        machinery = self._machinery
        if machinery is None:
            raise NotStartedError("init has not been called", hint="use it as `with OfflineInference(...) as offline:`")
        machinery.check()
        return machinery


def _config(model: ModelConfig | ModelSource) -> ModelConfig:
    if isinstance(model, ModelConfig):
        return model
    if isinstance(model, (str, os.PathLike, ProcessPoint)):
        return ModelConfig(model)
    raise UsageError(f"a model is a file, a process point or a ModelConfig, not a {type(model).__name__}")


def _tell(sink: EventSink, event: Event) -> None:
    """Whoever watches must not harm what is watched."""
    try:
        sink(event)
    except Exception as cause:
        log(logging.ERROR, event.request_id, "on_event raised %s", type(cause).__name__, cause=cause)


def _forget(machinery: Machinery, at_exit: Callable[[], None]) -> None:
    """Called by the collector, in any thread, which may hold any lock: so it only leaves word."""
    atexit.unregister(at_exit)
    if not machinery.desk.in_fork:
        machinery.ticker.mailbox.put("abandoned")


def _close_at_exit(reference: weakref.ref[OfflineInference]) -> None:
    offline = reference()
    if offline is not None:
        offline.close(cancel=True)

