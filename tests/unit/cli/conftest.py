"""A command line that runs in this process, over fakes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from click.testing import CliRunner

from dflow_core.cli.app import app
from dflow_core.cli.services import Services
from dflow_core.plugins import Contribution, PluginRegistry, PluginReport
from dflow_core.spi import EngineEntry, TransportEntry


def no_engine() -> object:
    raise AssertionError("listing plugins must not load an engine")


def contribution(name: str, *entries: object, state: str = "loaded", error: str = "") -> Contribution:
    provides = tuple(f"entry {index}" for index, _ in enumerate(entries))
    report = PluginReport(name, f"dist-{name}", "1.2", state, error, provides, detail="Traceback: x" if error else "")
    return Contribution(report, entries)


def registry(*more: Contribution) -> PluginRegistry:
    cpu = EngineEntry("CPU", lambda point: True, no_engine, no_engine)
    udf = EngineEntry("UDF", lambda point: True, no_engine, no_engine)
    shm = TransportEntry("shm", factory=no_engine)
    return PluginRegistry([contribution("engines", cpu, udf), contribution("queues", shm), *more])


@dataclass
class Result:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)


@dataclass
class Cli:
    """Runs commands; change `services` to give them something else."""

    services: Services = field(default_factory=lambda: Services(registry=registry, trial=lambda: None))

    def __call__(self, *args: str, env: Mapping[str, str] | None = None) -> Result:
        done = CliRunner().invoke(app, list(args), obj=self.services, env=dict(env or {}), catch_exceptions=False)
        return Result(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def cli() -> Cli:
    return Cli()


@pytest.fixture
def make_registry() -> Callable[..., PluginRegistry]:
    return registry


@pytest.fixture
def make_contribution() -> Callable[..., Contribution]:
    return contribution
