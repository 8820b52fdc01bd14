"""The model compiler: `atc --framework=5 --model=a.onnx --output=a --soc_version=Ascend310P3`.

Speaks as the vendor's does: the same options, the same lines on stdout, the same error ids, exit status 255 for a
failure. With ACL_EMULATOR_HALF=1, models compiled for float16 round their inputs and results to it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import openvino as ov

from dflow_acl_emulator.faults import TITLES, AtcError
from dflow_acl_emulator.naming import OnnxGraph, node_names, read_graph
from dflow_acl_emulator.om_file import GearLine, ModelFacts, TensorLine, write_model
from dflow_acl_emulator.options import FORMATS, ONNX, OUTPUT_TYPES, TENSORFLOW, AtcOptions, read_options
from dflow_acl_emulator.shapes import Dim, GearPlan, is_free, parse_shape, plan_gears, resolve

FAILED = 255
_TYPES = {
    "f32": 0, "f16": 1, "i8": 2, "i32": 3, "u8": 4, "i16": 6, "u16": 7, "u32": 8, "i64": 9, "u64": 10, "f64": 11,
    "boolean": 12, "bf16": 27,
}
_SIZES = {"f32": 4, "f16": 2, "i32": 4, "i16": 2, "u16": 2, "u32": 4, "i64": 8, "u64": 8, "f64": 8, "bf16": 2}
_UNKNOWN = (
    re.compile(r"not support the following ONNX operations:\s*([\w.:, -]+)"),
    re.compile(r"No translator found for (?:operation )?(\w+)"),
    re.compile(r"No conversion rule found for operations?:\s*([\w, ]+)"),
)
_SOLUTION = "Use operators that the chip offers, or a custom operator with its plugin."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one compilation; 0, or 255 for a failure."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if "--help" in given or "-h" in given:
        print(__doc__)
        return 0
    print("ATC start working now, please wait for a moment.", flush=True)
    try:
        options = read_options(given, os.environ.get("ACL_EMULATOR_HALF") == "1")
        _write(options.output, compile_model(options))
    except AtcError as error:
        _tell(error)
        return FAILED
    print("...\nATC run success, welcome to the next use.\n")
    return 0


def compile_model(options: AtcOptions) -> bytes:
    """The model file for a source model.

    Raises:
        AtcError: it cannot be compiled.
    """
    graph = _checked_source(options)
    model = _read(options)
    _choose_outputs(model, options, graph)
    model = _retyped(_with_outputs(model, options, graph), options)
    layout = options.text("input_format") or ("NCHW" if options.framework == ONNX else "NHWC")
    names = [_input_name(port) for port in model.inputs]
    asked = parse_shape(options.text("input_shape") or _old_ranges(options))
    found = {name: _sizes(port.partial_shape) for name, port in zip(names, model.inputs)}
    dims = resolve(asked, found, "input_shape")
    kind, plans = plan_gears(options, dims, layout)
    gears = [_gear(model, plan) for plan in plans]
    _reshape(model, [ov.PartialShape([_dimension(dim) for dim in dims[name]]) for name in names])
    free = any(is_free(dim) for sizes in dims.values() for dim in sizes)
    facts = _facts(model, options, graph, (kind or ("range" if free else "fixed"), layout), dims, gears)
    return write_model(facts, *_serialised(model))


def _checked_source(options: AtcOptions) -> OnnxGraph:
    try:
        data = options.model.read_bytes()
    except OSError as error:
        raise AtcError("E13001", f"the model file {options.model} cannot be opened: {error.strerror}") from error
    if not data:
        raise AtcError("E10041", f"the model file {options.model} is empty")
    return read_graph(data) if options.framework == ONNX else OnnxGraph()


def _read(options: AtcOptions) -> ov.Model:
    suffix = ".onnx" if options.framework == ONNX else ".pb"
    with tempfile.TemporaryDirectory() as folder:
        path = options.model
        if path.suffix != suffix:
            path = Path(folder, f"model{suffix}")
            path.symlink_to(options.model.resolve())
        try:
            return ov.Core().read_model(path)
        except RuntimeError as error:
            raise _explained(str(error), options.model) from None


def _explained(text: str, model: Path) -> AtcError:
    for pattern in _UNKNOWN:
        found = pattern.search(text)
        if found:
            names = found[1].strip().rstrip(".")
            return AtcError("E10501", f"no parser is registered for operator [{names}] of {model.name}", _SOLUTION)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return AtcError("E10041", f"the model file {model} cannot be loaded: {lines[-1] if lines else 'unknown reason'}")


def _choose_outputs(model: ov.Model, options: AtcOptions, graph: OnnxGraph) -> None:
    """Check --out_nodes before anything is made of it."""
    for part in filter(None, options.text("out_nodes").split(";")):
        if _port_of(model, part, graph) is None:
            raise AtcError("E11017", f"--out_nodes: the model has no {part!r}")


def _with_outputs(model: ov.Model, options: AtcOptions, graph: OnnxGraph) -> ov.Model:
    parts = list(filter(None, options.text("out_nodes").split(";")))
    if not parts and options.framework == TENSORFLOW:
        return _in_file_order(model, options)
    if not parts:
        return model
    ports = [_port_of(model, part, graph) for part in parts]
    return ov.Model(ports, model.get_parameters(), model.get_friendly_name())


def _in_file_order(model: ov.Model, options: AtcOptions) -> ov.Model:
    """A frozen graph's outputs in the order in which its file has the nodes."""
    order = {name: index for index, name in enumerate(node_names(options.model.read_bytes()))}
    ports = [port.get_node().input_value(0) for port in model.outputs]
    places = [min((order.get(name.partition(":")[0], len(order)) for name in port.get_names()), default=len(order))
              for port in ports]
    ranked = [port for _, port in sorted(zip(places, ports), key=lambda pair: pair[0])]
    return ov.Model(ranked, model.get_parameters(), model.get_friendly_name())


