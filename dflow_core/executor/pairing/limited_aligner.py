"""Pairing with limits: a set that stays incomplete for too long, or one too many of them, is given up.

The rules are those of runtime-semantics.md section 8, steps 2 and 3: of the sets that are too old the lowest key goes
first; if none is, and more sets wait than may, the lowest key of all. Age counts from the first message of a set.

Each transaction ends once on every output of a node, so what was given up does not come back: a message that comes
later for a key and port that was given up is dropped, and where sets are dropped all there is of the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dflow_core.executor.pairing.aligner import Aligner, Key, MessageSet, key_of, number_of, split_members
from dflow_core.message import DataFlag, FlowMsg
from dflow_core.types import AlignLimits


@dataclass(frozen=True, slots=True)
class Overdue:
    """A set that was given up.

    Args:
        messages: One for each port; None where none had come.
        why: In words.
    """

    messages: Sequence[FlowMsg | None]
    why: str

    @property
    def came(self) -> list[FlowMsg]:
        """The messages there are."""
        return [msg for msg in self.messages if msg is not None]


class LimitedAligner(Aligner):
    """An aligner that gives up.

    Args:
        ports, dead: As for `Aligner`.
        limits: When it gives up.
        clock: Monotonic seconds.
    """

    def __init__(
        self, ports: int, dead: Iterable[tuple[int, int, tuple[int, ...]]], limits: AlignLimits,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(ports, dead)
        self._limits = limits
        self._clock = clock
        self._since: dict[Key, float] = {}
        self._held_since: dict[tuple[int, int], float] = {}
        self.late = 0

    def clear(self) -> None:
        super().clear()
        self._since.clear()
        self._held_since.clear()

    def deadline(self) -> float | None:
        """When `take_overdue` has something at the latest, on the clock; None if never."""
        if self.pending > self._limits.max_cache:
            return 0.0
        if not self._limits.timeout or not self.pending:
            return None
        oldest = [next(iter(times.values())) for times in (self._since, self._held_since) if times]
        return min(oldest) + self._limits.timeout

    def take_overdue(self) -> Overdue | None:
        """The next set to give up, if there is one."""
        now, timeout = self._clock(), self._limits.timeout
        if timeout:
            for head in [head for head, since in self._held_since.items() if now - since >= timeout]:
                self._split_held(head)
            old = min((key for key, since in self._since.items() if now - since >= timeout), default=None)
            if old is not None:
                return self._give_up(old, f"within {timeout:g} s of the first of their set")
        if self.pending <= self._limits.max_cache:
            return None
        for head in list(self._held_since):
            self._split_held(head)
        return self._give_up(min(self._since), f"before {self._limits.max_cache} other sets waited too")

    def poison(self, trans_id: int) -> None:
        super().poison(trans_id)
        self._settle_times()

    def _give_up(self, key: Key, why: str) -> Overdue:
        waiting = self._waiting[key]
        found = Overdue([queue.pop(0) if queue else None for queue in waiting], why)
        if not any(waiting):
            del self._waiting[key]
            del self._since[key]
        self._done.add(number_of(*key))
        if self._limits.drop:
            self.poison(key[0])
            return found
        for port, msg in enumerate(found.messages):
            if msg is None:
                self._replace(key, port)
        return found

    def _split_held(self, head: tuple[int, int]) -> None:
        """Let batches wait as the single messages they stand for, as long as they have waited already."""
        since = self._held_since[head]
        held = self._forget(head)
        for port, batch in held.items():
            for part in split_members(batch):
                super()._add(port, part)
                self._since.setdefault(key_of(part), since)
        self._settle_times()

    def _hold(self, port: int, msg: FlowMsg) -> list[MessageSet]:
        complete = super()._hold(port, msg)
        if msg.info.key in self._held:
            self._held_since.setdefault(msg.info.key, self._clock())
        return complete

    def _forget(self, head: tuple[int, int]) -> dict[int, FlowMsg]:
        self._held_since.pop(head, None)
        return super()._forget(head)

    def _is_wanted(self, port: int, msg: FlowMsg) -> bool:
        wanted = super()._is_wanted(port, msg)
        self.late += not wanted
        return wanted

    def _add(self, port: int, msg: FlowMsg) -> list[MessageSet]:
        key = key_of(msg)
        self.late += (key, port) in self._replaced and not msg.info.data_flag & DataFlag.INJECTED
        complete = super()._add(port, msg)
        if key in self._waiting:
            self._since.setdefault(key, self._clock())
        else:
            self._since.pop(key, None)
        return complete

    def _settle_times(self) -> None:
        """Have a time for each set that waits, and for no other."""
        now = self._clock()
        self._since = {key: since for key, since in self._since.items() if key in self._waiting}
        for key in self._waiting:
            self._since.setdefault(key, now)
        self._since = dict(sorted(self._since.items(), key=lambda item: item[1]))
