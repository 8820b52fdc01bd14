"""Pairs the messages of several inputs by what they belong to, never by the order they arrive in.

Rules:

- The key is (trans_id, data_label); an END marker of a stream has a key of its own, because it closes the parts that
  were made of the message with that key.
- Every branch ends every key exactly once: with data, with a skip, or with an error. So a set is complete when each
  port has one message for the key, and nothing needs a timer.
- A batch stands for several transactions. Batches with the same members pair as batches (several outputs of one model).
  Where a batch meets single messages, or a batch with other members, its head pairs as usual and each other member
  counts as skipped on that port.
- A part that was lost with a dead instance is known as dead: what still arrives of it is dropped.
- A message put in for another (by the supervisor for a dead executor, by a queue that dropped one) may come on top of
  that: it is dropped if its key is complete or waiting on that port, and so is what it stands for if that comes later.
- A stream on one port and a single message on another can never pair: both end with an alignment error.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from dflow_core.message import NO_AUX, Aux, DataFlag, ErrorInfo, FlowMsg, MsgInfo

Key: TypeAlias = tuple[int, int, bool]
MessageSet: TypeAlias = tuple[FlowMsg, ...]

REMEMBERED = 16384
"""Far more than are ever under way; each takes some 200 bytes."""


class RecentKeys:
    """A bounded memory of keys, the oldest forgotten first."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._keys: OrderedDict[object, None] = OrderedDict()
        self._limit = limit

    def add(self, key: object) -> None:
        """Remember a key."""
        self._keys[key] = None
        if len(self._keys) > self._limit:
            self._keys.popitem(last=False)

    def discard(self, key: object) -> None:
        """Forget a key."""
        self._keys.pop(key, None)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)


