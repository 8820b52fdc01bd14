"""The options in force for the nodes of a graph, worked out once for all nodes with the same settings."""

from __future__ import annotations

from collections.abc import Mapping

from dflow_core.options import Options, as_texts, resolve


class ResolvedOptions:
    """`resolve`, for as long as a graph is compiled.

    Args:
        session: Options of the session.
    """

    def __init__(self, session: Mapping[str, object]) -> None:
        self._session = session
        self._known: dict[str, Options] = {}
        self._texts: dict[int, dict[str, str]] = {}

    def of(self, settings: Mapping[str, object]) -> Options:
        """The options in force where a graph has these settings.

        Raises:
            OptionError: see `resolve`.
        """
        key = repr(sorted(settings.items())) if settings else ""
        if key not in self._known:
            self._known[key] = resolve(self._session, settings)
        return self._known[key]

    def texts_of(self, settings: Mapping[str, object]) -> dict[str, str]:
        """The same as texts, see `as_texts`."""
        options = self.of(settings)
        if id(options) not in self._texts:
            self._texts[id(options)] = as_texts(options)
        return dict(self._texts[id(options)])
