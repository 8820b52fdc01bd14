"""What several instances of a node give, and what the order of results costs.

    python bench/instances/run.py [--rounds 5] [--items 400] [waits|computes|order ...]

`waits` is a function that waits 5 ms without using a CPU, as one does that asks another machine; `computes` is one that
computes for 5 ms, so that two CPUs can do no better than twice. Each is run as 1 and as 4 instances, in every dispatch.
`order` compares `map` in the order of the items with `map` as results come, over 4 instances whose times differ from
call to call. Rounds are taken in turn; medians are shown.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import dflow_core as df

WORK = 0.005
SUBJECTS = ("waits", "computes", "order")
DISPATCHES = ("free", "transaction", "least_loaded")
ITEM = np.zeros(256, np.float32)


@df.pyflow
def waits(x):
    time.sleep(WORK)
    return x


@df.pyflow
def computes(x):
    until = time.thread_time() + WORK  # of this thread: time in which another process has the CPU does not count
    while time.thread_time() < until:
        pass
    return x


@df.pyflow
def uneven(x):
    time.sleep(WORK * (0.2 + 1.6 * float(x[0])))
    return x


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=", ".join(SUBJECTS))
    args = parser.parse_args()
    for subject in args.subjects or SUBJECTS:
        if subject == "order":
            measure_order(args.rounds, args.items)
        else:
            measure_instances(waits if subject == "waits" else computes, args.rounds, args.items)


def measure_instances(function: object, rounds: int, items: int) -> None:
    """One instance against four, in every dispatch."""
    graphs = {"1 instance": graph_of(function, 1, "free")}
    graphs |= {f"4 instances, {dispatch}": graph_of(function, 4, dispatch) for dispatch in DISPATCHES}
    rates = in_turn(graphs, rounds, [ITEM] * items)
    one = rates["1 instance"]
    print(f"\n{function.__name__}: {items} calls of {WORK * 1000:g} ms")
    for name, rate in rates.items():
        print(f"  {name:28} {rate:8.1f} calls/s  {rate / one:5.2f} x one instance")


def measure_order(rounds: int, items: int) -> None:
    """Results in the order of the items against results as they come."""
    generator = np.random.default_rng(1)
    values = [generator.random(256, np.float32) for _ in range(items)]
    rates: dict[bool, list[float]] = {True: [], False: []}
    with graph_of(uneven, 4, "free") as graph:
        list(graph.map(values[:40]))
        for _ in range(rounds):
            for ordered, found in rates.items():
                found.append(rate_of(graph, values, ordered))
    kept, free = (statistics.median(rates[ordered]) for ordered in (True, False))
    print(f"\norder: {items} calls of {WORK * 200:g} to {WORK * 1800:g} ms over 4 instances")
    print(f"  as they come {free:8.1f} calls/s, in order {kept:8.1f} calls/s: order costs {1 - kept / free:.1%}")


def in_turn(graphs: dict[str, df.FlowGraph], rounds: int, values: list[np.ndarray]) -> dict[str, float]:
    """Median calls per second of each graph."""
    found: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            with graph:
                list(graph.map(values[:20]))
                found[name].append(rate_of(graph, values, ordered=True))
    return {name: statistics.median(rates) for name, rates in found.items()}


def rate_of(graph: df.FlowGraph, values: list[np.ndarray], ordered: bool) -> float:
    """Calls per second of one run over all values."""
    began = time.perf_counter()
    count = sum(1 for _ in graph.map(values, ordered=ordered))
    assert count == len(values)
    return count / (time.perf_counter() - began)


def graph_of(function: object, instances: int, dispatch: str) -> df.FlowGraph:
    """A graph of that function."""
    node = function.fnode(instances=instances, dispatch=dispatch)  # type: ignore[attr-defined]
    return df.FlowGraph([node(df.FlowData("x"))], {"cache": "0"})


if __name__ == "__main__":
    main()
