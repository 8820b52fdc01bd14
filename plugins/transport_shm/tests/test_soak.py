"""Messages through four processes that are killed and stopped all the time; the long form is `bench/soak`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dflow_core.testing.waiting import wait_until

SOAK = Path(__file__).resolve().parents[3] / "bench" / "soak" / "run.py"


def soak(*options: str, limit: float) -> str:
    """What the command prints; it says itself whether everything is accounted for."""
    done = subprocess.run([sys.executable, SOAK, *options], capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


@pytest.mark.timeout(180)
def test_messages_of_killed_processes_are_accounted_for() -> None:
    text = soak("--messages", "2000000", "--kills", "40", "--pause", "0.02", limit=150)
    counts = {word: int(number.replace(",", "")) for number, word in re.findall(r"([\d,]+) (kills|sent|seen)", text)}
    assert counts["kills"] >= 40
    assert counts["sent"] >= counts["seen"] > 1_000


def test_workers_end_with_who_started_them() -> None:
    process = subprocess.Popen([sys.executable, SOAK, "--pause", "100"])
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: len(workers.read_text(encoding="ascii").split()) == 4, 40)
    pids = workers.read_text(encoding="ascii").split()
    process.kill()
    process.wait(10)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 15)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_memory_stays_level_over_a_million_messages() -> None:
    """A process has taken first all that a group keeps, so that what grows after that is a leak."""
    text = soak("--messages", "1000000", "--pause", "0.01", "--seed", "2", limit=800)
    found = re.findall(r"memory of .*: ([+-][\d.]+) MB a million messages in the second half", text)
    assert len(found) == 2, text
    assert all(float(slope) < 1 for slope in found), text
