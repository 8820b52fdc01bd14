"""The executor process: loads what it is told to, runs it in a thread for each instance, and obeys the application.

The main thread serves the control connection and nothing else, so it answers while user code works, and ends with the
application: when the connection is at its end, so is the process. A signal ends it as it stands, so that everything it
holds is found and answered for; an orderly end is asked for over the connection.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import mmap
import os
import re
import select
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dflow_core.errors import DflowError, NodeError, PeerGoneError, RunError, text_of
from dflow_core.executor.node.explanation import traceback_of
from dflow_core.executor.process.instance import InstanceRunner
from dflow_core.model import InstancePlan, PneModel, UdfModel, unpack_submodel
from dflow_core.model.control_serde import (
    ControlMessage,
    ControlReader,
    ExceptionNote,
    Failure,
    Fatal,
    InstanceDone,
    InstanceState,
    LoadFailed,
    LoadRequest,
    Obeyed,
    Order,
    OrderKind,
    Ready,
    Status,
    StatusRequest,
    Stop,
    frame_control,
)
from dflow_core.plugins import ALLOW_VARIABLE, PluginRegistry, load_plugins
from dflow_core.spi import GroupHandle, MemoryGroup

_CHUNK = 65536
_MAX_FDS = 250
_QUIET_POLL = 2  # milliseconds
_DONE, _GONE, _BROKEN, _NOT_LOADED = 0, 1, 70, 71
_BLAS = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "openblas_set_num_threads")


@dataclass(slots=True, eq=False)
class _Instance:
    """One instance, its thread, and how far it is."""

    plan: InstancePlan
    model: PneModel
    runner: InstanceRunner
    thread: threading.Thread | None = None
    loaded: bool = False
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """Plugins loaded in the template process, and what that depends on; see `prepare`."""

    builtins: tuple[str, ...]
    allowed: tuple[str, ...] | None
    variable: str | None
    path: frozenset[str]
    registry: PluginRegistry

    def fits(self, request: LoadRequest) -> bool:
        """Whether loading the plugins here and now would give the same."""
        same = (self.builtins, self.allowed) == (request.builtins, request.allowed_plugins)
        return same and self.variable == os.environ.get(ALLOW_VARIABLE) and self.path.issuperset(sys.path)


def prepare(builtins: Sequence[str], allowed: Sequence[str] | None) -> Prepared:
    """Find and load plugins once for all executors that are forked from this process.

    Args:
        builtins: Modules whose plugin hooks are registered without being installed.
        allowed: Plugins that may be loaded; None is the environment's choice.
    """
    modules = [importlib.import_module(name) for name in builtins]
    return Prepared(
        tuple(builtins), None if allowed is None else tuple(allowed), os.environ.get(ALLOW_VARIABLE),
        frozenset(sys.path), load_plugins(modules, allowed),
    )


def main(control_fd: int, prepared: Prepared | None = None) -> int:
    """Run an executor until it is told to end.

    Args:
        control_fd: Descriptor of the control connection.
        prepared: What the template has prepared.

    Returns:
        Exit code.
    """
    with socket.socket(fileno=control_fd) as connection:
        return _Executor(connection, prepared).serve()


class _Executor:
    """Serves one control connection."""

    def __init__(self, connection: socket.socket, prepared: Prepared | None) -> None:
        self._connection = connection
        self._prepared = prepared
        self._reader = ControlReader()
        self._instances: list[_Instance] = []
        self._group: MemoryGroup | None = None
        self._go = threading.Event()
        self._suspending = 0
        self._hold = False
        self._events: deque[Callable[[], int | None]] = deque()
        self._wake, self._alarm = socket.socketpair()
        self._wake.setblocking(False)
        self._alarm.setblocking(False)

    def serve(self) -> int:
        received = self._receive_request()
        if received is None:
            return _GONE
        request, fds = received
        self._hold = request.hold
        threading.Thread(target=self._prepare, args=(request, fds), name="dflow-load", daemon=True).start()
        poll = select.poll()
        for end in (self._connection, self._wake):
            poll.register(end, select.POLLIN)
        while True:
            self._answer_suspend()
            readable = {fd for fd, _ in poll.poll(_QUIET_POLL if self._suspending else None)}
            if self._wake.fileno() in readable:
                with contextlib.suppress(BlockingIOError):
                    self._wake.recv(4096)
            code = self._take_events()
            if code is None and self._connection.fileno() in readable:
                code = self._take_messages()
            if code is not None:
                return code

    # What the application says.

    def _receive_request(self) -> tuple[LoadRequest, list[int]] | None:
        fds: list[int] = []
        while True:
            data, more, _, _ = socket.recv_fds(self._connection, _CHUNK, _MAX_FDS)
            for fd in more:
                os.set_inheritable(fd, False)
            fds += more
            if not data:
                return None
            for message in self._reader.feed(data):
                if not isinstance(message, LoadRequest) or len(fds) != message.fd_count:
                    kind = type(message).__name__
                    raise PeerGoneError(f"the application began with {kind} and {len(fds)} descriptors")
                return message, fds

    def _take_messages(self) -> int | None:
        try:
            data = self._connection.recv(_CHUNK)
            messages = list(self._reader.feed(data))
        except (OSError, PeerGoneError):
            return _GONE
        if not data:
            return _GONE
        for message in messages:
            if isinstance(message, StatusRequest):
                self._send(Status(message.number, tuple(map(_state, self._instances))))
            elif isinstance(message, Stop) and not message.drain:
                self._stop()
            elif isinstance(message, Order):
                self._obey(message)
            elif isinstance(message, ExceptionNote):
                for instance in self._instances:
                    instance.runner.notify(message)
        return None

    def _obey(self, order: Order) -> None:
        runners = [instance.runner for instance in self._instances]
        if order.kind is OrderKind.LOOK:
            for runner in runners:
                runner.look()
        elif order.kind is OrderKind.SUSPEND:
            for runner in runners:
                runner.gate.suspend()
            self._suspending = order.number
        elif order.kind is OrderKind.RESUME:
            self._suspending = 0
            for runner in runners:
                runner.gate.resume()
        elif order.kind is OrderKind.DISCARD:
            self._send(Obeyed(order.number, all([runner.discard() for runner in runners])))
        elif order.kind is OrderKind.GO:
            self._go.set()
        elif order.kind is OrderKind.RETIRE:
            for runner in runners:
                runner.stop()
            self._send(Obeyed(order.number))

    def _answer_suspend(self) -> None:
        """Answer an order to suspend as soon as no instance is in a call any more."""
        if self._suspending and all(instance.runner.is_quiet for instance in self._instances):
            self._send(Obeyed(self._suspending))
            self._suspending = 0

    def _stop(self) -> None:
        for instance in self._instances:
            instance.runner.stop()
        if not self._go.is_set():
            self._post(lambda: _DONE)  # nothing has begun, so nothing is left undone

    def _send(self, message: ControlMessage) -> None:
        with contextlib.suppress(OSError):  # its end is noticed where it is read
            self._connection.sendall(frame_control(message))

    # What the instances say; called in the main thread.

    def _post(self, event: Callable[[], int | None]) -> None:
        self._events.append(event)
        with contextlib.suppress(OSError):
            self._alarm.send(b"x")

    def _take_events(self) -> int | None:
        while self._events:
            code = self._events.popleft()()
            if code is not None:
                return code
        return None

    def _loaded(self, instance: _Instance) -> int | None:
        instance.loaded = True
        if all(i.loaded for i in self._instances):
            self._send(Ready())
            if not self._hold:
                self._go.set()
        return None

    def _not_loaded(self, failure: Failure) -> int | None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._send(LoadFailed(failure))
        return _NOT_LOADED

    def _failed(self, instance: _Instance, error: BaseException) -> int | None:
        if isinstance(error, NodeError) and instance.model.options.on_error == "stop":
            self._send(Fatal(_node_failure(error, instance)))
            return None
        label = f"{instance.plan.model}#{instance.plan.index}"
        if isinstance(error, RunError):
            print(f"{label}: it can run nothing any more, leaving: {error}", file=sys.stderr)
            return _BROKEN
        print(f"{label}: internal error, leaving:", file=sys.stderr)
        traceback.print_exception(type(error), error, error.__traceback__)
        return _BROKEN

    def _done(self, instance: _Instance) -> int | None:
        self._send(InstanceDone(instance.plan.model, instance.plan.index))
        return None

    def _raised(self, note: ExceptionNote) -> None:
        """Report an exception of a function; any thread."""
        self._post(lambda: self._send(note))

    def _closed(self, instance: _Instance) -> int | None:
        instance.closed = True
        if not all(i.closed for i in self._instances):
            return None
        if self._group is not None:
            self._group.close()
        return _DONE

    # Loading and running, in threads.

    def _prepare(self, request: LoadRequest, fds: list[int]) -> None:
        try:
            instances = self._make_instances(request, fds)
        except BaseException as error:
            failure = _failure(error, request.process.instances[0] if len(request.process.instances) == 1 else None)
            self._post(lambda: self._not_loaded(failure))
            return
        self._instances = instances
        for instance in instances:
            name = f"{instance.plan.model}#{instance.plan.index}"
            instance.thread = threading.Thread(target=self._live, args=(instance,), name=name, daemon=True)
            instance.thread.start()

    def _make_instances(self, request: LoadRequest, fds: list[int]) -> list[_Instance]:
        process = request.process
        set_blas_threads(max((i.threads for i in process.instances), default=1))
        group_fds, model_fds = fds[: request.group_fds], fds[request.group_fds :]
        models = {name: _read_model(fd) for name, fd in zip(request.models, model_fds)}
        prepared = self._prepared
        fits = prepared is not None and prepared.fits(request)
        registry = prepared.registry if prepared is not None and fits else _load_needed(request, models)
        transport = registry.transport(request.group_scheme).factory()
        handle = GroupHandle(request.group_scheme, request.group_token, tuple(group_fds))
        group = self._group = transport.attach(handle, group_fds, process.name)
        loader = registry.engine(process.engine).worker()
        return [
            _Instance(
                plan, models[plan.model],
                InstanceRunner(
                    models[plan.model], plan, group, loader, request.options,
                    lambda name: registry.udf(name).factory(),
                    [part for part in request.dead_parts if (part.model, part.index) == (plan.model, plan.index)],
                    _reporter(plan), process.outputs_that_stay(plan), self._raised,
                ),
            )
            for plan in process.instances
        ]

    def _live(self, instance: _Instance) -> None:
        try:
            instance.runner.load(warm=self._hold)  # who waits to take over has time for that
        except BaseException as error:
            failure = _failure(error, instance.plan)
            self._post(lambda: self._not_loaded(failure))
            return
        self._post(lambda: self._loaded(instance))
        self._go.wait()
        try:
            instance.runner.run()
        except BaseException as error:
            reason = error
            self._post(lambda: self._failed(instance, reason))
            return
        self._post(lambda: self._done(instance))
        try:
            instance.runner.close()
        except BaseException:
            traceback.print_exc()
        self._post(lambda: self._closed(instance))


def set_blas_threads(threads: int) -> None:
    """Give numpy's OpenBLAS, which the template has loaded with one thread, the threads this process may use."""
    if threads <= 1:
        return
    with contextlib.suppress(OSError):
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = set(re.findall(r"(/\S*openblas\S*\.so\S*)$", maps.read(), re.MULTILINE))
        for path in paths:
            library = ctypes.CDLL(path)
            for name in _BLAS:
                if hasattr(library, name):
                    getattr(library, name)(threads)
                    break


