"""Finds plugins and loads each on its own, so that whatever one does wrong ends with it."""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING

import pluggy

from dflow_core.errors import PluginError
from dflow_core.plugins.contribution import (
    ALLOW_VARIABLE,
    KINDS,
    WELL_KNOWN,
    Contribution,
    Entry,
    Kind,
    PluginReport,
    one_line,
)
from dflow_core.plugins.registry import PluginRegistry
from dflow_core.spi import ENTRY_POINT_GROUP, SPI_VERSION, hooks

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint


@dataclass(frozen=True, slots=True)
class _Source:
    """A plugin before it is imported: what its metadata says, and the import."""

    report: PluginReport
    load: Callable[[], object]


def load_plugins(
    builtin: Sequence[ModuleType] = (),
    allow: Collection[str] | None = None,
    need: Collection[str] | None = None,
) -> PluginRegistry:
    """Load every plugin that is installed and allowed.

    Args:
        builtin: Modules that register through the same hooks without being installed; always loaded.
        allow: Entry point or distribution names of the plugins to load; None takes the comma separated list in the
            environment variable DFLOW_PLUGINS, and all where that is empty.
        need: Stop importing plugins when all these ids are there; None loads all. For executors, which know what they
            run; equal ids are then not noticed.

    Returns:
        The registry; never raises because of a plugin.
    """
    contributions = [_load(_builtin_source(module)) for module in builtin]
    allowed = _allowed(allow)
    missing = None if need is None else set(need)
    for source in _in_order(_discover(), missing):
        report = source.report
        if missing is not None:
            missing.difference_update(_ids(contributions))
        if allowed is not None and not allowed & {report.name, report.distribution}:
            contributions.append(Contribution(replace(report, state="blocked", error="the allow list leaves it out")))
        elif missing is not None and not missing:
            contributions.append(Contribution(replace(report, state="unneeded", error="nothing here needs it")))
        else:
            contributions.append(_load(source))
    return PluginRegistry(contributions)


def _allowed(allow: Collection[str] | None) -> set[str] | None:
    if allow is not None:
        return set(allow)
    named = {name.strip() for name in os.environ.get(ALLOW_VARIABLE, "").split(",")} - {""}
    return named or None


def _ids(contributions: Iterable[Contribution]) -> set[str]:
    return {kind.id(e) for given in contributions for e in given.entries for kind in KINDS if isinstance(e, kind.cls)}


def _in_order(sources: Iterable[_Source], need: set[str] | None) -> list[_Source]:
    """By name; those that likely give what is needed first."""
    likely = {WELL_KNOWN.get(name) for name in need or ()}
    return sorted(sources, key=lambda source: (source.report.distribution not in likely, source.report.name))


def _builtin_source(module: ModuleType) -> _Source:
    name = module.__name__.rpartition(".")[2]
    return _Source(PluginReport(name, "dflow-core", "", "loaded"), lambda: module)


def _discover() -> list[_Source]:
    if sys.version_info >= (3, 12):
        from importlib import metadata
    else:
        try:
            import importlib_metadata as metadata
        except ImportError:
            from importlib import metadata
    try:
        return [_entry_point_source(point) for point in metadata.entry_points(group=ENTRY_POINT_GROUP)]
    except Exception:
        # One distribution with torn metadata makes the call fail as a whole; the others must not suffer for it.
        found: dict[str, list[_Source]] = {}
        for dist in metadata.distributions():
            with contextlib.suppress(Exception):
                points = [point for point in dist.entry_points if point.group == ENTRY_POINT_GROUP]
                found.setdefault(dist.name, list(map(_entry_point_source, points)))
        return [source for sources in found.values() for source in sources]


def _entry_point_source(point: EntryPoint) -> _Source:
    name, version = _name_and_version(point.dist) if point.dist is not None else ("unknown distribution", "")
    return _Source(PluginReport(point.name, name, version, "loaded"), point.load)


def _name_and_version(dist: Distribution) -> tuple[str, str]:
    """From the first lines of its metadata: `dist.version` parses all as a mail, and imports what that takes."""
    text = dist.read_text("METADATA") or dist.read_text("PKG-INFO") or ""
    fields = dict(line.split(": ", 1) for line in text.partition("\n\n")[0].splitlines() if ": " in line)
    return fields.get("Name") or dist.name, fields.get("Version") or dist.version


def _load(source: _Source) -> Contribution:
    """Import one plugin and ask it for its entries; whatever it does wrong ends here."""
    report = source.report
    try:
        plugin = source.load()
        written_for = getattr(plugin, "DFLOW_SPI_VERSION", SPI_VERSION)
        if written_for != SPI_VERSION:
            text = f"it is written for SPI version {written_for}, this dflow has version {SPI_VERSION}"
            return Contribution(replace(report, state="incompatible", error=text))
        entries = _register(plugin, report.name)
    except KeyboardInterrupt:
        raise
    except BaseException as cause:  # also SystemExit: a plugin must not end its host
        detail = "".join(traceback.format_exception(type(cause), cause, cause.__traceback__))
        failed = replace(report, state="failed", error=one_line(cause), detail=detail)
        return Contribution(failed, cause=cause)
    provides = tuple(f"{kind.name} {kind.id(e)}" for kind in KINDS for e in entries if isinstance(e, kind.cls))
    return Contribution(replace(report, provides=provides), entries)


def _register(plugin: object, name: str) -> tuple[Entry, ...]:
    """Check a plugin's hooks and call them. Each plugin has a manager of its own: errors cannot be anybody else's."""
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(plugin, name)
    for hook in (caller for caller in manager.get_hookcallers(plugin) or () if not caller.has_spec()):
        near = difflib.get_close_matches(hook.name, [kind.hook for kind in KINDS], 1)
        raise PluginError(f"there is no hook {hook.name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    used = [kind for kind in KINDS if getattr(manager.hook, kind.hook).get_hookimpls()]
    if not used:
        raise PluginError("it implements no hook; decorate its registering functions with dflow_core.spi.hookimpl")
    found: list[Entry] = []
    for kind in used:
        entries = list(_entries(kind, getattr(manager.hook, kind.hook)()))
        ids = [kind.id(entry) for entry in entries]
        twice = sorted({i for i in ids if ids.count(i) > 1})
        if twice or "" in ids:
            raise PluginError(f"{kind.hook} gives " + (f"{twice[0]!r} twice" if twice else "an entry with an empty id"))
        found += entries
    return tuple(found)


def _entries(kind: Kind, results: Sequence[object]) -> Iterator[Entry]:
    """The entries in what a hook returned, each checked to be of the hook's kind."""
    given = results[0] if results else None  # pluggy leaves None out
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise PluginError(f"{kind.hook} returned {type(given).__name__}, not a sequence of {kind.cls.__name__}")
    for entry in given:
        if not isinstance(entry, kind.cls):
            raise PluginError(f"{kind.hook} gave a {type(entry).__name__} among its entries, not a {kind.cls.__name__}")
        yield entry