class Aligner:
    """Collects messages until each port has one for a key.

    Args:
        ports: Number of inputs.
        dead: Parts that were lost: trans_id, data_label and the ports that had arrived already.
    """

    def __init__(self, ports: int, dead: Iterable[tuple[int, int, tuple[int, ...]]] = ()) -> None:
        self._ports = ports
        self._waiting: dict[Key, list[list[FlowMsg]]] = {}
        self._held: dict[tuple[int, int], dict[int, FlowMsg]] = {}
        self._batch_of: dict[tuple[int, int], tuple[int, int]] = {}
        self._done = RecentKeys()
        self._poisoned = RecentKeys()
        self._replaced: dict[tuple[Key, int], None] = {}
        self._replaced_ids = RecentKeys()
        self._dead: dict[tuple[int, int], set[int]] = {}
        for trans_id, label, arrived in dead:
            missing = set(range(ports)) - set(arrived)
            if missing:
                self._dead[trans_id, label] = missing

    @property
    def pending(self) -> int:
        """Keys that wait for a part."""
        return len(self._waiting) + len(self._held)

    def may_pair_outside(self, trans_id: int) -> bool:
        """Whether plain messages of a transaction may be paired without this: nothing waits here, and it has no say."""
        idle = not (self._waiting or self._held or self._dead)
        known = (self._poisoned and trans_id in self._poisoned) or (self._replaced and trans_id in self._replaced_ids)
        return idle and not known

    def note_pair(self, key: tuple[int, int]) -> None:
        """Count a key as complete that was paired outside."""
        self._done.add(number_of(*key))

    def poison(self, trans_id: int) -> None:
        """Drop what there is of a transaction and what is still to come: it has ended."""
        for head in {self._batch_of[key] for key in self._batch_of if key[0] == trans_id}:
            for port, part in self._split(head):
                self._waiting.setdefault(key_of(part), [[] for _ in range(self._ports)])[port].append(part)
        for waiting in [key for key in self._waiting if key[0] == trans_id]:
            del self._waiting[waiting]
        self._poisoned.add(trans_id)

    def unpoison(self, trans_id: int) -> None:
        """Stop dropping a transaction; see `poison`."""
        self._poisoned.discard(trans_id)

    def offer(self, port: int, msg: FlowMsg) -> list[MessageSet]:
        """Take a message; returns the sets it completes, oldest first."""
        if self._ports == 1:
            return [(msg,)] if self._is_wanted(port, msg) else []
        if not self._held and not msg.aux.members:  # as nearly always: no batch here, and none waits
            return self._add(port, msg) if self._is_wanted(port, msg) else []
        parts = [(port, part) for part in split_members(msg)]
        is_end = msg.info.data_flag & DataFlag.END
        if len(parts) > 1 and not is_end and self._can_hold(port, msg):
            return self._hold(port, msg)
        split = {self._batch_of[part.info.key] for _, part in parts if part.info.key in self._batch_of}
        parts = [part for head in split for part in self._split(head)] + parts
        return [found for place, part in parts if self._is_wanted(place, part) for found in self._add(place, part)]

    def let_go(self, stand_in: Callable[[FlowMsg], FlowMsg]) -> None:
        """Put stand-ins without data in the place of messages that nobody wants any more.

        Args:
            stand_in: Gives one for a message, or the message itself where it is wanted.
        """
        for waiting in self._waiting.values():
            for queue in waiting:
                queue[:] = map(stand_in, queue)
        for held in self._held.values():
            for port, msg in held.items():
                held[port] = stand_in(msg)

    def clear(self) -> None:
        """Forget everything that waits or is awaited."""
        for known in (self._waiting, self._held, self._batch_of, self._dead):
            known.clear()

    def _can_hold(self, port: int, msg: FlowMsg) -> bool:
        """Whether a batch may wait, or pair, as a whole."""
        heads = {self._batch_of[key] for key in msg.keys if key in self._batch_of}
        if not heads:
            return not any((*key, False) in self._waiting or key in self._dead for key in msg.keys)
        return heads == {msg.info.key} and set(next(iter(self._held[msg.info.key].values())).keys) == set(msg.keys)

    def _hold(self, port: int, msg: FlowMsg) -> list[MessageSet]:
        head = msg.info.key
        is_known = head in self._held and port in self._held[head]
        if msg.info.data_flag & DataFlag.INJECTED and (is_known or number_of(*head) in self._done):
            return []
        held = self._held.setdefault(head, {})
        held[port] = msg
        self._batch_of.update(dict.fromkeys(msg.keys, head))
        if len(held) < self._ports:
            return []
        self._forget(head)
        for key in msg.keys:
            self._done.add(number_of(*key))
        return [tuple(held[place] for place in range(self._ports))]

    def _split(self, head: tuple[int, int]) -> list[tuple[int, FlowMsg]]:
        """The single messages that batches waiting under a head stand for."""
        held = self._forget(head)
        return [(place, part) for place, batch in held.items() for part in split_members(batch)]

    def _forget(self, head: tuple[int, int]) -> dict[int, FlowMsg]:
        held = self._held.pop(head)
        for batch in held.values():
            for key in batch.keys:
                self._batch_of.pop(key, None)
        return held

    def _is_wanted(self, port: int, msg: FlowMsg) -> bool:
        if self._dead:
            missing = self._dead.get(msg.info.key)
            if missing is not None and port in missing:
                missing.discard(port)
                if not missing:
                    del self._dead[msg.info.key]
                return False
        return not self._poisoned or msg.info.trans_id not in self._poisoned

    def _add(self, port: int, msg: FlowMsg) -> list[MessageSet]:
        key = key_of(msg)
        waiting = self._waiting.get(key)
        if msg.info.data_flag & DataFlag.INJECTED and (number_of(*key) in self._done or (waiting and waiting[port])):
            return []
        if self._replaced and (key, port) in self._replaced:
            del self._replaced[key, port]
            return []
        if waiting is None:
            waiting = self._waiting[key] = [[] for _ in range(self._ports)]
        waiting[port].append(msg)
        if msg.info.data_flag & DataFlag.INJECTED:
            self._replace(key, port)
        if all(waiting):
            complete = tuple([queue.pop(0) for queue in waiting])
            if not any(waiting):
                del self._waiting[key]
            self._done.add(number_of(*key))
            return [complete]
        other = self._waiting.get((key[0], key[1], not key[2]))
        if other is not None and not any(a and b for a, b in zip(waiting, other)):
            return [self._poison(msg)]
        return []

    def _replace(self, key: Key, port: int) -> None:
        """Remember that what was put in stands for a message that may still come."""
        self._replaced[key, port] = None
        self._replaced_ids.add(key[0])
        if len(self._replaced) > REMEMBERED:
            del self._replaced[next(iter(self._replaced))]

    def _poison(self, msg: FlowMsg) -> MessageSet:
        """End a transaction whose parts cannot pair."""
        trans_id = msg.info.trans_id
        self.poison(trans_id)
        text = "one input got a stream of parts where another got a single message, so they cannot be paired"
        error = ErrorInfo("align", text, "AlignmentError")
        info = replace(msg.info, data_flag=DataFlag.ERROR | DataFlag.NULL)
        return tuple(FlowMsg(info, None, Aux(error=error)) for _ in range(self._ports))


def number_of(trans_id: int, label: int, is_end: bool = False) -> int:
    """A key as one number: tens of thousands are remembered, and this takes half the memory."""
    return trans_id << 33 | label << 1 | is_end


def key_of(msg: FlowMsg) -> Key:
    """What a message is paired by."""
    return msg.info.trans_id, msg.info.data_label, bool(msg.info.data_flag & DataFlag.END)


def split_members(msg: FlowMsg) -> list[FlowMsg]:
    """The message without its members, and a stand-in for each member that is not its head."""
    if not msg.aux.members:
        return [msg]
    kept = msg.info.data_flag & (DataFlag.ERROR | DataFlag.INJECTED)
    flag = kept | DataFlag.NULL | (0 if kept & DataFlag.ERROR else DataFlag.SKIP)
    aux = Aux(error=msg.aux.error) if msg.aux.error else NO_AUX
    others: list[MsgInfo] = [m.info for m in msg.aux.members if m.info.key != msg.info.key]
    head = FlowMsg(msg.info, msg.body, aux, msg.block)
    return [head, *(FlowMsg(replace(info, data_flag=flag), None, aux) for info in others)]
