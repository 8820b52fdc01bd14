"""A graph that runs: its client, its processes, its model, and the versions of its nodes."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence

from dflow_core.compiler import BuildReport, Need, need_of
from dflow_core.executor import (
    Backend,
    GraphClient,
    GraphControl,
    GraphStats,
    InlineBackend,
    OrderedClient,
    StallMonitor,
    graph_stats,
    needed_inputs,
    note_updates,
    own_stacks,
)
from dflow_core.message import Block
from dflow_core.model import FlowModel, PneModel, UdfModel
from dflow_core.options import Options
from dflow_core.recording import Recorder
from dflow_core.spi import Deployment
from dflow_core.types import AlignLimits, TensorSpec


class RunningGraph:
    """A graph that runs, with everything known about it.

    Args:
        model: The compiled graph.
        options: Options in force.
        backend: What moves its messages.
        deployment: Its processes; None inline.
        report: How it was compiled.
        on_close: Called once when it is closed.
        recorder: Records it.
    """

    def __init__(
        self, model: FlowModel, options: Options, backend: Backend, deployment: Deployment | None,
        report: BuildReport | None, on_close: Callable[[RunningGraph], None], recorder: Recorder | None = None,
    ) -> None:
        self.model = model
        self.deployment = deployment
        self.report = report
        self.versions: Mapping[str, int] = {}
        self._options = options
        self._backend = backend
        self._on_close = on_close
        relation = model.relation
        self.client = (OrderedClient if options.ordered else GraphClient)(
            model.name, relation.input_names, relation.output_names, backend, options.max_unfetched,
            observer=recorder,
            limits=_result_limits(options, model),
            catches=options.exception_catch,
            needs=needed_inputs(model) if len(relation.root.inputs) > 1 else None,
        )
        self.control = GraphControl(model.name, self.client, backend)
        if deployment is not None:
            deployment.introduce(self.answer)
        if deployment is not None and options.stall_report > 0:
            readers = {queue: i.model for i in deployment.plan.instances for queue in i.reads}
            processes = {(i.model, i.index): i.process for i in deployment.plan.instances}
            self.client.monitor = StallMonitor(
                options.stall_report, self.stats, readers, processes, deployment.stacks
            )

    @functools.cached_property
    def input_specs(self) -> Sequence[Sequence[TensorSpec]]:
        """For each root input, what the models behind it take; empty where a function takes anything."""
        relation = self.model.relation
        specs: list[list[TensorSpec]] = []
        for endpoint in relation.root.inputs:
            readers = relation.consumers(endpoint)
            found = [
                self.model.submodels[name].inputs[port]
                for name, port in readers
                if port < len(self.model.submodels[name].inputs)
                and not isinstance(self.model.submodels[name], UdfModel)
            ]
            specs.append(found)
        return specs

    @functools.cached_property
    def default_in_flight(self) -> int:
        """Transactions `map` keeps under way unless told otherwise: enough for every instance, and to fill batches."""
        instances = len(self.deployment.plan.instances) if self.deployment else 1
        return self._options.max_in_flight or 2 * instances + max(2, self.batch_need.enough)

    @functools.cached_property
    def batch_need(self) -> Need:
        """How many transactions have to be under way so that batches fill."""
        return need_of(self.model)

    @property
    def feed_timeout(self) -> float | None:
        """Longest wait of a feed for room, seconds; None is no limit."""
        return self._options.feed_timeout or None

    @property
    def fetch_timeout(self) -> float | None:
        """Longest wait of a fetch for a result, seconds; None is no limit."""
        return self._options.fetch_timeout or None

    def stats(self) -> GraphStats:
        """Counters of transactions, nodes and queues, read while the graph runs; any thread."""
        nodes, edges, bytes_in_use = self._backend.stats()
        if self.versions:
            nodes = tuple(dataclasses.replace(node, version=self.versions.get(node.node, 1)) for node in nodes)
        return graph_stats(self.model.name, self.client.counters, self.client.open_ids, nodes, edges, bytes_in_use)

    def answer(self, question: str) -> Mapping[str, object]:
        """The answer to a question from outside: `ps` (counters) or `stacks` (where every process is)."""
        if question == "ps":
            stats = self.stats()
            return {**dataclasses.asdict(stats), "status": stats.status, "notes": stats.notes}
        if question == "stacks":
            found = self.deployment.stacks() if self.deployment is not None else {}
            return {"graph": self.model.name, "pid": os.getpid(), "stacks": {"application": own_stacks(), **found}}
        return {"error": f"unknown question {question!r}"}

    def alloc(self, size: int) -> Block:
        """A block in the graph's memory."""
        return self._backend.alloc(size)

    def local_cause(self, node: str | None) -> BaseException | None:
        """The exception object user code raised in a node that runs in this process."""
        if node is None or not isinstance(self._backend, InlineBackend):
            return None
        return self._backend.last_exception(node)

    def exchange(self, models: Mapping[str, PneModel], timeout: float) -> int:
        """Put other models in the place of some; see `GraphControl.exchange`."""

        def adopt() -> Mapping[str, int]:
            self.model = dataclasses.replace(self.model, submodels={**self.model.submodels, **models})
            self.__dict__.pop("input_specs", None)
            news = {name: self.versions.get(name, 1) + 1 for name in models}
            self.versions = {**self.versions, **news}
            if self._options.trace:
                note_updates(self._options.trace, news)
            return self.versions

        return self.control.exchange(models, timeout, adopt)

    def close(self) -> None:
        """End it. Idempotent."""
        self._on_close(self)
        self.client.close()


def _result_limits(options: Options, model: FlowModel) -> AlignLimits:
    """How long results wait for each other: as long as each of the joins before them may wait, and once more."""
    limits = AlignLimits(options.align_max_cache, options.align_timeout, options.align_drop)
    longest = max([limits.timeout, *(limits.with_own(sub.options).timeout for sub in model.submodels.values())])
    turns = model.relation.joins_in_a_row if limits and limits.timeout else 0
    return dataclasses.replace(limits, timeout=limits.timeout + turns * longest)
