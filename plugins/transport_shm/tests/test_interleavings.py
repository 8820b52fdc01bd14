"""Every schedule of a few parties, and a crash at every step of each; see `native/explore.c` and `native/scenarios.c`.

What this shows: with two or three parties, one or two messages each and at most so many preemptions, no order of their
atomic accesses, locks and system calls loses, doubles or reorders a message, leaks a reference, or lets everybody sleep
while there is work; nor does the death of one of them between any two writes to shared memory, once its references
are taken back. The code is the real one, instrumented by the compiler.

What it does not show: more parties, more messages, more preemptions; orders of memory accesses that only machines
weaker than sequentially consistent ones have (ThreadSanitizer and the hammer look for those, by chance); waits that end
because their time is over; a lack of memory.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parent / "native"
SOURCES = NATIVE.parents[1] / "src" / "c"

NAMES = ["hop", "hop 2", "bell", "bell for room", "share", "memory", "trim", "drop oldest", "drop newest"]
NAMES += ["keep latest", "close", "fan in", "fan out"]
ALL = 100_000_000

pytestmark = pytest.mark.timeout(180)  # of a busy machine; some seconds of a quiet one


def schedules(text: str) -> dict[str, tuple[int, bool]]:
    """Of each scenario: how many schedules were tried, and whether those are all within the bounds."""
    found = {}
    for line in text.splitlines():
        name, rest = line.split(": ")
        found[name] = (int(rest.split()[0]), rest.endswith(", all"))
    return found


@pytest.mark.parametrize(("preemptions", "crashes"), [(1, 0), (0, 1)])
def test_every_schedule_with_one_preemption_or_crash(
    native: Callable[..., str], preemptions: int, crashes: int
) -> None:
    found = schedules(native("scenarios", preemptions, crashes, ALL, limit=150))
    assert list(found) == NAMES
    assert all(complete and count > 50 for count, complete in found.values()), found


@pytest.mark.parametrize("name", ["hop", "bell", "share", "memory"])
def test_every_schedule_with_two_preemptions(native: Callable[..., str], name: str) -> None:
    found = schedules(native("scenarios", 2, 0, ALL, name, limit=150))
    assert found[name][1]


FAULTS = {
    "sleep without a last look": ("queue.c", "if (!queue_ready(h, queue, put)) bell_sleep", "bell_sleep", ("1", "0")),
    "move not finished after a death": ("move.c", "        put32(&hold->count, count);\n", "", ("0", "1")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_that_was_put_in_is_found(tmp_path: Path, fault: str) -> None:
    name, before, after, bounds = FAULTS[fault]
    if not shutil.which("make") or not shutil.which("cc"):
        pytest.skip("no C compiler or no make")
    shutil.copytree(SOURCES, tmp_path / "c")
    text = (tmp_path / "c" / name).read_text(encoding="utf-8")
    assert text.count(before) == 1
    (tmp_path / "c" / name).write_text(text.replace(before, after), encoding="utf-8")
    make = ["make", "-s", "-j2", "-C", str(NATIVE), f"C={tmp_path / 'c'}", f"OUT={tmp_path}"]
    subprocess.run([*make, str(tmp_path / "scenarios")], check=True, capture_output=True, timeout=150)
    command = [tmp_path / "scenarios", *bounds, str(ALL), "hop"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode != 0
    assert "scenario hop" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_more_schedules(native: Callable[..., str], name: str) -> None:
    """Many with two preemptions (of most situations that is all), with one preemption and a crash, with two crashes."""
    for preemptions, crashes in ((2, 0), (1, 1), (0, 2)):
        native("scenarios", preemptions, crashes, 3_000_000, name, limit=1100)
