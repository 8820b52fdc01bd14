"""Hand-written classes of the low-level interface: methods that get a run context and messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from dflow_core.errors import UsageError
from dflow_core.frontend.building import packed
from dflow_core.graph import PACKER_ATTRIBUTE, FuncPackage
from dflow_core.message import msg_types
from dflow_core.types import FuncSpec

F = TypeVar("F", bound=Callable[..., object])

PROC_ATTRIBUTE = "__dflow_proc__"
_INIT_NAME = "init_flow_func"
_PORT = re.compile(r"([io])(\d{1,4})")


def proc_wrapper(ports: str) -> Callable[[F], F]:
    """Mark a method `(self, run_context, inputs)` of a hand-written class as a function of a node.

    Args:
        ports: The node's ports it owns, such as `"i0,i1,o0"`; an output may be shared with other methods. With
            `stream_input` at the end it gets a MessageQueue for each input instead of messages.

    Raises:
        UsageError: the text is no list of ports.
    """
    marked = _ports(ports)

    def mark(func: F) -> F:
        setattr(func, PROC_ATTRIBUTE, marked)
        setattr(func, PACKER_ATTRIBUTE, pack_flow_class)
        return func

    return mark


def init_wrapper() -> Callable[[F], F]:
    """Mark the method `init_flow_func(self, meta_params)` of a hand-written class, called once in the executor.

    Raises:
        UsageError: the method has another name.
    """

    def mark(func: F) -> F:
        if getattr(func, "__name__", "") != _INIT_NAME:
            raise UsageError(f"expected a method called {_INIT_NAME}, got {func!r}", hint="rename it")
        return func

    return mark


def pack_flow_class(cls: object) -> FuncPackage:
    """Make a hand-written class ready to travel; `FuncProcessPoint(py_func=cls)` calls this.

    Raises:
        UsageError: not a class, or its methods do not own each port once.
        PackagingError: something in it cannot travel.
    """
    from dflow_core.udf import MethodSpec, PythonFunc

    if not isinstance(cls, type):
        raise UsageError(f"expected the class around the @proc_wrapper methods, got {cls!r}")
    marked = {name: getattr(getattr(cls, name), PROC_ATTRIBUTE, None) for name in sorted(dir(cls))}
    specs = [
        FuncSpec(name, ports[0], ports[1], n_mapping=True, stream_input=ports[2])
        for name, ports in marked.items()
        if ports is not None
    ]
    counts = (
        _count([port for spec in specs for port in spec.inputs], f"{cls.__qualname__}: inputs"),
        _count(sorted({port for spec in specs for port in spec.outputs}), f"{cls.__qualname__}: outputs"),
    )
    methods = tuple(MethodSpec(spec.name, len(spec.outputs)) for spec in specs)
    func = PythonFunc("flow_func", cls, methods=methods, types=msg_types.codecs())
    return packed(func, specs, counts, cls.__name__, {})


def _ports(text: object) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    hint = "list the node's inputs and outputs, such as 'i0,i1,o0'"
    if not isinstance(text, str):
        raise UsageError(f"proc_wrapper: expected a text with ports, got {text!r}", hint=hint)
    sides: dict[str, list[int]] = {"i": [], "o": []}
    tokens = [token.strip() for token in text.split(",")]
    with_queues = tokens[-1] == "stream_input"
    for token in tokens[:-1] if with_queues else tokens:
        match = _PORT.fullmatch(token)
        if match is None:
            raise UsageError(f"proc_wrapper: expected ports, got {token!r} in {text!r}", hint=hint)
        sides[match[1]].append(int(match[2]))
    if with_queues and not sides["i"]:
        raise UsageError(f"proc_wrapper: a function with queues needs an input, got {text!r}", hint=hint)
    return tuple(sides["i"]), tuple(sides["o"]), with_queues


def _count(ports: list[int], what: str) -> int:
    if sorted(ports) != list(range(len(ports))):
        raise UsageError(f"{what}: expected each port from 0 on, inputs once, got {sorted(ports)}", hint="count from 0")
    return len(ports)
