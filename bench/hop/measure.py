"""One measurement of one line: rates, round trips, the latency of a lone message."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from channels import Bytes, End, Line
from peers import CONTEXT

GO_ON, START_CLOCK, LAST = 0, 1, 2
LIMIT = 15
PERIOD = 0.005
COLD = 20
_STAMP = struct.Struct("<q")


def source(line: Line, report: Any, warm: float, secs: float) -> None:
    """Send for `warm` seconds so that all memory is in use, then for `secs`; first bytes say what begins or ends."""
    end = line.end(0)
    count = send_for(end, warm, 0)
    count = send(end, START_CLOCK, count)
    count = send_for(end, secs, count)
    send(end, LAST, count)
    end.finish()


def send(end: End, mark: int, count: int) -> int:
    """One message; returns the number of the next."""
    array = end.loan()
    array[0] = mark
    array[-1] = count & 127
    end.send()
    return count + 1


def send_for(end: End, secs: float, count: int) -> int:
    """Messages for so many seconds, written out as a loop since a call would count as cost of the channel."""
    stop = time.perf_counter() + secs
    while True:
        array = end.loan()
        array[0] = GO_ON
        array[-1] = count & 127
        end.send()
        count += 1
        if not count & 15 and time.perf_counter() > stop:
            return count


def stage(line: Line, report: Any, k: int) -> None:
    """Pass on."""
    end = line.end(k)
    report.send("ready")
    while True:
        last = end.recv()[0] == LAST
        end.forward()
        if last:
            break
    end.finish()


def sink(line: Line, report: Any, k: int) -> None:
    """Count, check, report the rate."""
    end = line.end(k)
    report.send("ready")
    start, first, count = 0.0, 0, 0
    while True:
        array = end.recv()
        mark = array[0]
        if array[-1] != count & 127:
            raise SystemExit(f"message {count} is missing")
        del array
        end.release()
        count += 1
        if mark:
            if mark == LAST:
                break
            start, first = time.perf_counter(), count
    report.send([(count - first) / (time.perf_counter() - start)])
    end.finish()


def paced(line: Line, report: Any, count: int) -> None:
    """A message now and then, with the time in it."""
    end = line.end(0)
    time.sleep(0.3)
    for number in range(COLD + count):
        time.sleep(PERIOD)
        array = end.loan()
        array[0] = LAST if number == COLD + count - 1 else GO_ON
        stamp(array)
        end.send()
    end.finish()


def stamp(array: Bytes) -> None:
    """Write the time behind the first byte."""
    _STAMP.pack_into(array, 8, time.monotonic_ns())


def age(array: Bytes) -> float:
    """Microseconds since `stamp`."""
    return (time.monotonic_ns() - _STAMP.unpack_from(array, 8)[0]) / 1e3


def listen(line: Line, report: Any, k: int) -> None:
    """Report how old messages are when they come; the first ones find memory nobody has touched, and are left out."""
    end = line.end(k)
    report.send("ready")
    ages = []
    while True:
        array = end.recv()
        ages.append(age(array))
        last = array[0] == LAST
        del array
        end.release()
        if last:
            break
    report.send(quantiles(ages[COLD:]))
    end.finish()


def ask(line: Line, report: Any, secs: float, pause: float) -> None:
    """Round trips through the stage beside us, for so many seconds; `pause` seconds lie between them."""
    there, back = line.end(0), line.end(2)
    time.sleep(0.3)
    times: list[float] = []
    stop = time.perf_counter() + secs
    last = False
    while not last:
        last = time.perf_counter() > stop and len(times) > 20
        if pause:
            time.sleep(pause)
        start = time.perf_counter_ns()
        array = there.loan()
        array[0] = LAST if last else GO_ON
        array[-1] = 1
        there.send()
        answer = back.recv()
        answer[-1]
        del answer
        back.release()
        times.append((time.perf_counter_ns() - start) / 1e3)
    report.send(quantiles(times[len(times) // 10 :]))
    there.finish()


def quantiles(values: Sequence[float]) -> list[float]:
    """Half of the values and 99 % of them are at most this."""
    ordered = sorted(values)
    return [ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]]


Work = tuple[Callable[..., None], tuple[Any, ...]]


def chain(line: Any, works: Sequence[Work]) -> list[float]:
    """Run `works`, one process each: all but the last wait for messages and are started first; returns what came."""
    receiver, sender = CONTEXT.Pipe(False)
    processes = [CONTEXT.Process(target=work, args=(line, sender, *args)) for work, args in works]
    try:
        for process in processes[:-1]:
            process.start()
            receive(receiver, process)
        processes[-1].start()
        return receive(receiver, processes[-1])  # type: ignore[no-any-return]
    finally:
        started = [process for process in processes if process.pid]
        for process in started:
            process.terminate()
        for process in started:
            process.join(2)
            process.kill()
            process.join()
        receiver.close()
        sender.close()
        line.close()


def receive(receiver: Any, process: Any) -> Any:
    """What a process of the chain has to say."""
    if not receiver.poll(LIMIT):
        raise TimeoutError(f"no answer within {LIMIT} s (exit code of the process: {process.exitcode})")
    return receiver.recv()


def rate(line: Line, hops: int, warm: float, secs: float) -> list[float]:
    """Messages a second through a chain of `hops` queues, flat out."""
    stages: list[Work] = [(stage, (k,)) for k in range(hops - 1, 0, -1)]
    return chain(line, [(sink, (hops,)), *stages, (source, (warm, secs))])


def lone(line: Line, hops: int, count: int) -> list[float]:
    """Microseconds of a message through a chain of `hops` queues in which nothing else moves: p50, p99."""
    stages: list[Work] = [(stage, (k,)) for k in range(hops - 1, 0, -1)]
    return chain(line, [(listen, (hops,)), *stages, (paced, (count,))])


def round_trip(line: Line, secs: float, pause: float = 0.0) -> list[float]:
    """Microseconds from process to process and back: p50, p99. The line has two hops."""
    return chain(line, [(stage, (1,)), (ask, (secs, pause))])


@contextlib.contextmanager
def busy_cpus() -> Iterator[None]:
    """A process that never sleeps for every CPU, meanwhile."""
    pids = []
    try:
        for _ in os.sched_getaffinity(0):
            pid = os.fork()
            while not pid:
                if os.getppid() == 1:
                    os._exit(0)
            pids.append(pid)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
