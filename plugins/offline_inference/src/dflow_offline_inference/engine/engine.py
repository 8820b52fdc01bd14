"""How ready requests are run: a station for each model, a lane for each worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dflow_core.errors import DeployError, DflowError
from dflow_core.spi import ModelWorker
from dflow_offline_inference.engine.lane import Delivery, Lane
from dflow_offline_inference.engine.station import Station
from dflow_offline_inference.requests import LOGGER, EventSink, Request

_SLICE = 0.5


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """How a model is run.

    Args:
        name: Its name.
        batch: Rows that share a call.
        patience: Seconds the first request of a batch waits for others.
        loaders: One for each worker: gives it, in the thread that will use it.
    """

    name: str
    batch: int
    patience: float
    loaders: Sequence[Callable[[], ModelWorker]]


class ExecutionEngine:
    """Runs what the scheduler hands over. Thread-safe.

    Args:
        plans: How each model is run.
        delivery: Takes what workers have done.
        model_lost: Told when a model has no worker left: its number, and why.
        emit: Takes events, if anybody watches.
    """

    def __init__(
        self, plans: Sequence[ModelPlan], delivery: Delivery,
        model_lost: Callable[[int, DflowError], None], emit: EventSink | None = None,
    ) -> None:
        self.stations = [Station(plan.name, plan.batch, plan.patience, emit) for plan in plans]
        self._model_lost = model_lost
        self._lanes = [
            Lane(station, index, load, delivery, self, emit)
            for plan, station in zip(plans, self.stations)
            for index, load in enumerate(plan.loaders)
        ]
        self._state = threading.Condition(threading.Lock())
        self._loading = len(self._lanes)
        self._lost: set[Lane] = set()
        self._threads = frozenset(lane.thread for lane in self._lanes)

    @property
    def lanes(self) -> Sequence[Lane]:
        """One for each worker."""
        return tuple(self._lanes)

    def start(self, loaded: Callable[[int, ModelWorker], None]) -> None:
        """Load every worker, each in its own thread.

        Args:
            loaded: Called with a model's number and one of its workers before any of them runs.

        Raises:
            Whatever the first one that could not be loaded raised; the caller stops the others.
        """
        self._loaded = loaded
        for lane in self._lanes:
            lane.thread.start()
        with self._state:
            while self._loading:
                self._state.wait(_SLICE)
        for lane in self._lanes:
            if lane.error is not None:
                raise lane.error

    def forget(self, request: Request) -> None:
        """A request that was handed over has ended before it ran."""
        self.stations[request.model].forget(request)

    def drain(self) -> None:
        """No more requests will come: batches need not wait to be full."""
        for station in self.stations:
            station.drain()

    def stop(self, timeout: float) -> None:
        """End every lane after what it has, and wait for it; workers are closed by their lanes.

        Raises:
            DeployError: if one is still in a call after `timeout` seconds.
        """
        for station in self.stations:
            station.stop()
        limit = time.monotonic() + timeout
        for lane in self._lanes:
            if lane.thread.ident is not None and lane.thread is not threading.current_thread():
                lane.thread.join(max(0.0, limit - time.monotonic()))
        stuck = [lane.thread.name for lane in self._lanes if lane.thread.is_alive()
                 and lane.thread is not threading.current_thread()]
        if stuck:
            raise DeployError(f"workers did not end within {timeout:g} s: {', '.join(stuck)}",
                              hint="a call of the model hangs; run it with workers='process' and call_timeout")

    def in_lane(self) -> bool:
        """Whether this thread is a worker's own, which must not wait for requests."""
        return threading.current_thread() in self._threads  # not by ident: those are given out again

    def lane_ready(self, lane: Lane) -> None:
        try:
            if lane.worker is not None:
                self._loaded(self.stations.index(lane.station), lane.worker)
        except BaseException as cause:
            lane.error = cause
        with self._state:
            self._loading -= 1
            self._state.notify_all()

    def lane_lost(self, lane: Lane, cause: DflowError) -> None:
        LOGGER.error("model %r#%d is lost: %s", lane.station.name, lane.index, cause)
        with self._state:
            self._lost.add(lane)
            left = [one for one in self._lanes if one.station is lane.station and one not in self._lost]
            if left:
                return
            lane.station.failure = cause
        self._model_lost(self.stations.index(lane.station), cause)
