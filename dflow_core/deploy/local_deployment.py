"""One graph that runs on this machine: a process for each entry of the plan, around one memory group."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from dflow_core.deploy.children.child import ChildSettings
from dflow_core.deploy.children.environments import check_interpreter, device_environment, thread_environment
from dflow_core.deploy.children.executor_process import ExecutorProcess
from dflow_core.deploy.children.model_files import ModelFiles
from dflow_core.deploy.children.output import OutputForwarder
from dflow_core.deploy.children.processes import OwnedByProcess, absolute, interpreter, own_interpreter
from dflow_core.deploy.children.sinks import make_sink
from dflow_core.deploy.children.template import Template
from dflow_core.deploy.door import Door
from dflow_core.deploy.kernel_view import kernel_view
from dflow_core.deploy.local_exchange import LocalExchange
from dflow_core.deploy.settings import DeploySettings, allowed_plugins
from dflow_core.deploy.supervision.member import Member
from dflow_core.deploy.supervision.orders import Answer
from dflow_core.deploy.supervision.supervisor import Supervisor
from dflow_core.errors import ClosedError, DflowError
from dflow_core.model import (
    DeployPlan,
    ExceptionNote,
    FlowModel,
    PneModel,
    ProcessPlan,
    called_options,
    own_part,
)
from dflow_core.model.control_serde import InstanceState, LoadRequest, OrderKind
from dflow_core.spi import Deployment, Exchange, GroupConfig, InstanceStatus, MemoryGroup, Overflow, Transport

_STATUS_LIMIT = 0.25
_MORE_MEMBERS = 16  # beyond two for each process (it may be exchanged), for those started again and the application
_THREAD_LIMIT = 5.0


class LocalDeployment(Deployment):
    """A graph that runs on this machine. Thread-safe.

    Args:
        model: The graph.
        plan: What runs where.
        options: Graph options in force, for the executors.
        settings: Limits and choices.
        transport: Makes the memory group.
        template: What executors are forked from, or None.
        executor, builtins: See `LocalDeployer`.

    Attributes:
        users: End what else uses the memory group; called by `close` once no process does.
    """

    def __init__(
        self, model: FlowModel, plan: DeployPlan, options: Mapping[str, str], settings: DeploySettings,
        transport: Transport, template: Template | None, executor: str, builtins: tuple[str, ...],
    ) -> None:
        self.plan = plan
        self._options, self._settings, self._template = dict(options), settings, template
        self._executor, self._builtins = executor, builtins
        self._models: Mapping[str, PneModel] = model.submodels
        self._own = frozenset(own_part(model).submodels)  # what other nodes call answers to those
        self._files = ModelFiles(model.submodels)
        self._owner = OwnedByProcess.here(f"the running graph {plan.graph!r}")
        self._close_lock = threading.Lock()
        self._closed = False
        self._door: Door | None = None
        self.users: list[Callable[[], object]] = []
        sink = make_sink(settings.output)
        self.group: MemoryGroup = transport.create_group(_group_config(plan, settings))
        self._output = OutputForwarder(sink)
        self._supervisor = Supervisor(
            plan, model.submodels, self.group, settings.start_timeout, self._output, self._launch,
            lambda: self._files.drop(),
        )

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def start(self) -> None:
        """Start every process and wait until all are ready; whatever goes wrong, nothing is left.

        Raises:
            StartupError: if one does not come up.
        """
        try:
            with self._close_lock:
                if self._closed:
                    raise ClosedError("the graph was closed before it was started")
                for queue in self.plan.queues:
                    self.group.create_queue(queue.name, queue.depth, Overflow(queue.overflow), queue.max_age)
                self._output.start()
                self._supervisor.begin()
            self._supervisor.ready.wait()  # every start has a limit of its own
            if self._supervisor.failure is not None:
                raise self._supervisor.failure
        except BaseException:
            self.close(0.0)
            raise

    def failure(self) -> DflowError | None:
        return self._supervisor.failure

    def status(self) -> Sequence[InstanceStatus]:
        self._owner.check()
        if not self._closed:
            answered = threading.Event()
            self._supervisor.ask_status(answered)
            answered.wait(_STATUS_LIMIT)
        return [status for member in self._supervisor.members for status in _statuses(member)]

    def stacks(self) -> Mapping[str, str]:
        self._owner.check()
        processes = [(member.plan.name, member.process) for member in self._supervisor.members]
        return {name: _whereabouts(process) if process is not None else "" for name, process in processes}

    def tell_cancelled(self) -> None:
        if not self._closed:
            self._supervisor.tell_cancelled()

    def watch_exceptions(self, call: Callable[[ExceptionNote], None]) -> None:
        def hear(note: ExceptionNote) -> None:
            if note.node in self._own:
                call(note)

        self._supervisor.on_exception = hear

    def watch_failure(self, call: Callable[[DflowError], None]) -> None:
        """Have a call made when the graph cannot go on; the supervisor's thread makes it, and it must not wait."""
        self._supervisor.on_failure = call

    def fail(self, error: DflowError) -> None:
        """Let the graph end for a reason that this machine does not see; any thread."""
        if not self._closed:
            self._supervisor.fail(error)

    def tell_exception(self, note: ExceptionNote) -> None:
        """Tell functions of an exception that was raised on another machine; any thread."""
        if not self._closed:
            self._supervisor.tell_exception(note)

    def done_elsewhere(self, queue: str, machine: str) -> None:
        """Nothing comes any more for a queue from another machine; any thread."""
        if not self._closed:
            self._supervisor.done_elsewhere(queue, machine)

    def suspend(self, timeout: float) -> bool:
        return self._ordered(OrderKind.SUSPEND, timeout) is not None

    def resume(self) -> None:
        self._supervisor.order(OrderKind.RESUME)
        self._supervisor.order(OrderKind.GO)

    def discard(self, timeout: float) -> bool | None:
        return self._ordered(OrderKind.DISCARD, timeout)

    def _ordered(self, kind: OrderKind, timeout: float) -> bool | None:
        """Whether all executors say that there was nothing to do; None if not all have obeyed within the limit."""
        self._owner.check()
        answer = Answer()
        self._supervisor.order(kind, answer)
        return answer.quiet if answer.complete.wait(timeout) else None

    def prepare(self, models: Mapping[str, PneModel]) -> Exchange:
        self._owner.check()
        exchange = LocalExchange(self._supervisor, {**self._models, **models}, tuple(models), self._adopt)
        exchange.load()
        return exchange

    def _adopt(self, models: Mapping[str, PneModel]) -> None:
        """Other models are in force; called in the supervisor's thread."""
        self._files.drop()
        self._models, self._files = models, ModelFiles(models)

    def introduce(self, answer: Callable[[str], Mapping[str, object]]) -> None:
        with self._close_lock, contextlib.suppress(OSError):  # without a door it runs as well
            if not self._closed and self._door is None:
                self._door = Door(answer)
                self._supervisor.listen(self._door.socket.fileno(), self._door.let_in)

    def close(self, timeout: float | None = None) -> None:
        if self._owner.foreign:
            return  # a fork of the application: everything belongs to the process that made it
        with self._close_lock:
            if self._closed:
                return
            limit = self._settings.stop_timeout if timeout is None else timeout
            with contextlib.ExitStack() as stack:  # all of it, also when it is interrupted
                stack.callback(self._mark_closed)
                stack.callback(self.group.close)
                stack.callback(self._output.close)
                stack.callback(self._files.drop)
                if self._door is not None:
                    stack.callback(self._door.close)
                stack.callback(self._supervisor.end, _THREAD_LIMIT)
                for end in self.users:
                    stack.callback(end)
                self._stop_processes(limit)

    def _mark_closed(self) -> None:
        self._closed = True

    def _stop_processes(self, limit: float) -> None:
        """Ask ever less politely; an interrupt ends the asking."""
        if not self._supervisor.begun:
            return
        settled = self._supervisor.settled
        steps: list[tuple[float, Callable[[], None]]] = [
            (0.5, lambda: self._supervisor.stop(drain=self._supervisor.failure is None)),
            (0.25, lambda: self._supervisor.stop(drain=False)),
            (0.15, lambda: self._supervisor.signal(signal.SIGTERM)),
        ]
        try:
            for share, step in steps if limit > 0 else []:
                step()
                if settled.wait(share * limit):
                    return
        finally:
            if not settled.is_set():
                self._supervisor.stop(drain=False)
                self._supervisor.signal(signal.SIGKILL)
                settled.wait(_THREAD_LIMIT)

    def _launch(self, member: Member, ended: Callable[[int | None], None]) -> ExecutorProcess:
        """Start an executor and send it what it has to load; called in the supervisor's thread."""
        plan = member.plan
        python = interpreter(plan.env)
        own = python == own_interpreter()
        if not own:
            check_interpreter(python, plan, self._models)
        settings = ChildSettings(
            module=self._executor, name=member.log.label, folder=_folder(),
            environment={
                **thread_environment(max((i.threads for i in plan.instances), default=1)), **os.environ,
                **device_environment(plan, self.plan.placements),
            },
            path=tuple(absolute(sys.path)) if own else (), argv=tuple(getattr(sys, "argv", ("",))),
        )
        template = self._template if own and self._template is not None and not self._template.gone else None
        process = ExecutorProcess(settings, python, member.log, template, self._supervisor.post, ended)
        request, handle = self._request(plan, member), self.group.handle()
        files = self._files if member.heir is None else member.heir.files
        with files.lent(request.models) as fds:
            process.connection.send(request, [*handle.fds, *fds])
        return process

    def _request(self, plan: ProcessPlan, member: Member) -> LoadRequest:
        member.held = self._supervisor.desk.suspended or member.heir is not None
        names = tuple(dict.fromkeys(instance.model for instance in plan.instances))
        handle = self.group.handle()
        is_called = not any(instance.model in self._own for instance in plan.instances)
        options = called_options(self._options) if is_called else self._options
        return LoadRequest(
            process=plan, models=names, options=options, group_scheme=handle.scheme, group_token=handle.token,
            group_fds=len(handle.fds), dead_parts=tuple(member.dead_parts), builtins=self._builtins,
            allowed_plugins=allowed_plugins(self._options), hold=member.held,
        )


