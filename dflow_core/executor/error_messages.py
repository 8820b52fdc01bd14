"""The exception that an error message stands for."""

from __future__ import annotations

from collections.abc import Sequence

from dflow_core.errors import (
    AlignmentError,
    DflowError,
    DroppedError,
    InstanceLostError,
    LateError,
    MissingError,
    NodeError,
)
from dflow_core.executor.exceptions import raised_error
from dflow_core.message import ALIGN_FAILED, ErrorInfo, FlowMsg


def error_of(msg: FlowMsg, unfed: Sequence[int] = ()) -> DflowError:
    """The exception an error message stands for.

    Args:
        msg: The message.
        unfed: Inputs of the graph that were not fed for its transaction.
    """
    missing = msg.info.ret_code == ALIGN_FAILED
    text = "an input had not come" if missing else f"a node returned code {msg.info.ret_code}"
    info = msg.aux.error or ErrorInfo("late" if missing else "node", text)
    where: dict[str, object] = {"node": info.node or None, "trans_id": msg.info.trans_id}
    if info.node:
        where["instance"] = info.instance
    if info.kind == "lost":
        return InstanceLostError(info.message, output=info.traceback, hint=info.hint or None, **where)  # type: ignore[arg-type]
    if info.kind == "dropped":
        return DroppedError(info.message, trans_id=msg.info.trans_id)
    if info.kind == "raised":
        return raised_error(msg.info, msg.info.ret_code, info.context, info.node, info.instance)
    if info.kind == "late":
        return late_error(info.message, unfed, **where)
    if info.kind == "align":
        return AlignmentError(info.message, hint=info.hint or None, **where)  # type: ignore[arg-type]
    return NodeError(
        info.message,
        error_type=info.error_type,
        remote_traceback=info.traceback,
        input_shapes=info.input_shapes,
        ret_code=msg.info.ret_code,
        hint=info.hint or None,
        **where,  # type: ignore[arg-type]
    )


def late_error(message: str, unfed: Sequence[int], **where: object) -> LateError | MissingError:
    """The error of a set that was given up.

    Args:
        message: What did not come, and by when.
        unfed: Inputs of the graph that were not fed for the transaction.
        where: Node, instance, transaction.
    """
    if unfed:
        names = ", ".join(map(str, unfed))
        hint = f"input{'s' * (len(unfed) > 1)} {names} of the graph got nothing for this transaction: feed all inputs"
        return MissingError(f"{message} (not fed: {names})", hint=hint, **where)  # type: ignore[arg-type]
    hint = "a longer timeout or a larger max_cache_num of set_inputs_align_attrs waits longer"
    return LateError(message, hint=hint, **where)  # type: ignore[arg-type]
