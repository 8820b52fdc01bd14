"""A session: compile a graph, plan it, deploy it, run it. It reads like the life of a graph (design: section 4).

The only module that knows compiler, deploy and executor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from dflow_core import builtin
from dflow_core.compiler import BuildReport, CompileCache, FlowModelBuilder, check_graph
from dflow_core.deploy import (
    Daemon,
    Links,
    LocalDeployer,
    Means,
    Placed,
    Resources,
    deploy_jointly,
    machine_resources,
    place_nodes,
    plan_deployment,
    with_called_instances,
)
from dflow_core.errors import ClosedError, Fault, UsageError
from dflow_core.executor import (
    Backend,
    InlineBackend,
    QueueBackend,
    counted_status,
    make_gateway,
    with_failed_calls,
)
from dflow_core.graph import FlowGraph, Place
from dflow_core.model import GRAPH_OPTIONS, DeployPlan, FlowModel
from dflow_core.options import Options, Value, as_texts, from_texts, normalize, resolve
from dflow_core.plugins import PluginRegistry, load_plugins
from dflow_core.recording import Keeper, Recorder
from dflow_core.running_graph import RunningGraph
from dflow_core.spi import Deployer, Deployment, FlowFunc, LinkConfig

KEY_VARIABLE = "DFLOW_LINK_KEY"


class DFlowSession:
    """Compiles and runs graphs with one set of options and plugins.

    Args:
        options: Option names and values.
        registry: Plugins; all installed ones if not given.
        deployers: Deployers by scheme that are there already; the session ends them.
    """

    def __init__(
        self, options: Mapping[str, str] | None = None, registry: PluginRegistry | None = None,
        deployers: Mapping[str, Deployer] | None = None,
    ) -> None:
        self._given: dict[str, Value] = normalize(options, "session")
        if "log_level" in self._given or "DFLOW_LOG_LEVEL" in os.environ:
            logging.getLogger("dflow").setLevel(resolve(self._given).log_level.upper())
        self._registry = registry
        self._deployers: dict[str, Deployer] = dict(deployers or {})
        self._running: list[RunningGraph] = []
        self._lock = threading.RLock()
        self._closed = False

    def __enter__(self) -> DFlowSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def registry(self) -> PluginRegistry:
        """The plugins of this session, loaded when first needed."""
        with self._lock:
            if self._registry is None:
                named = {name.strip() for name in resolve(self._given).plugins.split(",")} - {""}
                self._registry = load_plugins(builtin=[builtin], allow=named or None)
            return self._registry

    @property
    def running(self) -> Sequence[RunningGraph]:
        """Graphs that run in this session."""
        with self._lock:
            return tuple(self._running)

    def check(self, graph: FlowGraph) -> tuple[Fault, ...]:
        """Every fault of a graph; starts nothing and compiles nothing."""
        return check_graph(graph, self.registry, self._given)

    def compile(self, graph: FlowGraph, *, cache: bool = True) -> FlowModel:
        """Turn a graph into what can be deployed.

        Args:
            graph: The graph.
            cache: Whether to use the compile cache.

        Raises:
            GraphError: with every fault of the graph.
            CompileError, PluginError: what an engine says.
        """
        return self.build(graph, cache=cache)[0]

    def build(self, graph: FlowGraph, *, cache: bool = True) -> tuple[FlowModel, BuildReport]:
        """`compile`, with the report of what was compiled and what came from the cache."""
        return self._builder(graph, cache=cache).build_and_report(graph)

    def plan(self, model: FlowModel) -> DeployPlan:
        """Decide which machine, process, device, thread count and queue everything gets.

        Raises:
            PlacementError: with every fault of the deploy file and the resource file.
        """
        options = self.options_of(model)
        shares = {name: entry.shares_process for name, entry in self.registry.engines.items()}
        transport = self.registry.local_transport(options.transport).scheme
        resources = machine_resources()
        model = with_called_instances(model)
        placed = self._placed(model, options, resources)
        found = plan_deployment(model, resources, shares, options, transport, placed.placements, placed.machines)
        plan = dataclasses.replace(found, notes=(*placed.notes, *found.notes))
        return with_failed_calls(plan) if options.record else plan

    def deploy(self, model: FlowModel, plan: DeployPlan) -> Deployment:
        """Start the processes of a plan, those on other machines by their daemons; returns when all are ready.

        Raises:
            StartupError: if one does not come up.
            PeerGoneError: a daemon does not answer.
        """
        options = self.options_of(model)
        deployer = self._deployer(options.deployer)
        if not plan.machines:
            return deployer.deploy(model, plan, as_texts(options))
        if not isinstance(deployer, LocalDeployer):
            raise UsageError(f"deployer {options.deployer!r} starts nothing on other machines", hint="use 'local'")
        links = Links(self.registry.link(options.link).factory(), link_config(options.link_lease), make_gateway)
        return deploy_jointly(deployer, links, model, plan, as_texts(options))

    def run(self, graph: FlowGraph | FlowModel, mode: str = "process") -> RunningGraph:
        """Compile a graph (or take a compiled one) and start it.

        Args:
            graph: What to run.
            mode: `process`, or `inline` for the caller's thread.
        """
        with self._lock:
            self._check_open()
        if mode == "process":
            own = graph.options if isinstance(graph, FlowGraph) else None
            self._deployer(resolve(self._given, own).deployer).warm_up()
        model, report = (graph, None) if isinstance(graph, FlowModel) else self.build(graph)
        options = self.options_of(model)
        with contextlib.ExitStack() as undo:
            recorder = _recorder(model, options)
            if recorder is not None:
                undo.callback(recorder.close)
            if mode == "inline":
                if options.deploy_info:
                    self._placed(model, options, machine_resources())  # mistakes are told in every mode
                backend: Backend = self.inline(model, records=recorder is not None)
                deployment = None
            else:
                deployment = self.deploy(model, self.plan(model))
                undo.callback(deployment.close)
                backend = QueueBackend(deployment)
            running = RunningGraph(model, options, backend, deployment, report, self._forget, recorder)
            undo.pop_all()
        with self._lock:
            self._running.append(running)
        return running

    def inline(
        self, model: FlowModel, *, records: bool = False, wrap: Callable[[str, FlowFunc], FlowFunc] | None = None,
        only: str = "",
    ) -> InlineBackend:
        """A compiled graph loaded into this process, to be run in the caller's thread; arguments as for InlineBackend.

        Raises:
            Whatever loading its nodes raises.
        """
        loaders = {part.engine: self.registry.engine(part.engine).worker() for part in model.submodels.values()}
        return InlineBackend(
            model, loaders, lambda name: self.registry.udf(name).factory(), records=records, wrap=wrap, only=only,
            options=as_texts(self.options_of(model)),
        )

    def update(self, running: RunningGraph, graph: FlowGraph, place: Place, timeout: float) -> int:
        """Compile what is to work from now on in a place of a running graph, and let it; see `GraphControl.exchange`.

        Args:
            running: The running graph.
            graph: The same graph, with another process point in that place.
            place: Which.
            timeout: Seconds for everything in flight to end.

        Raises:
            UsageError: what works there now has other ports, functions or another engine.
            GraphError, CompileError, StartupError, WaitTimeoutError: what stops it; nothing has changed then.
        """
        old, path = running.model, place.paths[0]
        names = place.names_in(old.submodels)
        kept = {name: part for name, part in old.submodels.items() if name not in names}
        made = self._builder(graph).build_and_report(graph, kept)[0]
        if made.relation != old.relation:
            raise UsageError("it has other ports than what it replaces", node=path, hint="start a new graph with it")
        for name in names:
            part, before = made.submodels[name], old.submodels[name]
            if (part.engine, part.options) != (before.engine, before.options):
                raise UsageError(
                    f"it runs on engine {part.engine}, what it replaces on {before.engine}, or has other node options",
                    node=path, hint="start a new graph with it",
                )
        return running.exchange({name: made.submodels[name] for name in names}, timeout)

    def close(self) -> None:
        """End every graph of the session, and what its deployers share. Idempotent."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, []
            deployers, self._deployers = dict(self._deployers), {}
        for graph in running:
            graph.close()
        for deployer in deployers.values():
            deployer.close()

    def _builder(self, graph: FlowGraph, *, cache: bool = True) -> FlowModelBuilder:
        options = resolve(self._given, graph.options)
        store = CompileCache(options.cache_dir) if cache and options.cache and options.cache_dir else None
        return FlowModelBuilder(self.registry, self._given, store)

    def _placed(self, model: FlowModel, options: Options, resources: Resources) -> Placed:
        return place_nodes(model, options, resources, self.registry.engines, os.environ)

    def _deployer(self, scheme: str) -> Deployer:
        with self._lock:
            self._check_open()
            entry = self.registry.deployer(scheme)
            if scheme not in self._deployers:
                self._deployers[scheme] = entry.factory()
            return self._deployers[scheme]

    def _forget(self, running: RunningGraph) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._running.remove(running)

    def options_of(self, model: FlowModel) -> Options:
        """Options in force for a compiled graph: what it says itself, this session, what it was compiled with."""
        own = model.made_by.get(GRAPH_OPTIONS, "").split()
        given = {key: str(value) for key, value in self._given.items() if key not in own}
        return from_texts({**model.options, **given})

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the session is closed")


def link_config(lease: float, key: bytes | None = None) -> LinkConfig:
    """This end of links to other machines.

    Args:
        lease: Seconds without a word after which another machine counts as lost.
        key: Secret of all ends; that of the environment variable `DFLOW_LINK_KEY` if not given.
    """
    found = os.environ.get(KEY_VARIABLE, "").encode() if key is None else key
    return LinkConfig(socket.gethostname() or "a machine without a name", lease, found)


def open_daemon(registry: PluginRegistry, address: str, config: LinkConfig, link: str = "") -> Daemon:
    """Listen for applications on other machines, and run the parts of their graphs that are placed here.

    Args:
        registry: Plugins.
        address: Host and port to listen at; port 0 is any free one.
        config: This end of the links.
        link: Scheme of what joins machines; "" is the best there is.

    Raises:
        PluginError: nothing that joins machines is installed.
        UsageError: it is not possible to listen there.
    """
    return Daemon(registry.link(link).factory(), address, config, Means(LocalDeployer(), make_gateway, counted_status))


def _recorder(model: FlowModel, options: Options) -> Recorder | None:
    if not options.record:
        return None
    return Recorder(options.record, model, Keeper(options.record_good, options.record_limit))
