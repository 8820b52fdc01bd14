"""What updates of a node cost the requests beside them: latency while nodes are exchanged, against latency without.

    python bench/update/run.py [--rounds 5] [--requests 600] [--rate 100] [--every 0.25]

Requests come at a fixed rate, whatever becomes of those before them, and each is timed from the moment when it should
have come, so that one that is held up counts, and so do those behind it. Four conditions take turns in each round:

    quiet    nothing else
    reload   node B is exchanged again and again, with a pause between
    load     a new version of B takes long to load (it sleeps, as one that reads a disk or a network)
    compute  the same, and it computes all the while, as one that compiles a model

The last two never take over: they are what A's requests see of a slow load. Ratios of p50, p99 and the longest within
a round; medians over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

import numpy as np

import dflow_core as df

THREADS = 32


@df.pyflow
def a(x):
    """Computes for a millisecond."""
    import time

    end = time.thread_time() + 0.001
    while time.thread_time() < end:
        pass
    return x


def version(number: int) -> object:
    """A version of node B."""

    @df.pyflow
    def b(x):
        return x + number

    return b


@df.pyflow
class Slow:
    """Takes some seconds to load."""

    def __init__(self, seconds, computes):
        import time

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not computes:
                time.sleep(0.01)
        raise ValueError("it was loaded long enough")

    @df.method()
    def work(self, x):
        return x


def latencies(graph: df.FlowGraph, requests: int, rate: float) -> np.ndarray:
    """Milliseconds from when each request should have come to its answer."""
    item = np.zeros(1024, np.float32)
    pool, begin = ThreadPoolExecutor(THREADS), time.monotonic() + 0.05

    def ask(number: int) -> float:
        graph(item)
        return (time.monotonic() - begin - number / rate) * 1e3

    futures = []
    with pool:
        for number in range(requests):
            time.sleep(max(0.0, begin + number / rate - time.monotonic()))
            futures.append(pool.submit(ask, number))
    return np.array([future.result() for future in futures])


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Some work in a thread of its own, until the block ends."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Reloads:
    """Exchanges node B again and again, and times it.

    Args:
        graph: The graph.
        every: Seconds between two.
    """

    def __init__(self, graph: df.FlowGraph, every: float) -> None:
        self._graph, self._every = graph, every
        self.whole: list[float] = []
        self.held: list[float] = []
        client = graph.running.client
        self._at_rest, client.at_rest = client.at_rest, self._timed  # type: ignore[method-assign]

    def __call__(self, stop: threading.Event) -> None:
        while not stop.wait(self._every):
            began = time.monotonic()
            self._graph.update("b", version(len(self.whole)))
            self.whole.append((time.monotonic() - began) * 1e3)

    @contextmanager
    def _timed(self, timeout: float) -> Iterator[int]:
        began = time.monotonic()
        with self._at_rest(timeout) as first:
            yield first
        self.held.append((time.monotonic() - began) * 1e3)


def loads(graph: df.FlowGraph, seconds: float, computes: bool) -> Callable[[threading.Event], None]:
    """Loads a version that takes long, once."""

    def load(stop: threading.Event) -> None:
        with suppress(df.StartupError):
            graph.update("b", Slow.fnode(seconds, computes))

    return load


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second")
    parser.add_argument("--every", type=float, default=0.25, help="seconds between reloads")
    options = parser.parse_args()
    x = df.FlowData("x")
    span = options.requests / options.rate
    found: dict[str, list[np.ndarray]] = {name: [] for name in ("quiet", "reload", "load", "compute")}
    with df.FlowGraph([version(0).fnode(name="b")(a.fnode(name="a")(x))], {"output": "none"}) as graph:
        latencies(graph, 50, options.rate)
        reloads = Reloads(graph, options.every)
        conditions: dict[str, Callable[[], AbstractContextManager[None]]] = {
            "quiet": nullcontext,
            "reload": lambda: beside(reloads),
            "load": lambda: beside(loads(graph, span, False)),
            "compute": lambda: beside(loads(graph, span, True)),
        }
        for _ in range(options.rounds):
            for name, condition in conditions.items():
                with condition():
                    found[name].append(latencies(graph, options.requests, options.rate))
    print(f"{options.requests} requests a round, {options.rate:g} a second; medians of {options.rounds} rounds")
    whole, held = statistics.median(reloads.whole), statistics.median(reloads.held)
    print(f"{len(reloads.whole)} reloads, {whole:.0f} ms each, feeding held up for {held:.1f} ms of that (medians)\n")
    print(f"{'':10}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{'p50 ratio':>11}{'p99 ratio':>11}{'max ratio':>11}")
    base = np.array([figures(one) for one in found["quiet"]])
    for name, rounds in found.items():
        table = np.array([figures(one) for one in rounds])
        middle, ratio = np.median(table, axis=0), np.median(table / base, axis=0)
        print(f"{name:10}" + "".join(f"{value:9.2f}" for value in middle) + "".join(f"{r:11.2f}" for r in ratio))


def figures(found: np.ndarray) -> tuple[float, float, float]:
    """p50, p99 and the longest."""
    return float(statistics.median(found)), float(np.percentile(found, 99)), float(found.max())


if __name__ == "__main__":
    main()
