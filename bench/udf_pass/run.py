"""What a C++ function costs: 4 KB messages from a native source through it to a native sink, beside a bare relay.

Three processes each time. The bare relay takes from one queue and puts into the next, which is what any node must do;
the CPU time a message takes in its process is what the function's is compared with. A relay that works a little on each
message falls behind its sink, which then sleeps and has to be woken: the busy relay shows what that alone costs. The
last line is the runtime without any transport: queues that give and take at once, in one process.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from dflow_core.spi import GroupConfig, GroupHandle, NativeTable, include_dir
from dflow_pne_udf import sdk_dir
from dflow_pne_udf.native import seam
from dflow_transport_shm.transport import ShmTransport

HERE = Path(__file__).resolve().parent
DEPTH, SIZE = 128, 4096
BUSY = 0.4e-6
"""Seconds the busy relay works on a message: about what the runtime does itself."""
Role = Callable[[int, ctypes.CDLL], float]


def main() -> None:
    """Measure in turn and print medians."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--messages", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ends, library = build(Path(folder))
        kinds: dict[str, Role] = {
            "bare relay": relay(0.0), "busy relay": relay(BUSY), "C++ function": function(library),
        }
        found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for _ in range(given.rounds):
            for kind, middle in kinds.items():
                found[kind].append(measure(ends, middle, given.messages))
        show(found)
        alone(Path(folder), library, given.messages)


def build(folder: Path) -> tuple[Path, Path]:
    """Compile the ends and the function."""
    ends, library = folder / "ends.so", folder / "libpass.so"
    shared = ["-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *shared, f"-I{include_dir()}", str(HERE / "ends.c"), "-o", str(ends)], check=True)
    sdk = ["-std=c++11", f"-I{sdk_dir.root() / 'include'}", f"-L{sdk_dir.library().parent}"]
    command = ["g++", *shared, *sdk, str(HERE / "pass.cc"), "-lflow_func", "-o", str(library)]
    subprocess.run(command, check=True)
    return ends, library


def measure(ends: Path, middle: Role, count: int) -> tuple[float, float]:
    """Messages a second, and microseconds of CPU a message in the middle."""
    transport = ShmTransport()
    group = transport.create_group(GroupConfig())
    try:
        for name in ("in", "out"):
            group.create_queue(name, DEPTH)
        roles: list[Role] = [
            lambda table, code: float(code.source(table, 0, count, SIZE)), middle,
            lambda table, code: float(code.sink(table, 1, count)),
        ]
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
        return answers[2][0], answers[1][1] / count * 1e6
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
    result = role(table.address, code)
    after = resource.getrusage(resource.RUSAGE_SELF)
    answer.send((result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    group.close()


def relay(busy: float) -> Role:
    """The least a node can do, and some work on each message."""
    return lambda table, code: float(code.relay(table, 0, 1, busy))


def function(library: Path) -> Role:
    """The C++ function in the native runtime."""

    def run(table: int, _code: ctypes.CDLL) -> float:
        api = seam.runtime()
        func = seam.Func(b"pass", _numbers(0), _numbers(0), 1, 1)
        route = seam.RouteList(_numbers(1), 1)
        output = seam.Output(ctypes.pointer(route), 1)
        config = seam.Config(
            api=seam.API, transport=table, library=str(library).encode(), node=b"pass", funcs=ctypes.pointer(func),
            inputs=_numbers(0), outputs=ctypes.pointer(output), n_funcs=1, n_inputs=1, n_outputs=1, align_timeout_ms=-1,
        )
        udf = ctypes.c_void_p()
        assert api.dflow_udf_open(ctypes.byref(config), ctypes.byref(udf)) == 0, api.dflow_udf_last_error()
        assert api.dflow_udf_wait(udf, seam.LOADING, 60 * 10**9) == seam.READY
        assert api.dflow_udf_start(udf) == 0
        state = seam.READY
        while state < seam.FINISHED:
            state = api.dflow_udf_wait(udf, state, 60 * 10**9)
        api.dflow_udf_close(udf)
        return float(state)

    return run


def alone(folder: Path, library: Path, count: int) -> None:
    """The runtime without a transport, CPU time per message."""
    program = folder / "alone"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", f"-I{sdk_dir.root() / 'include'}", f"-I{include_dir()}"]
    where = sdk_dir.library().parent
    link = [f"-L{where}", "-lflow_func", f"-Wl,-rpath,{where}"]
    subprocess.run(["gcc", *flags, str(HERE / "alone.c"), *link, "-o", str(program)], check=True)
    done = subprocess.run([str(program), str(library), str(count)], check=True, capture_output=True, text=True)
    print(f"{'runtime alone':16}{'':12}{float(done.stdout):16.2f}")


def _numbers(*values: int) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * len(values))(*values)


def show(found: dict[str, list[tuple[float, float]]]) -> None:
    """A table of medians."""
    print(f"{'':16}{'messages/s':>12}{'CPU us/message':>16}")
    for kind, pairs in found.items():
        rate, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{kind:16}{rate:12.0f}{cpu:16.2f}")


if __name__ == "__main__":
    main()
