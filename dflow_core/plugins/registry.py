"""Who gives what: the answers to every question about plugins."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Generic, TypeVar

from dflow_core.errors import PluginError
from dflow_core.graph import ProcessPoint
from dflow_core.plugins.contribution import (
    ALLOW_VARIABLE,
    DEPLOYER,
    ENGINE,
    LINK,
    POINT,
    TRANSPORT,
    UDF,
    WELL_KNOWN,
    Contribution,
    Kind,
    PluginReport,
    one_line,
)
from dflow_core.spi import DeployerEntry, EngineEntry, LinkEntry, PointEntry, TransportEntry, UdfEntry

_ENGINE_OF_KIND: Mapping[str, str] = MappingProxyType({"graph": "CPU", "func": "UDF"})

E = TypeVar("E", EngineEntry, PointEntry, TransportEntry, LinkEntry, UdfEntry, DeployerEntry)


class _Shelf(Generic[E]):
    """Entries of one kind, with who gave them."""

    def __init__(self, kind: Kind, cls: type[E], contributions: Iterable[Contribution]) -> None:
        self.kind = kind
        self.owners: dict[str, list[tuple[E, PluginReport]]] = {}
        for given in contributions:
            for entry in given.entries:
                if isinstance(entry, cls):
                    self.owners.setdefault(kind.id(entry), []).append((entry, given.report))

    @property
    def unique(self) -> Mapping[str, E]:
        """Entries whose id one plugin alone gives."""
        return MappingProxyType({name: given[0][0] for name, given in self.owners.items() if len(given) == 1})

    def entries(self) -> Iterator[E]:
        return (entry for given in self.owners.values() for entry, _ in given)

    def conflict(self, name: str) -> str:
        """Who gives an id besides each other, or "" if only one does."""
        owners = [str(report) for _, report in self.owners[name]]
        return f"{self.kind.name} {name!r} is given by plugins {' and '.join(owners)}" if len(owners) > 1 else ""


class PluginRegistry:
    """Who gives what. Read-only once made; safe to share between threads.

    Args:
        contributions: What each plugin gave, or why it gave nothing.
    """

    def __init__(self, contributions: Sequence[Contribution] = ()) -> None:
        self._contributions = tuple(contributions)
        self._engines = _Shelf(ENGINE, EngineEntry, contributions)
        self._points = _Shelf(POINT, PointEntry, contributions)
        self._transports = _Shelf(TRANSPORT, TransportEntry, contributions)
        self._links = _Shelf(LINK, LinkEntry, contributions)
        self._udfs = _Shelf(UDF, UdfEntry, contributions)
        self._deployers = _Shelf(DEPLOYER, DeployerEntry, contributions)
        self._shelves = (self._engines, self._points, self._transports, self._links, self._udfs, self._deployers)
        self.report: tuple[PluginReport, ...] = tuple(map(self._final_report, self._contributions))

    @property
    def engines(self) -> Mapping[str, EngineEntry]:
        """Engines by id."""
        return self._engines.unique

    @property
    def point_kinds(self) -> Mapping[str, PointEntry]:
        """Kinds of process points by kind."""
        return self._points.unique

    @property
    def transports(self) -> Mapping[str, TransportEntry]:
        """Transports by scheme."""
        return self._transports.unique

    @property
    def links(self) -> Mapping[str, LinkEntry]:
        """What joins machines, by scheme."""
        return self._links.unique

    @property
    def udfs(self) -> Mapping[str, UdfEntry]:
        """Ready-made UDFs by name."""
        return self._udfs.unique

    @property
    def deployers(self) -> Mapping[str, DeployerEntry]:
        """Deployers by scheme."""
        return self._deployers.unique

    def engine(self, engine_id: str) -> EngineEntry:
        """The engine of an id.

        Raises:
            PluginError: if no plugin gives it, or more than one.
        """
        return self._ask(self._engines, engine_id)

    def engine_for(
        self, point: ProcessPoint, wanted: str = "", options: Mapping[str, str] | None = None
    ) -> EngineEntry:
        """The engine for a process point: the one wanted, else the highest priority from 0 that accepts it.

        An engine may name another that takes over, see `EngineEntry.instead`.

        Args:
            point: What is to be compiled.
            wanted: Id the user named, or "".
            options: Options in force for it.

        Raises:
            PluginError: if there is none, if the one wanted does not accept the point, or if two are equally good.
        """
        entry = self._first_for(point, wanted)
        other = "" if entry.instead is None else entry.instead(point, options or {})
        return self._first_for(point, other) if other else entry

    def _first_for(self, point: ProcessPoint, wanted: str) -> EngineEntry:
        if wanted:
            entry = self.engine(wanted)
            if not self._accepts(entry, point):
                others = [e.id for e in self.engines.values() if e is not entry and self._accepts(e, point)]
                hint = f"engines that take it: {', '.join(others)}" if others else None
                raise PluginError(
                    f"engine {wanted!r} does not take process points of kind {point.kind!r}", node=point.name, hint=hint
                )
            return entry
        # Highest first, so that a broken `accepts` counts only where its engine could have been chosen.
        unasked = {entry.priority for entry in self._engines.entries() if entry.priority >= 0}
        for priority in sorted(unasked, reverse=True):
            equals = [entry for entry in self._engines.entries() if entry.priority == priority]
            takers = list(dict.fromkeys(entry.id for entry in equals if self._accepts(entry, point)))
            if len(takers) > 1:
                named = " and ".join(f"{name!r} of plugin {self._owner(name)}" for name in takers)
                raise PluginError(
                    f"engines {named} take process points of kind {point.kind!r} with equal priority",
                    node=point.name, hint="say which one the node is to use",
                )
            if takers:
                return self.engine(takers[0])
        likely = _ENGINE_OF_KIND.get(point.kind, "")
        raise self._missing(
            f"no engine takes process points of kind {point.kind!r}",
            likely, list(self._engines.owners), node=point.name,
        )

    def transport(self, scheme: str) -> TransportEntry:
        """The transport of a scheme.

        Raises:
            PluginError: if no plugin gives it, or more than one.
        """
        return self._ask(self._transports, scheme)

    def local_transport(self, wanted: str = "") -> TransportEntry:
        """The transport between processes of this machine: the one wanted, else the highest priority.

        Raises:
            PluginError: if there is none, or if two are equally good.
        """
        if wanted:
            return self.transport(wanted)
        found = [entry for entry in self._transports.entries() if entry.cross_process]
        if not found:
            raise self._missing("no transport between processes of this machine is installed", "shm", [])
        return self.transport(_best(self._transports.kind, [(entry.priority, entry.scheme) for entry in found]))

    def link(self, wanted: str = "") -> LinkEntry:
        """What joins machines: the one wanted, else the highest priority.

        Raises:
            PluginError: if there is none, or if two are equally good.
        """
        found = [(entry.priority, entry.scheme) for entry in self._links.entries()]
        if not found and not wanted:
            raise self._missing("nothing that joins machines is installed", "grpc", [])
        return self._ask(self._links, wanted or _best(self._links.kind, found))

    def udf(self, name: str) -> UdfEntry:
        """The ready-made UDF of a name.

        Raises:
            PluginError: if no plugin gives it, or more than one.
        """
        return self._ask(self._udfs, name)

    def deployer(self, scheme: str) -> DeployerEntry:
        """The deployer of a scheme.

        Raises:
            PluginError: if no plugin gives it, or more than one.
        """
        return self._ask(self._deployers, scheme)

    def point_kind(self, kind: str) -> PointEntry:
        """The kind of process point of a name.

        Raises:
            PluginError: if no plugin gives it, or more than one.
        """
        return self._ask(self._points, kind)

    def _ask(self, shelf: _Shelf[E], name: str) -> E:
        given = shelf.owners.get(name)
        if given is None:
            raise self._missing(f"no plugin gives {shelf.kind.name} {name!r}", name, list(shelf.owners))
        if len(given) > 1:
            raise PluginError(
                shelf.conflict(name),
                hint=f"uninstall one of them, or name those to load in {ALLOW_VARIABLE}",
            )
        return given[0][0]

    def _owner(self, engine_id: str) -> PluginReport:
        return self._engines.owners[engine_id][0][1]

    def _final_report(self, given: Contribution) -> PluginReport:
        clashes = [
            shelf.conflict(name)
            for shelf in self._shelves
            for name in shelf.owners
            if f"{shelf.kind.name} {name}" in given.report.provides
        ]
        return replace(given.report, error="; ".join(filter(None, [given.report.error, *clashes])))

    def _accepts(self, entry: EngineEntry, point: ProcessPoint) -> bool:
        try:
            return bool(entry.accepts(point))
        except Exception as cause:
            owner = self._owner(entry.id)
            raise PluginError(
                f"plugin {owner}: engine {entry.id!r} failed when asked whether it takes a process point of kind "
                f"{point.kind!r}: {one_line(cause)}", node=point.name,
            ) from cause

    def _missing(self, what: str, name: str, known: list[str], node: str | None = None) -> PluginError:
        """What to tell somebody who asks for what nobody gives; caused by the plugin that failed, if one did."""
        lines, hints = [what], []
        stopped = [given for given in self._contributions if given.report.state in ("failed", "incompatible")]
        for given in stopped:
            lines.append(f"  plugin {given.report} could have given it, but {given.report.error}")
        near = difflib.get_close_matches(name.lower(), [k.lower() for k in known], 3, 0.6)
        near = [k for k in known if k.lower() in near]
        if near:
            hints.append("did you mean " + " or ".join(map(repr, near)) + "?")
        elif known:
            lines.append(f"  known: {', '.join(sorted(known))}")
        blocked = [given.report for given in self._contributions if given.report.state == "blocked"]
        if blocked:
            kept_out = ", ".join(map(str, blocked))
            hints.append(f"the allow list keeps out {kept_out}: add what you need to {ALLOW_VARIABLE}")
        distribution = WELL_KNOWN.get(name)
        present = {given.report.distribution for given in self._contributions}
        if distribution and distribution not in present:
            hints.append(f"pip install {distribution}")
        elif stopped:
            hints.append("repair or reinstall it; `dflow plugins` shows the whole story")
        error = PluginError("\n".join(lines), node=node, hint="; ".join(hints) or None)
        error.__cause__ = next((given.cause for given in stopped if given.cause is not None), None)
        return error


def _best(kind: Kind, found: Sequence[tuple[int, str]]) -> str:
    """The id with the highest priority."""
    best = max(priority for priority, _ in found)
    names = list(dict.fromkeys(name for priority, name in found if priority == best))
    if len(names) > 1:
        raise PluginError(f"{kind.name}s {' and '.join(names)} have equal priority", hint="say which one to use")
    return names[0]
