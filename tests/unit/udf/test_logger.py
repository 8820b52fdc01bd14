"""The logger of hand-written functions: levels, format, limits."""

from __future__ import annotations

import pickle
import re

import pytest

from dflow_core.testing.clock import FakeClock
from dflow_core.udf import FlowFuncLogger, LogLevel, LogType
from dflow_core.udf import logger as shared


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def logger(lines, clock, monkeypatch) -> FlowFuncLogger:
    monkeypatch.setenv("ASCEND_GLOBAL_LOG_LEVEL", "0")
    monkeypatch.delenv("ASCEND_MODULE_LOG_LEVEL", raising=False)
    return FlowFuncLogger(lines.append, lambda: clock())


def test_a_line_says_where_it_comes_from(logger, lines):
    logger.info("%d of %s", 3, "five")
    logger.run_error("over")
    here = r"\[test_logger.py:\d+\]\[test_a_line_says_where_it_comes_from\]\[tid:\d+\]"
    assert re.fullmatch(rf"INFO {here}: 3 of five\n", lines[0])
    assert re.fullmatch(rf"ERROR {here}\[RUN\]: over\n", lines[1])


def test_what_cannot_be_formatted_is_written_as_it_is(logger, lines):
    logger.warn("%d", "x")
    logger.warn("100%")
    assert [line.rsplit(": ", 1)[1] for line in lines] == ["%d\n", "100%\n"]


@pytest.mark.parametrize(
    ("level", "written"),
    [("0", "debug info warn error run_info run_error"), ("1", "info warn error run_info run_error"),
     ("2", "warn error run_error"), ("3", "error run_error"), ("4", "")],
)
def test_levels(logger, lines, monkeypatch, level, written):
    monkeypatch.setenv("ASCEND_MODULE_LOG_LEVEL", f"APP={level}")
    for name in ("debug", "info", "warn", "error", "run_info", "run_error"):
        getattr(logger, name)(name)
    assert " ".join(line.rstrip().rsplit(": ", 1)[1] for line in lines) == written


def test_without_a_level_only_errors_are_written(logger, lines, monkeypatch):
    monkeypatch.delenv("ASCEND_GLOBAL_LOG_LEVEL")
    logger.warn("warn")
    logger.error("error")
    assert len(lines) == 1


def test_only_members_are_asked_for(logger):
    assert logger.is_log_enable(LogType.DEBUG_LOG, LogLevel.INFO)
    assert not logger.is_log_enable(0, 1)


@pytest.mark.parametrize(("name", "burst", "rate"), [("info", 1000, 100), ("error", 400, 50), ("run_info", 400, 50)])
def test_too_many_lines_are_dropped_after_one_notice(logger, lines, clock, name, burst, rate):
    for _ in range(burst + 100):
        getattr(logger, name)("x")
    assert len(lines) == burst + 1 and "some are dropped" in lines[-1]
    clock.advance(1.0)
    for _ in range(rate + 10):
        getattr(logger, name)("y")
    assert len(lines) == burst + 1 + rate + 1


def test_debug_lines_are_not_limited(logger, lines):
    for _ in range(2000):
        logger.debug("x")
    assert len(lines) == 2000


def test_the_logger_travels_by_its_name_with_functions_of_scripts_that_use_it() -> None:
    assert pickle.loads(pickle.dumps(shared)) is shared
    with pytest.raises(TypeError):  # one of somebody's own is somebody's own to make again
        pickle.dumps(FlowFuncLogger())
