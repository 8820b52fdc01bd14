"""The register of message types that scripts fill: `df.msg_type_register`."""

from dataflow.utils.msg_type_register import get_msg_type_register

msg_type_register = get_msg_type_register()

__all__ = ["msg_type_register"]
