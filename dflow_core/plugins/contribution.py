"""What one plugin gives, or why it gives nothing; the kinds of entries there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from dflow_core.errors import text_of
from dflow_core.spi import DeployerEntry, EngineEntry, LinkEntry, PointEntry, TransportEntry, UdfEntry

ALLOW_VARIABLE = "DFLOW_PLUGINS"
WELL_KNOWN: Mapping[str, str] = MappingProxyType({
    "CPU": "dflow-pne-cpu",
    "UDF": "dflow-pne-udf",
    "NPU": "dflow-pne-npu",
    "shm": "dflow-transport-shm",
    "grpc": "dflow-transport-grpc",
    "_BuiltIn_TimeBatch": "dflow-builtin-udf",
    "_BuiltIn_CountBatch": "dflow-builtin-udf",
    "_BuiltIn_Unbatch": "dflow-builtin-udf",
})
"""Which of our own distributions gives an id; for hints only."""


Entry: TypeAlias = "EngineEntry | PointEntry | TransportEntry | LinkEntry | UdfEntry | DeployerEntry"
State: TypeAlias = Literal["loaded", "failed", "blocked", "incompatible", "unneeded"]


@dataclass(frozen=True, slots=True)
class PluginReport:
    """What became of one plugin.

    Args:
        name: Name of its entry point.
        distribution: Distribution it came with.
        version: Version of that distribution.
        state: `loaded`; `failed`; `blocked` by the allow list; `incompatible` with this SPI version; `unneeded` where
            the caller asked for a few ids and others give them.
        error: Why it is not loaded, or which of its ids another plugin gives too; one line.
        provides: What it gives, in words such as `engine CPU`.
        detail: Traceback of the failure.
    """

    name: str
    distribution: str
    version: str
    state: State
    error: str = ""
    provides: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name!r} ({self.distribution} {self.version}".rstrip() + ")"


@dataclass(frozen=True, slots=True)
class Contribution:
    """One plugin: its report, the entries it gave, and the exception that stopped it."""

    report: PluginReport
    entries: tuple[Entry, ...] = ()
    cause: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of entry: how texts call it, which hook gives it, its class, and the field with its id."""

    name: str
    hook: str
    cls: type[Entry]
    key: str

    def id(self, entry: Entry) -> str:
        return str(getattr(entry, self.key))


ENGINE = Kind("engine", "dflow_register_engines", EngineEntry, "id")
POINT = Kind("process point", "dflow_register_process_points", PointEntry, "kind")
TRANSPORT = Kind("transport", "dflow_register_transports", TransportEntry, "scheme")
LINK = Kind("link", "dflow_register_links", LinkEntry, "scheme")
UDF = Kind("udf", "dflow_register_udfs", UdfEntry, "name")
DEPLOYER = Kind("deployer", "dflow_register_deployers", DeployerEntry, "scheme")
KINDS = (ENGINE, POINT, TRANSPORT, LINK, UDF, DEPLOYER)


def one_line(cause: BaseException) -> str:
    """An exception in one line."""
    return " ".join(f"{type(cause).__name__}: {text_of(cause)}".split())
