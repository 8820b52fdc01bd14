"""Plugins of strangers, pip-installed into a fresh environment: an engine, ready-made functions, and a broken one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Environment

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def environment(
    fresh_environment: Callable[[], Environment], copy_source: Callable[[Path], Path], root: Path
) -> Environment:
    made = fresh_environment()
    packages = sorted(path.parent for path in root.glob("examples/third_party/*/pyproject.toml"))
    made.install(*(copy_source(package) for package in packages))
    return made


@pytest.fixture(scope="module")
def report(environment: Environment) -> dict[str, dict[str, object]]:
    printed = environment.run("dflow", "plugins", "--json", code=1)
    return {str(one["distribution"]): one for one in json.loads(printed)["plugins"]}


def test_the_broken_plugin_is_shown_with_its_cause(report):
    broken = report["acme-broken"]
    assert broken["state"] == "failed" and broken["error"]


def test_the_broken_plugin_does_not_disturb_the_others(report):
    rest = {name: one["state"] for name, one in report.items() if name != "acme-broken"}
    assert set(rest.values()) == {"loaded"} and {"acme-numexpr", "acme-udfs"} <= set(rest)
