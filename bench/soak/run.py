"""Millions of messages through four processes that are killed and stopped all the time: none is lost unaccounted for.

usage: python bench/soak/run.py [--messages 10000000] [--secs SECONDS] [--kills KILLS] [--pause 0.05] [--seed 1]

source -> A -> B -> sink, queues of 8, messages of 64 B to 1 MB with a number each. Whenever the pause is over, one of
the four is killed (and started again) or stopped for a moment. At the end every number was seen by the sink, was
reported as lost by `reclaim`, or was never sent; the sink saw none twice and none out of order; the counters of the
queues agree with that; no block is in use. The report ends with how memory grew. Exit code 1 says that something did
not hold.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import signal
import struct
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dflow_core.errors import QueueFullError
from dflow_core.message import Block, MsgInfo
from dflow_core.spi.transport import GroupConfig, MemoryGroup, Queue
from dflow_core.testing.transport_contract.kit import Child, trans_id
from dflow_transport_shm import ShmTransport

DEPTH = 8
HOPS = ("hop 0", "hop 1", "hop 2")
SIZES = (64, 64, 64, 300, 300, 4096, 4096, 4096, 20_000, 150_528, 1 << 20)
HEAD = 256
SPARE = 64 << 20  # a group keeps so much beyond twice what is in use, before it cuts other sizes from it
LIMIT = 120.0
NOTE = struct.Struct("<qqq")
NUMBER = struct.Struct("<q")


class Notes:
    """What outlives a killed process: the source's next number, the sink's last, and how often that saw each."""

    def __init__(self, messages: int) -> None:
        self._memory = mmap.mmap(-1, NOTE.size + messages + 1)
        self.seen = np.frombuffer(self._memory, np.uint8, messages + 1, NOTE.size)
        self._words = np.frombuffer(self._memory, np.int64, 3)
        self._words[0], self._words[2] = 1, messages

    @property
    def next(self) -> int:
        return int(self._words[0])

    @next.setter
    def next(self, number: int) -> None:
        self._words[0] = number

    @property
    def goal(self) -> int:
        """The last number there will be."""
        return int(self._words[2])

    @goal.setter
    def goal(self, number: int) -> None:
        self._words[2] = number

    @property
    def last(self) -> int:
        return int(self._words[1])

    @last.setter
    def last(self, number: int) -> None:
        self._words[1] = number


def parent_lives(parent: int) -> bool:
    """Whether there is still somebody to work for."""
    return os.getppid() == parent


def put(queue: Queue, block: Block, parent: int) -> None:
    """Wait for room as long as there is somebody to work for."""
    while True:
        try:
            queue.put(block, 1)
            return
        except QueueFullError:
            if not parent_lives(parent):
                os._exit(0)


def source(notes: Notes, seed: int, parent: int) -> Callable[[MemoryGroup], None]:
    """Make messages. The number is taken before anything is done with it, so none is used twice."""

    def work(member: MemoryGroup) -> None:
        queue, rng = member.queue(HOPS[0]), random.Random(seed)
        while (number := notes.next) <= notes.goal and parent_lives(parent):
            notes.next = number + 1
            size = rng.choice(SIZES)
            block = member.alloc(HEAD + size, LIMIT)
            data = block.array(writable=True)
            data[:HEAD] = np.frombuffer(MsgInfo(trans_id=number).pack(size), np.uint8)
            NUMBER.pack_into(data, HEAD + size - NUMBER.size, number)
            put(queue, block, parent)

    return work


def stage(k: int, parent: int) -> Callable[[MemoryGroup], None]:
    """Pass on."""

    def work(member: MemoryGroup) -> None:
        here, there = member.queue(HOPS[k - 1]), member.queue(HOPS[k])
        while parent_lives(parent):
            block = here.get(1)
            if block is not None:
                put(there, block, parent)

    return work


def sink(notes: Notes, parent: int) -> Callable[[MemoryGroup], None]:
    """Note what comes, and that it comes in order."""

    def work(member: MemoryGroup) -> None:
        queue = member.queue(HOPS[-1])
        while parent_lives(parent):
            block = queue.get(1)
            if block is None:
                continue
            data = block.array()
            (number,) = NUMBER.unpack_from(data, data.size - NUMBER.size)
            if number <= notes.last:
                print(f"number {number} came after {notes.last}", file=sys.stderr, flush=True)
                os.abort()
            notes.seen[number] += 1
            notes.last = number
            del data, block

    return work


class Soak:
    """The four processes, and who kills them.

    Args:
        messages: How many.
        pause: Most seconds between two attacks.
        seed: Of everything that is random.
    """

    def __init__(self, messages: int, pause: float, seed: int) -> None:
        self._pause, self._rng = pause, random.Random(seed)
        self._transport = ShmTransport()
        self.group = self._transport.create_group(GroupConfig(memory_limit=256 << 20, max_members=16, spin_us=5))
        for name in HOPS:
            self.group.create_queue(name, DEPTH)
        self.notes = Notes(messages)
        self.lost: list[tuple[int, str]] = []
        self.counts: Counter[str] = Counter()
        self.memory = array("d")  # next number, own bytes, bytes of the group; and again
        self._fill_up()
        self._children = [self._start(role) for role in range(4)]

    def _fill_up(self) -> None:
        """Have a process take all the memory that the group may keep, and end: what grows after that is no record."""
        most = max(SIZES)
        number = 2 * (DEPTH * len(HOPS) + 4) + SPARE // most

        def work(member: MemoryGroup) -> None:
            held = [member.alloc(HEAD + most) for _ in range(number)]
            del held

        child = Child(self._transport, self.group, work)
        child.join()
        self.group.reclaim(child.pid)

    def _start(self, role: int) -> Child:
        parent = os.getpid()
        work = (
            source(self.notes, self._rng.getrandbits(32), parent),
            stage(1, parent),
            stage(2, parent),
            sink(self.notes, parent),
        )[role]
        return Child(self._transport, self.group, work)

    def _bury(self, role: int) -> None:
        """Kill one, and take back what it held."""
        child = self._children[role]
        os.kill(child.pid, signal.SIGKILL)
        code = child.join()
        if code not in (-signal.SIGKILL, 0):
            raise SystemExit(f"process {role} ended with {code}")
        self.lost += [(trans_id(lost), lost.queue) for lost in self.group.reclaim(child.pid)]

    def _attack(self, role: int) -> None:
        """Kill it, or stop it for a moment; the source may end at any time by itself."""
        if self._rng.random() < 0.2:
            os.kill(self._children[role].pid, signal.SIGSTOP)
            time.sleep(self._rng.random() * 0.005)
            os.kill(self._children[role].pid, signal.SIGCONT)
            self.counts["stops"] += 1
            return
        self._bury(role)
        self.counts["kills"] += 1
        self._children[role] = self._start(role)

    def _measure(self) -> None:
        """Bytes this process has for itself, and what the group has taken from the machine."""
        status = Path("/proc/self/status").read_text(encoding="ascii").split("RssAnon:")[1].split()
        self.memory.extend((self.notes.next, int(status[0]) * 1024, self.group.stats().bytes_backed))

    def run(self, secs: float, kills: float) -> None:
        """Until every number was used, the time is over or so many were killed, and what is on its way has come."""
        stop = time.monotonic() + secs
        while self.notes.next <= self.notes.goal:
            if time.monotonic() > stop or self.counts["kills"] >= kills:
                self.notes.goal = self.notes.next
            time.sleep(self._rng.random() * self._pause)
            self._attack(self._rng.randrange(4))
            self._measure()
        end = time.monotonic() + LIMIT
        while self._open() and time.monotonic() < end:
            time.sleep(0.01)
        for role in range(4):
            self._bury(role)

    def _open(self) -> int:
        """Messages that are still somewhere on their way."""
        reported = {number for number, queue in self.lost if queue}
        done = int(np.count_nonzero(self.notes.seen)) + sum(not self.notes.seen[number] for number in reported)
        return self.group.stats().queues[0].sent - done

    def faults(self) -> list[str]:
        """What did not hold."""
        seen = self.notes.seen
        reported = {number for number, queue in self.lost if queue}
        accounted = set(np.flatnonzero(seen).tolist()) | reported
        stats = self.group.stats()
        found = []
        if int(seen.max()) > 1:
            found.append(f"{np.count_nonzero(seen > 1)} messages came twice")
        if len(accounted) != stats.queues[0].sent:
            found.append(f"{stats.queues[0].sent} were sent, {len(accounted)} are accounted for")
        by_queue = Counter(queue for _, queue in self.lost if queue)
        for queue in stats.queues:
            if queue.sent != queue.delivered + queue.dropped + queue.failed + queue.level or queue.level:
                found.append(f"counters do not agree: {queue}")
            if queue.failed != by_queue[queue.name]:
                found.append(f"{by_queue[queue.name]} of {queue.name!r} reported, {queue.failed} counted as failed")
        if stats.blocks_in_use or stats.holders:
            found.append(f"{stats.blocks_in_use} blocks are in use: {stats.holders}")
        return found

    def report(self) -> str:
        """How it went."""
        seen = int(np.count_nonzero(self.notes.seen))
        reported = {number for number, queue in self.lost if queue}
        doubt = sum(bool(self.notes.seen[number]) for number in reported)
        sent = self.group.stats().queues[0].sent
        numbers = self.notes.next - 1
        return (
            f"{numbers:,} numbers, {sent:,} sent, {seen:,} seen, {len(reported)} reported as lost "
            f"({doubt} of them had been seen), {numbers - sent} never sent\n"
            f"{self.counts['kills']} kills, {self.counts['stops']} stops\n"
            + "\n".join(
                f"memory of {name}: {slope / 1e6:+.3f} MB a million messages in the second half, +- {noise / 1e6:.3f}; "
                f"{most / 1e6:.1f} MB at most"
                for name, (slope, noise, most) in zip(("the supervisor", "the group"), growth(self.memory))
            )
        )


def growth(samples: array[float]) -> list[tuple[float, float, float]]:
    """Bytes a million messages over the second half, two standard errors of that, and the most: of either memory."""
    table = np.array(samples).reshape(-1, 3)
    half = table[len(table) // 2 :]
    found = []
    x = (half[:, 0] - half[:, 0].mean()) / 1e6
    spread = float((x * x).sum()) or 1.0
    for column in (1, 2):
        y = half[:, column] - half[:, column].mean()
        slope = float((x * y).sum()) / spread
        rest = y - slope * x
        noise = 2 * float(np.sqrt((rest * rest).sum() / max(1, len(half) - 2) / spread))
        found.append((slope, noise, float(table[:, column].max())))
    return found


def main() -> int:
    """Run, report, say whether all held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--pause", type=float, default=0.05, help="most seconds between two attacks")
    parser.add_argument("--secs", type=float, default=float("inf"), help="end after so many seconds at the latest")
    parser.add_argument("--kills", type=float, default=float("inf"), help="end after so many kills at the latest")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    soak = Soak(args.messages, args.pause, args.seed)
    start = time.monotonic()
    soak.run(args.secs, args.kills)
    faults = soak.faults()
    print(soak.report())
    print(f"{time.monotonic() - start:.1f} s; " + ("nothing unaccounted for" if not faults else "\n".join(faults)))
    soak.group.close()
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
