"""What a message costs from process to process: dflow beside what else Python offers and beside the limit, in one run.

usage: python bench/hop/run.py [--quick] [--rounds 5] [--secs 0.4] [--only WORD ...] [--patience 0] [--out FILE]

All rows of a round are measured one after the other, so that what else the machine does falls on all of them alike.
The source writes the first and the last byte of every message, the sink reads both and checks that none is missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import measure
import native
import peers
from channels import DflowCopyLine, DflowLine, Line, Shape
from limits import Limits
from table import COPY_IN, IN_PLACE, Row, report

SIZES = (64, 4096, 150_528, 6_220_800)
SMALL = (64, 4096)
FEW = (4096, 6_220_800)
QUIET = 0.15

ASLEEP = "dflow in place, no spin"
LINES: dict[str, type[Line]] = {
    IN_PLACE: DflowLine,
    COPY_IN: DflowCopyLine,
    "mp.Queue": peers.QueueLine,
    "mp.Pipe bytes": peers.PipeLine,
    "shared_memory + Queue": peers.SlotLine,
    "pyzmq ipc": peers.ZmqLine,
    "iceoryx2": peers.IceoryxLine,
    "faster-fifo": peers.FasterFifoLine,
}

COPYING = [name for name, line in LINES.items() if not line.in_place]


@dataclass(frozen=True)
class Plan:
    """How long and how often.

    Args:
        secs: Seconds a rate is measured.
        warm: Seconds before, when memory comes into use.
        lone: How many messages a latency is taken from.
        spin_us: What dflow's groups are made with.
    """

    secs: float
    warm: float
    lone: int
    spin_us: int


@dataclass(frozen=True)
class Test:
    """One block of the table."""

    name: str
    sizes: tuple[int, ...]
    metrics: tuple[str, ...]
    run: Callable[[type[Line], int, Plan], list[float]]
    limit: Callable[[Limits, int, Plan], dict[str, list[float]]] = lambda *_: {}
    only: tuple[str, ...] = ()
    no_spin: bool = False


def warm_up(size: int, plan: Plan) -> float:
    """A page costs 2 us when it is touched first, and there are many in large messages."""
    return max(plan.warm, 0.4) if size > 1_000_000 else plan.warm


def flat_out(hops: int, depth: int) -> Callable[[type[Line], int, Plan], list[float]]:
    """Rates through that many queues of that depth."""
    def run(line: type[Line], size: int, plan: Plan) -> list[float]:
        shape = Shape(size, depth, hops, plan.spin_us)
        return measure.rate(line(shape), hops, warm_up(size, plan), plan.secs)

    return run


def by_table(depth: int) -> Callable[[Limits, int, Plan], dict[str, list[float]]]:
    """Ours once more, both ends in C."""
    def run(limits: Limits, size: int, plan: Plan) -> dict[str, list[float]]:
        shape = Shape(max(size, 256), depth, 1, plan.spin_us)
        return {"dflow, C to C": native.rate(limits.library, shape, warm_up(size, plan), plan.secs)}

    return run


def deep_limits(limits: Limits, size: int, plan: Plan) -> dict[str, list[float]]:
    return {"limit: ring in C": limits("hop", size, 64, plan.secs), **by_table(64)(limits, size, plan)}


def hop_limits(limits: Limits, size: int, plan: Plan) -> dict[str, list[float]]:
    found = {"limit: ring in C": limits("hop", size, 8, plan.secs), **by_table(8)(limits, size, plan)}
    if size >= 150_000:
        found["limit: ring in C, copy in"] = limits("copy", size, 8, plan.secs)
        found["limit: memcpy over 8 places"] = limits("memcpy", size, 8, plan.secs)
        found["limit: memcpy to one place"] = limits("memcpy", size, 1, plan.secs)
    return found


def lone(line: type[Line], size: int, plan: Plan) -> list[float]:
    return measure.lone(line(Shape(size, 8, 3, plan.spin_us)), 3, plan.lone)


def trip(pause: float) -> Callable[[type[Line], int, Plan], list[float]]:
    return lambda line, size, plan: measure.round_trip(line(Shape(size, 8, 2, plan.spin_us)), plan.secs, pause)


def beside_busy(run: Callable[[type[Line], int, Plan], list[float]]) -> Callable[[type[Line], int, Plan], list[float]]:
    def both(line: type[Line], size: int, plan: Plan) -> list[float]:
        with measure.busy_cpus():
            return run(line, size, plan)

    return both


RATE, TIMES = ("messages/s",), ("p50 us", "p99 us")
FAST = ("dflow in place", "mp.Pipe bytes", "shared_memory + Queue", "pyzmq ipc")
TESTS = (
    Test("hop", SIZES, RATE, flat_out(1, 8), hop_limits),
    Test("hop, queues of 64", SMALL, RATE, flat_out(1, 64), deep_limits),
    Test("four processes", FEW, RATE, flat_out(3, 8),
         lambda lim, s, p: {"limit: ring in C": lim("pipeline", s, 8, p.secs)}),
    Test("lone message through four processes", FEW, TIMES, lone,
         lambda lim, s, p: {"limit: ring in C": lim("lone", s, 8, p.lone)}),
    Test("round trip", (4096,), TIMES, trip(0), lambda lim, s, p: {
        "limit: ring in C": lim("rtt", s, 5, 5000), "limit: ring in C, no spin": lim("rtt", s, 0, 5000)}, no_spin=True),
    Test("round trip each 2 ms", (4096,), TIMES, trip(0.002), no_spin=True),
    Test("hop beside busy CPUs", (4096,), RATE, beside_busy(flat_out(1, 8)), only=FAST),
    Test("round trip beside busy CPUs", (4096,), TIMES, beside_busy(trip(0)), only=FAST, no_spin=True),
)


def available() -> dict[str, type[Line]]:
    """The lines that can be measured here; says why others cannot."""
    found = {}
    for name, line in LINES.items():
        if line.needs and not importlib.util.find_spec(line.needs):
            print(f"{name}: left out, the package {line.needs} is not installed "
                  "(pip install -r bench/hop/requirements.txt)", file=sys.stderr)
        else:
            found[name] = line
    return found


def one_test(test: Test, size: int, lines: dict[str, type[Line]], limits: Limits, plan: Plan) -> Iterator[Row]:
    """Every line of one block, then the limit; a line that fails is reported and left out."""
    contenders = [(name, line, plan) for name, line in lines.items() if not test.only or name in test.only]
    if test.no_spin:
        contenders.append((ASLEEP, DflowLine, Plan(plan.secs, plan.warm, plan.lone, 0)))
    for name, line, how in contenders:
        try:
            values = test.run(line, size, how)
        except (OSError, RuntimeError, TimeoutError, EOFError) as error:
            print(f"{test.name}, {size} bytes, {name}: failed: {error!r}", file=sys.stderr, flush=True)
            continue
        for metric, value in zip(test.metrics, values):
            yield Row(test.name, size, name, metric, value)
    if not limits.missing:
        for name, values in test.limit(limits, size, plan).items():
            for metric, value in zip(test.metrics, values):
                yield Row(test.name, size, name, metric, value)


def busy(secs: float) -> float:
    """Share of the machine that was busy during the next `secs`."""
    def ticks() -> tuple[int, int]:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    before = ticks()
    time.sleep(secs)
    after = ticks()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


def wait_for_quiet(patience: float) -> None:
    """Wait at most `patience` seconds for others to leave the machine alone."""
    end = time.monotonic() + patience
    while patience and busy(0.2) > QUIET and time.monotonic() < end:
        pass


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round, in less than a minute")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--secs", type=float, default=0.4, help="seconds a measurement")
    parser.add_argument("--spin-us", type=int, default=5, help="what dflow's group is configured with")
    parser.add_argument("--patience", type=float, default=0, help="seconds to wait for a quiet machine, each time")
    parser.add_argument("--out", type=Path, help="file for one JSON line a figure")
    parser.add_argument("--only", nargs="+", default=[], help="tests whose name has one of these words")
    parser.add_argument("--lines", nargs="+", default=[], help="lines whose name has one of these words")
    parser.add_argument("--sizes", type=int, nargs="+", help="only these sizes")
    parser.add_argument("--read", type=Path, help="measure nothing; print the table of a file that --out made")
    return parser.parse_args()


def figures(args: argparse.Namespace) -> Iterator[Row]:
    """Every figure, as it is measured."""
    plan = Plan(0.1, 0.05, 15, args.spin_us) if args.quick else Plan(args.secs, 0.5, 120, args.spin_us)
    lines = {n: line for n, line in available().items() if not args.lines or any(w in n for w in args.lines)}
    tests = [t for t in TESTS if not args.only or any(word in t.name for word in args.only)]
    limits = Limits()
    if limits.missing:
        print(f"no limits: {limits.missing}", file=sys.stderr)
    try:
        for _ in range(1 if args.quick else args.rounds):
            for test in tests:
                for size in [s for s in test.sizes if not args.sizes or s in args.sizes]:
                    wait_for_quiet(args.patience)
                    yield from one_test(test, size, lines, limits, plan)
    finally:
        limits.close()


def main() -> None:
    """Measure, print the table, keep every figure."""
    args = arguments()
    if args.read:
        print(report([Row(**json.loads(line)) for line in args.read.read_text(encoding="utf-8").splitlines()], COPYING))
        return
    rows = []
    for row in figures(args):
        rows.append(row)
        if args.out:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(vars(row)) + "\n")
    print(report(rows, COPYING))


if __name__ == "__main__":
    main()
