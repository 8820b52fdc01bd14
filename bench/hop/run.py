"""Messages a second from process to process: dflow beside what else Python offers, in one run.

usage: python bench/hop/run.py [--rounds 5] [--secs 0.4] [--spin-us 5] [--patience 0] [--out results.jsonl]

`hop`: one producer, one consumer. `pipeline`: source -> A -> B -> sink, A and B pass on. Queues hold 8. The source
writes the first and the last byte of every message, the sink reads both and checks that none is missing. All rows of a
round are measured one after the other, so that what else the machine does falls on all of them alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from channels import CONTEXT, LINES, OURS, End, Line

SIZES = (64, 4096, 150_528, 6_220_800)
HOPS = {"hop": 1, "pipeline": 3}
DEPTH = 8
GO_ON, START_CLOCK, LAST = 0, 1, 2
LIMIT = 30
WARM = 0.5
QUIET = 0.15


def source(line: Line, warm: float, secs: float) -> None:
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


def stage(line: Line, k: int) -> None:
    """Pass on."""
    end = line.end(k)
    while True:
        last = end.recv()[0] == LAST
        end.forward()
        if last:
            break
    end.finish()


def sink(line: Line, k: int, report) -> None:  # type: ignore[no-untyped-def]
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
    report.send((count - first) / (time.perf_counter() - start))
    end.finish()


def measure(name: str, hops: int, size: int, secs: float, spin_us: int) -> float:
    """Messages a second through a chain of `hops` queues."""
    line = LINES[name](size, DEPTH, hops, spin_us)
    receiver, sender = CONTEXT.Pipe(False)
    processes = [CONTEXT.Process(target=sink, args=(line, hops, sender))]
    processes += [CONTEXT.Process(target=stage, args=(line, k)) for k in range(hops - 1, 0, -1)]
    processes += [CONTEXT.Process(target=source, args=(line, WARM, secs))]
    for process in processes:
        process.start()
        if process is processes[0] and not receiver.poll(LIMIT):
            raise TimeoutError(f"{name}: the sink does not start")
        if process is processes[0]:
            receiver.recv()
    try:
        if not receiver.poll(LIMIT):
            raise TimeoutError(f"{name}: no result for {size} bytes")
        rate: float = receiver.recv()
        return rate
    finally:
        for process in processes:
            process.kill()
            process.join()
        line.close()


def busy(secs: float) -> float:
    """Share of the machine that was busy during the next `secs`."""
    def ticks() -> tuple[int, int]:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    before = ticks()
    time.sleep(secs)
    after = ticks()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


def wait_for_quiet(patience: float) -> float:
    """Wait at most `patience` seconds for others to leave the machine alone; returns how busy they were last."""
    end = time.monotonic() + patience
    while (share := busy(0.2)) > QUIET and time.monotonic() < end:
        pass
    return share


def rows(args: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Every measurement, as it is made."""
    for round_ in range(args.rounds):
        for shape in args.shapes:
            for size in args.sizes:
                for name in args.lines:
                    share = wait_for_quiet(args.patience) if args.patience else None
                    rate = measure(name, HOPS[shape], size, args.secs, args.spin_us)
                    row = {"round": round_, "shape": shape, "size": size, "line": name, "rate": round(rate, 1)}
                    yield row if share is None else row | {"busy_before": round(share, 2)}


def table(results: list[dict[str, object]]) -> str:
    """Medians (lowest..highest), then dflow against the best of the others, and large against small messages."""
    rates: dict[tuple[object, object, object], list[float]] = defaultdict(list)
    for row in results:
        rates[row["shape"], row["line"], row["size"]].append(float(str(row["rate"])))
    median = {key: statistics.median(values) for key, values in rates.items()}
    sizes = sorted({int(str(row["size"])) for row in results})
    text = []
    for shape in HOPS:
        names = [name for name in LINES if any(key[:2] == (shape, name) for key in median)]
        if not names:
            continue
        text += [f"\n{shape}, messages/s | " + " | ".join(f"{size:,} B" for size in sizes)]
        for name in names:
            cells = [f"{median[shape, name, s]:,.0f} ({min(v):,.0f}..{max(v):,.0f})" for s in sizes
                     if (v := rates[shape, name, s])]
            text.append(f"{name} | " + " | ".join(cells))
        others = [name for name in names if name not in OURS]
        for name in [name for name in names if name in OURS and others]:
            best = [max(others, key=lambda other: median[shape, other, s]) for s in sizes]
            text.append(f"{name} / best other | " + " | ".join(
                f"{median[shape, name, s] / median[shape, b, s]:.2f} ({b})" for s, b in zip(sizes, best)))
        if OURS[0] in names and len(sizes) > 1:
            small, large = median[shape, OURS[0], sizes[0]], median[shape, OURS[0], sizes[-1]]
            text.append(f"cost of {sizes[-1]:,} B against {sizes[0]:,} B in place: {small / large:.2f}")
    return "\n".join(text)


def main() -> None:
    """Measure, print the table, keep every figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--secs", type=float, default=0.4, help="seconds a measurement")
    parser.add_argument("--spin-us", type=int, default=5, help="what dflow's group is configured with")
    parser.add_argument("--patience", type=float, default=0, help="seconds to wait for a quiet machine, each time")
    parser.add_argument("--out", type=Path, help="file for one JSON line a measurement")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--lines", nargs="+", default=list(LINES), choices=list(LINES))
    parser.add_argument("--shapes", nargs="+", default=list(HOPS), choices=list(HOPS))
    parser.add_argument("--read", type=Path, help="measure nothing; print the table of a file that --out made")
    args = parser.parse_args()
    if args.read:
        print(table([json.loads(line) for line in args.read.read_text(encoding="utf-8").splitlines()]))
        return
    results = []
    for row in rows(args):
        results.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
        if args.out:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
