"""What atc is told on its command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dflow_acl_emulator.faults import AtcError

TENSORFLOW, ONNX = "3", "5"
FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", TENSORFLOW: "TensorFlow", ONNX: "ONNX"}
FORMATS = {"NCHW": 0, "NHWC": 1, "ND": 2, "NCDHW": 30, "NDHWC": 27}
PRECISIONS = frozenset({
    "force_fp16", "force_fp32", "allow_fp32_to_fp16", "must_keep_origin_dtype", "allow_mix_precision",
    "allow_mix_precision_fp16", "allow_mix_precision_bf16", "allow_fp32_to_bf16", "cube_fp16in_fp32out", "fp16",
    "origin", "mixed_float16", "mixed_bfloat16", "cube_hif8", "mixed_hif8",
})
GEAR_OPTIONS = ("dynamic_batch_size", "dynamic_image_size", "dynamic_dims")
DYNAMIC = (*GEAR_OPTIONS, "input_shape_range")
OUTPUT_TYPES = {"FP32": "f32", "FP16": "f16", "UINT8": "u8", "INT8": "i8", "INT32": "i32"}
KNOWN = frozenset({
    "mode", "framework", "model", "weight", "output", "soc_version", "input_shape", "input_format", "out_nodes",
    "output_type", "input_fp16_nodes", "is_input_adjust_hw_layout", "is_output_adjust_hw_layout", "insert_op_conf",
    "precision_mode", "precision_mode_v2", "op_select_implmode", "optypelist_for_implmode", "external_weight",
    "buffer_optimize", "l2_optimize", "fusion_switch_file", "disable_reuse_memory", "deterministic",
    "op_compiler_cache_mode", "op_compiler_cache_dir", "op_debug_level", "debug_dir", "host_env_os", "host_env_cpu",
    "check_report", "display_model_info", "json", "om", "log", "core_type", "auto_tune_mode",
    "enable_small_channel", "enable_compress_weight", "op_precision_mode", "modify_mixlist",
    *DYNAMIC,
})
LOG_LEVELS = ("debug", "info", "warning", "error", "null")


@dataclass(frozen=True)
class AtcOptions:
    """The options that matter, checked one by one; together they are checked where they are used.

    Args:
        framework: `3` TensorFlow or `5` ONNX.
        model: The source model.
        output: Path of the result without `.om`.
        soc: Name of the chip.
        half: Whether inputs and results are rounded to float16, as that precision would give.
        given: All of them by name, without dashes.
    """

    framework: str
    model: Path
    output: Path
    soc: str
    half: bool = False
    given: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """An option's value; "" if it was not given."""
        return self.given.get(name, "")


def split(arguments: Sequence[str]) -> dict[str, str]:
    """Names and values of `--name=value` or `--name value`."""
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise AtcError("E10001", f"{word!r} is no option: options begin with two dashes")
        name, equals, value = word[2:].partition("=")
        if name not in KNOWN:
            raise AtcError("E10001", f"unknown option --{name}")
        if not equals:
            value = rest.pop(0) if rest else ""
        if not value:
            raise AtcError("E10004", f"the value of --{name} is empty")
        found[name] = value
    return found


def read_options(arguments: Sequence[str], half: bool = False) -> AtcOptions:
    """Options from a command line.

    Args:
        arguments: Without the program's name.
        half: Whether float16 is emulated where the precision mode asks for it.

    Raises:
        AtcError: one is missing, unknown or wrong.
    """
    given = split(arguments)
    _check_values(given)
    missing = [f"--{name}" for name in ("model", "output", "soc_version") if name not in given]
    if missing:
        raise AtcError("E10054", f"{', '.join(missing)} must be given")
    if "framework" not in given:
        raise AtcError("E10007", "--framework must be given: 3 for TensorFlow, 5 for ONNX")
    if not given["soc_version"].startswith("Ascend"):
        raise AtcError("E10001", f"--soc_version={given['soc_version']} is no SoC version; they look like Ascend310P3")
    output = Path(given["output"])
    if not output.name or given["output"].endswith("/"):
        raise AtcError("E10022", "--output names no file")
    precision = given.get("precision_mode", given.get("precision_mode_v2", "force_fp16"))
    rounds = half and precision in ("force_fp16", "fp16", "allow_fp32_to_fp16")
    return AtcOptions(given["framework"], Path(given["model"]), output, given["soc_version"], rounds, given)


def _check_values(given: Mapping[str, str]) -> None:
    if given.get("mode", "0") != "0":
        raise AtcError("E10055", f"--mode={given['mode']} is not supported by the emulator's atc, which compiles only")
    framework = given.get("framework", ONNX)
    if framework not in FRAMEWORKS:
        raise AtcError("E10003", f"--framework={framework} is none of 0, 1, 3, 5")
    if framework not in (TENSORFLOW, ONNX):
        raise AtcError("E10055", f"the emulator's atc compiles no {FRAMEWORKS[framework]} models")
    if given.get("log", "null") not in LOG_LEVELS:
        raise AtcError("E10010", f"--log={given['log']} is none of {', '.join(LOG_LEVELS)}")
    if given.get("input_format", "ND") not in FORMATS:
        raise AtcError("E10003", f"--input_format={given['input_format']} is none of {', '.join(FORMATS)}")
    for name in ("precision_mode", "precision_mode_v2"):
        if given.get(name, "origin") not in PRECISIONS:
            raise AtcError("E10003", f"--{name}={given[name]} is unknown")
    if "precision_mode" in given and "precision_mode_v2" in given:
        raise AtcError("E10056", "--precision_mode and --precision_mode_v2 exclude each other")
    together = [f"--{name}" for name in DYNAMIC if name in given]
    if len(together) > 1:
        raise AtcError("E10009", f"{' and '.join(together)} exclude each other")
    if "insert_op_conf" in given:
        raise AtcError("E10055", "the emulator has no AIPP")
