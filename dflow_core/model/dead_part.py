"""What a restarted instance is told of the work its predecessor took along."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeadPart:
    """Part of a transaction that was lost with an instance; the restarted instance drops what still comes of it.

    Args:
        model, index: The instance.
        trans_id, data_label: Join key of the part.
        ports: Input ports it had arrived at before.
    """

    model: str
    index: int
    trans_id: int
    data_label: int
    ports: tuple[int, ...]
