"""Which of several queues a message goes to, where each instance of its reader has one of its own.

A route with one queue never comes here. One with several has a `Picker`; what it does for each message is chosen when
it is made. A queue that was closed while the graph runs on belonged to an instance that is gone for good: its messages
go to the next queue that is open, and to the spare ones when there is no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dflow_core.model import Route, index_of
from dflow_core.spi import Queue


class Picker:
    """Picks one of several queues for each message.

    Args:
        queues: The queues, spare ones last.
        by: Rule, see `Route`.
        spares: How many of them are spare.
    """

    def __init__(self, queues: Sequence[Queue], by: str, spares: int = 0) -> None:
        self._all = list(queues)
        self._by = by
        self._count = len(queues) - spares
        self._closed: set[int] = set()

    @property
    def queues(self) -> Sequence[Queue]:
        """All of them."""
        return self._all

    def pick(self, trans_id: int, route_label: int) -> Queue:
        """The queue for a message."""
        index = index_of(self._by, trans_id, route_label, self._count)
        return self._all[index] if not self._closed else self._all[self._open(index)]

    def give_up(self, queue: Queue) -> bool:
        """Do not pick a queue again, because it is closed; False if no other is left."""
        self._closed.add(self._all.index(queue))
        return len(self._closed) < len(self._all)

    def _open(self, index: int) -> int:
        """The next one that is open, spare ones after all others."""
        turn = [(index + i) % self._count for i in range(self._count)]
        return next((i for i in [*turn, *range(self._count, len(self._all))] if i not in self._closed), index)


class LoadPicker(Picker):
    """Picks the queue with the fewest messages; the one that was used longest ago of several."""

    def __init__(self, queues: Sequence[Queue], spares: int = 0) -> None:
        super().__init__(queues, "load", spares)
        self._used = [0] * len(queues)
        self._number = 0

    def pick(self, trans_id: int, route_label: int) -> Queue:
        left: Sequence[int] = range(self._count)
        if self._closed:
            left = [i for i in left if i not in self._closed]
            left = left or [i for i in range(len(self._all)) if i not in self._closed] or range(self._count)
        used, queues = self._used, self._all
        index = min(left, key=lambda i: (queues[i].level(), used[i]))
        self._number += 1
        used[index] = self._number
        return queues[index]


Target = Queue | Picker
"""Where messages of a route go."""


def target_of(route: Route, queues: Mapping[str, Queue]) -> Target:
    """Where messages of a route go.

    Args:
        route: The route.
        queues: Queues by name.
    """
    found = [queues[name] for name in route.queues]
    if len(found) == 1:
        return found[0]
    return LoadPicker(found, route.spares) if route.by == "load" else Picker(found, route.by, route.spares)


def fixed(targets: Sequence[Target]) -> list[Queue] | None:
    """Where messages go, if that is the same for all of them."""
    queues = [target for target in targets if not isinstance(target, Picker)]
    return queues if len(queues) == len(targets) else None


def picked(targets: Sequence[Target], trans_id: int, route_label: int) -> list[Queue]:
    """The queues that one message goes to."""
    return [target.pick(trans_id, route_label) if isinstance(target, Picker) else target for target in targets]


class Rerouter:
    """Finds the picker of a queue that turned out to be closed.

    Args:
        targets: Where messages go.
    """

    def __init__(self, targets: Sequence[Target]) -> None:
        self._pickers = {
            id(queue): target for target in targets if isinstance(target, Picker) for queue in target.queues
        }

    def instead(self, queue: Queue, trans_id: int, route_label: int) -> Queue | None:
        """The queue to use instead of a closed one, or None if the whole graph is closed."""
        picker = self._pickers.get(id(queue))
        return picker.pick(trans_id, route_label) if picker is not None and picker.give_up(queue) else None
