"""What a function can ask about where it runs; nothing outside an executor."""

from __future__ import annotations

from typing import ClassVar

from dataflow.utils import log
from dflow_core.spi import running as running_here

__all__ = [
    "get_running_device_id",
    "get_running_in_udf",
    "get_running_instance_id",
    "get_running_instance_num",
    "set_running_device_id",
    "set_running_in_udf",
    "set_running_instance_id",
    "set_running_instance_num",
]


class _Said:
    """What was set by hand; it wins over what the executor says."""

    values: ClassVar[dict[str, int]] = {}


def get_running_device_id() -> int | None:
    """Number of the device the function runs on; None, and a line in the log, outside a function."""
    found = running_here()
    return _ask("device_id", None if found is None else int(found.device.rpartition(":")[2] or 0))


def get_running_instance_id() -> int | None:
    """Number of this instance of the node, from 0; None, and a line in the log, outside a function."""
    found = running_here()
    return _ask("instance_id", None if found is None else found.instance)


def get_running_instance_num() -> int | None:
    """How many instances the node has; None, and a line in the log, outside a function."""
    found = running_here()
    return _ask("instance_num", None if found is None else found.instance_count)


def get_running_in_udf() -> bool:
    """Whether this process runs functions."""
    return bool(_Said.values.get("in_udf", running_here() is not None))


def set_running_device_id(device_id: int) -> None:
    """Say what `get_running_device_id` answers."""
    _Said.values["device_id"] = device_id


def set_running_instance_id(instance_id: int) -> None:
    """Say what `get_running_instance_id` answers."""
    _Said.values["instance_id"] = instance_id


def set_running_instance_num(instance_num: int) -> None:
    """Say what `get_running_instance_num` answers."""
    _Said.values["instance_num"] = instance_num


def set_running_in_udf(running_in_udf: bool = True) -> None:
    """Say what `get_running_in_udf` answers."""
    _Said.values["in_udf"] = running_in_udf


def _ask(what: str, known: int | None) -> int | None:
    answer = _Said.values.get(what, known)
    if answer is None:
        log.error("the running %s is known inside a function only", what)
    return answer
