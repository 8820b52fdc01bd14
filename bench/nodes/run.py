"""What nodes cost besides their work: CPU per message, idle CPU, memory, start and compile times.

    python bench/nodes/run.py [--rounds 5] [loop|messages|caller|idle|start|compile|record ...]

`loop` runs the loop of a node in this process over full queues, and beside it a loop that only takes and puts: no
process sleeps or wakes, so this is what the node itself costs. `messages` does the same with processes: it
recirculates blocks through a graph's queues, without the caller's side, and reads the CPU time of the executors from
the kernel. The same loop over a process that only takes from one queue and puts into the next is the bare queue; what
is above it is the node. Medians over rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import dflow_core as df
from dflow_core.executor import InstanceRunner
from dflow_core.message import MsgInfo, encode, root_token
from dflow_core.model import InstancePlan, Route, UdfModel
from dflow_core.session import DFlowSession
from dflow_core.spi import GroupConfig, GroupHandle, MemoryGroup, Queue
from dflow_core.types import FuncSpec
from dflow_core.udf import MethodSpec, PythonFunc, python_funcs
from dflow_transport_shm import ShmTransport

COUNT, WINDOW, IDLE, FULL = 20_000, 8, 5.0, 500
ITEM = np.zeros(1024, np.float32)


@df.pyflow
def same(x):
    return x


@df.pyflow
def more(x):
    return x + 1


@df.pyflow
def two(x) -> tuple[np.ndarray, np.ndarray]:
    return x, x


@df.pyflow
def first(x, y):
    return x


@df.pyflow
def count(x):
    return x.size


def chain(size: int, function=same) -> df.FlowGraph:
    """A graph of nodes in a row."""
    value = df.FlowData("x")
    for i in range(size):
        value = function.fnode(f"node{i}")(value)
    return df.FlowGraph([value], {"cache": "0"})


def diamond() -> df.FlowGraph:
    """Two branches that meet again: a node with two outputs, and a join."""
    a, b = two.fnode("two")(df.FlowData("x"))
    return df.FlowGraph([first.fnode("join")(a, b)], {"cache": "0"})


def cpu_of(pid: int) -> float:
    """Microseconds of CPU that the threads of a process have had."""
    stats = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(stat.read_text().split()[0]) for stat in stats) / 1000


def circulate(group: MemoryGroup, source: Queue, sink: Queue, messages: int) -> None:
    """Send messages round, a window of them under way; each time with an id of its own."""
    for number in range(1, messages + 1):
        if number > WINDOW:
            sink.get(10.0)
        block = encode(ITEM, MsgInfo(trans_id=number, token=root_token(number)), group.alloc).block
        assert block is not None
        source.put(block, 10.0)
    for _ in range(min(WINDOW, messages)):
        sink.get(10.0)


def relay(token: bytes, fd: int) -> None:
    """The bare queue."""
    group = ShmTransport().attach(GroupHandle("shm", token, (fd,)), [fd])
    source, sink = group.queue("in"), group.queue("out")
    with contextlib.suppress(df.ClosedError):
        while True:
            sink.put(source.get())


def bare() -> float:
    """Microseconds of CPU per message of a process that only passes blocks on."""
    group = ShmTransport().create_group(GroupConfig(memory_limit=1 << 28))
    source, sink = group.create_queue("in", WINDOW), group.create_queue("out", WINDOW)
    handle = group.handle()
    child = get_context("fork").Process(target=relay, args=(handle.token, handle.fds[0]))
    child.start()
    circulate(group, source, sink, 500)
    before = cpu_of(child.pid)
    circulate(group, source, sink, COUNT)
    used = cpu_of(child.pid) - before
    source.close()
    child.join()
    group.close()
    return used / COUNT


def nodes(graph: df.FlowGraph) -> list[float]:
    """Microseconds of CPU per message of each executor of a graph, in order of their names."""
    with graph:
        deployment = graph.running.deployment
        group, plan = deployment.group, deployment.plan
        source, sink = group.queue(plan.feeds[0][0].queues[0]), group.queue(plan.fetches[0])
        pids = [status.pid for status in sorted(deployment.status(), key=lambda status: status.node)]
        circulate(group, source, sink, 500)
        before = list(map(cpu_of, pids))
        circulate(group, source, sink, COUNT)
        return [(cpu_of(pid) - old) / COUNT for pid, old in zip(pids, before)]


def looped(call: Callable[..., object], inputs: int = 1, outputs: int = 1) -> float:
    """Microseconds of CPU per message of a node's loop, in this process, from full queues until they are empty."""
    group, sources, sinks = queues(inputs, outputs)
    spec = FuncSpec("call", tuple(range(inputs)), tuple(range(outputs)))
    package = PythonFunc("function", call, methods=(MethodSpec("call", outputs),))
    routes = tuple((Route((sink.name,)),) for sink in sinks)
    plan = InstancePlan("node", 0, 1, "node", "cpu:0", 1, tuple(source.name for source in sources), routes)
    model = UdfModel(name="node", engine="UDF", functions=(spec,))
    runner = InstanceRunner(model, plan, group, lambda *_: python_funcs(package, [spec]), {}, None, [], print)
    runner.load()
    seconds = timed(runner.run, time.thread_time)
    group.close()
    return seconds / FULL * 1e6


