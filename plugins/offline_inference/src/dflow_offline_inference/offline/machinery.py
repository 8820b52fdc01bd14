"""The layers put together, and taken apart in the one right order.

The threads know this, and not the `OfflineInference` that made it: one that is forgotten without being closed can be
collected, and its ticker takes everything apart.
"""

from __future__ import annotations

import contextlib
import difflib
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from dflow_core.errors import ClosedError, DflowError, UsageError
from dflow_core.session import DFlowSession
from dflow_core.spi import ModelWorker, same_sizes
from dflow_offline_inference.config import ModelConfig, Settings
from dflow_offline_inference.engine import ExecutionEngine, ModelPlan, ModelShapes
from dflow_offline_inference.offline.desk import Desk
from dflow_offline_inference.offline.ticker import Ticker
from dflow_offline_inference.requests import LOGGER, EventSink
from dflow_offline_inference.scheduler import Admission, Limits, Scheduler
from dflow_offline_inference.workers import Loaders, compile_models, memory_limits

_STOP_LIMIT = 30.0


@dataclass(frozen=True, slots=True)
class Served:
    """A model that was loaded.

    Args:
        number: Its number.
        name: Its name.
        shapes: What it takes and gives.
        slots: Requests that may be under way at once.
        largest: Bytes that one of them may take.
    """

    number: int
    name: str
    shapes: ModelShapes
    slots: int
    largest: int


class Machinery:
    """Every layer, started.

    Args:
        configs: Models by name.
        settings: What holds for all.
        session: What compiles and starts processes; one of its own if not given.
        emit: Takes events, if anybody watches.

    Raises:
        DflowError: what is wrong with a model; nothing is left then.
    """

    def __init__(
        self, configs: Mapping[str, ModelConfig], settings: Settings, session: DFlowSession | None,
        emit: EventSink | None,
    ) -> None:
        self.settings = settings
        self._closing = threading.RLock()
        self._closed = False
        self._own_session = session is None
        self._session = session or DFlowSession()
        try:
            self._compiled = compile_models(self._session, configs)
            self.memory = memory_limits(self._compiled, settings.memory)
            self._build(emit)
        except BaseException:
            self._end_session()
            raise
        try:
            self.engine.start(self._loaded)
            self._admit(emit)
            self.ticker.thread.start()
        except BaseException:
            self._closed = True
            self.engine.stop(_STOP_LIMIT)
            self._end_session()
            raise

    def _build(self, emit: EventSink | None) -> None:
        names = list(self._compiled)
        self.desk = Desk(names, emit)
        loaders = Loaders(self._session, self.settings.workers)
        plans = [
            ModelPlan(name, one.config.batch, one.config.batch_wait, loaders.of(name, one))
            for name, one in self._compiled.items()
        ]
        self.engine = ExecutionEngine(plans, self.desk, self.desk.model_lost, emit)
        self.desk.engine = self.engine

    def _admit(self, emit: EventSink | None) -> None:
        """The scheduler, now that is known how many calls each worker takes at once."""
        slots = [0] * len(self._compiled)
        for lane in self.engine.lanes:
            number = self.engine.stations.index(lane.station)
            slots[number] += (lane.depth + 1) * lane.station.batch  # what computes, and what is gathered meanwhile
        limits = [
            Limits(name, one.device(0), count) for (name, one), count in zip(self._compiled.items(), slots)
        ]
        self.models: dict[str, Served] = {}
        for number, limit in enumerate(limits):
            shapes = self.engine.stations[number].shapes
            assert shapes is not None
            largest = self.memory.get(limit.device, sys.maxsize)
            self.models[limit.name] = Served(number, limit.name, shapes, limit.slots, largest)
        self.scheduler = Scheduler(
            Admission(limits, self.memory), [station.accept for station in self.engine.stations],
            self.settings.max_waiting, self.desk.taken, lambda: not self.engine.in_lane(), emit,
        )
        self.desk.scheduler = self.scheduler
        self.ticker = Ticker(
            self.settings.scan_interval, self.scheduler.scan, self.desk.expire, self.desk.is_open, self._abandoned
        )

    @property
    def closed(self) -> bool:
        """Whether it was taken apart, or is being."""
        return self._closed

    def served(self, name: str) -> Served:
        """A model by its name.

        Raises:
            UsageError: there is none of that name.
        """
        found = self.models.get(name) if isinstance(name, str) else None
        if found is None:
            near = difflib.get_close_matches(str(name), self.models, 1)
            raise UsageError(f"no model is called {name!r}",
                             hint=f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self.models)}")
        return found

    def check(self) -> None:
        """Refuse use after `shutdown`, and in a fork.

        Raises:
            ClosedError: if nothing can be run any more.
        """
        if self._closed:
            raise ClosedError("offline inference was closed", hint="submit before close(), or inside the with block")
        self.desk.check_process()

    def shutdown(self, *, cancel: bool = False, timeout: float | None = None) -> None:
        """Wait for every request, then take everything apart. Idempotent.

        Args:
            cancel: Whether to cancel what does not run yet.
            timeout: Seconds to wait for requests; those left are cancelled.

        Raises:
            UsageError: called by a callback.
            DeployError: a worker is stuck in a call.
        """
        if self.desk.in_fork:
            return
        if self.engine.in_lane():
            raise UsageError("a callback cannot close what calls it", hint="close it in the thread that made it")
        with self._closing:
            if self._closed:
                return
            with contextlib.ExitStack() as stack:  # all of it, also when it is interrupted; last one first
                stack.callback(self._end_session)
                stack.callback(self.engine.stop, _STOP_LIMIT)
                stack.callback(self.ticker.stop, _STOP_LIMIT)
                stack.callback(self.desk.cancel_all, "cancelled, because everything was closed", running=True)
                self._closed = True
                self.scheduler.close()
                self.engine.drain()
                if cancel:
                    self.desk.cancel_all("cancelled, because everything was closed")
                self.desk.wait_idle(timeout)

    def _abandoned(self) -> None:
        LOGGER.warning("an OfflineInference was forgotten without being closed; its requests are cancelled")
        try:
            self.shutdown(cancel=True)
        except DflowError as cause:
            LOGGER.error("it could not be taken apart: %s", cause)

    def _end_session(self) -> None:
        if self._own_session:
            self._session.close()

    def _loaded(self, number: int, worker: ModelWorker) -> None:
        """Fill in what is known once a worker has loaded a model, the same for each of its workers."""
        name, one = list(self._compiled.items())[number]
        self.engine.stations[number].shapes = ModelShapes(
            name, worker.inputs, worker.outputs, same_sizes(one.model),
            buckets=one.config.buckets, batch=one.config.batch,
        )

