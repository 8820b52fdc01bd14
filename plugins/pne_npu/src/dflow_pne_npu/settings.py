"""What the user asks of a model: point settings, options, load parameters and the graph compile config."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from dflow_core.errors import OptionError
from dflow_core.graph import GraphProcessPoint, read_compile_config

OPTION_PREFIX = "plugin.npu."
_ATC = (
    "input_shape", "input_format", "dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "out_nodes",
    "output_type", "input_fp16_nodes", "is_input_adjust_hw_layout", "is_output_adjust_hw_layout", "precision_mode",
    "precision_mode_v2", "insert_op_conf",
)
SETTINGS = (*_ATC, "soc_version", "device", "placement", "atc_timeout", "atc_options", "timeout")
_BUILD = {
    "ge.inputShape": "input_shape", "ge.exec.precision_mode": "precision_mode", "ge.socVersion": "soc_version",
    "ge.dynamicDims": "dynamic_dims", "ge.inputFormat": "input_format", "ge.outputDatatype": "output_type",
    "ge.exec.placement": "placement",
}
_GLOBAL = {"ge.socVersion": "soc_version", "ge.exec.deviceId": "device", "ge.exec.precision_mode": "precision_mode",
           "ge.exec.placement": "placement"}
_LOAD = {"out_nodes": "out_nodes", "output_names": "out_nodes", "output_data_names": "out_nodes",
         "input_fp16_nodes": "input_fp16_nodes", "input_format": "input_format", "output_type": "output_type",
         "is_input_adjust_hw_layout": "is_input_adjust_hw_layout",
         "is_output_adjust_hw_layout": "is_output_adjust_hw_layout"}
_HOST = "HOST"
_FORMATS = ("ND", "NCHW", "NHWC")
_CONFIG_KEYS = ("build_options", "inputs_tensor_desc", "invoke_model_fusion_inputs")


@dataclass(frozen=True)
class Asked:
    """What the user asks of a model.

    Args:
        soc: The chip, such as `Ascend310P3`; "" for that of the device at hand.
        device: Number of the device, or -1 for any.
        atc: Options of atc by name.
        extra: More words for its command line.
        shapes: Shape of each input in order, `None` for the model's own; () if no config gives any.
        atc_timeout: Seconds atc may take.
        timeout: Seconds a run may take.
        notes: Sentences worth telling.
    """

    soc: str
    device: int
    atc: Mapping[str, str]
    extra: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...] | None, ...] = ()
    atc_timeout: float = 1800.0
    timeout: float = 60.0
    notes: tuple[str, ...] = ()


def runs_on_host(point: GraphProcessPoint, options: Mapping[str, str]) -> bool:
    """Whether the placement asked for is the host; what is wrong with what is asked is told by `read_settings`."""
    with contextlib.suppress(OptionError):
        config = read_compile_config(point.compile_config_path)
        found = _options(options) | _build(config, point.compile_config_path, []) | dict(point.settings)
        return found.get("placement", "").upper() == _HOST
    return False


def chooses_outputs(point: GraphProcessPoint) -> bool:
    """Whether a point says which outputs a model has, other than those its file names."""
    words = {**point.settings, **(point.load_params or {})}
    return any(_LOAD.get(key, key) == "out_nodes" for key in words) or "out_nodes" in words.get("atc_options", "")


def read_settings(point: GraphProcessPoint, options: Mapping[str, str]) -> Asked:
    """What the user asks for: the point's own settings first, then its compile config, then the options.

    Raises:
        OptionError: for a key nobody knows, or a value it cannot have.
    """
    notes: list[str] = []
    config = read_compile_config(point.compile_config_path)
    layers = [_options(options), _build(config, point.compile_config_path, notes),
              _load(point.load_params or {}, notes), _point(point.settings)]
    found: dict[str, str] = {}
    for layer in layers:
        found |= layer
    _check_placement(found.get("placement", ""))
    shapes, layout = _input_descs(config, point.compile_config_path)
    if layout:
        found.setdefault("input_format", layout)
    return Asked(
        soc=found.get("soc_version", ""),
        device=_whole("device", found.get("device", "-1"), -1),
        atc={name: found[name] for name in _ATC if name in found},
        extra=tuple(shlex.split(found.get("atc_options", ""))),
        shapes=shapes,
        atc_timeout=_seconds("atc_timeout", found.get("atc_timeout", "1800")),
        timeout=_seconds("timeout", found.get("timeout", "60")),
        notes=tuple(notes),
    )


def _check_placement(text: str) -> None:
    """A model of this engine runs on an NPU: ACL's C interface has no run on the host's CPUs."""
    if text.upper() == _HOST:
        raise OptionError("placement HOST asks for the host's CPUs, and ACL has no way to run a model there",
                          hint="let the node ask for the engine that has: set_options(engine='CPU')")
    if text.upper() not in ("", "DEVICE"):
        raise OptionError(f"placement={text!r}: expected DEVICE or HOST")


def _near(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"


def _point(settings: Mapping[str, str]) -> dict[str, str]:
    for key in settings:
        if key not in SETTINGS:
            raise OptionError(f"unknown setting {key!r} of the NPU engine", hint=_near(key, SETTINGS))
    return dict(settings)


def _options(options: Mapping[str, str]) -> dict[str, str]:
    found = {name: options[key] for key, name in _GLOBAL.items() if key in options}
    for key, value in options.items():
        if not key.startswith(OPTION_PREFIX):
            continue
        name = key.removeprefix(OPTION_PREFIX)
        if name not in SETTINGS:
            raise OptionError(f"unknown option {key!r}", hint=_near(key, [OPTION_PREFIX + one for one in SETTINGS]))
        found[name] = value
    return found


def _load(params: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    found = {}
    for key, value in params.items():
        if key in _LOAD:
            found[_LOAD[key]] = value.replace(",", ";") if key.startswith("output_") and key != "output_type" else value
        elif key in ("input_data_names", "enable_scope_fusion_passes"):
            notes.append(f"load parameter {key!r} has no meaning for atc and is ignored")
        else:
            raise OptionError(f"unknown load parameter {key!r}", hint=_near(key, list(_LOAD)))
    return found


def _build(config: Mapping[str, object], path: str, notes: list[str]) -> dict[str, str]:
    notes += [f"compile config {path}: unknown key {key!r} is ignored" for key in config if key not in _CONFIG_KEYS]
    build = config.get("build_options", {})
    if not isinstance(build, dict) or not all(isinstance(value, str) for value in build.values()):
        raise OptionError(f"compile config {path}: build_options must be an object of texts")
    found = {}
    for key, value in build.items():
        if key in _BUILD:
            found[_BUILD[key]] = value
        else:
            notes.append(f"build option {key!r} has no counterpart in atc and is ignored")
    return found


def _input_descs(config: Mapping[str, object], path: str) -> tuple[tuple[tuple[int, ...] | None, ...], str]:
    entries = config.get("inputs_tensor_desc", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise OptionError(f"compile config {path}: inputs_tensor_desc must be a list of objects")
    shapes: list[tuple[int, ...] | None] = []
    layouts = set()
    for entry in entries:
        shape, layout = entry.get("shape"), entry.get("format", "ND")
        if layout not in _FORMATS:
            raise OptionError(f"compile config {path}: unknown format {layout!r}", hint=_near(str(layout), _FORMATS))
        sizes = shape if isinstance(shape, list) else []
        if shape is not None and (not sizes or not all(type(dim) is int and dim >= -1 for dim in sizes)):
            raise OptionError(f"compile config {path}: shape {shape!r} must be a list of sizes; -1 is a free one")
        layouts.add(layout)
        shapes.append(None if shape is None else tuple(sizes))
    return tuple(shapes), layouts.pop() if len(layouts) == 1 and "ND" not in layouts else ""


def _whole(key: str, text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise OptionError(f"{key}={text!r}: expected a whole number from {least}")
    return number


def _seconds(key: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise OptionError(f"{key}={text!r}: expected seconds above 0")
    return seconds
