"""What the user asks of a model: point settings, options, load parameters and the graph compile config.

The compile config is the JSON file of config-and-options section 3: `build_options`, `inputs_tensor_desc`; unknown keys
of the file are ignored, as everywhere in such files, but told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dflow_core.errors import OptionError
from dflow_core.graph import GraphProcessPoint, read_compile_config
from dflow_core.types import DataType
from dflow_pne_cpu.names import near, split_list

RUNTIMES = ("auto", "openvino", "onnxruntime")
OPTION_PREFIX = "plugin.cpu."
SETTINGS = ("fixed_shapes", "placement", "precision", "round_dims", "runtime", "streams")

_PRECISIONS = {"f32": "f32", "fp32": "f32", "float32": "f32", "bf16": "bf16", "bfloat16": "bf16"}
_HALF = frozenset({"f16", "fp16", "float16", "half"})
_PRECISION_MODES = {
    "force_fp32": "f32", "must_keep_origin_dtype": "f32", "origin": "f32", "force_fp16": "f32", "fp16": "f32",
    "allow_fp32_to_fp16": "f32", "allow_mix_precision": "f32", "allow_mix_precision_fp16": "f32",
    "mixed_float16": "f32", "cube_fp16in_fp32out": "f32", "cube_fp16in_fp16out": "f32",
    "allow_fp32_to_bf16": "bf16", "allow_mix_precision_bf16": "bf16", "mixed_bfloat16": "bf16",
}
_DTYPES = {f"DT_{dtype.name}": dtype for dtype in DataType if dtype is not DataType.UNDEFINED}
_MOST_STREAMS = 64
_HOST = "HOST"
_FORMATS = ("ND", "NCHW", "NHWC")
_CONFIG_KEYS = ("build_options", "inputs_tensor_desc", "invoke_model_fusion_inputs")
_OUTPUT_KEYS = ("output_names", "output_data_names", "out_nodes")
_PARSER_KEYS = frozenset({  # known to upstream's parsers; they steer an NPU's data layout
    "input_fp16_nodes", "is_input_adjust_hw_layout", "is_output_adjust_hw_layout", "enable_scope_fusion_passes",
    "input_format", "output_type",
})


@dataclass(frozen=True, slots=True)
class InputDesc:
    """What a config says of one input; None keeps what the model file says."""

    dtype: DataType | None = None
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asks of a model.

    Args:
        runtime: `auto`, `openvino` or `onnxruntime`.
        precision: `f32` or `bf16`.
        round_dims: Multiples to round free dimensions up to, as text; "" for none.
        streams: Calls one instance runs at the same time, on one copy of the weights.
        fixed_shapes: Shapes to compile for besides the free ones, as text; "" for none.
        input_names, output_names: Tensors in the order wanted; () for the file's own.
        input_descs: One entry per input, or () for none.
        input_shape: Text of `ge.inputShape`, or "".
        notes: Sentences worth telling.
    """

    runtime: str = "auto"
    precision: str = "f32"
    round_dims: str = ""
    streams: int = 1
    fixed_shapes: str = ""
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    input_descs: tuple[InputDesc, ...] = ()
    input_shape: str = ""
    notes: tuple[str, ...] = field(default=())


def read_settings(point: GraphProcessPoint, options: Mapping[str, str]) -> Asked:
    """What the user asks for: the point's own settings first, then its compile config, then the options.

    Args:
        point: The point.
        options: Options in force; those that begin with `plugin.cpu.` are ours.

    Raises:
        OptionError: for a key nobody knows, or a value it cannot have.
    """
    notes: list[str] = []
    config = _read_config(point.compile_config_path, notes)
    build = _build_options(config, point.compile_config_path)
    settings = _point_settings(point, options)
    _check_placement(settings.get("placement", _HOST), build.get("ge.exec.placement", _HOST), notes)
    names = _load_params(point, notes)
    mode = build.get("ge.exec.precision_mode", "")
    precision = settings.get("precision", "")
    return Asked(
        runtime=_one_of("runtime", settings.get("runtime", "auto"), RUNTIMES),
        precision=_precision(precision) if precision else _precision_mode(mode, notes),
        round_dims=settings.get("round_dims", ""),
        streams=_streams(settings.get("streams", "1")),
        fixed_shapes=settings.get("fixed_shapes", ""),
        input_names=names.get("input", ()),
        output_names=names.get("output", ()),
        input_descs=_input_descs(config, point.compile_config_path),
        input_shape=build.get("ge.inputShape", ""),
        notes=tuple(notes),
    )


