"""Keeps the executors of one deployment running: the shell around `lifecycle.py` and `recovery.py`.

One thread waits for control messages, for the end of processes and for timers, and does what the lifecycles say.
Methods marked `any thread` may be called from elsewhere; all the rest belongs to that thread.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import TypeAlias

from dflow_core.deploy.children.executor_process import ExecutorProcess
from dflow_core.deploy.children.output import OutputForwarder
from dflow_core.deploy.children.processes import describe_exit
from dflow_core.deploy.supervision.answers import AnswerBox
from dflow_core.deploy.supervision.lifecycle import (
    Begin,
    Ended,
    Event,
    GiveUp,
    Instruction,
    Kill,
    Launch,
    Lifecycle,
    Loaded,
    NotLoaded,
    Overdue,
    Recover,
    State,
    StopAsked,
    Timer,
    Unable,
    WakeAfter,
)
from dflow_core.deploy.supervision.loop import Loop
from dflow_core.deploy.supervision.member import Member, error_of, label_of
from dflow_core.deploy.supervision.orders import Answer, OrderDesk
from dflow_core.deploy.supervision.queue_closer import QueueCloser
from dflow_core.deploy.supervision.recovery import Cause, answers_for, merge_dead_parts
from dflow_core.deploy.supervision.restart_policy import RestartPolicy
from dflow_core.deploy.supervision.start_watch import StartWatch
from dflow_core.deploy.supervision.status_board import StatusBoard
from dflow_core.deploy.supervision.succession import Succession
from dflow_core.deploy.supervision.survivors import Survivors
from dflow_core.deploy.supervision.wires import Wires
from dflow_core.errors import ClosedError, DeployError, DflowError, UsageError
from dflow_core.model import DeployPlan, ExceptionTable, PneModel, ProcessPlan
from dflow_core.model.control_serde import (
    ControlMessage,
    ExceptionNote,
    Failure,
    Fatal,
    InstanceDone,
    LoadFailed,
    Obeyed,
    OrderKind,
    Ready,
    Status,
    Stop,
)
from dflow_core.spi import LostMessage, MemoryGroup

_RETRY = 0.02
_DISCARD = 0.02
_GONE_LIMIT = 2.0
_GONE_POLL = 0.002

Starter: TypeAlias = Callable[[Member, Callable[["int | None"], None]], ExecutorProcess]
"""Starts an executor for a member and sends it its LoadRequest; the function given is told its exit code."""


class Supervisor:
    """Runs the processes of a plan.

    Args:
        plan: What runs where.
        models: Submodels by name.
        group: Memory group the application owns.
        start_timeout: Seconds an executor may take to load; 0 is no limit.
        output: Takes what processes print.
        start: Starts an executor.
        all_loaded: Called whenever no process is being started any more.
    """

    def __init__(
        self, plan: DeployPlan, models: Mapping[str, PneModel], group: MemoryGroup, start_timeout: float,
        output: OutputForwarder, start: Starter, all_loaded: Callable[[], None],
    ) -> None:
        self.models, self._group, self._output = models, group, output
        self._start, self._all_loaded = start, all_loaded
        self._closer = QueueCloser(plan, group)
        self._answers = AnswerBox(group)
        self.desk = OrderDesk()
        self._loop = Loop("dflow-supervisor", self._idle, self._broken)
        self._board = StatusBoard(self._loop, models, lambda member, why: self._handle(member, Overdue(why)))
        self._starts = StartWatch(
            self._loop, output, start_timeout, lambda member, why: self._handle(member, Overdue(why))
        )
        self._survivors = Survivors(plan, group, lambda: self.members)
        self.succession = Succession(group, self.desk, self._handle, self._loop.after)
        self._wires = Wires(self._loop, self._take)
        self._closing, self._crosses = False, bool(plan.crossings)
        self.members = tuple(self._member(process) for process in plan.processes)
        self._exceptions = ExceptionTable()
        self.on_exception: Callable[[ExceptionNote], None] | None = None
        self.on_failure: Callable[[DflowError], None] | None = None
        self.failure: DflowError | None = None
        self.ready = threading.Event()
        self.settled = threading.Event()

    def begin(self) -> None:
        """Start every process (any thread)."""
        self._loop.start()
        self._loop.post(self._begin)

    @property
    def begun(self) -> bool:
        """Whether anything may run."""
        return self._loop.started

    @property
    def ended(self) -> bool:
        """Whether its thread does nothing any more."""
        return self._loop.ended

    @property
    def post(self) -> Callable[[Callable[[], None]], None]:
        """Has a function called in the supervisor's thread (any thread)."""
        return self._loop.post

    def listen(self, fd: int, call: Callable[[], None]) -> None:
        """Have a call made in the supervisor's thread whenever a descriptor is readable (any thread)."""
        self._loop.post(lambda: self._loop.listen(fd, call))

    def stop(self, drain: bool) -> None:
        """Ask every process to end; with `drain`, after what is in the queues (any thread)."""
        self._loop.post(lambda: self._stop(drain))

    def signal(self, number: int) -> None:
        """Send a signal to every process that still runs (any thread)."""
        self._loop.post(lambda: self._signal(number))

    def ask_status(self, answered: threading.Event) -> None:
        """Ask every running process where it stands; the event is set when all have answered (any thread)."""
        self._loop.post(lambda: self._board.ask_all(self._running(), answered))

    def tell_cancelled(self) -> None:
        """Have every executor look at the board of cancelled transactions, once for many calls of this (any thread)."""
        self.desk.look_soon(self._loop.post, self._running)

    def order(self, kind: OrderKind, answer: Answer | None = None) -> None:
        """Give an order to every executor that runs (any thread)."""
        self._loop.post(lambda: self.desk.give(self._running(), kind, answer))

    def fail(self, error: DflowError) -> None:
        """Let the graph end for a reason from elsewhere (any thread)."""
        self._loop.post(lambda: self._fail(error))

    def tell_exception(self, note: ExceptionNote) -> None:
        """Tell every process of an exception that was raised on another machine (any thread)."""
        self._loop.post(lambda: self._spread(note))

    def done_elsewhere(self, queue: str, machine: str) -> None:
        """Nothing comes any more for a queue from another machine (any thread)."""
        self._loop.post(lambda: self._closer.done_elsewhere(queue, machine))

    def policy_of(self, plan: ProcessPlan) -> RestartPolicy:
        """What follows when a process is lost."""
        return RestartPolicy.of([self.models[instance.model].options for instance in plan.instances])

    @property
    def _everyone(self) -> tuple[Member, ...]:
        return (*self.members, *self.succession.heirs, *self.succession.retired)

    def end(self, timeout: float) -> None:
        """End the supervisor's thread, and kill what still runs (any thread). Idempotent."""
        self._loop.post(self._let_go)
        self._loop.close(timeout)

    def _member(self, plan: ProcessPlan) -> Member:
        return Member(plan, Lifecycle(plan.name, self.policy_of(plan)), self._output.open_log(label_of(plan)))

    def _begin(self) -> None:
        for member in self.members:
            self._handle(member, Begin())
        if not self.members:  # everything runs on other machines
            self.ready.set()

    def _idle(self) -> float | None:
        self._answers.retry()
        self._survivors.move()
        self.members = self.succession.advance(self.members)
        if self._closing and all(m.life.settled and m.process is None for m in self._everyone):
            self.settled.set()
        return _RETRY if self._answers.pending or self.succession.pending or self._survivors.pending else None

    def _running(self) -> list[Member]:
        return [m for m in self.members if m.process is not None and m.life.state is State.RUNNING]

    # What lifecycles say.
    def _handle(self, member: Member, event: Event) -> None:
        for instruction in member.life.handle(event, time.monotonic()):
            self._do(member, instruction)
        if member.heir is not None and member.life.state is not State.STARTING:
            member.heir.settled.set()
        states = {m.life.state for m in self.members}
        if states == {State.RUNNING}:
            self.ready.set()
        if State.STARTING not in states:
            self._all_loaded()

    def _do(self, member: Member, instruction: Instruction) -> None:
        if isinstance(instruction, Launch):
            self._launch(member)
        elif isinstance(instruction, Kill):
            if member.process is not None:
                member.process.kill()
        elif isinstance(instruction, Recover):
            self._recover(member, instruction.cause)
        elif isinstance(instruction, WakeAfter):
            if self.failure is None:
                self._loop.after(instruction.seconds, lambda: self._handle(member, Timer()))
        else:
            self._give_up(member, instruction)

    def _launch(self, member: Member) -> None:
        member.done.clear()
        try:
            process = self._start(member, lambda code: self._ended(member, code))
        except DflowError as error:
            self._handle(member, Unable(Failure(type(error).__name__, error.message, hint=error.hint or "")))
            return
        member.process = process
        self._wires.join(member, process)
        self._starts.watch(member, process)

    def _recover(self, member: Member, cause: str) -> None:
        """Take back what the process held; answer for it, unless the graph ends anyway."""
        pid = member.process.pid if member.process is not None else 0
        if not pid:
            return
        lost = self._reclaim(pid)
        if self._closing or self.failure is not None:
            return
        answers, dead = answers_for(member.plan, self.models, lost, Cause(cause, member.log.tail(4096)))
        member.dead_parts = merge_dead_parts(member.dead_parts, dead)
        self._answers.send(answers)
        if member.life.state is State.BACKOFF:
            self._output.note(f"{member.log.label}: {cause}; {len(lost)} messages lost, starting it again")

    def _reclaim(self, pid: int) -> list[LostMessage]:
        """Take back what a dead process held; threads of a killed process may take a moment to be gone."""
        limit = time.monotonic() + _GONE_LIMIT
        while True:
            try:
                return self._group.reclaim(pid)
            except UsageError:
                if time.monotonic() > limit:
                    raise
                time.sleep(_GONE_POLL)

    def _give_up(self, member: Member, instruction: GiveUp) -> None:
        """The graph fails as a whole: every queue is closed, so that whoever waits learns of it."""
        if member.heir is not None:
            member.heir.failure = error_of(member, instruction)
        elif instruction.started and self._survivors.of(member):
            self._survivors.take_over(member)
            self._output.note(f"{member.log.label}: {instruction.failure.message}; other instances go on without it")
        else:
            self._fail(error_of(member, instruction))

    def _fail(self, error: DflowError) -> None:
        if self.failure is None:
            self.failure = error
            self._answers.drop()
            self._closer.close_all()
            self.ready.set()
            if self.on_failure is not None:
                self.on_failure(error)

    def _broken(self, error: BaseException) -> None:
        """A fault of the supervisor itself: better no graph than one without supervision."""
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self._output.note(f"internal error of the supervisor:\n{text}")
        failure = DeployError(f"internal error of the supervisor: {type(error).__name__}: {error}")
        failure.__cause__ = error
        self._fail(failure)

    # What processes say.

    def _take(self, member: Member, message: ControlMessage) -> None:
        if isinstance(message, Ready):
            self._handle(member, Loaded())
            self._board.watch(member)
            if member.heir is None and member.held != self.desk.suspended:
                self.desk.give([member], OrderKind.GO if member.held else OrderKind.SUSPEND)
        elif isinstance(message, LoadFailed):
            self._handle(member, NotLoaded(message.failure))
        elif isinstance(message, Fatal):
            self._handle(member, Unable(message.failure))
        elif isinstance(message, Status):
            self._board.take(member, message)
        elif isinstance(message, ExceptionNote):
            self._spread(message)
        elif isinstance(message, Obeyed):
            self.desk.take(member, message)
        elif isinstance(message, InstanceDone):
            member.done.add((message.model, message.index))
            if not member.retired:
                self._closer.done(message.model, message.index)

    def _spread(self, raised: ExceptionNote) -> None:
        """Tell the application and every process of an exception that a function has raised."""
        for note in self._exceptions.add(raised):
            if not note.expired and self.on_exception is not None:
                self.on_exception(note)
            for member in self._running():
                if member.process is not None:
                    member.process.connection.send(note)

    def _ended(self, member: Member, code: int | None) -> None:
        process = member.process
        assert process is not None
        self._wires.take_last_words(member, process)
        how = describe_exit(code) if code is not None else "ended together with the template it was forked from"
        self._handle(member, Ended(f"(pid {process.pid}) {how}", code == 0 and member.finished, self._is_spare(member)))
        member.process = None
        self._board.forget(member)
        self.desk.forget(member)
        self._wires.part(process)
        if member.life.settled and not member.retired and member.heir is None:
            for instance in member.plan.instances:
                self._closer.done(instance.model, instance.index)

    def _is_spare(self, member: Member) -> bool:
        return self.policy_of(member.plan).when_lost == "degrade" and self._survivors.of(member)

    # The end.

    def _stop(self, drain: bool) -> None:
        first = not self._closing
        self._closing = True
        if not self.ready.is_set():
            self._fail(ClosedError("the graph was closed while it was being started"))
        self._answers.drop()
        for member in self._everyone:
            self._handle(member, StopAsked())
            if member.process is not None:
                member.process.connection.send(Stop(drain))
        if drain:
            self._closer.end_feeding()
        else:
            self._closer.close_all()
        if first:
            self._discard_results()

    def _discard_results(self) -> None:
        """Nobody fetches any more: let producers that wait for room end."""
        self._closer.discard_results()
        if self._crosses or not self.settled.is_set():  # others may wait for room long after the processes here
            self._loop.after(_DISCARD, self._discard_results)

    def _signal(self, number: int) -> None:
        for member in self._everyone:
            if member.process is not None:
                member.process.kill(number)

    def _let_go(self) -> None:
        for member in self._everyone:
            process, member.process = member.process, None
            if process is not None:
                process.kill()
                self._wires.part(process)