def _read_model(fd: int) -> PneModel:
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
        model = unpack_submodel(view)
    os.close(fd)
    return model


def _load_needed(request: LoadRequest, models: dict[str, PneModel]) -> PluginRegistry:
    builtins = [importlib.import_module(name) for name in request.builtins]
    udfs = {model.builtin for model in models.values() if isinstance(model, UdfModel) and model.builtin}
    return load_plugins(builtins, request.allowed_plugins, {request.process.engine, request.group_scheme, *udfs})


def _reporter(plan: InstancePlan) -> Callable[[str], None]:
    return lambda text: print(f"{plan.model}#{plan.index}: {text}", file=sys.stderr)


def _state(instance: _Instance) -> InstanceState:
    runner, current = instance.runner, instance.runner.current
    age = None if current is None else (current[0], time.monotonic() - current[1])
    return InstanceState(instance.plan.model, instance.plan.index, runner.calls, runner.busy, age)


def _failure(error: BaseException, plan: InstancePlan | None) -> Failure:
    hint = (error.hint or "") if isinstance(error, DflowError) else ""
    place = (plan.model, plan.index) if plan is not None else ("", 0)
    return Failure(type(error).__name__, text_of(error), traceback_of(error, error.__traceback__), *place, hint)


def _node_failure(error: NodeError, instance: _Instance) -> Failure:
    plan = instance.plan
    return Failure(
        error.error_type, error.reason, error.remote_traceback, plan.model, plan.index,
        trans_id=error.trans_id or 0, input_shapes=error.input_shapes,
    )


__all__ = ["Prepared", "main", "prepare", "set_blas_threads"]
