from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from dflow_core.session import DFlowSession


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    logger = logging.getLogger("dflow")
    before = logger.level
    logger.setLevel(logging.NOTSET)
    yield
    logger.setLevel(before)


def test_log_level_is_left_to_the_application_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DFLOW_LOG_LEVEL", raising=False)
    with DFlowSession():
        assert logging.getLogger("dflow").level == logging.NOTSET


@pytest.mark.parametrize("given", [{"log_level": "debug"}, {}])
def test_log_level_is_in_force_by_option_and_by_environment(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFLOW_LOG_LEVEL", "debug" if not given else "error")
    with DFlowSession(given):
        assert logging.getLogger("dflow").level == logging.DEBUG
