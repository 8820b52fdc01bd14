"""Which logical device every instance of a node runs on, and why, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InstancePlace:
    """Where one instance of a node runs.

    Args:
        device: Device it is bound to, such as `cpu:0` or `npu:1`.
        resource_type: What its code is made for: `X86`, `Aarch`, or a type of an engine's devices such as `Ascend`.
        logical_device: Logical device that stands for it, `cluster:server:device:die`; "" where none was asked for.
        spare: Whether it works only where no other instance is left.
        visible: Number of the one piece of hardware that its process may see; -1 where it may see all.
        machine: Name of the machine; "" for that of the application.
    """

    device: str
    resource_type: str = ""
    logical_device: str = ""
    spare: bool = False
    visible: int = -1
    machine: str = ""


@dataclass(frozen=True, slots=True)
class NodePlacement:
    """Where the instances of a node run.

    Args:
        node: Name of the submodel.
        places: One entry for each instance, in order.
        dispatch: How messages are shared out over the instances, as `NodeOptions.dispatch` says, or `first` where only
            the first one can have work; "" where there is only one.
        reason: Why it is so, in one sentence.
    """

    node: str
    places: tuple[InstancePlace, ...]
    dispatch: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ThreadShare:
    """Threads a node may use.

    Args:
        node: Name of the submodel.
        instances: How many instances it has.
        threads: Threads of each, for the model itself and for OpenMP, BLAS and OpenCV in it.
        reason: Why so many.
        calls: Calls that run at once in an instance and share its threads.
        machine: Where these instances are; "" for the machine of the application.
    """

    node: str
    instances: int
    threads: int
    reason: str
    calls: int = 1
    machine: str = ""
