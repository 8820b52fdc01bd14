"""Compiles nodes with their engines, in parallel, through the cache."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from dflow_core.compiler.cache import CompileCache, entry_key
from dflow_core.compiler.ir import IrNode
from dflow_core.compiler.report import CacheState, NodeReport
from dflow_core.compiler.resolved import ResolvedOptions
from dflow_core.errors import CompileError, DflowError, ModelFormatError, PluginError
from dflow_core.model import PneModel
from dflow_core.plugins import PluginRegistry
from dflow_core.spi import SPI_VERSION, CompileContext, Engine
from dflow_core.types import DataType, FuncSpec, NodeOptions, TensorSpec

if TYPE_CHECKING:
    from concurrent.futures import Executor

S = TypeVar("S")
T = TypeVar("T")
_THREADS = 8


@dataclass(frozen=True, slots=True)
class _Job:
    """A node, the engine that compiles it, the key of everything that goes into it, and whether the cache is used."""

    node: IrNode
    engine: Engine
    context: CompileContext
    notes: list[str]
    key: bytes = b""
    cached: bool = False


class NodeCompiler:
    """Compiles the nodes of one graph.

    Args:
        registry: Who gives what.
        session: Options of the session.
        cache: Where compiled models are kept; None compiles everything.
        version: Version of dflow, part of every key.
    """

    def __init__(
        self, registry: PluginRegistry, session: Mapping[str, object], cache: CompileCache | None, version: str
    ) -> None:
        self._registry = registry
        self._in_force = ResolvedOptions(session)
        self._cache = cache
        self._version = version
        self._engines: dict[str, Engine] = {}
        self._given_up = threading.Event()

    def compile(self, nodes: Sequence[IrNode], graph: str) -> tuple[list[PneModel], list[NodeReport]]:
        """The models of all nodes, in order, and what became of each.

        Args:
            nodes: Nodes with engines.
            graph: What the graph is called in the cache's listing.

        Raises:
            CompileError: nodes that cannot be compiled; names each with its cause.
        """
        from concurrent.futures import ThreadPoolExecutor

        jobs = [self._job(node) for node in nodes if node.compiled is None]
        first: dict[bytes, _Job] = {}
        with ThreadPoolExecutor(min(_THREADS, len(jobs) or 1), "dflow-compile") as pool, self._giving_up():
            jobs = _in_parallel(pool, self._with_key, jobs)
            for job in jobs:
                first.setdefault(job.key, job)
            made = _in_parallel(pool, lambda job: self._made(job, graph), list(first.values()))
        results = dict(zip(first, made))
        keys = {job.node.name: job.key for job in jobs}
        models, reports = [], []
        for node in nodes:
            if node.compiled is not None:
                own = {"labels": node.labels, "balance": node.balance or node.compiled.balance}
                models.append(replace(node.compiled, name=node.name, options=node.options, **own))  # type: ignore[arg-type]
                reports.append(NodeReport(node.name, node.engine, "loaded", 0.0))
                continue
            model, report = results[keys[node.name]]
            shared = report.node != node.name
            models.append(finished(node, model))
            reports.append(replace(report, node=node.name, cache="shared", seconds=0.0) if shared else report)
        return models, reports

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        """An interrupt inside tells engines that nobody waits for them."""
        try:
            yield
        except BaseException:
            self._given_up.set()
            raise

    def _job(self, node: IrNode) -> _Job:
        notes: list[str] = []
        options = self._in_force.texts_of(node.settings)
        context = CompileContext(
            node.name, options, len(node.inputs), len(node.outputs), notes.append, self._given_up.is_set
        )
        if node.engine not in self._engines:
            # Made here and not in the threads: an engine is made once.
            self._engines[node.engine] = _blaming(node, "start", self._registry.engine(node.engine).engine)
        return _Job(node, self._engines[node.engine], context, notes)

    def _with_key(self, job: _Job) -> _Job:
        node = job.node
        content = _blaming(node, "read", lambda: job.engine.cache_key(node.point, job.context))
        key = entry_key({
            "content": content,
            "own": b"" if content else node.name,
            "kind": node.point.kind,
            "engine": node.engine,
            "engine version": self._registry.engine(node.engine).version,
            "spi": str(SPI_VERSION),
            "dflow": self._version,
            "ports": f"{len(node.inputs)} {len(node.outputs)}",
        })
        return replace(job, key=key, cached=bool(content) and self._cache is not None)

    def _made(self, job: _Job, graph: str) -> tuple[PneModel, NodeReport]:
        node, cache = job.node, self._cache if job.cached else None
        began = time.monotonic()
        state: CacheState = "off" if cache is None else "miss"
        kept = cache.load(job.key) if cache is not None else None
        if kept is not None and kept.model.engine == node.engine:
            state, model = "hit", kept.model
            job.notes.extend(kept.notes)
        else:
            made = _blaming(node, "compile", lambda: job.engine.compile(node.point, job.context))
            finished(node, made)
            # What is kept says nothing of the node it was compiled for: others may use it.
            model = replace(made, name="", engine=node.engine, options=NodeOptions(), labels=(), balance="")
            if cache is not None:
                label = {"graph": graph, "node": node.name, "engine": node.engine, "dflow": self._version}
                cache.store(job.key, model, label, job.notes)
        return model, NodeReport(node.name, node.engine, state, time.monotonic() - began, tuple(job.notes))


def finished(node: IrNode, model: PneModel) -> PneModel:
    """What an engine made, with what only the graph knows: name, engine, options, functions and open tensor types.

    Raises:
        CompileError: the model has other ports than the node.
    """
    unknown = TensorSpec(DataType.UNDEFINED)
    inputs = model.inputs or (unknown,) * len(node.inputs)
    outputs = model.outputs or (unknown,) * len(node.outputs)
    for what, have, want in (("input", inputs, node.inputs), ("output", outputs, node.outputs)):
        if len(have) != len(want):
            text = f"the model has {len(have)} {what}s, the node {len(want)}"
            raise CompileError(text, node=node.name, hint=f"make the node with {what}_num={len(have)}")
    whole = FuncSpec("", tuple(range(len(inputs))), tuple(range(len(outputs))))
    functions = node.functions or node.point.functions or model.functions or (whole,)
    return replace(
        model, name=node.name, engine=node.engine, inputs=inputs, outputs=outputs, functions=functions,
        options=node.options, labels=node.labels, balance=node.balance,
    )


def _blaming(node: IrNode, what: str, step: Callable[[], T]) -> T:
    """Runs a step of an engine; its errors name the node, others than dflow's become CompileErrors."""
    try:
        return step()
    except DflowError as error:
        error.node = error.node or node.name
        raise
    except ImportError as cause:
        text = f"engine {node.engine!r} cannot {what} it: {cause}"
        raise PluginError(text, node=node.name, hint="`dflow doctor` says what is missing") from cause
    except (Exception, SystemExit) as cause:  # a plugin must not end its host
        text = f"engine {node.engine!r} cannot {what} it: {type(cause).__name__}: {cause}"
        raise CompileError(text, node=node.name) from cause


def _in_parallel(pool: Executor, work: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """Results for all items in order; when some fail, the others still run, and all errors are told."""
    futures = [pool.submit(work, item) for item in items]
    try:
        errors = [error for future in futures if (error := future.exception()) is not None]
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    if not errors:
        return [future.result() for future in futures]
    if len(errors) == 1:
        raise errors[0]
    lines = [f"{len(errors)} nodes cannot be compiled:", *(f"  {i}. {e}" for i, e in enumerate(errors, 1))]
    kind = next((k for k in (ModelFormatError, PluginError) if all(isinstance(e, k) for e in errors)), CompileError)
    raise kind("\n".join(lines)) from errors[0]