def _check_placement(asked: str, built: str, notes: list[str]) -> None:
    if asked.upper() != _HOST:
        raise OptionError(f"placement={asked!r}: the CPU engine runs models on the host",
                          hint="leave it out, or let the node ask for the engine that has: set_options(engine='NPU')")
    if built.upper() != _HOST:
        notes.append(f"ge.exec.placement={built} asks for another place than the host, which the CPU engine runs on")


def _streams(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _MOST_STREAMS:
        raise OptionError(f"streams={text!r}: expected a whole number from 1 to {_MOST_STREAMS}")
    return int(text)


def _point_settings(point: GraphProcessPoint, options: Mapping[str, str]) -> dict[str, str]:
    for key in point.settings:
        if key not in SETTINGS:
            raise OptionError(f"unknown setting {key!r} of the CPU engine", hint=near(key, SETTINGS))
    for key in options:
        if key.startswith(OPTION_PREFIX) and key.removeprefix(OPTION_PREFIX) not in SETTINGS:
            raise OptionError(f"unknown option {key!r}", hint=near(key, [OPTION_PREFIX + name for name in SETTINGS]))
    chosen = {name: options[OPTION_PREFIX + name] for name in SETTINGS if OPTION_PREFIX + name in options}
    return chosen | point.settings


def _one_of(key: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise OptionError(f"{key}={value!r} is none of {', '.join(known)}", hint=near(value, known))
    return value


def _precision(value: str) -> str:
    if value.lower() in _HALF:
        raise OptionError(f"precision={value!r} is not offered: some models give wrong answers in it",
                          hint="use 'f32', or 'bf16' for speed where answers may deviate by up to 1e-1")
    if value.lower() not in _PRECISIONS:
        raise OptionError(f"precision={value!r} is neither 'f32' nor 'bf16'", hint=near(value, _PRECISIONS))
    return _PRECISIONS[value.lower()]


def _precision_mode(mode: str, notes: list[str]) -> str:
    if not mode:
        return "f32"
    if mode not in _PRECISION_MODES:
        raise OptionError(f"ge.exec.precision_mode={mode!r} is unknown", hint=near(mode, _PRECISION_MODES))
    if "16" in mode and _PRECISION_MODES[mode] == "f32":
        notes.append(f"ge.exec.precision_mode={mode} asks for float16, which the CPU engine does not offer: "
                     "it computes in float32")
    return _PRECISION_MODES[mode]


def _load_params(point: GraphProcessPoint, notes: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for key, value in (point.load_params or {}).items():
        if key == "input_data_names":
            found["input"] = split_list(value)
        elif key in _OUTPUT_KEYS:
            found["output"] = split_list(value)
        elif key in _PARSER_KEYS:
            notes.append(f"load parameter {key!r} has no meaning on a CPU and is ignored")
        else:
            known = ("input_data_names", *_OUTPUT_KEYS, *_PARSER_KEYS)
            raise OptionError(f"unknown load parameter {key!r}", hint=near(key, known))
    return found


def _read_config(path: str, notes: list[str]) -> dict[str, object]:
    config = read_compile_config(path)
    for key in config:
        if key not in _CONFIG_KEYS:
            notes.append(f"compile config {path}: unknown key {key!r} is ignored ({near(key, _CONFIG_KEYS)})")
    return config


def _build_options(config: Mapping[str, object], path: str) -> dict[str, str]:
    build = config.get("build_options", {})
    if not isinstance(build, dict) or not all(isinstance(value, str) for value in build.values()):
        raise OptionError(f"compile config {path}: build_options must be an object of texts")
    return build


def _input_descs(config: Mapping[str, object], path: str) -> tuple[InputDesc, ...]:
    entries = config.get("inputs_tensor_desc", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise OptionError(f"compile config {path}: inputs_tensor_desc must be a list of objects")
    return tuple(_input_desc(entry, path) for entry in entries)


def _input_desc(entry: Mapping[str, object], path: str) -> InputDesc:
    name, layout, shape = entry.get("data_type"), entry.get("format", "ND"), entry.get("shape")
    if name is not None and name not in _DTYPES:
        raise OptionError(f"compile config {path}: unknown data_type {name!r}", hint=near(str(name), _DTYPES))
    if layout not in _FORMATS:
        raise OptionError(f"compile config {path}: unknown format {layout!r}", hint=near(str(layout), _FORMATS))
    if shape is None:
        return InputDesc(None if name is None else _DTYPES[str(name)])
    if not isinstance(shape, list) or not all(type(dim) is int and dim >= -1 for dim in shape):
        raise OptionError(f"compile config {path}: shape {shape!r} must be a list of sizes; -1 is a free one")
    return InputDesc(None if name is None else _DTYPES[str(name)], tuple(shape))
