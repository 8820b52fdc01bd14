"""The Engine: from a model file to a GraphModel."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from dflow_core.errors import CompileError
from dflow_core.graph import GraphProcessPoint, ProcessPoint
from dflow_core.model import GraphModel
from dflow_core.spi import SAME_SIZES, CompileContext, Engine, PointIO, same_sizes_text
from dflow_core.types import DataType, FuncSpec, TensorSpec
from dflow_pne_cpu.facts import FileFacts
from dflow_pne_cpu.machine import cpu_tag
from dflow_pne_cpu.model_file import ModelFile, facts_of, framework_of, read_facts, read_model
from dflow_pne_cpu.recipe import Recipe, expected_io, make_recipe
from dflow_pne_cpu.rounding import find_same_sizes, make_rounding
from dflow_pne_cpu.runtimes import RefusedError, Runtime, RuntimeSet, Session, default_runtimes
from dflow_pne_cpu.settings import Asked, read_settings

ENGINE_ID = "CPU"
VERSION = "1"

_NARROWED = {DataType.INT64: "int32", DataType.UINT64: "int32", DataType.UINT32: "int32", DataType.DOUBLE: "float32"}
_COMPILE_THREADS = 1


class CpuEngine(Engine):
    """Compiles ONNX files and frozen TensorFlow graphs for the CPU."""

    id = ENGINE_ID

    def __init__(self, runtimes: RuntimeSet | None = None) -> None:
        self._runtimes = runtimes or default_runtimes()

    def describe(self, point: ProcessPoint) -> PointIO | None:
        """What a model file says of its inputs and outputs; no model library is imported."""
        if not isinstance(point, GraphProcessPoint) or not framework_of(point):
            return None
        facts = read_facts(point)
        recipe = make_recipe(facts, read_settings(point, {}), point.graph_file or point.name)
        return PointIO(*expected_io(facts, recipe))

    def cache_key(self, point: ProcessPoint, context: CompileContext) -> bytes:
        """SHA-256 over the model, its side files, what is asked for, library versions and this CPU.

        The node's name is left out: nodes with the same model share one result.
        """
        file, _, asked, recipe = self._gathered(point, context)
        facts = [VERSION, file.framework, recipe.to_text(), asked.runtime, asked.round_dims,
                 self._runtimes.versions(), cpu_tag(), sorted(file.side_files)]
        digest = hashlib.sha256(json.dumps(facts).encode())
        for data in (file.data, *(file.side_files[name] for name in sorted(file.side_files))):
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.digest()

    def compile(self, point: ProcessPoint, context: CompileContext) -> GraphModel:
        """Compile with the library that is wanted, and keep the compiled form beside the source."""
        file, facts, asked, recipe = self._gathered(point, context)
        for note in asked.notes:
            context.report(note)
        told: list[str] = []
        try:
            runtime, session = self._runtimes.compile(asked.runtime, file, recipe, _COMPILE_THREADS, told.append)
        except CompileError as cause:
            cause.node = cause.node or context.node
            raise
        try:
            model = _model_of(session, runtime, file, facts, asked, recipe, context)
        finally:
            session.close()
        for sentence in (*told, *_narrowing(runtime, model)):
            context.report(sentence)
        return model

    def _gathered(self, point: ProcessPoint, context: CompileContext) -> tuple[ModelFile, FileFacts, Asked, Recipe]:
        if not isinstance(point, GraphProcessPoint) or not framework_of(point):
            raise CompileError(f"the CPU engine does not compile {type(point).__name__} {point.name!r}",
                               node=context.node, hint="it takes ONNX files and frozen TensorFlow graphs")
        asked = read_settings(point, context.options)
        file = read_model(point)
        facts = facts_of(file.framework, file.data, file.label)
        return file, facts, asked, make_recipe(facts, asked, file.label)


def blob_tag(runtime: Runtime) -> str:
    """Where a compiled form made here, now, by this library can be used."""
    return f"{runtime.id} {runtime.version()} {cpu_tag()}"


def _model_of(
    session: Session, runtime: Runtime, file: ModelFile, facts: FileFacts, asked: Asked, recipe: Recipe,
    context: CompileContext,
) -> GraphModel:
    inputs, outputs = _tensors_of(session, facts, recipe)
    _check_ports(context, inputs, outputs, file.label)
    rounding = make_rounding(asked.round_dims, inputs, outputs, facts)
    settings = {
        "runtime": runtime.id,
        "asked": asked.runtime,
        "recipe": recipe.to_text(),
        "traits": session.traits.to_text(),
        "label": file.label,
        SAME_SIZES: same_sizes_text(find_same_sizes(inputs, outputs, facts)),
    }
    if rounding is not None:
        settings["rounding"] = rounding.to_text()
    try:
        blob = session.export()
    except RefusedError as cause:
        context.report(f"{cause.message}; every start compiles again")
        blob = b""
    return GraphModel(
        name=context.node, engine=ENGINE_ID, inputs=inputs, outputs=outputs,
        functions=(FuncSpec("", tuple(range(len(inputs))), tuple(range(len(outputs)))),),
        framework=file.framework, source=file.data, side_files=file.side_files, blob=blob,
        blob_tag=blob_tag(runtime), settings=settings,
    )


def _tensors_of(
    session: Session, facts: FileFacts, recipe: Recipe
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """The session's tensors; what the file says where a library drops an input nobody reads, or calls a tensor of
    unknown rank a scalar."""
    inputs, outputs = expected_io(facts, recipe)
    return (
        tuple(_better(found, told) for found, told in zip(session.inputs, inputs)),
        tuple(_better(found, told) for found, told in zip(session.outputs, outputs)),
    )


def _better(found: TensorSpec, told: TensorSpec) -> TensorSpec:
    if found.dtype is DataType.UNDEFINED:
        return told
    return TensorSpec(found.dtype, None, found.name) if found.shape == () and told.shape is None else found


def _check_ports(
    context: CompileContext, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], label: str
) -> None:
    for what, count, specs in (("input", context.input_count, inputs), ("output", context.output_count, outputs)):
        if count != len(specs):
            tensors = ", ".join(f"{spec.name} {spec}" for spec in specs)
            raise CompileError(
                f"the node has {count} {what}s, but {label} has {len(specs)}: {tensors}", node=context.node,
                hint=f"make the node with {what}_num={len(specs)}"
                + (", or choose with load_params={'output_names': ...}" if what == "output" else ""),
            )


def _narrowing(runtime: Runtime, model: GraphModel) -> list[str]:
    """What OpenVINO computes in a smaller type than the model's own, so that large numbers may be wrong."""
    if runtime.id != "openvino":
        return []
    found = {spec.dtype: spec for spec in model.inputs if spec.dtype in _NARROWED}
    return [
        f"{spec.name!r} is {dtype.name.lower()}, which OpenVINO may compute in {_NARROWED[dtype]}; "
        "runtime='onnxruntime' keeps it" for dtype, spec in found.items()
    ]