def _port_of(model: ov.Model, part: str, graph: OnnxGraph) -> ov.Output | None:
    node, _, index = part.rpartition(":")
    wanted = {part}
    if node and index.isdigit():
        wanted |= {graph.tensor_of(node, int(index))} if graph.nodes else {node} if index == "0" else set()
    for op in model.get_ordered_ops():
        for port in op.outputs():
            if wanted & set(port.get_names()) and op.get_type_name() != "Result":
                return port
    return None


def _retyped(model: ov.Model, options: AtcOptions) -> ov.Model:
    """Types at the interface: --input_fp16_nodes and --output_type."""
    halves = list(filter(None, options.text("input_fp16_nodes").split(";")))
    names = [_input_name(port) for port in model.inputs]
    for name in halves:
        if name not in names:
            raise AtcError("E10016", f"--input_fp16_nodes: the model has no input {name!r}")
    wanted = options.text("output_type")
    if wanted and wanted not in OUTPUT_TYPES:
        raise AtcError("E10003", f"--output_type={wanted} is none of {', '.join(OUTPUT_TYPES)}")
    if not halves and not wanted:
        return model
    steps = ov.preprocess.PrePostProcessor(model)
    for name in halves:
        steps.input(names.index(name)).tensor().set_element_type(ov.Type.f16)
    for index in range(len(model.outputs) if wanted else 0):
        steps.output(index).tensor().set_element_type(getattr(ov.Type, OUTPUT_TYPES[wanted]))
    return steps.build()


def _old_ranges(options: AtcOptions) -> str:
    return options.text("input_shape_range").replace("],", "];")


def _input_name(port: ov.Output) -> str:
    names = sorted(map(str, port.get_names()))
    return min(names, key=len).removesuffix(":0") if names else str(port.get_node().get_friendly_name())


def _sizes(shape: ov.PartialShape) -> list[int] | None:
    if shape.rank.is_dynamic:
        return None
    return [-1 if dim.is_dynamic else dim.get_length() for dim in shape]


def _dimension(dim: Dim) -> ov.Dimension:
    return ov.Dimension(dim[0]) if dim[0] == dim[1] else ov.Dimension(dim[0], dim[1]) if dim[1] > 0 else ov.Dimension()


def _reshape(model: ov.Model, shapes: Sequence[ov.PartialShape]) -> None:
    try:
        model.reshape(dict(zip(model.inputs, shapes)))
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise AtcError("E10001", f"the model cannot have these input shapes: {lines[-1]}") from None


