"""Moves messages between queues, link and intake: what one turn of the gateway's thread does. It never waits."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from dflow_core.errors import ClosedError, DflowError
from dflow_core.executor.cancel_board import BOARD, WORDS, BoardCopy, no_words
from dflow_core.executor.gateway import words
from dflow_core.executor.gateway.arrival import Arrival
from dflow_core.executor.gateway.flow import Outgoing
from dflow_core.executor.gateway.intake import End, Frame, Intake
from dflow_core.executor.lossy import NOTICE_SLICE, LossySender, flush, reader, sender, waitable
from dflow_core.message import Block, HeapBlock, message_size
from dflow_core.spi import FIRST_DATA_LANE, GATEWAY_LANE, GatewayEvents, GatewayPlan, Link, MemoryGroup, Queue

_IDLE = 1.0
"""Seconds of a wait; whatever happens ends it early."""


@dataclass(frozen=True, slots=True)
class Waits:
    """What to wait for before the next turn: queues, or a limit (seconds), or memory, which rings no bell.

    Args:
        readable, writable, timeout: As for a doorbell; the limit is 0 where a message waits for memory.
        memory: Size of the block it needs; 0 where none does.
    """

    readable: Sequence[Queue]
    writable: Sequence[Queue]
    timeout: float
    memory: int


@dataclass(slots=True)
class _Departure:
    lane: int
    queue: Queue
    flow: Outgoing


class Mover:
    """Belongs to one thread at a time.

    Args:
        group: The memory group of this machine.
        link: The link.
        plan: What crosses.
        events: Who is to hear of what happens; `news` says when.
        intake: What the link has brought.
    """

    def __init__(
        self, group: MemoryGroup, link: Link, plan: GatewayPlan, events: GatewayEvents, intake: Intake
    ) -> None:
        self._link, self._peer, self._events, self._intake = link, link.peer, events, intake
        notices = {queue.name: queue.notices for queue in plan.queues if queue.notices}
        ages = {queue.name: queue.max_age for queue in plan.queues}
        self._departures: dict[int, _Departure] = {}
        self._arrivals: dict[int, Arrival] = {}
        for lane, crossing in enumerate(plan.crossings, FIRST_DATA_LANE):
            name = crossing.queue
            if crossing.source == plan.machine:
                self._departures[lane] = _Departure(lane, reader(group, name, notices), Outgoing())
            else:
                queue = sender(group, name, notices, ages.get(name, 0.0))
                self._arrivals[lane] = Arrival(group, queue, plan)
        self._board = BoardCopy(group.board(BOARD, WORDS))
        # The application's machine alone writes its board: what it says goes out, and is copied on the others.
        self._tells_cancelled, self._told = not plan.machine, 0
        self._is_over = False
        self._news: list[Callable[[], None]] = []

    def turn(self) -> None:
        """Move what can be moved now."""
        for item in self._intake.take():
            self._heed(item)
        for lane, arrival in self._arrivals.items():
            if arrival.flow.waiting:
                self._settle(lane, arrival.put())
        flush(arrival.queue for arrival in self._arrivals.values())
        for arrival in self._arrivals.values():
            if not _is_pending(arrival.queue) and arrival.flow.is_over():
                self._news.append(partial(self._events.ended, arrival.queue.name))
        self._talk(all_credits=False)

    def news(self) -> list[Callable[[], None]]:
        """Calls to make now, by the gateway's thread and without a lock that others wait for."""
        news, self._news = self._news, []
        return news

    def waits(self) -> Waits:
        """What to wait for now."""
        arrivals = [arrival for arrival in self._arrivals.values() if arrival.is_full]
        departures = [] if self._is_over else [d.queue for d in self._departures.values() if d.flow.may_send]
        # Messages grow too old, and notices find room, without a bell.
        is_slow = any(_is_pending(a.queue) or (a.is_full and _is_lossy(a.queue)) for a in self._arrivals.values())
        memory = next((arrival.needs for arrival in self._arrivals.values() if arrival.needs), 0)
        timeout = 0.0 if memory else NOTICE_SLICE if is_slow else _IDLE
        return Waits(waitable(departures), waitable(arrival.queue for arrival in arrivals), timeout, memory)

    def use(self, block: Block) -> None:
        """Use a block for the message that needs one of its size; there may be none any more."""
        for lane, arrival in self._arrivals.items():
            if arrival.needs == block.nbytes:
                arrival.move_to(block)
                self._settle(lane, 1)
                return

    def discard(self) -> bool:
        """Throw away what leaves and has arrived; whether there was nothing, here and on the way."""
        for item in self._intake.take():
            self._heed(item)
        found = False
        for lane, arrival in self._arrivals.items():
            while arrival.flow.waiting:
                found = True
                self._settle(lane, isinstance(arrival.flow.take(), HeapBlock))
            arrival.is_full = False
        for departure in self._departures.values():
            found |= _emptied(departure)
        self._talk(all_credits=True)
        is_pending = flush(arrival.queue for arrival in self._arrivals.values())
        on_the_way = not self._is_over and not all(d.flow.is_quiet for d in self._departures.values())
        return not (found or is_pending or on_the_way) and self._intake.is_empty

    def let_go(self) -> None:
        """Hold nothing any more, so that the memory can go."""
        self._board = BoardCopy(no_words())
        self._departures.clear()
        self._arrivals.clear()

    def _settle(self, lane: int, count: int) -> None:
        for _ in range(count):
            self._intake.settled(lane)

    # What the link has brought.

    def _heed(self, item: Frame | End) -> None:
        if isinstance(item, End):
            self._lose(item.error)
        elif item.lane == GATEWAY_LANE:
            self._heed_word(item.head)
        elif item.lane not in self._arrivals or item.head not in (words.MESSAGE, words.ENDED):
            raise words.unknown(self._peer, item.lane, item.head)
        elif item.block is not None:
            self._arrivals[item.lane].flow.waiting.append(item.block)
        else:
            self._arrivals[item.lane].flow.end()

    def _heed_word(self, head: bytes) -> None:
        if head.startswith(words.GRANTED):
            for crossing, count in words.credits_of(head):
                self._departures[FIRST_DATA_LANE + crossing].flow.grant(count)
        elif head.startswith(words.CANCELLED):
            self._board.write(head[len(words.CANCELLED) :])
            self._news.append(self._events.cancelled)
        else:
            raise words.unknown(self._peer, GATEWAY_LANE, head)

    # What goes to the link.

    def _talk(self, *, all_credits: bool) -> None:
        """Send credits, what was cancelled, and messages."""
        if self._is_over:
            return
        try:
            self._grant(all_credits)
            self._tell_cancelled()
            for departure in self._departures.values():
                if departure.flow.may_send:
                    self._send(departure)
        except ClosedError:
            self._lose(None)
        except DflowError as error:
            traceback.clear_frames(error.__traceback__)  # else the message lives as long as the error
            self._lose(error)

    def _grant(self, all_credits: bool) -> None:
        credits = {
            lane - FIRST_DATA_LANE: count
            for lane, arrival in self._arrivals.items()
            if (count := arrival.flow.owed(all_of_it=all_credits))
        }
        if credits:
            self._link.send(GATEWAY_LANE, words.granted(credits))

    def _tell_cancelled(self) -> None:
        if self._tells_cancelled and (epoch := self._board.epoch) != self._told:
            self._told = epoch  # what changes meanwhile changes the epoch afterwards
            self._link.send(GATEWAY_LANE, words.CANCELLED + self._board.pack())

    def _send(self, departure: _Departure) -> None:
        """Send the messages there are credits for, one reference less each: the link holds it as long as it has to."""
        lane, queue, flow = departure.lane, departure.queue, departure.flow
        while flow.credit:
            try:
                block = queue.get(0.0)
            except ClosedError:
                flow.has_ended = True
                self._link.send(lane, words.ENDED)
                return
            if block is None:
                return
            self._tell_cancelled()  # after the message was taken: what was cancelled before it was sent goes ahead
            data = memoryview(block.array())
            self._link.send(lane, words.MESSAGE, data[: message_size(data)])
            flow.credit -= 1

    def _lose(self, error: DflowError | None) -> None:
        """The link is over; what has arrived still goes into its queue."""
        if self._is_over:
            return
        self._is_over = True
        if error is not None:
            self._news.append(partial(self._events.failed, error))


def _is_pending(queue: Queue) -> bool:
    return isinstance(queue, LossySender) and queue.pending


def _is_lossy(queue: Queue) -> bool:
    return isinstance(queue, LossySender)


def _emptied(departure: _Departure) -> bool:
    """Take everything out of an outbox; whether there was something. That it was closed is seen at the next turn."""
    found = False
    try:
        while departure.queue.get(0.0) is not None:
            found = True
    except ClosedError:
        pass
    return found
