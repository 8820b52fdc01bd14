"""Whether a request may run now. No I/O, no clock, no thread, no lock: the scheduler calls it under its own.

Three separate questions: is one of the model's slots free, does the memory of its device suffice, are the requests it
depends on done. Slots go to models side by side. Memory goes strictly by rank: while the request whose turn it is on a
device waits for memory, no later one on that device gets any, so that large requests do not starve behind small ones.

The order of writes matters: a caller may be interrupted (Ctrl-C) between any two of them. A request that goes on is put
onto `leaving` and among the running before it is taken out of the order; `recount` puts the rest right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dflow_offline_inference.requests import Request, State
from dflow_offline_inference.scheduler.dependencies import Dependencies
from dflow_offline_inference.scheduler.order import Place, WaitingOrder

Hopeless: TypeAlias = tuple[Request, Request]
"""A request that can never run, and the one it depended on."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model may take.

    Args:
        name: Its name.
        device: Device it runs on, such as `cpu:0`.
        slots: Requests that may be under way at once.
    """

    name: str
    device: str
    slots: int


@dataclass(frozen=True, slots=True)
class Answers:
    """The three answers of `can_schedule`; those that are no also say what is waited for.

    Args:
        slot, memory, dependencies: Whether each allows the request to run now.
        text: What it waits for, such as `waiting for memory on device cpu:0`; "" for nothing.
    """

    slot: bool
    memory: bool
    dependencies: bool
    text: str

    def __bool__(self) -> bool:
        return self.slot and self.memory and self.dependencies


class _Device:
    """One device's memory, and the models that share it.

    Attributes:
        limit: Bytes that requests under way may take; None for no limit.
        used: What they take.
        models: On this device.
    """

    __slots__ = ("limit", "models", "used")

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.used = 0
        self.models: list[_Model] = []

    def fits(self, request: Request) -> bool:
        """Whether a request may have now what it needs."""
        return self.limit is None or self.used + request.memory <= self.limit

    def next(self) -> tuple[Place, _Model] | None:
        """The model whose head has the lowest rank, of those with a free slot."""
        best: tuple[Place, _Model] | None = None
        for model in self.models:
            if len(model.running) < model.limits.slots:
                head = model.order.head()
                if head is not None and (best is None or head < best[0]):
                    best = (head, model)
        return best


class _Model:
    """One model's share."""

    __slots__ = ("device", "limits", "order", "running")

    def __init__(self, limits: Limits, device: _Device) -> None:
        self.limits = limits
        self.device = device
        self.order = WaitingOrder()
        self.running: dict[int, Request] = {}
        device.models.append(self)


class Admission:
    """Decides who goes next.

    Args:
        limits: Of each model; requests name theirs by its number.
        memory: Bytes of each device; a device that is not named has no limit.

    Attributes:
        waiting: Requests that wait, for whatever.
        leaving: Requests that may run, in order; whoever hands one over takes it out.
    """

    def __init__(self, limits: Sequence[Limits], memory: Mapping[str, int]) -> None:
        self._devices = {one.device: _Device(memory.get(one.device)) for one in limits}
        self._models = [_Model(one, self._devices[one.device]) for one in limits]
        self._dependencies = Dependencies()
        self._parked: dict[int, Request] = {}
        self.waiting = 0
        self.leaving: deque[Request] = deque()

    def add(self, request: Request, after: Sequence[Request] = ()) -> Request | None:
        """Take in a new request; it may be among those that leave at once.

        Returns:
            A request it depends on that has ended badly; then it was not taken in.
        """
        failed = self._dependencies.add(request, after) if after or request.chain is not None else None
        if failed is not None:
            return failed
        model = self._models[request.model]
        self.waiting += 1
        if request.blockers:
            self._parked[request.id] = request
        elif self.waiting == 1 and len(model.running) < model.limits.slots and model.device.fits(request):
            self._let_go(model, request)  # nobody else waits: it need not stand in line
        else:
            model.order.push(request)
            if len(model.running) < model.limits.slots:
                self._choose(model.device)
        return None

    def choose(self) -> None:
        """Put everybody who may run now onto `leaving`, in order of rank on each device."""
        for device in self._devices.values():
            self._choose(device)

    def ended(self, request: Request, before: State) -> Sequence[Hopeless]:
        """A request has ended that did not come to run.

        Args:
            request: The request.
            before: The state it was in: WAITING or READY.

        Returns:
            Requests that can never run, because they depend on it.
        """
        if before is State.WAITING and request.id not in self._models[request.model].running:
            self.waiting -= 1
            if self._parked.pop(request.id, None) is None:
                self._models[request.model].order.note_end()
        return self.release((request,))

    def release(self, requests: Iterable[Request]) -> Sequence[Hopeless]:
        """Requests that were under way have ended: their slots and memory are free, and others may leave.

        Returns:
            Requests that can never run, because they depend on one of them.
        """
        hopeless: list[Hopeless] = []
        for request in requests:
            model = self._models[request.model]
            if model.running.pop(request.id, None) is not None:
                model.device.used -= request.memory
            if self._dependencies:
                hopeless += [(one, request) for one in self._settle(request)]
        if self.waiting:
            self.choose()
        return hopeless

    def answers(self, request: Request) -> Answers:
        """Whether a waiting request may run now, and what it waits for."""
        model = self._models[request.model]
        limits = model.limits
        slot = len(model.running) < limits.slots
        memory = model.device.fits(request)
        free = not request.blockers
        texts = []
        if not free:
            texts.append(f"waiting for {request.blockers} requests it depends on" if request.blockers > 1 else
                         "waiting for a request it depends on")
        if not slot:
            texts.append(f"waiting for a slot of model {limits.name!r} ({limits.slots} in use)")
        if model.device.limit is not None and not memory:
            texts.append(f"waiting for memory on device {limits.device} (needs {request.memory} bytes, "
                         f"{model.device.limit - model.device.used} are free)")
        if slot and memory and free:
            texts.append("waiting for requests in front of it")
        return Answers(slot, memory, free, "; ".join(texts))

    def used(self, model: int) -> int:
        """Slots of a model that are in use."""
        return len(self._models[model].running)

    def memory_used(self, device: str) -> int:
        """Bytes of a device that requests under way take."""
        return self._devices[device].used if device in self._devices else 0

    def recount(self) -> None:
        """Put the totals right after an interrupt."""
        parked = sum(request.state is State.WAITING for request in self._parked.values())
        self.waiting = parked + sum(model.order.live(model.running) for model in self._models)
        for device in self._devices.values():
            device.used = sum(request.memory for model in device.models for request in model.running.values())

    def _choose(self, device: _Device) -> None:
        while self.waiting and (found := device.next()) is not None:
            place, model = found
            request = place[2]
            if request.id not in model.running:  # else an interrupt came when it had left, and stood in line still
                if not device.fits(request):
                    return
                self._let_go(model, request)
            model.order.pop()

    def _let_go(self, model: _Model, request: Request) -> None:
        self.leaving.append(request)
        model.running[request.id] = request
        model.device.used += request.memory
        self.waiting -= 1

    def _settle(self, request: Request) -> list[Request]:
        free, failed = self._dependencies.ended(request)
        for one in free:
            if self._parked.pop(one.id, None) is not None:
                self._models[one.model].order.push(one)
        return failed
