"""A graph of the core that is started by its first feed and answers with codes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataflow import codes
from dataflow.results import Fetched, Item, Results
from dataflow.utils import log
from dataflow.utils.errors import code_of
from dflow_core import graph as core
from dflow_core.errors import AlignmentError, DflowError
from dflow_core.executor import Channel
from dflow_core.message import FeedInfo
from dflow_core.options import from_texts
from dflow_core.session import DFlowSession

if TYPE_CHECKING:
    from dflow_core.executor import GraphClient
    from dflow_core.running_graph import RunningGraph

__all__ = ["GraphRunner", "logged_code"]


class GraphRunner:
    """Compiles, starts, feeds and fetches one graph. Any thread.

    Args:
        graph: The graph.
        session: Where it runs.
        is_compile_only: Whether it is compiled and never started.
        is_placed: Whether a deploy file may give nodes several instances.
    """

    def __init__(
        self, graph: core.FlowGraph, session: DFlowSession, is_compile_only: bool, is_placed: bool = False
    ) -> None:
        self._graph = graph
        self._session = session
        self._is_compile_only = is_compile_only
        self._results = Results(len(graph.outputs))
        self._channel: Channel | None = Channel(endings=False)
        self._is_placed = is_placed
        self._running: RunningGraph | None = None
        self._client: GraphClient | None = None
        self._starting = threading.Lock()
        self._is_compiled = False
        self._is_aligned = False
        self.was_fed = False

    def start(self, faults: Sequence[str] = ()) -> int:
        """Compile and start the graph, unless that was done; 0, or FAILED with the reason in the log.

        Args:
            faults: Why it cannot be built, as far as its caller knows.
        """
        if self._client is not None:
            return codes.SUCCESS
        with self._starting:
            if self._client is not None or self._is_compiled:
                return codes.SUCCESS
            self.was_fed = True
            self._choose_channel()
            if faults:
                log.error("graph %s cannot be built: %s", self._graph.name, "; ".join(faults))
                return codes.FAILED
            try:
                if self._is_compile_only:
                    self._session.compile(self._graph)
                    self._is_compiled = True
                else:
                    self._running = self._session.run(self._graph)
                    if self._is_aligned:  # what is missing may still be fed
                        self._running.client.expect_all_outputs()
                    self._client = self._running.client
            except DflowError as error:
                log.error("graph %s cannot be started: %s", self._graph.name, error)
                return codes.FAILED
        return codes.SUCCESS

    def feed(self, values: dict[int, object], info: FeedInfo | None, timeout: int) -> int:
        """Feed values.

        Args:
            values: By input.
            info: What goes with them.
            timeout: Milliseconds to wait for room; -1 has no limit.

        Returns:
            0, or the code of what went wrong.
        """
        if timeout < -1:
            return codes.FAILED
        if self._client is None:
            return codes.SUCCESS  # compile only
        try:
            self._client.feed(
                values, info=info, timeout=None if timeout < 0 else timeout / 1000, channel=self._channel
            )
        except DflowError as error:
            code = code_of(error)
            log.log(log.INFO if code == codes.QUEUE_FULL else log.ERROR, "feeding %s: %s", self._graph.name, error)
            return code
        return codes.SUCCESS

    def take(self, wanted: Sequence[int], timeout: int) -> tuple[list[Item], int]:
        """The next message or error of each wanted output.

        Args:
            wanted: Outputs, each once.
            timeout: Milliseconds to wait; -1 has no limit, 0 looks once.

        Returns:
            One for each and 0; or none and the code of what went wrong.
        """
        if self._client is None or timeout < -1 or len(set(wanted)) != len(wanted):
            return [], codes.FAILED
        try:
            return self._results.take(
                wanted, self._next_outcome, None if timeout < 0 else timeout / 1000
            ), codes.SUCCESS
        except DflowError as error:
            code = code_of(error, codes.MODEL_EXECUTE_TIMEOUT if timeout else codes.QUEUE_EMPTY)
            if code == codes.FAILED:
                log.error("fetching from graph %s: %s", self._graph.name, error)
            return [], code

    def _choose_channel(self) -> None:
        """How results come: each output by itself, as scripts expect; but aligned ones together, and those of several
        instances in the order they were fed (where each input gives one output, runtime-semantics.md section 12).
        """
        self._is_aligned = self._graph.options.get("align_max_cache", "0") != "0"
        if self._is_placed and not self._graph.contains_n_mapping_node:
            self._graph.options["ordered"] = "1"
            self._channel = None
        elif self._channel is not None:
            self._channel.by_output = not self._is_aligned

    @property
    def _drops(self) -> bool:
        """Whether sets that stay incomplete are dropped without a word."""
        return from_texts({"align_drop": self._graph.options.get("align_drop", "0")}).align_drop

    def _next_outcome(self, timeout: float | None) -> Fetched:
        assert self._client is not None
        channel = self._channel
        outcome = self._client.fetch(timeout) if channel is None else self._client.take(channel, timeout)
        items: Sequence[Item | None] = outcome.messages
        if isinstance(outcome.error, AlignmentError) and self._drops:
            return [None] * len(self._graph.outputs), None, ()
        if self._is_aligned and any(item is None for item in items):
            items = self._filled(items)
        return items, outcome.error, outcome.silent

    def _filled(self, items: Sequence[Item | None]) -> Sequence[Item | None]:
        """A set of results that stays incomplete, because a branch was not taken: an error for each that is missing."""
        if self._drops:
            return [None] * len(items)
        missing = AlignmentError("nothing was sent to this output for the transaction")
        return [missing if item is None else item for item in items]


def logged_code(graph: str, items: Sequence[Item]) -> int:
    """The code of the last error among fetched items, each of which is told in the log; 0 if there is none."""
    code = codes.SUCCESS
    for error in dict.fromkeys(item for item in items if isinstance(item, DflowError)):
        log.error("graph %s: %s", graph, error)
        code = code_of(error)
    return code
