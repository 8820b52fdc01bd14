"""Runs what a recording holds again: a whole transaction, or the one call of a node that failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dflow_core.errors import DflowError, UsageError
from dflow_core.executor import Channel, GraphClient, Outcome, error_of, repeat_alone
from dflow_core.message import Aux, DataFlag, ErrorInfo, FeedInfo, FlowMsg, MsgInfo
from dflow_core.model import FlowModel, UdfModel, read_frame
from dflow_core.options import as_texts
from dflow_core.recording import LOST, FailedCall, RecordedTransaction, Recording, ResultDigest
from dflow_core.session import DFlowSession
from dflow_core.spi import FlowFunc, GroupConfig, NodeWorker, WorkerContext

Wrap = Callable[[str, FlowFunc], FlowFunc]


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of a replay.

    Args:
        transaction: What was replayed.
        node: The node whose call was; None for the whole transaction.
        outputs: What came out: name of the output, and the message.
        error: What it ended with.
        cause: The exception object of a node that ran in this process.
        digests: Of the outputs.
        mode: `inline` or `process`.
        call: The call that was made again; None for the whole transaction.
    """

    transaction: RecordedTransaction
    node: str | None = None
    outputs: tuple[tuple[str, FlowMsg], ...] = ()
    error: DflowError | None = None
    cause: BaseException | None = None
    digests: tuple[ResultDigest, ...] = field(default=(), repr=False)
    mode: str = "inline"
    call: FailedCall | None = field(default=None, repr=False)

    @property
    def verdict(self) -> str:
        """How it compares with what was recorded: `same error`, `another error`, `no error`, ..., in words."""
        recorded = self.transaction.end
        if self.error is not None and self.call is not None:
            known, error = self.call.error, self.error
            is_same = (known.node, known.error_type) == (error.node, getattr(error, "error_type", None))
            return "the same error" if is_same else "another error"
        if self.error is not None:
            if not recorded.error:
                return "an error where there was none"
            return "the same error" if _same_error(recorded.error, self.error) else "another error"
        if self.transaction.failed or self.call is not None:
            return "no error this time"
        if any(not one.digest for one in (*recorded.results, *self.digests)):
            return "results, which cannot be compared"
        return "the same results" if set(recorded.results) == set(self.digests) else "other results"


def replay_transaction(
    session: DFlowSession, recording: Recording, transaction: RecordedTransaction, *, mode: str = "",
    timeout: float = 60.0, wrap: Wrap | None = None,
) -> Replay:
    """Feed what was fed, in the same order and with the same heads; what was in the same batch as well.

    Args:
        session: Where to run it.
        recording: Holds the graph and the messages.
        transaction: Which one.
        mode: `inline` or `process`. Empty is `process` where a process died of it, so that this one does not, or where
            a node can run in a process of its own only; else `inline`.
        timeout: Seconds to wait for its end.
        wrap: Gives what runs instead of a function of a node; inline only.

    Raises:
        Whatever loading the graph raises.
    """
    model = recording.model(transaction)
    ids = sorted({*transaction.end.together, transaction.trans_id})
    group = [recording.transactions[one] for one in ids if one in recording.transactions]
    if mode != "process" and (mode or wrap is not None or transaction.end.how != LOST):
        try:
            backend = session.inline(model, wrap=wrap)
        except UsageError:
            if mode or wrap is not None:
                raise
        else:
            client = GraphClient(model.name, model.relation.input_names, model.relation.output_names, backend)
            try:
                return _fed_again(client, recording, group, transaction, timeout, backend.last_exception)
            finally:
                client.close()
    running = session.run(model)
    try:
        done = _fed_again(running.client, recording, group, transaction, timeout, lambda node: None)
        return replace(done, mode="process")
    finally:
        running.close()


def replay_call(
    session: DFlowSession, recording: Recording, transaction: RecordedTransaction, *, node: str = "",
    timeout: float = 60.0, wrap: Wrap | None = None,
) -> Replay:
    """Run the call of a node that ended a transaction, with the very messages it had; nothing else of the graph runs.

    Args:
        session: Where to run it.
        recording: Holds the graph and the messages.
        transaction: Which one.
        node: The first failed call of this node instead.
        timeout: Seconds a C++ function may take; others run in the calling thread.
        wrap: Gives what runs instead of a function of the node, which has to be of Python.

    Raises:
        UsageError: the recording has no such call, or the node cannot run here alone.
        WaitTimeoutError: a C++ function took longer.
        Whatever loading the node raises.
    """
    call = recording.failed_call(transaction, node)
    model = recording.model(transaction)
    try:
        return _called_again(session, model, transaction, call, wrap)
    except UsageError:
        worker = _worker_of(session, model, call.node)
        if worker is None:
            raise
    _check_alone(model, call.node, wrap)
    return _called_alone(session, model, transaction, call, worker, timeout)


