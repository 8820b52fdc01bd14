"""A message: 256 bytes of head, a payload, and an aux section, in one reference-counted block.

    block   [ head 256 | body .............................................. | aux ]
    tensor  [ head 256 | RuntimeTensorDesc 1024 | data .....................  | aux ]
    object  [ head 256 | count, sizes | pickle | out-of-band buffers ........ | aux ]

Layout of head and descriptor: runtime-semantics.md sections 2 and 3. The bytes that upstream leaves
uninterpreted hold what we add: the length of the body (64..71) and of the aux section (72..75); the reserved
word at offset 48 of MsgInfo holds the part token (`info.py` says what that is for).

Modules, lowest first: info, block, aux, tensor_desc, tensors, plain, flow_msg, pickler, payload; transaction
stands alone.
"""

from dflow_core.message.aux import NO_AUX, Aux, ErrorInfo, Member, members_size
from dflow_core.message.block import Block, HeapBlock, block_of
from dflow_core.message.feed_info import FeedInfo
from dflow_core.message.flow_msg import FlowMsg
from dflow_core.message.info import (
    ALIGN_FAILED,
    HEAD_SIZE,
    USER_DATA_SIZE,
    Bytes,
    DataFlag,
    Flag,
    MsgInfo,
    MsgType,
    child_token,
    message_size,
    root_token,
)
from dflow_core.message.payload import Alloc, TensorBlock, alloc_tensor, decode, describe, encode, seal
from dflow_core.message.pickler import home_of, pickler_class
from dflow_core.message.plain import PLAIN_KINDS, PlainBlock, copy_like, label_of, peek_plain, routing_of
from dflow_core.message.tensor_desc import DATA_OFFSET, DESC_SIZE, MAX_RANK, TensorDesc
from dflow_core.message.tensors import read_tensor
from dflow_core.message.transaction import (
    CurrentTransaction,
    current_transaction,
    reset_current_transaction,
    set_current_transaction,
)
from dflow_core.message.type_register import MsgTypes, TypeCodec, msg_types

__all__ = [
    "ALIGN_FAILED",
    "DATA_OFFSET",
    "DESC_SIZE",
    "HEAD_SIZE",
    "MAX_RANK",
    "NO_AUX",
    "PLAIN_KINDS",
    "USER_DATA_SIZE",
    "Alloc",
    "Aux",
    "Block",
    "Bytes",
    "CurrentTransaction",
    "DataFlag",
    "ErrorInfo",
    "FeedInfo",
    "Flag",
    "FlowMsg",
    "HeapBlock",
    "Member",
    "MsgInfo",
    "MsgType",
    "MsgTypes",
    "PlainBlock",
    "TensorBlock",
    "TensorDesc",
    "TypeCodec",
    "alloc_tensor",
    "block_of",
    "child_token",
    "copy_like",
    "current_transaction",
    "decode",
    "describe",
    "encode",
    "home_of",
    "label_of",
    "members_size",
    "message_size",
    "msg_types",
    "peek_plain",
    "pickler_class",
    "read_tensor",
    "reset_current_transaction",
    "root_token",
    "routing_of",
    "seal",
    "set_current_transaction",
]
