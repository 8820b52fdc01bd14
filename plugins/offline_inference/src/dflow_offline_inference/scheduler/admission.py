"""Whether a request may run now. No I/O, no clock, no thread, no lock: the scheduler calls it under its own.

Three separate questions: is one of the model's slots free, does the memory of its device suffice, are the requests it
depends on done. Slots go to models side by side. Memory goes strictly by rank: while the request whose turn it is on a
device waits for memory, no later one on that device gets any, so that large requests do not starve behind small ones.

The order of writes matters: a caller may be interrupted (Ctrl-C) between any two of them. A request that goes on is put
among the running and onto `leaving` before it is taken out of the order; `recount` puts the rest right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dflow_offline_inference.requests import Request, State
from dflow_offline_inference.scheduler.dependencies import Dependencies
from dflow_offline_inference.scheduler.order import Place, WaitingOrder


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


class _Model:
    """One model's share."""

    __slots__ = ("limits", "order", "running")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.order = WaitingOrder()
        self.running: dict[int, Request] = {}

    def head(self) -> Place | None:
        """Whose turn it is, if there is a slot."""
        return self.order.head() if len(self.running) < self.limits.slots else None


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
        self._models = [_Model(one) for one in limits]
        self._memory = dict(memory)
        self._used = {one.device: 0 for one in limits}
        self._dependencies = Dependencies()
        self._parked: dict[int, Request] = {}
        self.waiting = 0
        self.leaving: deque[Request] = deque()

    def add(self, request: Request, after: Sequence[Request] = ()) -> Request | None:
        """Take in a new request.

        Returns:
            A request it depends on that has ended badly; then it was not taken in.
        """
        failed = self._dependencies.add(request, after) if after or request.chain is not None else None
        if failed is not None:
            return failed
        self.waiting += 1
        if request.blockers:
            self._parked[request.id] = request
        else:
            self._models[request.model].order.push(request)
        return None

    def choose(self) -> None:
        """Put everybody who may run now onto `leaving`, in order of rank."""
        if not self.waiting:
            return
        held: set[str] = set()
        while (found := self._next(held)) is not None:
            place, model = found
            request = place[2]
            if request.id in model.running:  # an interrupt came between the lines below
                model.order.pop()
                continue
            if not self._fits(request, model.limits.device):
                held.add(model.limits.device)
                continue
            model.running[request.id] = request
            self.leaving.append(request)
            model.order.pop()
            self.waiting -= 1
            self._used[model.limits.device] += request.memory

    def ended(self, request: Request, before: State) -> list[Request]:
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
            return self._settle(request)
        return self.release(request)

    def release(self, request: Request) -> list[Request]:
        """A request that was under way has ended: its slot and its memory are free.

        Returns:
            Requests that can never run, because they depend on it.
        """
        model = self._models[request.model]
        if model.running.pop(request.id, None) is not None:
            self._used[model.limits.device] -= request.memory
        return self._settle(request)

    def answers(self, request: Request) -> Answers:
        """Whether a waiting request may run now, and what it waits for."""
        model = self._models[request.model]
        limits = model.limits
        slot = len(model.running) < limits.slots
        memory = self._fits(request, limits.device)
        free = not request.blockers
        texts = []
        if not free:
            texts.append(f"waiting for {request.blockers} requests it depends on" if request.blockers > 1 else
                         "waiting for a request it depends on")
        if not slot:
            texts.append(f"waiting for a slot of model {limits.name!r} ({limits.slots} in use)")
        if not memory:
            texts.append(f"waiting for memory on device {limits.device} (needs {request.memory} bytes, "
                         f"{self._memory[limits.device] - self._used[limits.device]} are free)")
        if slot and memory and free:
            texts.append("waiting for requests in front of it")
        return Answers(slot, memory, free, "; ".join(texts))

    def used(self, model: int) -> int:
        """Slots of a model that are in use."""
        return len(self._models[model].running)

    def memory_used(self, device: str) -> int:
        """Bytes of a device that requests under way take."""
        return self._used.get(device, 0)

    def recount(self) -> None:
        """Put the totals right after an interrupt."""
        parked = sum(request.state is State.WAITING for request in self._parked.values())
        self.waiting = parked + sum(model.order.live(model.running) for model in self._models)
        self._used = dict.fromkeys(self._used, 0)
        for model in self._models:
            self._used[model.limits.device] += sum(request.memory for request in model.running.values())

    def _next(self, held: set[str]) -> tuple[Place, _Model] | None:
        """The model whose head has the lowest rank, of those with a free slot and a device that is not held."""
        best: tuple[Place, _Model] | None = None
        for model in self._models:
            head = model.head()
            if head is not None and model.limits.device not in held and (best is None or head < best[0]):
                best = (head, model)
        return best

    def _fits(self, request: Request, device: str) -> bool:
        limit = self._memory.get(device)
        return limit is None or self._used[device] + request.memory <= limit

    def _settle(self, request: Request) -> list[Request]:
        free, failed = self._dependencies.ended(request)
        for one in free:
            if self._parked.pop(one.id, None) is not None:
                self._models[one.model].order.push(one)
        return failed
