"""From a model file to what loads its workers: everything a model needs goes through the core's own session."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dflow_core.deploy import estimate_memory, machine_resources
from dflow_core.errors import CompileError, DeployError, OptionError, UsageError
from dflow_core.graph import FlowData, FlowGraph, FlowOutput, Framework, GraphProcessPoint, ProcessPoint
from dflow_core.model import FlowModel, PneModel, read_om
from dflow_core.session import DFlowSession
from dflow_core.spi import ModelWorker, WorkerContext, WorkerLoader
from dflow_offline_inference.config import ModelConfig, ModelSource
from dflow_offline_inference.requests import LOGGER
from dflow_offline_inference.workers.remote import RemoteWorker

_HOST = "cpu:"
_FRAMEWORKS = {".onnx": Framework.ONNX, ".pb": Framework.TENSORFLOW}


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """A model ready to be loaded.

    Args:
        config: What was asked for.
        graph: It alone, as a graph.
        model: It.
        threads: Threads of each worker.
        weight: Bytes that one worker takes.
        places: Devices of its engine, by their logical number; none for an engine of the host's CPUs.
    """

    config: ModelConfig
    graph: FlowModel
    model: PneModel
    threads: int
    weight: int
    places: Sequence[str] = ()

    def device(self, instance: int) -> str:
        """Device of a worker."""
        return self.config.devices[instance % len(self.config.devices)]

    def graph_for(self, instance: int) -> FlowModel:
        """The graph of one worker, which goes where that worker is bound to."""
        device = self.device(instance)
        if device not in self.places:
            return self.graph
        options = {**self.graph.options, "model_devices": f"0:0:{self.places.index(device)}"}
        return replace(self.graph, options=options)


def compile_models(session: DFlowSession, configs: Mapping[str, ModelConfig]) -> dict[str, CompiledModel]:
    """Compile every model, or take it from the session's cache.

    Raises:
        UsageError, ModelFormatError, CompileError, PluginError: what is wrong with the first that cannot be.
    """
    cpus = machine_resources().cpus
    share = max(1, cpus // sum(config.instances for config in configs.values()))
    return {name: _compile(session, name, config, config.threads or share) for name, config in configs.items()}


def memory_limits(compiled: Mapping[str, CompiledModel], wanted: Mapping[str, int]) -> dict[str, int]:
    """What is left on each device for requests, after the models; devices without a known limit are left out.

    Raises:
        OptionError: a limit is given for a device where no model runs.
        DeployError: if the models alone take more than there is.
    """
    devices = list(dict.fromkeys(one.device(n) for one in compiled.values() for n in range(one.config.instances)))
    for device in wanted:
        if device not in devices:
            raise OptionError(f"memory= names device {device!r}, where no model runs",
                              hint=f"devices of the models: {', '.join(devices)}")
    limits: dict[str, int] = {}
    takers: dict[str, list[str]] = {}
    free = machine_resources().memory
    for name, one in compiled.items():
        for instance in range(one.config.instances):
            device = one.device(instance)
            limit = limits.setdefault(device, wanted.get(device, free if device.startswith(_HOST) else 0))
            if limit:
                limits[device] -= one.weight
                takers.setdefault(device, []).append(f"{name}#{instance} {one.weight} bytes")
    for device, left in limits.items():
        if left < 0:
            raise DeployError(
                f"device {device} has not memory enough for the models: {', '.join(takers[device])}; {-left} bytes "
                "are missing", hint="fewer instances, a smaller model, or a larger limit (memory=)",
            )
    return {device: left for device, left in limits.items() if left}


class Loaders:
    """Loads workers. Thread-safe: one model at a time, because engines load theirs in one thread of an executor.

    Args:
        session: Knows the engines, and starts processes.
        workers: `thread` or `process`.
    """

    def __init__(self, session: DFlowSession, workers: str) -> None:
        self._session = session
        self._workers = workers
        self._loaders: dict[str, WorkerLoader] = {}
        self._lock = threading.Lock()

    def of(self, name: str, compiled: CompiledModel) -> list[Callable[[], ModelWorker]]:
        """One function for each worker of a model, which gives it in the thread that will use it."""
        instances = range(compiled.config.instances)
        if self._workers == "process":
            return [functools.partial(RemoteWorker, self._session, compiled.graph_for(one)) for one in instances]
        return [functools.partial(self._load, name, compiled, instance) for instance in instances]

    def _load(self, name: str, compiled: CompiledModel, instance: int) -> ModelWorker:
        engine = compiled.model.engine
        context = WorkerContext(
            node=name, instance=instance, instance_count=compiled.config.instances, device=compiled.device(instance),
            threads=compiled.threads, options=compiled.graph.options,
            report=functools.partial(LOGGER.info, "model %r: %s", name),
        )
        with self._lock:
            if engine not in self._loaders:
                self._loaders[engine] = self._session.registry.engine(engine).worker()
            worker = self._loaders[engine](compiled.model, context)
        if not isinstance(worker, ModelWorker):
            raise UsageError(f"engine {engine} gives functions for {name!r}, not a model",
                             hint="run functions in a graph (df.FlowGraph)")
        return worker


def _compile(session: DFlowSession, name: str, config: ModelConfig, threads: int) -> CompiledModel:
    path = None if isinstance(config.model, ProcessPoint) else Path(config.model)
    if path is not None and path.suffix == ".om":
        graph = read_om(path)
    else:
        graph = session.compile(_graph_of(session, name, config))
    if len(graph.submodels) != 1:
        raise UsageError(f"{config.model} holds {len(graph.submodels)} models; one is needed here",
                         hint="run a graph of several with `dflow run`")
    ((key, model),) = graph.submodels.items()
    options = replace(model.options, instances=1, threads=threads, call_timeout=config.call_timeout)
    model = replace(model, options=options)
    graph = replace(graph, submodels={key: model})
    places = _places(session, name, model.engine, config.devices)
    weight = estimate_memory(graph, session.plan(graph)).models
    return CompiledModel(config, graph, model, threads, weight, places)


def _places(session: DFlowSession, name: str, engine: str, devices: Sequence[str]) -> Sequence[str]:
    """The devices of an engine, if any but the host's CPUs is asked for.

    Raises:
        OptionError: one is asked for that it has not.
    """
    asked = [device for device in devices if not device.startswith(_HOST)]
    places = session.registry.engine(engine).places
    found = [place.device for place in places()] if asked and places is not None else []
    for device in asked:
        if device not in found:
            raise OptionError(f"model {name!r}: engine {engine} has no device {device!r}",
                              hint=f"it has {', '.join(found) or 'those of the host alone, such as cpu:0'}")
    return found


def _graph_of(session: DFlowSession, name: str, config: ModelConfig) -> FlowGraph:
    point = _point_of(config.model, config.settings)
    described = session.registry.engine_for(point, config.engine, config.options).engine().describe(point)
    if described is None:
        raise CompileError(f"model {name!r}: its inputs and outputs are unknown before it is compiled",
                           hint="compile it into an .om file first, and give that")
    node = point.fnode(len(described.inputs), len(described.outputs), name)
    if config.engine:
        node.set_options(engine=config.engine)
    made = node(*(FlowData(f"input{index}") for index in range(len(described.inputs))))
    outputs = [made] if isinstance(made, FlowOutput) else list(made or ())
    return FlowGraph(outputs, config.options, name)


def _point_of(model: ModelSource, settings: Mapping[str, str]) -> ProcessPoint:
    if isinstance(model, ProcessPoint):
        return model
    suffix = os.path.splitext(model)[1].lower()
    if suffix not in _FRAMEWORKS:
        raise UsageError(f"{os.fspath(model)}: not a model file", hint=f"give {', '.join(_FRAMEWORKS)} or .om")
    return GraphProcessPoint(_FRAMEWORKS[suffix], model, None, "", None, **settings)
