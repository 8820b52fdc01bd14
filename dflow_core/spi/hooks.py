"""The hooks a plugin may implement. Hooks only register; none decides.

A plugin is a module named by an entry point in the group `dflow.plugins`, with functions decorated by `hookimpl`. It
may set `DFLOW_SPI_VERSION` to the version it was written for; without it the current one is assumed.
Each hook returns entries: ids with functions that import late, so that listing plugins imports no driver.
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from dflow_core.spi.entries import DeployerEntry, EngineEntry, LinkEntry, PointEntry, TransportEntry, UdfEntry

SPI_VERSION = 1
ENTRY_POINT_GROUP = "dflow.plugins"
PROJECT = "dflow"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def dflow_register_engines() -> Sequence[EngineEntry]:  # type: ignore[empty-body]
    """Called once when plugins are loaded; return the engines this plugin offers."""


@hookspec
def dflow_register_process_points() -> Sequence[PointEntry]:  # type: ignore[empty-body]
    """Called once when plugins are loaded; return the kinds of process points this plugin adds."""


@hookspec
def dflow_register_transports() -> Sequence[TransportEntry]:  # type: ignore[empty-body]
    """Called once when plugins are loaded; return the transports this plugin offers."""


@hookspec
def dflow_register_links() -> Sequence[LinkEntry]:  # type: ignore[empty-body]
    """Called once when plugins are loaded; return what this plugin offers to join machines."""


@hookspec
def dflow_register_udfs() -> Sequence[UdfEntry]:  # type: ignore[empty-body]
    """Called once when plugins are loaded; return the ready-made UDFs this plugin offers."""


@hookspec
def dflow_register_deployers() -> Sequence[DeployerEntry]:  # type: ignore[empty-body]
    """Called once when plugins are loaded; return the deployers this plugin offers."""
