"""What becomes of a message that is larger than all the memory of the machine it goes to."""

from __future__ import annotations

from dataclasses import replace

from dflow_core.message import Aux, Block, DataFlag, ErrorInfo, FlowMsg, HeapBlock, seal
from dflow_core.spi import GatewayPlan


def machine_name(name: str) -> str:
    """A machine in words."""
    return f"machine {name!r}" if name else "the application's machine"


def too_large(block: Block, plan: GatewayPlan, queue: str, limit: int) -> Block:
    """The message that ends the transaction of one that fits nowhere, and of every member of it; in ordinary memory.

    Args:
        block: The message.
        plan: Of the gateway where it has arrived.
        queue: Where it was to go.
        limit: Bytes of memory for messages here.
    """
    msg = FlowMsg.from_block(block)
    here, there = machine_name(plan.machine), machine_name(plan.peer)
    text = (
        f"a message of {block.nbytes} bytes for queue {queue!r} came from {there} to {here}, where it is larger than "
        f"all the memory for messages, {limit} bytes"
    )
    hint = f"raise the option memory_limit, give {here} more memory, or send it in parts"
    error = ErrorInfo("node", text, "PoolExhaustedError", hint=hint)
    info = replace(msg.info, data_flag=msg.info.data_flag | DataFlag.ERROR | DataFlag.NULL)
    made = seal(FlowMsg(info, None, Aux(msg.aux.members, error)), HeapBlock).block
    assert made is not None
    return made