def bare_loop() -> float:
    """The same of a loop that takes and puts."""
    group, (source,), (sink,) = queues(1, 1)

    def run() -> None:
        for _ in range(FULL):
            sink.put(source.get())

    seconds = timed(run, time.thread_time)
    group.close()
    return seconds / FULL * 1e6


def queues(inputs: int, outputs: int) -> tuple[MemoryGroup, list[Queue], list[Queue]]:
    """A memory group whose memory has been used before, full input queues that are closed, and empty output queues."""
    group = ShmTransport().create_group(GroupConfig(memory_limit=1 << 28))
    blocks = [group.alloc(6000) for _ in range(FULL * (inputs + outputs))]
    for block in blocks:
        block.array(writable=True)[:] = 0
    del blocks, block
    sources = [group.create_queue(f"in{port}", FULL) for port in range(inputs)]
    for source in sources:
        for number in range(1, FULL + 1):
            message = encode(ITEM, MsgInfo(trans_id=number, token=root_token(number)), group.alloc).block
            assert message is not None
            source.put(message)
        source.close()
    return group, sources, [group.create_queue(f"out{port}", FULL) for port in range(outputs)]


def loop(rounds: int) -> None:
    """What the loop of a node costs over one that only takes and puts."""
    cases: dict[str, Callable[[], float]] = {
        "x -> x": lambda: looped(lambda x: x),
        "x -> x + 1 (a new array)": lambda: looped(lambda x: x + 1),
        "x -> (x, x)": lambda: looped(lambda x: (x, x), outputs=2),
        "x, y -> x": lambda: looped(lambda x, y: x, inputs=2),
        "x -> x.size (a pickled object)": lambda: looped(lambda x: x.size),
    }
    table("CPU of the loop of a node, us per message", bare_loop, cases, 5 * rounds)


def table(title: str, bare_case: Callable[[], float], cases: dict[str, Callable[[], float]], rounds: int) -> None:
    """Run a floor and cases in turn, and print medians."""
    floor: list[float] = []
    figures: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        floor.append(bare_case())
        for name, run in cases.items():
            figures[name].append(run())
    base = statistics.median(floor)
    print(f"{title:44} {'all':>7} {'over the bare queue':>21}")
    print(f"{'bare queue':44} {base:7.1f}")
    for name, values in figures.items():
        value = statistics.median(values)
        print(f"{name:44} {value:7.1f} {value - base:21.1f}", flush=True)


def messages(rounds: int) -> None:
    """CPU per node and message, over the bare queue."""
    cases: dict[str, Callable[[], float]] = {
        "one node, x -> x": lambda: nodes(chain(1))[0],
        "four in a row, x -> x": lambda: statistics.mean(nodes(chain(4))),
        "one node, x -> x + 1 (a new array)": lambda: nodes(chain(1, more))[0],
        "one node, x -> x.size (a pickled object)": lambda: nodes(chain(1, count))[0],
        "a join of two inputs": lambda: nodes(diamond())[0],
        "a node with two outputs": lambda: nodes(diamond())[1],
    }
    table("CPU of a node's process, us per message", bare, cases, rounds)


