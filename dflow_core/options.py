"""Every option there is: one table with type, default, unit and meaning, and the one way values are found.

The table is the dataclass `Options`. A value is looked up at the node, then the graph, then the session (`df.init`),
then the environment (`DFLOW_` and the key in capitals); what is nowhere has its default. Values may be Python values or
texts (from a file, the command line or the environment). Keys that begin with `plugin.` belong to plugins: they are
passed on as text, unchecked.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from dflow_core.cann_options import OF_CANN, pool_sizes
from dflow_core.errors import OptionError, shortened

Value: TypeAlias = bool | int | float | str
T = TypeVar("T", bool, int, float, str)

SCOPES = ("session", "graph", "node")
PLUGIN_PREFIX = "plugin."
_MOST_SECONDS = 10**9
_SESSION = ("session",)
_GRAPH = ("session", "graph")
_NODE = ("session", "graph", "node")
_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})
_MULTIPLES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """What is known of one option.

    Args:
        key: Name of the option.
        type: Type of its values.
        default: Value where nobody sets it.
        meaning: One line.
        unit: Unit of numbers; "" for none.
        scopes: Where it may be set: `session`, `graph`, `node`.
        env: Environment variable it is read from.
        choices: The texts it may be; empty for any.
        low, high: Least and greatest number it may be.
        aliases: Other spellings (CANN's), accepted everywhere.
    """

    key: str
    type: type[bool] | type[int] | type[float] | type[str]
    default: Value
    meaning: str
    unit: str
    scopes: tuple[str, ...]
    env: str
    choices: tuple[str, ...]
    low: float
    high: float
    aliases: tuple[str, ...]


def _option(
    default: T, scopes: tuple[str, ...], meaning: str, *, unit: str = "", choices: tuple[str, ...] = (),
    low: float = 0, high: float = math.inf, aliases: tuple[str, ...] = (),
) -> T:
    facts = {
        "meaning": meaning, "scopes": scopes, "unit": unit, "choices": choices, "low": low, "high": high,
        "aliases": aliases,
    }
    made: T = field(default=default, metadata=facts)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options in force, typed; made by `resolve`. `extra` holds the keys of plugins."""

    transport: str = _option("", _GRAPH, "scheme of the local transport; empty takes the best there is")
    queue_depth: int = _option(16, _NODE, "messages that may wait for each consumer of an output", low=1)
    memory_limit: int = _option(
        0, _GRAPH, "most memory for messages; 0 lets the transport choose", unit="bytes",
        aliases=("ge.flowGraphMemMaxSize",),
    )
    spin_us: int = _option(
        5, _GRAPH, "how long a reader looks again before it sleeps, unless processes outnumber CPUs by more than two",
        unit="microseconds",
    )
    feed_timeout: float = _option(60.0, _GRAPH, "longest wait of a feed for room", unit="seconds")
    fetch_timeout: float = _option(600.0, _GRAPH, "longest wait of a fetch for a result", unit="seconds")
    start_timeout: float = _option(120.0, _GRAPH, "longest wait for the executors to come up", unit="seconds")
    stop_timeout: float = _option(10.0, _GRAPH, "longest wait for executors before they are killed", unit="seconds")
    link: str = _option("", _GRAPH, "what joins machines; empty picks the best installed")
    link_lease: float = _option(30.0, _GRAPH, "silence after which a machine is lost", unit="seconds", low=0.1)
    max_in_flight: int = _option(0, _GRAPH, "transactions under way at once; 0 lets the queues decide")
    ordered: bool = _option(
        False, _GRAPH, "whether fetch gives results in the order in which they were fed; map has ordered= of its own"
    )
    max_unfetched: int = _option(256, _GRAPH, "results that may lie unfetched before feeding waits", low=1)
    output: str = _option(
        "stderr", _GRAPH, "where executors' output goes: stderr, logging, none, or dir:PATH for a file per process"
    )
    align_max_cache: int = _option(
        0, _GRAPH, "incomplete sets kept where messages meet, at most 1024; 0 lets them wait without limit", high=1024
    )
    align_timeout: float = _option(
        0.0, _GRAPH, "age at which an incomplete set is given up, at most 600; 0 never; needs `align_max_cache`",
        unit="seconds", high=600,
    )
    align_drop: bool = _option(False, _GRAPH, "whether a set that is given up is dropped, else given out as it is")
    exception_catch: bool = _option(False, _GRAPH, "whether functions may raise exceptions for all other functions")
    n_mapping: bool = _option(False, ("graph",), "whether nodes make other than one output of one input")
    stall_report: float = _option(
        10.0, _GRAPH, "time without movement, or of one call, after which a report says who waits for what; 0 is off",
        unit="seconds",
    )
    trace: str = _option("", _GRAPH, "folder where executors write a line per call, for a timeline; empty is off")
    record: str = _option("", _GRAPH, "file, or folder for one, that failed transactions are kept in; empty is off")
    record_good: int = _option(16, _GRAPH, "newest transactions without an error that a recording keeps")
    record_limit: int = _option(1 << 30, _GRAPH, "most that a recording keeps, the graph aside", unit="bytes")
    cache: bool = _option(True, _GRAPH, "whether compiled models are kept")
    cache_dir: str = _option(
        "", _GRAPH, "where compiled models are kept; empty is the user's cache folder",
        aliases=("ge.graph_compiler_cache_dir",),
    )
    graph_key: str = _option("", ("graph",), "label of the graph in the cache's listing", aliases=("ge.graph_key",))
    run: bool = _option(True, _GRAPH, "False compiles only", aliases=("ge.runFlag",))
    plugins: str = _option("", _SESSION, "comma separated plugins that may load; empty allows all")
    log_level: str = _option(
        "warning", _SESSION, "least important messages that are logged", choices=("debug", "info", "warning", "error")
    )
    engine: str = _option("", _NODE, "id of the engine that compiles and runs; empty takes the best there is")
    deployer: str = _option("local", _GRAPH, "scheme of the deployer")
    deploy_info: str = _option(
        "", _GRAPH, "deploy file: which node runs on which logical devices; empty lets the nodes say",
        aliases=("ge.experiment.data_flow_deploy_info_path",),
    )
    resource_file: str = _option(
        "", _SESSION, "resource file: servers and devices; RESOURCE_CONFIG_PATH goes before it, empty is this machine",
        aliases=("ge.resourceConfigPath",),
    )
    logical_devices: int = _option(
        0, _SESSION, "logical devices that this machine's CPUs are; 0 is one for each CPU that may be used"
    )
    model_devices: str = _option(
        "", _GRAPH, "logical devices of models on engines with devices, such as NPUs, that no deploy file places",
        aliases=("ge.exec.logicalDeviceId",),
    )
    extra: Mapping[str, str] = field(default_factory=dict, hash=False)


_TYPES: dict[str, type[bool] | type[int] | type[float] | type[str]] = {
    "bool": bool, "int": int, "float": float, "str": str,
}


def _table() -> Mapping[str, OptionInfo]:
    infos = {}
    defaults = Options()
    for item in dataclasses.fields(Options):
        if item.name != "extra":
            env = f"DFLOW_{item.name.upper()}" if "session" in item.metadata["scopes"] else ""
            infos[item.name] = OptionInfo(
                key=item.name, type=_TYPES[str(item.type)], default=getattr(defaults, item.name), env=env,
                **item.metadata,
            )
    return MappingProxyType(infos)


OPTIONS: Mapping[str, OptionInfo] = _table()
_ALIASES = {alias: info.key for info in OPTIONS.values() for alias in info.aliases}

@dataclass(frozen=True, slots=True)
class Effective:
    """An option in force, and where its value came from (`node`, `graph`, `session`, a variable, `default`)."""

    info: OptionInfo
    value: Value
    origin: str


def find(key: str) -> OptionInfo:
    """The option of that name or alias.

    Raises:
        OptionError: there is none; names the nearest ones, or says why an option of CANN has no use here.
    """
    info = OPTIONS.get(_ALIASES.get(key, key))
    if info is None:
        reason = OF_CANN.get(key)
        if reason:
            raise OptionError(f"option {key!r} would have no effect here", hint=f"leave it out: {reason}")
        raise OptionError(f"unknown option {key!r}", hint=nearest(key, OPTIONS))
    return info


def parse(key: str, value: object) -> Value:
    """The value of an option in its own type.

    Args:
        key: Name or alias of the option.
        value: A value of its type, or its text; durations may be a timedelta, sizes may end in K, M, G or T.

    Raises:
        OptionError: an unknown option, or a value it cannot have.
    """
    info = find(key)
    parsed = _convert(info, pool_sizes(key, value) if key == "ge.flowGraphMemMaxSize" else value)
    if info.choices and parsed not in info.choices:
        known = " or ".join(info.choices)
        raise OptionError(f"option {key!r}: expected {known}, got {value!r}", hint=nearest(str(value), info.choices))
    if not isinstance(parsed, str) and parsed < info.low:
        raise OptionError(f"option {key!r}: expected at least {info.low:g}, got {value!r}")
    if not isinstance(parsed, str) and parsed > info.high:
        raise OptionError(f"option {key!r}: expected at most {info.high:g}, got {value!r}")
    return parsed


def normalize(given: Mapping[str, object] | None, scope: str) -> dict[str, Value]:
    """Options as one place gives them, under their own names and in their own types.

    Args:
        given: Values by name or alias.
        scope: The place: `session`, `graph` or `node`.

    Raises:
        OptionError: an unknown option, one that cannot be set in this place, a value it cannot have, or the same
            option under two names.
    """
    values: dict[str, Value] = {}
    if not hasattr(given or {}, "items"):
        raise OptionError(f"options of a {scope}: expected values by name, got {given!r}")
    for key, value in (given or {}).items():
        if not isinstance(key, str):
            raise OptionError(f"the name of an option must be a text, got {key!r}")
        if key.startswith(PLUGIN_PREFIX):
            values[key] = str(value)
            continue
        info = find(key)
        if scope not in info.scopes:
            raise OptionError(f"option {key!r} cannot be set on a {scope}", hint=f"set it on the {info.scopes[0]}")
        if info.key in values:
            raise OptionError(f"option {info.key!r} is given twice, under two names")
        values[info.key] = parse(key, value)
    return values


def resolve(
    session: Mapping[str, object] | None = None,
    graph: Mapping[str, object] | None = None,
    node: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Options:
    """The options in force.

    Args:
        session, graph, node: What each place gives; the last one that has an option wins.
        environ: Environment variables; those of this process if not given.

    Raises:
        OptionError: an unknown option, one in the wrong place, or a value it cannot have.
    """
    return _merged(session, graph, node, environ)[0]


def effective(
    session: Mapping[str, object] | None = None,
    graph: Mapping[str, object] | None = None,
    node: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Effective, ...]:
    """Every option with the value in force and where it came from, sorted by name; arguments as for `resolve`."""
    options, origins = _merged(session, graph, node, environ)
    return tuple(
        Effective(info, getattr(options, key), origins.get(key, "default")) for key, info in sorted(OPTIONS.items())
    )


def as_texts(options: Options) -> dict[str, str]:
    """Options as texts, as models carry them."""
    texts = {key: _text(getattr(options, key)) for key in OPTIONS}
    return texts | dict(options.extra)


def from_texts(texts: Mapping[str, str]) -> Options:
    """The inverse of `as_texts`; what is missing has its default.

    Raises:
        OptionError: an unknown option, or a value it cannot have.
    """
    extra = {key: text for key, text in texts.items() if key.startswith(PLUGIN_PREFIX)}
    known = {find(key).key: parse(key, text) for key, text in texts.items() if key not in extra}
    return dataclasses.replace(Options(), **known, extra=extra)  # type: ignore[arg-type]  # parsed by the table


def default_cache_dir(environ: Mapping[str, str]) -> str:
    """The user's cache folder for dflow, or "" where it cannot be written (no home, a read-only root)."""
    home = environ.get("HOME", "")
    base = environ.get("XDG_CACHE_HOME", "") or (os.path.join(home, ".cache") if os.path.isabs(home) else "")
    if not os.path.isabs(base):
        return ""
    folder = existing = os.path.join(base, "dflow")
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    return folder if os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK) else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names what `name` was probably meant to be, and where there is nothing near, all there is."""
    names = sorted(known)
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.55)
    if close:
        return "did you mean " + " or ".join(repr(text) for text in close) + "?"
    return "known: " + ", ".join(names) if names else "none is known"


def seconds(value: object, what: str) -> float:
    """A duration as seconds.

    Args:
        value: A number of seconds, or a timedelta.
        what: What it is for, for the error.

    Raises:
        OptionError: not a number, negative, infinite, NaN, or more than thirty years.
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise OptionError(f"{what}: expected seconds or a timedelta, got {value!r}")
    if not 0 <= value <= _MOST_SECONDS:  # also NaN; beyond, waits of the system overflow
        most = "" if value < 0 or value != value else f", {_MOST_SECONDS:.0e} at most"
        raise OptionError(f"{what}: expected 0 seconds or more{most}, got {shortened(repr(value), 40)}")
    return float(value)


def _merged(
    session: Mapping[str, object] | None, graph: Mapping[str, object] | None, node: Mapping[str, object] | None,
    environ: Mapping[str, str] | None,
) -> tuple[Options, dict[str, str]]:
    env = os.environ if environ is None else environ
    values: dict[str, Value] = {}
    origins: dict[str, str] = {}
    for info in OPTIONS.values():
        if info.env and env.get(info.env):
            values[info.key] = _from_environment(info, env[info.env])
            origins[info.key] = info.env
    for scope, given in zip(SCOPES, (session, graph, node)):
        own = normalize(given, scope)
        values |= own
        origins |= dict.fromkeys(own, scope)
    extra = {key: str(value) for key, value in values.items() if key.startswith(PLUGIN_PREFIX)}
    known = {key: value for key, value in values.items() if key not in extra}
    if not known.get("cache_dir"):
        known["cache_dir"] = default_cache_dir(env)
    options = dataclasses.replace(Options(), **known, extra=extra)  # type: ignore[arg-type]  # parsed by the table
    return options, origins


def _from_environment(info: OptionInfo, text: str) -> Value:
    try:
        return parse(info.key, text)
    except OptionError as error:
        raise OptionError(f"environment variable {info.env}: {error.message}", hint=error.hint) from error


def _convert(info: OptionInfo, value: object) -> Value:
    text = value.strip() if isinstance(value, str) else None
    expected = f"{info.type.__name__}{f' ({info.unit})' if info.unit else ''}"
    try:
        if info.type is str and text is not None:
            return text
        if info.type is bool and (isinstance(value, bool) or (text or "").lower() in _YES | _NO):
            return value if isinstance(value, bool) else (text or "").lower() in _YES
        if info.type is float:
            return seconds(value if text is None else float(text), f"option {info.key!r}")
        if info.type is int and text is not None:
            return _number(text, info.unit == "bytes")
        if info.type is int and isinstance(value, int) and not isinstance(value, bool):
            return value
    except ValueError as error:
        if isinstance(error, OptionError):
            raise
    raise OptionError(f"option {info.key!r}: expected {expected}, got {value!r}")


def _number(text: str, is_size: bool) -> int:
    unit = text[-1:].lower()
    if is_size and unit in _MULTIPLES:
        return int(float(text[:-1]) * _MULTIPLES[unit])
    return int(text)


def _text(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
