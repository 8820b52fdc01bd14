"""Options of the decorators: what they are called, and what they may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from dflow_core.errors import OptionError
from dflow_core.options import nearest
from dflow_core.types import NodeOptions

NODE_OPTIONS = (*(option.name for option in fields(NodeOptions)), "depth", "engine")
_CALL_OPTIONS = ("num_inputs", "num_returns", "gather", "choice_output", "stream", "stream_input")
_RESOURCES = ("memory", "num_cpus", "num_npus")


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How one function is called.

    Args:
        num_inputs: Inputs, where the signature does not say; None counts its parameters.
        num_returns: Outputs, where the annotation does not say; None counts those.
        gather: Whether it is called once per transaction with a list of all parts.
        choice_output: Says for each value whether it is sent; None sends all.
        stream: Whether one call gives several sets of values; None says yes for generator functions.
        stream_input: `Queue` if it gets a queue for each input, and takes from them what it wants; else "".
    """

    num_inputs: int | None = None
    num_returns: int | None = None
    gather: bool = False
    choice_output: Callable[[object], object] | None = None
    stream: bool | None = None
    stream_input: str = ""

    def __post_init__(self) -> None:
        for name in ("gather", "stream"):
            value = getattr(self, name)
            if not isinstance(value, bool) and not (name == "stream" and value is None):
                raise OptionError(f"{name}: expected True or False, got {value!r}")
        if self.choice_output is not None and not callable(self.choice_output):
            raise OptionError(f"choice_output: expected a function, got {self.choice_output!r}")
        if self.stream_input not in ("", "Queue"):
            raise OptionError(f"stream_input: expected \"Queue\", got {self.stream_input!r}")
        if self.stream_input and self.gather:
            raise OptionError("gather: a function with queues takes parts as they come", hint="leave one of them out")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a decorator was given.

    Args:
        call: How the function is called (functions and classes with `__call__`).
        name: What nodes are called.
        node: Options of the nodes.
        memory: Megabytes it says it needs; shown by the plan, not enforced.
    """

    call: CallOptions = CallOptions()
    name: str = ""
    node: Mapping[str, object] = field(default_factory=dict)
    memory: int = 0


def call_options(given: Mapping[str, object], where: str) -> CallOptions:
    """Options of `@method`.

    Raises:
        OptionError: an unknown option (with the nearest known ones), or a value it cannot have.
    """
    _refuse_unknown(given, _CALL_OPTIONS, where)
    return CallOptions(**given)  # type: ignore[arg-type]  # checked by the class


def settings(given: Mapping[str, object]) -> Settings:
    """Options of `@pyflow`.

    Raises:
        OptionError: an unknown option (with the nearest known ones), or a value it cannot have.
    """
    _refuse_unknown(given, (*_CALL_OPTIONS, *NODE_OPTIONS, "name", "resources"), "@pyflow")
    name = given.get("name", "")
    if not isinstance(name, str):
        raise OptionError(f"name: expected a text, got {name!r}")
    node = {key: value for key, value in given.items() if key in NODE_OPTIONS}
    memory, threads = _resources(given.get("resources", {}))
    if threads and "threads" not in node:
        node["threads"] = threads
    call = {key: value for key, value in given.items() if key in _CALL_OPTIONS}
    return Settings(call_options(call, "@pyflow"), name, node, memory)


def _refuse_unknown(given: Mapping[str, object], known: tuple[str, ...], where: str) -> None:
    for key in given:
        if key not in known:
            raise OptionError(f"{where}: unknown option {key!r}", hint=nearest(key, known))


def _resources(given: object) -> tuple[int, int]:
    """Megabytes and CPUs of upstream's `resources` option."""
    if not isinstance(given, Mapping):
        raise OptionError(f"resources: expected a dict, got {given!r}")
    for key, value in given.items():
        if key not in _RESOURCES:
            raise OptionError(f"resources: unknown key {key!r}", hint=nearest(str(key), _RESOURCES))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise OptionError(f"resources: expected {key!r} to be a number of at least 0, got {value!r}")
    if given.get("num_npus", 0):
        hint = "leave num_npus out; a model asks for one with set_options(engine='NPU')"
        raise OptionError("resources: functions run on CPUs, and have no NPUs", hint=hint)
    return int(given.get("memory", 0)), -int(-given.get("num_cpus", 0) // 1)