def caller(rounds: int) -> None:
    """CPU per message of the caller's side."""
    with chain(1) as graph:
        def mapped() -> None:
            for _ in graph.map((ITEM for _ in range(COUNT)), in_flight=16):
                pass

        def called() -> None:
            for _ in range(COUNT // 10):
                graph(ITEM)

        def fed() -> None:
            for _ in range(COUNT // 10):
                graph.feed({"x": ITEM})
                graph.fetch()

        for name, run, messages_ in (
            ("map", mapped, COUNT), ("call", called, COUNT // 10), ("feed and fetch", fed, COUNT // 10)
        ):
            run()
            values = [timed(run, time.process_time) / messages_ * 1e6 for _ in range(rounds)]
            print(f"{'CPU of the caller per message, ' + name + ', us':44} {statistics.median(values):7.1f}")


def idle(_rounds: int) -> None:
    """CPU and memory of a graph that has nothing to do."""
    with chain(4) as graph:
        graph(ITEM)
        pids = sorted({status.pid for status in graph.running.deployment.status()})
        time.sleep(4)
        before = sum(map(cpu_of, [*pids, os.getpid()]))
        time.sleep(IDLE)
        used = sum(map(cpu_of, [*pids, os.getpid()])) - before
        print(f"{'idle graph of 4 nodes, CPU of all processes':44} {used / IDLE / 1e4:9.4f} %")
        print(f"{'private memory of an executor, MB':44} {statistics.median(map(private_mb, pids)):7.1f}")


def private_mb(pid: int) -> float:
    """Memory that a process shares with nobody."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def timed(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of a call."""
    began = clock()
    run()
    return clock() - began


def first_result(size: int, folder: str) -> float:
    """Milliseconds from `FlowGraph()` to the first result."""
    value = df.FlowData("x")
    for i in range(size):
        value = same.fnode(f"node{i}")(value)
    began = time.perf_counter()
    with df.FlowGraph([value], {"cache_dir": folder}) as graph:
        graph(ITEM)
        return 1000 * (time.perf_counter() - began)


def start(rounds: int) -> None:
    """Time to the first result with a warm cache: in a fresh process, and where the template process runs already."""
    with tempfile.TemporaryDirectory() as folder:
        for size in (4, 32):
            first_result(size, folder)
            warm = [first_result(size, folder) for _ in range(rounds)]
            outputs = in_fresh_processes(f"first_result({size}, {folder!r})", rounds, folder)
            fresh = [float(output) for output in outputs]
            print(f"{f'first result of {size} nodes, fresh process, ms':44} {statistics.median(fresh):7.0f}")
            print(f"{f'first result of {size} nodes, template runs, ms':44} {statistics.median(warm):7.0f}")


def in_fresh_processes(expression: str, rounds: int, folder: str) -> Iterator[str]:
    """What an expression over this module gives in a process of its own, with modules compiled before, as pip does."""
    code = f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]; import run; print(run.{expression})"
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for number in range(rounds + 1):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, env=environment
        )
        if number:
            yield done.stdout.splitlines()[-1]


def compile_(rounds: int) -> None:
    """Time to compile graphs of trivial nodes, without starting them."""
    with DFlowSession() as session:
        session.compile(chain(1))
        for size in (100, 1000, 5000):
            graph = chain(size)
            values = [1000 * timed(lambda graph=graph: session.compile(graph)) for _ in range(rounds)]
            value = statistics.median(values)
            print(f"{f'compile {size} nodes, ms':44} {value:7.0f} {value / size:18.3f} a node")


def record(rounds: int) -> None:
    """CPU of a transaction of one node in this process, with and without a recording: checksums, and writes to /tmp."""
    print(f"{'CPU of a transaction, us':44} {'bare':>7} {'recorded':>12}")
    for size, count in ((100, 1000), (1 << 20, 200), (16 << 20, 20)):
        with tempfile.TemporaryDirectory() as folder:
            found = [
                statistics.median(transaction(size, count, options) for _ in range(rounds))
                for options in ({}, {"record": f"{folder}/run.dfrec"})
            ]
        print(f"{f'{size} bytes fed':44} {found[0]:7.0f} {found[1]:12.0f}")


def transaction(size: int, count: int, options: dict[str, str]) -> float:
    """CPU of this process for a transaction, us."""
    item = np.zeros(size, np.uint8)
    with df.FlowGraph([same.fnode("node")(df.FlowData("x"))], options, mode="inline") as graph:
        graph(item)
        began = time.process_time()
        for _ in range(count):
            graph(item)
        return 1e6 * (time.process_time() - began) / count


PARTS = {
    "loop": loop, "messages": messages, "caller": caller, "idle": idle, "start": start, "compile": compile_,
    "record": record,
}


def main() -> None:
    """Run the parts named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    given = parser.parse_args()
    for name in given.parts or PARTS:
        PARTS[name](given.rounds)


if __name__ == "__main__":
    main()
