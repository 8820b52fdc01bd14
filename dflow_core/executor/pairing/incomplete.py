"""What becomes of a set that a join gave up: an error, or a set with stand-ins for what is missing."""

from __future__ import annotations

from dataclasses import replace

from dflow_core.executor.pairing.aligner import MessageSet
from dflow_core.executor.pairing.limited_aligner import Overdue
from dflow_core.message import ALIGN_FAILED, Aux, DataFlag, ErrorInfo, FlowMsg, MsgType


def late_error(overdue: Overdue, node: str, instance: int) -> FlowMsg:
    """A message that ends the transaction of a set with an error; it says which inputs are missing."""
    head = overdue.came[0]
    missing = [port for port, msg in enumerate(overdue.messages) if msg is None]
    inputs = f"input{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
    error = ErrorInfo("late", f"{inputs} did not come {overdue.why}", "LateError", node, instance)
    flags = head.info.data_flag | DataFlag.ERROR | DataFlag.NULL
    return FlowMsg(replace(head.info, data_flag=flags, ret_code=ALIGN_FAILED), None, Aux(head.aux.members, error))


def with_stand_ins(overdue: Overdue) -> MessageSet:
    """The set, with a null message of code 364000 for each one that is missing."""
    head = overdue.came[0].info
    stand_in = FlowMsg(replace(head, data_flag=DataFlag.NULL, ret_code=ALIGN_FAILED, msg_type=MsgType.TENSOR))
    return tuple(stand_in if msg is None else msg for msg in overdue.messages)
