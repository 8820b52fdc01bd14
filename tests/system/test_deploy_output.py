"""What executors print: never blocks them, never lost, marked with its node (BC-062)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dflow_core.deploy import LocalDeployer
from dflow_core.errors import OptionError
from tests.system.deploy_graph import chain, deployer, start

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def warm() -> Iterator[LocalDeployer]:
    """A deployer with its template."""
    made = deployer()
    yield made
    made.close()


def test_lines_come_marked_and_in_order(warm, capsys):
    with start(warm, chain("print:3"), output="stderr") as running:
        running.call(1)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("[n0#0]")]
    expected = [f"[n0#0] line {number} äöü 模型" for number in range(3)]
    assert [line for line in lines if "äöü" in line] == expected
    assert "[n0#0] a line from C" in lines
    assert "[n0#0] a line from logging" in lines


def test_lines_go_to_logging_on_request(warm, caplog):
    with caplog.at_level("INFO", "dflow.node"), start(warm, chain("print:1"), output="logging") as running:
        running.call(1)
    assert ("dflow.node.n0#0", 20, "line 0 äöü 模型") in caplog.record_tuples


def test_lines_go_to_files_on_request(warm, tmp_path):
    with start(warm, chain("print:2", "print:1"), output=f"dir:{tmp_path}/logs") as running:
        running.call(1)
    assert (tmp_path / "logs" / "n0#0.log").read_text(encoding="utf-8").startswith("line 0 äöü 模型\nline 1")
    assert (tmp_path / "logs" / "n1#0.log").exists()


def test_an_unknown_place_for_output_is_refused(warm):
    with pytest.raises(OptionError, match="logging, none, or dir:PATH"):
        start(warm, chain("echo"), output="printer")


def test_a_flood_stays_small_in_memory(warm, tmp_path):
    with start(warm, chain("flood:20000"), output=f"dir:{tmp_path}") as running:
        running.call(1)
        log = running.deployment._supervisor.members[0].log
        end = time.monotonic() + 10
        while (tmp_path / "n0#0.log").stat().st_size < 20000 * 1024:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert os.fstat(log.fd).st_blocks * 512 < 1 << 20
        assert os.fstat(log.fd).st_size > 19 << 20


FLOOD = """
import os, sys
from tests.system.deploy_graph import chain, deployer, start
made = deployer()
with start(made, chain("flood:3000"), output="stderr") as running:
    for number in range(1, 4):
        running.feed(number)
    for number in range(1, 4):
        running.fetch()
made.close()
os.write({result}, b"done")
"""


@pytest.mark.parametrize("stderr", ["full-pipe", "closed", "broken-pipe"])
def test_a_flood_never_blocks(stderr):
    """The application's stderr is a pipe nobody reads, closed, or a pipe whose reader is gone."""
    read, write = os.pipe()
    nobody_reads, full = os.pipe()
    if stderr == "broken-pipe":
        os.close(nobody_reads)
    code = textwrap.dedent(FLOOD.format(result=write))
    if stderr == "closed":
        code = "import os; os.close(2)\n" + code
    began = time.monotonic()
    application = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stderr=full, pass_fds=[write],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(write)
    os.close(full)
    assert application.wait(30) == 0
    assert os.read(read, 10) == b"done"
    assert time.monotonic() - began < 20
    os.close(read)
    if stderr != "broken-pipe":
        os.close(nobody_reads)


def test_utf8_whatever_the_locale():
    code = """
        from tests.system.deploy_graph import chain, deployer, start
        made = deployer()
        with start(made, chain("print:1"), output="stderr") as running:
            running.call(1)
        made.close()
    """
    for variables in ({"LANG": "C", "LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, timeout=60, check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        )
        assert "[n0#0] line 0 äöü 模型" in done.stderr.decode("utf-8")


def test_the_last_output_survives_a_flood(warm):
    """The end of the output is there for an error text although its memory has long been given back."""
    with start(warm, chain("flood:5000", "segfault-on:1"), output="none") as running:
        error = running.error(1)
        assert "about to crash" in error.traceback
        tail = running.deployment._supervisor.members[0].log.tail()
        assert 1000 < len(tail) <= 16 << 10 and set(tail) == {"x", "\n"}
