"""What `import dataflow` costs over the core: a feed and a fetch of one array, without a graph behind it.

    python bench/translation/run.py [--rounds 20] [--pairs 2000]

Both faces stand on the same client, which takes what is fed and gives one prepared result, so what is measured is
what the faces do: binding values, checking them, making results of messages. The difference is the translation.
Rounds alternate; the least of each, as other work on the machine only adds.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import dataflow as df
import dflow_core
from dflow_core.executor import Outcome
from dflow_core.message import MsgInfo, encode

LIMIT_US = 5.0


class Client:
    """Takes everything and gives one result for ever."""

    def __init__(self, array: np.ndarray) -> None:
        self.outcome = Outcome(1, (encode(array, MsgInfo(1)),), last=True)

    def feed(self, values: object, **options: object) -> int:
        """Take values."""
        return 1

    def fetch(self, timeout: object = None) -> Outcome:
        """Give the result."""
        return self.outcome

    def take(self, channel: object, timeout: object = None) -> Outcome:
        """Give the result."""
        return self.outcome


@dataclass
class Running:
    """As much of a running graph as its face looks at."""

    client: Client
    input_specs: tuple[tuple[()], ...] = ((),)
    feed_timeout: float = 1.0
    fetch_timeout: float = 1.0


@df.pyflow
def translated(x):
    """Give the input back."""
    return x


@dflow_core.pyflow
def plain(x):
    """Give the input back."""
    return x


def of_core(array: np.ndarray) -> Callable[[], object]:
    """A feed and a fetch of the core."""
    x = dflow_core.FlowData("x")
    graph = dflow_core.FlowGraph([plain.fnode()(x)])
    graph._running = Running(Client(array))

    def pair() -> object:
        graph.feed({x: array}, timeout=10.0)
        return graph.fetch(timeout=10.0, with_info=True)

    return pair


def of_tensors(array: np.ndarray) -> Callable[[], object]:
    """A `feed_data` and a `fetch_data`."""
    x, graph = of_dataflow(array)

    def pair() -> object:
        graph.feed_data({x: array}, timeout=10000)
        return graph.fetch_data(timeout=10000)

    return pair


def of_objects(array: np.ndarray) -> Callable[[], object]:
    """A `feed` and a `fetch`."""
    x, graph = of_dataflow(array)
    tensor = df.Tensor(array)

    def pair() -> object:
        graph.feed({x: tensor}, timeout=10000)
        return graph.fetch(timeout=10000)

    return pair


def of_dataflow(array: np.ndarray) -> tuple[df.FlowData, df.FlowGraph]:
    """A graph on the same client."""
    x = df.FlowData()
    graph = df.FlowGraph([translated.fnode()(x)])
    graph._runner._client, graph._is_ready = Client(array), True
    return x, graph


def microseconds(pair: Callable[[], object], pairs: int) -> float:
    """CPU time of one pair."""
    began = time.thread_time()
    for _ in range(pairs):
        pair()
    return (time.thread_time() - began) / pairs * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="cost of the translation")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=2000)
    args = parser.parse_args()
    os.chdir(tempfile.mkdtemp())
    df.init({})
    array = np.zeros(64, np.float32)
    pairs = {"core": of_core(array), "feed_data, fetch_data": of_tensors(array), "feed, fetch": of_objects(array)}
    least = dict.fromkeys(pairs, float("inf"))
    for _ in range(args.rounds):
        for name, pair in pairs.items():
            least[name] = min(least[name], microseconds(pair, args.pairs))
    for name, cost in least.items():
        print(f"{name:24} {cost:5.1f} us a pair   {cost - least['core']:+5.1f} us over the core")
    print(f"at most {LIMIT_US:g} us over the core are wanted")
    df.finalize()


if __name__ == "__main__":
    main()