def _gear(model: ov.Model, plan: GearPlan) -> GearLine:
    _reshape(model, [ov.PartialShape(list(shape)) for shape in plan.inputs])
    outputs = []
    for port in model.outputs:
        if port.partial_shape.is_dynamic:
            raise AtcError("E10001", f"an output is not of one shape in gear {plan.values}")
        outputs.append(tuple(int(size) for size in port.shape))
    return GearLine(plan.values, plan.inputs, tuple(outputs))


def _facts(
    model: ov.Model, options: AtcOptions, graph: OnnxGraph, shapes: tuple[str, str], dims: Mapping[str, Sequence[Dim]],
    gears: Sequence[GearLine],
) -> ModelFacts:
    kind, layout = shapes
    inputs = []
    for port, (name, sizes) in zip(model.inputs, dims.items()):
        ranges = tuple(sizes) if kind == "range" else ()
        free = tuple(-1 if is_free(dim) else dim[0] for dim in sizes)
        inputs.append(TensorLine(_type(port), _format(layout, len(free)), free, name, ranges))
    outputs = []
    for index, port in enumerate(model.outputs):
        found = _sizes(port.partial_shape)
        name = _output_name(port, index, options, graph)
        outputs.append(TensorLine(_type(port), _format(layout, len(found or ())), tuple(found or (-2,)), name))
    work = 512 + sum(_bytes(port, gears, index) for index, port in enumerate(model.outputs))
    name = options.output.name
    return ModelFacts(name, options.soc, kind, work, inputs, outputs, gears, options.half)


def _output_name(port: ov.Output, index: int, options: AtcOptions, graph: OnnxGraph) -> str:
    """As the vendor's compiler would call it: `node:index:tensor` for ONNX, `node:index` for TensorFlow."""
    parts = list(filter(None, options.text("out_nodes").split(";")))
    if parts:
        return parts[index]
    names = sorted(port.get_names())
    if options.framework == ONNX:
        tensor = next((name for name in names if name in graph.outputs), names[0] if names else f"output_{index}")
        return graph.output_name(tensor)
    plain = min(names, key=len).removesuffix(":0") if names else f"output_{index}"
    return f"{plain}:0"


def _format(layout: str, rank: int) -> int:
    return FORMATS[layout] if rank == len(layout) else FORMATS["ND"]


def _type(port: ov.Output) -> int:
    name = port.element_type.get_type_name()
    if name not in _TYPES:
        raise AtcError("E10001", f"{port.get_any_name()!r} is of type {name}, which has no counterpart")
    return _TYPES[name]


def _bytes(port: ov.Output, gears: Sequence[GearLine], index: int) -> int:
    shapes = [gear.outputs[index] for gear in gears] or [tuple(_sizes(port.partial_shape) or ())]
    most = 0
    for shape in shapes:
        count = 1
        for size in shape:
            count *= max(size, 1)
        most = max(most, count)
    return most * _SIZES.get(port.element_type.get_type_name(), 1)


def _serialised(model: ov.Model) -> tuple[bytes, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        graph, weights = Path(folder, "m.xml"), Path(folder, "m.bin")
        ov.serialize(model, graph, weights)
        return graph.read_bytes(), weights.read_bytes()


def _write(output: Path, data: bytes) -> None:
    target = output.with_name(output.name + ".om")
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            file.write(data)
        os.chmod(file.name, 0o640)
        os.replace(file.name, target)
    except OSError as error:
        raise AtcError("E13004", f"{target} cannot be written: {error.strerror}") from error


def _tell(error: AtcError) -> None:
    stamp = time.strftime("%Y-%m-%d-%H:%M:%S")
    print("ATC run failed, Please check the detail log, Try 'atc --help' for more information")
    print(f"[PID: {os.getpid()}] {stamp} {TITLES.get(error.id, 'Inner_Error')}({error.id}): {error.text}")
    if error.solution:
        print(f"        Solution: {error.solution}")
    print("        TraceBack (most recent call last):\n        the emulator's atc", flush=True)


if __name__ == "__main__":
    sys.exit(main())
