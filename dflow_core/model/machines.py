"""The machines a graph runs on, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine beside that of the application.

    Args:
        name: What plan, status and errors call it; never "", which is the application's machine.
        address: Host and port where its daemon listens.
        cpus: CPUs the graph may use there; 0 where its daemon is to say.
        resource_type: Type of its CPUs, `X86` or `Aarch`.
    """

    name: str
    address: str
    cpus: int = 0
    resource_type: str = ""


@dataclass(frozen=True, slots=True)
class Crossing:
    """A queue whose messages go from one machine to another; it has the same name on both.

    Messages go through the application's machine, so that one end of every crossing is there: what goes from one
    daemon to another has two crossings.

    Args:
        queue: Its name.
        source: Machine where they are put into it; "" is the application's.
        target: Machine where they are taken out.
    """

    queue: str
    source: str
    target: str