def _group_config(plan: DeployPlan, settings: DeploySettings) -> GroupConfig:
    defaults = GroupConfig()
    # A thread that spins takes the CPU from the process it waits for, once there are clearly more of them than CPUs.
    crowded = len(plan.processes) > plan.cpus + 2
    return GroupConfig(
        memory_limit=settings.memory_limit, spin_us=0 if crowded else settings.spin_us,
        max_members=max(defaults.max_members, 2 * len(plan.processes) + _MORE_MEMBERS),
        max_queues=max(defaults.max_queues, len(plan.queues)),
    )


def _whereabouts(process: ExecutorProcess) -> str:
    """Its Python stacks, and what the kernel says of its threads."""
    python, kernel = process.stack(), kernel_view(process.pid) if process.pid and not process.exited else ""
    if kernel and not python:
        python = "(it gives no Python stack: it is stopped, or stuck in C code)\n"
    return python + kernel


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""  # it was deleted


def _statuses(member: Member) -> list[InstanceStatus]:
    process, end = member.process, member.life.given_up
    given_up = (time.monotonic() - end.at, end.why) if end is not None else None
    return [
        InstanceStatus(
            plan.model, plan.index, member.plan.name, process.pid if process is not None else 0,
            member.life.state.value, member.life.restarted, state.calls, state.busy, state.current,
            given_up,
        )
        for plan in member.plan.instances
        for state in [member.states.get((plan.model, plan.index), InstanceState(plan.model, plan.index))]
    ]