def _called_again(
    session: DFlowSession, model: FlowModel, transaction: RecordedTransaction, call: FailedCall, wrap: Wrap | None
) -> Replay:
    backend = session.inline(model, records=True, wrap=wrap, only=call.node)
    try:
        sent = backend.repeat(call)
        failed = [FailedCall.from_frame(read_frame(one)) for one in backend.failed_calls()]
        cause = backend.last_exception(call.node)
    finally:
        backend.close()
    mine = [one for one in failed if one.node == call.node]
    error = _node_error(mine[0].error, transaction.trans_id) if mine else None
    outputs = tuple((f"{call.node}:{output}", msg) for output, msg in sent if msg.is_data)
    return Replay(transaction, call.node, outputs, error, cause if mine else None, call=call)


def _worker_of(session: DFlowSession, model: FlowModel, node: str) -> NodeWorker | None:
    """What runs a node that runs itself; None for any other."""
    part = model.submodels.get(node)
    if not isinstance(part, UdfModel):
        return None
    options = as_texts(session.options_of(model))
    context = WorkerContext(
        node, 0, 1, "cpu:0", 1, options, udf_factory=lambda name: session.registry.udf(name).factory(), alloc=np.empty
    )
    worker = session.registry.engine(part.engine).worker()(part, context)
    return worker if isinstance(worker, NodeWorker) else None


def _check_alone(model: FlowModel, node: str, wrap: Wrap | None) -> None:
    if wrap is not None:
        raise UsageError(
            "the debugger of Python does not see into C++ functions", node=node,
            hint="gdb --args python -m dflow_core.cli.main replay FILE --node",
        )
    if model.relation.invoked_by(node):
        raise UsageError(
            "it calls graphs, which are not there when it runs alone", node=node, hint="replay the whole transaction"
        )


def _called_alone(
    session: DFlowSession, model: FlowModel, transaction: RecordedTransaction, call: FailedCall, worker: NodeWorker,
    timeout: float,
) -> Replay:
    part, sides = model.submodels[call.node], model.relation.submodels[call.node]
    transport = session.registry.local_transport(session.options_of(model).transport).factory()
    group = transport.create_group(GroupConfig())
    try:
        ports = len(sides.inputs), len(sides.outputs)
        done = repeat_alone(worker, part, ports, group, call, timeout)
    finally:
        group.close()
    infos = [msg.aux.error for _, msg in done.sent if msg.aux.error is not None]
    error = _node_error(infos[0], transaction.trans_id) if infos else None
    if error is None and isinstance(done.error, DflowError):
        error = done.error
    elif done.error is not None and error is None:
        raise done.error
    outputs = tuple((f"{call.node}:{output}", msg) for output, msg in done.sent if msg.is_data)
    return Replay(transaction, call.node, outputs, error, call=call)


def _fed_again(
    client: GraphClient, recording: Recording, group: Sequence[RecordedTransaction], chosen: RecordedTransaction,
    timeout: float, cause_in: Callable[[str], BaseException | None],
) -> Replay:
    deadline = time.monotonic() + timeout
    channels = {one.trans_id: Channel() for one in group}
    try:
        for one in group:
            for values in recording.fed(one):
                _feed(client, values, channels[one.trans_id], timeout)
        outcomes = client.results_of(channels[chosen.trans_id], chosen.trans_id, deadline)
    except DflowError as error:
        return Replay(chosen, None, (), error, cause_in(error.node) if error.node else None)
    return Replay(chosen, None, _outputs(recording, outcomes), None, None, _digests(outcomes))


def _feed(client: GraphClient, values: Mapping[int, FlowMsg], channel: Channel, timeout: float) -> None:
    info = FeedInfo.of(next(iter(values.values())).info)
    client.feed(values, info=info, timeout=timeout, channel=channel)


def _outputs(recording: Recording, outcomes: Sequence[Outcome]) -> tuple[tuple[str, FlowMsg], ...]:
    return tuple(
        (name, msg) for outcome in outcomes for name, msg in zip(recording.outputs, outcome.messages) if msg is not None
    )


def _digests(outcomes: Sequence[Outcome]) -> tuple[ResultDigest, ...]:
    return tuple(
        ResultDigest.of(output, msg)
        for outcome in outcomes for output, msg in enumerate(outcome.messages) if msg is not None
    )


def _node_error(info: ErrorInfo, trans_id: int) -> DflowError:
    return error_of(FlowMsg(MsgInfo(trans_id=trans_id, data_flag=DataFlag.ERROR), None, Aux(error=info)))


def _same_error(recorded: Mapping[str, object], error: DflowError) -> bool:
    kinds = (type(error).__name__, error.node, getattr(error, "error_type", None))
    return kinds == (recorded.get("type"), recorded.get("node"), recorded.get("error_type"))
