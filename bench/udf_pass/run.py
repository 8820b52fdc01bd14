"""What C++ functions cost.

`pass`: 4 KB messages from a native source through one to a native sink, beside a bare relay; three processes each
time. The bare relay takes from one queue and puts into the next, which any node must do; the CPU time a message
takes in its process is what the function's is compared with. A relay that works a little on each message falls behind
its sink, which then sleeps and has to be woken: the busy relay shows what that alone costs. The last line is the
runtime without any transport: queues that give and take at once, in one process.

`chain`: three of them one behind the other, fed and fetched from Python, beside the two Python ends without anything in
between. Five processes on two CPUs do not run side by side: the least time a message can take is then the CPU time of
all processes over the number of CPUs, or that of the busiest one if it is more. The ratio tells how near they come.

`add`: the sum of two float tensors of 6 MB, beside the same loop over memory of one's own, both in a function: over one
place, which stays in the caches, and over eight in turn, which are as far away as messages that have just come.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import multiprocessing
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from dflow_core.message import MsgInfo, encode
from dflow_core.spi import GroupConfig, GroupHandle, NativeTable, include_dir
from dflow_pne_udf import sdk_dir
from dflow_pne_udf.native import seam
from dflow_transport_shm.group import ShmGroup
from dflow_transport_shm.transport import ShmTransport

HERE = Path(__file__).resolve().parent
DEPTH, SIZE = 128, 4096
WIDE, WIDE_DEPTH = 6_000_000, 4
TRANS_ID = 192
BUSY = 0.4e-6
"""Seconds the busy relay works on a message: about what the runtime does itself."""
CHAIN = ("in", "b", "c", "out")


@dataclass(frozen=True, slots=True)
class Place:
    """What a process works with."""

    group: ShmGroup
    table: int
    ends: ctypes.CDLL


Role = Callable[[Place], float]


def main() -> None:
    """Measure in turn and print medians."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--messages", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", nargs="*", choices=["pass", "chain", "add"], default=["pass", "chain", "add"])
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ends, library = build(Path(folder))
        if "pass" in given.only:
            passed(ends, library, given.messages, given.rounds)
            alone(Path(folder), library, given.messages)
        if "chain" in given.only:
            chain(ends, library, given.messages // 10, given.rounds)
        if "add" in given.only:
            add(ends, library, max(20, given.messages // 5000), given.rounds)


def passed(ends: Path, library: Path, count: int, rounds: int) -> None:
    """One function between native ends, and what it is compared with."""
    middle = function(library, "pass", ("in",), "out")
    kinds = {"bare relay": relay(0.0), "busy relay": relay(BUSY), "C++ function": middle}
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, middle in kinds.items():
            roles: list[Role] = [
                lambda place: float(place.ends.source(place.table, 0, count, SIZE)), middle,
                lambda place: float(place.ends.sink(place.table, 1, count)),
            ]
            _, (_, cpu), (rate, _) = measure(ends, roles, {"in": DEPTH, "out": DEPTH})
            found[kind].append((rate, cpu / count * 1e6))
    show(found, "CPU us/message")


def chain(ends: Path, library: Path, count: int, rounds: int) -> None:
    """Three functions between Python ends, and the ends alone."""
    functions: list[Role] = [function(library, "pass", (a,), b) for a, b in itertools.pairwise(CHAIN)]
    found: dict[str, list[tuple[float, float]]] = {"Python hop": [], "with 3 functions": []}
    spent: dict[str, list[list[float]]] = {kind: [] for kind in found}
    for _ in range(rounds):
        for (kind, seen), middle in zip(found.items(), ([], functions), strict=True):
            last = CHAIN[len(middle)]
            roles = [python_source("in", count), *middle, python_sink(last, count)]
            done = measure(ends, roles, dict.fromkeys(CHAIN, DEPTH))
            seen.append((done[-1][0], (done[0][1] + done[-1][1]) / count * 1e6))
            spent[kind].append([cpu / count * 1e6 for _, cpu in done])
    show(found, "CPU us of the ends")
    clocks = {kind: statistics.median(1e6 / rate for rate, _ in pairs) for kind, pairs in found.items()}
    for kind, rows in spent.items():
        show_limit(kind, clocks[kind], [statistics.median(column) for column in zip(*rows, strict=True)])
    print(f"by the clock: {clocks['with 3 functions'] / clocks['Python hop']:.2f} of the Python hop")


def show_limit(kind: str, clock: float, spent: Sequence[float]) -> None:
    """What each process spends on a message, the least time that allows, and how near it is; microseconds."""
    least = max(*spent, sum(spent) / len(os.sched_getaffinity(0)))
    each = " + ".join(f"{cpu:.2f}" for cpu in spent)
    print(f"{kind}: CPU us {each} = {sum(spent):.2f}; least {least:.2f}, took {clock:.2f}: {clock / least:.2f}")


def add(ends: Path, library: Path, count: int, rounds: int) -> None:
    """The sum of two wide tensors, and the same loop over plain memory."""
    found: dict[str, list[tuple[float, float]]] = {"one place": [], "eight places": [], "tensors": []}
    for _ in range(rounds):
        for seen, name in zip(found.values(), ("near", "far", "add"), strict=True):
            roles: list[Role] = [
                lambda place: float(place.ends.source(place.table, 0, count, WIDE)),
                lambda place: float(place.ends.source(place.table, 1, count, WIDE)),
                function(library, name, ("a", "b"), "c"),
                lambda place: float(place.ends.sink(place.table, 2, count)),
            ]
            *_, (busy, _), (rate, _) = measure(ends, roles, dict.fromkeys("abc", WIDE_DEPTH))
            seen.append((rate, busy / count * 1e6))
    show(found, "us in the function")


def build(folder: Path) -> tuple[Path, Path]:
    """Compile the ends and the functions."""
    ends, library = folder / "ends.so", folder / "libpass.so"
    shared = ["-O2", "-ftree-vectorize", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *shared, f"-I{include_dir()}", str(HERE / "ends.c"), "-o", str(ends)], check=True)
    sdk = ["-std=c++11", f"-I{sdk_dir.root() / 'include'}", f"-L{sdk_dir.library().parent}"]
    sources = [str(HERE / name) for name in ("pass.cc", "add.cc")]
    subprocess.run(["g++", *shared, *sdk, *sources, "-lflow_func", "-o", str(library)], check=True)
    return ends, library


def measure(ends: Path, roles: Sequence[Role], queues: Mapping[str, int]) -> list[tuple[float, float]]:
    """What each role gave in a process of its own, and seconds of CPU time it took."""
    transport = ShmTransport()
    group = transport.create_group(GroupConfig())
    try:
        for name, depth in queues.items():
            group.create_queue(name, depth)
        pipes = [multiprocessing.Pipe() for _ in roles]
        fork = multiprocessing.get_context("fork")
        handle = group.handle()
        parts = [(handle, ends, role, pipe[1]) for role, pipe in zip(roles, pipes, strict=True)]
        workers = [fork.Process(target=work, args=part) for part in parts]
        for worker in workers:
            worker.start()
        answers = [pipe[0].recv() for pipe in pipes]
        for worker in workers:
            worker.join()
        return answers
    finally:
        group.close()


def work(handle: GroupHandle, ends: Path, role: Role, answer: Connection) -> None:
    """One process: attach, do its part, say what it gave and what CPU time it took."""
    group = ShmTransport().attach(handle, list(handle.fds), "bench")
    table: NativeTable = group.native_table()
    code = ctypes.CDLL(str(ends))
    code.source.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64]
    code.relay.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_double]
    code.sink.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64]
    code.sink.restype = ctypes.c_double
    before = resource.getrusage(resource.RUSAGE_SELF)
    result = role(Place(group, table.address, code))
    after = resource.getrusage(resource.RUSAGE_SELF)
    answer.send((result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    group.close()


def python_source(name: str, count: int) -> Role:
    """Feeds tensors of 4 KB from Python."""

    def run(place: Place) -> float:
        alloc, put = place.group.alloc, place.group.queue(name).put
        block = encode(np.zeros(SIZE // 4, np.float32), MsgInfo(1)).block
        assert block is not None
        first = block.array()
        head, size = first[: first.size - SIZE], first.size
        for number in range(1, count + 1):
            block = alloc(size, None)
            data = block.array(writable=True)
            data[: head.size] = head
            data[TRANS_ID : TRANS_ID + 8].view(np.uint64)[0] = number
            put(block)
        place.group.queue(name).close()
        return 0.0

    return run


def python_sink(name: str, count: int) -> Role:
    """Fetches them; messages a second between the first and the last."""

    def run(place: Place) -> float:
        get, start = place.group.queue(name).get, 0.0
        for number in range(count):
            block = get()
            assert block is not None
            block.array()
            if number == 0:
                start = time.perf_counter()
        return (count - 1) / (time.perf_counter() - start)

    return run


def relay(busy: float) -> Role:
    """The least a node can do, and some work on each message."""
    return lambda place: float(place.ends.relay(place.table, 0, 1, busy))


def function(library: Path, name: str, inputs: Sequence[str], output: str) -> Role:
    """A C++ function in the native runtime, from queues to a queue; seconds it was busy."""

    def run(place: Place) -> float:
        api = seam.runtime()
        ports = _numbers(*range(len(inputs)))
        func = seam.Func(name.encode(), ports, _numbers(0), len(inputs), 1)
        route = seam.RouteList(_numbers(seam.find_queue(place.table, output)), 1)
        outputs = seam.Output(ctypes.pointer(route), 1)
        config = seam.Config(
            api=seam.API, transport=place.table, library=str(library).encode(), node=name.encode(),
            funcs=ctypes.pointer(func), n_funcs=1, outputs=ctypes.pointer(outputs),
            inputs=_numbers(*(seam.find_queue(place.table, queue) for queue in inputs)),
            n_inputs=len(inputs), n_outputs=1, align_timeout_ms=-1,
        )
        udf, stats = ctypes.c_void_p(), seam.Stats()
        assert api.dflow_udf_open(ctypes.byref(config), ctypes.byref(udf)) == 0, api.dflow_udf_last_error()
        assert api.dflow_udf_wait(udf, seam.LOADING, 60 * 10**9) == seam.READY
        assert api.dflow_udf_start(udf) == 0
        state = seam.READY
        while state < seam.FINISHED:
            state = api.dflow_udf_wait(udf, state, 60 * 10**9)
        api.dflow_udf_get_stats(udf, -1, ctypes.byref(stats))
        api.dflow_udf_close(udf)
        place.group.queue(output).close()
        return float(stats.busy_ns) / 1e9

    return run


def alone(folder: Path, library: Path, count: int) -> None:
    """The runtime without a transport, CPU time per message."""
    program = folder / "alone"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", f"-I{sdk_dir.root() / 'include'}", f"-I{include_dir()}"]
    where = sdk_dir.library().parent
    link = [f"-L{where}", "-lflow_func", f"-Wl,-rpath,{where}"]
    subprocess.run(["gcc", *flags, str(HERE / "alone.c"), *link, "-o", str(program)], check=True)
    done = subprocess.run([str(program), str(library), str(count)], check=True, capture_output=True, text=True)
    print(f"{'runtime alone':18}{'':12}{float(done.stdout):20.2f}")


def _numbers(*values: int) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * len(values))(*values)


def show(found: dict[str, list[tuple[float, float]]], what: str) -> None:
    """A table of medians."""
    print(f"{'':18}{'messages/s':>12}{what:>20}")
    for kind, pairs in found.items():
        rate, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{kind:18}{rate:12.0f}{cpu:20.2f}")


if __name__ == "__main__":
    main()
