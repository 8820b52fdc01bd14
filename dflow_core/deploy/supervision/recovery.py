"""What is owed for messages that a dead executor held, without I/O: error messages downstream, and dead parts.

A message taken from an input queue ends on every output of the function that reads this input: each of its routes gets
an error with the same key, token, times and user data. A message the executor had made and not sent is covered by
the inputs it was made of, which are held until the call is over; only where none of those was lost (a batch
whose inputs were let go) does it stand for itself. Errors are marked as injected, because parts of the same transaction
may have been sent already: joins and callers let a second one go.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dflow_core.errors import DflowError
from dflow_core.message import Aux, DataFlag, ErrorInfo, FlowMsg, MsgInfo
from dflow_core.model import DeadPart, InstancePlan, PneModel, ProcessPlan
from dflow_core.spi import LostMessage

_LOST_RET_CODE = 545000  # INTERNAL_ERROR of the public status codes
_KEPT_DEAD_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an executor's messages were lost.

    Args:
        message: In words, such as `its process was ended by signal 11`.
        output: What it printed last.
    """

    message: str
    output: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An error to be sent.

    Args:
        queue: Where.
        message: The error, not yet in a block.
    """

    queue: str
    message: FlowMsg


@dataclass(frozen=True, slots=True)
class _Loss:
    """One lost message, and where it was lost."""

    info: MsgInfo
    aux: Aux
    instance: InstancePlan
    port: int | None  # None for one the instance had made
    queue: str = ""  # the queue that had dropped it, which the reader has not been told yet

    @property
    def keys(self) -> tuple[tuple[int, int], ...]:
        return (self.info.key, *(member.info.key for member in self.aux.members))


def answers_for(
    process: ProcessPlan, models: Mapping[str, PneModel], lost: Sequence[LostMessage], cause: Cause
) -> tuple[list[Answer], list[DeadPart]]:
    """What to send for what a dead process held, and what its successor must not wait for.

    Args:
        process: What ran in it.
        models: Submodels by name.
        lost: Messages it held.
        cause: Why they were lost.
    """
    losses = _covered(_read(process, lost))
    answers: dict[tuple[str, int, int, int], Answer] = {}
    for loss in losses:
        message = _error_message(loss, cause)
        for queue in _queues(models[loss.instance.model], loss):
            answers.setdefault((queue, *message.info.key, message.info.token), Answer(queue, message))
    return list(answers.values()), _dead_parts(models, losses)


def merge_dead_parts(known: Sequence[DeadPart], new: Sequence[DeadPart]) -> list[DeadPart]:
    """Dead parts of all earlier lives, one for each key; the oldest are forgotten above ten thousand."""
    merged: dict[tuple[str, int, int, int], DeadPart] = {}
    for part in (*known, *new):
        key = (part.model, part.index, part.trans_id, part.data_label)
        old = merged.pop(key, None)
        ports = part.ports if old is None else tuple(sorted({*old.ports, *part.ports}))
        merged[key] = replace(part, ports=ports)
    return list(merged.values())[-_KEPT_DEAD_PARTS:]


def _read(process: ProcessPlan, lost: Sequence[LostMessage]) -> list[_Loss]:
    """Lost messages that can be read and placed. One that was never written is none: its head is not to be trusted."""
    readers = {queue: (i, port) for i in process.instances for port, queue in enumerate(i.inputs)}
    readers |= {i.notices[queue]: (i, port) for queue, (i, port) in readers.items() if queue in i.notices}
    writers = {queue: i for i in process.instances for queue in i.notices}
    losses = []
    for message in lost:
        try:
            info, _, _ = MsgInfo.unpack(message.head)
            aux = Aux.unpack(message.aux)
        except (DflowError, ValueError, KeyError, TypeError, struct.error):
            continue
        if not info.trans_id:
            continue
        queue = message.queue or (aux.error.node if aux.error is not None and aux.error.kind == "dropped" else "")
        instance, port = readers.get(queue, (process.instances[0], None))
        if port is None and queue in writers:
            losses.append(_Loss(info, aux, writers[queue], None, queue))
            continue
        if message.queue and port is None:
            continue  # taken from a queue that is none of its own
        if not message.queue and len(process.instances) > 1:
            continue  # nobody can tell which instance made it
        losses.append(_Loss(info, aux, instance, port))
    return losses


def _covered(losses: Sequence[_Loss]) -> list[_Loss]:
    """Without what was made of messages that are lost themselves; by input port, so that the first head counts.

    What an instance that calls graphs has made may be for such a graph, and is covered by the input it worked on.
    """
    taken = {key for loss in losses if loss.port is not None for key in loss.keys}
    kept = [
        loss
        for loss in losses
        if loss.port is not None or not (loss.instance.invoked or taken.intersection(loss.keys))
    ]
    return sorted(kept, key=lambda loss: -1 if loss.port is None else loss.port)


def _error_message(loss: _Loss, cause: Cause) -> FlowMsg:
    error = loss.aux.error or ErrorInfo(
        "lost", f"executor died: {cause.message}", node=loss.instance.model, instance=loss.instance.index,
        traceback=cause.output,
    )
    flags = (loss.info.data_flag & DataFlag.CUSTOM_ID) | DataFlag.ERROR | DataFlag.INJECTED | DataFlag.NULL
    info = replace(loss.info, data_flag=flags, ret_code=loss.info.ret_code or _LOST_RET_CODE)
    return FlowMsg(info, None, Aux(loss.aux.members, error))


def _queues(model: PneModel, loss: _Loss) -> list[str]:
    """Queues that wait for something made of the lost message; those that may drop it hear of it as of a drop."""
    notices = loss.instance.notices
    if loss.queue:
        return [notices[loss.queue]]
    outputs: Sequence[int] = range(len(loss.instance.outputs))
    if model.functions and loss.port is not None:
        outputs = [out for func in model.functions if loss.port in func.inputs for out in func.outputs]
    info = loss.info
    routes = [route for out in outputs for route in loss.instance.outputs[out]]
    queues = (route.pick(info.trans_id, info.route_label) for route in routes)
    return list(dict.fromkeys(notices.get(queue, queue) for queue in queues))


def _dead_parts(models: Mapping[str, PneModel], losses: Sequence[_Loss]) -> list[DeadPart]:
    """What a join must not wait for: keys of which some ports had arrived."""
    ports: dict[tuple[str, int, int, int], set[int]] = {}
    for loss in losses:
        if loss.port is None or not _joins(models[loss.instance.model], loss.instance, loss.port):
            continue
        for trans_id, label in loss.keys:
            ports.setdefault((loss.instance.model, loss.instance.index, trans_id, label), set()).add(loss.port)
    return [DeadPart(*key, tuple(sorted(found))) for key, found in ports.items()]


def _joins(model: PneModel, instance: InstancePlan, port: int) -> bool:
    """Whether the function that reads a port waits for other ports too."""
    if not model.functions:
        return len(instance.inputs) > 1
    return any(port in func.inputs and len(func.inputs) > 1 for func in model.functions)
