"""Helpers under the module path that scripts know."""

from __future__ import annotations

from dataflow.utils.arguments import assert_args_type, get_param_count, get_typing_num_returns
from dataflow.utils.errors import DfAbortException, DfException
from dataflow.utils.msg_type_register import get_msg_type_register, set_msg_type_register
from dataflow.utils.running import (
    get_running_device_id,
    get_running_in_udf,
    get_running_instance_id,
    get_running_instance_num,
    set_running_device_id,
    set_running_in_udf,
    set_running_instance_id,
    set_running_instance_num,
)
from dataflow.values import object_of

__all__ = [
    "DfAbortException",
    "DfException",
    "assert_args_type",
    "convert_flow_msg_to_object",
    "get_msg_type_register",
    "get_param_count",
    "get_running_device_id",
    "get_running_in_udf",
    "get_running_instance_id",
    "get_running_instance_num",
    "get_typing_num_returns",
    "set_msg_type_register",
    "set_running_device_id",
    "set_running_in_udf",
    "set_running_instance_id",
    "set_running_instance_num",
]


def convert_flow_msg_to_object(msg: object) -> object:
    """What a message carries: a Tensor, an object of a registered class, or None.

    Args:
        msg: A message as functions or `fetch` get it.

    Raises:
        DfException: a type nobody registered.
    """
    return object_of(msg)
