"""Queues and routes of a graph, as data: part of the planner."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from dflow_core.model import FlowModel, InvokedPlan, NodePlacement, PneModel, QueuePlan, Route, called_by

_MAX_NAME = 255
_NOTICES = 64


def joins(model: PneModel) -> bool:
    """Whether all parts of a transaction have to meet in one instance of the model."""
    return any(len(func.inputs) > 1 or func.gather for func in model.functions) or (
        not model.functions and len(model.inputs) > 1
    )


def gathers(model: PneModel) -> bool:
    """Whether a function of the model waits for all parts of a transaction, whatever their labels."""
    return any(func.gather for func in model.functions)


def meets_mixed_batches(model: FlowModel, name: str) -> bool:
    """Whether a model joins streams that were put together into batches apart from each other, or not all were.

    Such batches may have other members on each input. A batch goes to one instance, by its first member, so that what
    it is to be paired with could be in another one.
    """
    made: dict[str, frozenset[str]] = {}
    for node, sides in model.relation.submodels.items():
        behind = frozenset().union(*(made.get(endpoint, frozenset()) for endpoint in sides.inputs))
        functions = model.submodels[node].functions
        if node == name:
            groups = [func.inputs for func in functions] or [tuple(range(len(sides.inputs)))]
            found = [{made.get(sides.inputs[port], frozenset()) for port in ports} for ports in groups]
            return any(len(sources) > 1 for sources in found)
        here = frozenset({node}) if any(func.holds_inputs for func in functions) else behind
        made.update(dict.fromkeys(sides.outputs, here))
    return False


def queue_name(text: str) -> str:
    """A queue name of at most 255 bytes: long ones are cut and told apart by a hash."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= _MAX_NAME:
        return text
    digest = hashlib.blake2b(raw, digest_size=8).hexdigest()
    return raw[: _MAX_NAME - len(digest) - 1].decode("utf-8", "ignore") + "~" + digest


def _rule(model: PneModel, placement: NodePlacement) -> str:
    """How the queue of a message is picked; see `Route`."""
    if placement.dispatch == "least_loaded":
        return "load"
    if placement.dispatch == "sticky":
        return "sticky"
    return "transaction" if gathers(model) else "label"


def _own(route: Route, instance: int) -> str:
    """The queue of an instance, where each has its own."""
    return route.queues[instance if len(route.queues) > 1 else 0]


class Queues:
    """Queues and routes of a graph.

    Args:
        model: The graph.
        depth: Messages a queue holds where its endpoint does not say.
        placed: Where the instances of each model run, and how messages are shared out over them.
    """

    def __init__(self, model: FlowModel, depth: int, placed: Mapping[str, NodePlacement]) -> None:
        self._model = model
        self._depth = depth
        self._endpoints = {endpoint.name: endpoint for endpoint in model.relation.endpoints}
        self._by_input: dict[tuple[str, int], Route] = {}
        self._readers: dict[str, list[Route]] = {}
        self.all: dict[str, QueuePlan] = {}
        for name, sides in model.relation.submodels.items():
            sub = model.submodels[name]
            placement = placed[name]
            count = 1 if placement.dispatch in ("", "free") else len(placement.places)
            by, spares = _rule(sub, placement), sum(place.spare for place in placement.places)
            for port, endpoint in enumerate(sides.inputs):
                base = f"{endpoint}->{name}:{port}"
                names = [base] if count == 1 else [f"{base}@{i}" for i in range(count)]
                made = tuple(self._made(text, endpoint) for text in names)
                route = Route(made, by, spares) if count > 1 else Route(made)
                self._by_input[name, port] = route
                if placement.dispatch == "first":
                    route = Route(made[:1])
                self._readers.setdefault(endpoint, []).append(route)
        self._callers = called_by(model.relation)
        self._called: dict[str, list[Route]] = {}
        for one in model.relation.invoked:
            count = len(placed[one.model].places)
            for i, endpoint in enumerate(one.outputs):
                names = [f"{endpoint}->{one.name}:{i}" + (f"@{n}" if count > 1 else "") for n in range(count)]
                route = Route(tuple(self._made(text, endpoint) for text in names))
                self._called.setdefault(one.name, []).append(route)
                self._readers.setdefault(endpoint, []).append(route)
        self.fetches: list[str] = []
        for i, endpoint in enumerate(model.relation.root.outputs):
            self.fetches.append(self._made(f"{endpoint}->fetch:{i}", endpoint))
            self._readers.setdefault(endpoint, []).append(Route((self.fetches[i],)))

    def input(self, model: str, port: int, instance: int) -> str:
        """Queue an instance reads an input from."""
        queues = self._by_input[model, port].queues
        return queues[instance if len(queues) > 1 else 0]

    def routes(self, endpoint: str, model: str = "", instance: int = 0) -> tuple[Route, ...]:
        """Where a message of an endpoint goes: to each input that reads it, then to each fetch.

        Args:
            endpoint: Its name.
            model: The model that sends; one in a graph that a function calls sends to its own instance only.
            instance: The instance of that.
        """
        found = self._readers.get(endpoint, ())
        return tuple(Route((_own(route, instance),)) for route in found) if model in self._callers else tuple(found)

    def called(self, model: str, instance: int) -> tuple[InvokedPlan, ...]:
        """What an instance feeds and fetches when its functions call graphs."""
        return tuple(
            InvokedPlan(
                one.key,
                tuple(
                    tuple(Route((_own(route, instance),)) for route in self._readers.get(endpoint, ()))
                    for endpoint in one.inputs
                ),
                tuple(_own(route, instance) for route in self._called[one.name]),
            )
            for one in self._model.relation.invoked_by(model)
        )

    def _made(self, text: str, endpoint: str) -> str:
        name = queue_name(text)
        while name in self.all:  # names of nodes may hold what joins the parts here
            text += "'"
            name = queue_name(text)
        end = self._endpoints[endpoint]
        depth = 1 if end.overflow == "keep_latest" else end.depth or self._depth
        notices = self._notices(name) if end.overflow != "block" else ""
        self.all[name] = QueuePlan(name, depth, end.overflow, end.max_age, notices)
        return name

    def _notices(self, queue: str) -> str:
        """A queue beside one that may drop messages, for the news of those."""
        self.all[queue] = QueuePlan(queue, 1)  # so that the name is taken
        name = queue_name(f"dropped: {queue}")
        while name in self.all:
            name = queue_name(name + "'")
        self.all[name] = QueuePlan(name, _NOTICES)
        return name

    def notices(self, queues: Iterable[str]) -> dict[str, str]:
        """For those of some queues that may drop messages, the queues that tell of them."""
        return {name: notices for name in queues if (notices := self.all[name].notices)}
