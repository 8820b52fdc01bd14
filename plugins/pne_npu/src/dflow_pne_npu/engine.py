"""The Engine: from a model file to a GraphModel that holds an OM file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dflow_core.errors import CompileError, DflowError, ModelFormatError, PluginError
from dflow_core.graph import Framework, GraphProcessPoint, ProcessPoint, WireBuffer, WireError, onnx_weight_files
from dflow_core.model import GraphModel
from dflow_core.spi import CompileContext, Engine, PointIO
from dflow_core.types import DataType, FuncSpec, TensorSpec
from dflow_pne_npu.bindings import Acl, AclError, IoInfo, ModelInfo, describe_model
from dflow_pne_npu.compiling import AtcCompiler
from dflow_pne_npu.installation import Installation
from dflow_pne_npu.model_inputs import onnx_ports
from dflow_pne_npu.settings import Asked, chooses_outputs, read_settings

ENGINE_ID = "NPU"
VERSION = "1"

OM_MAGIC = b"IMOD"
_GIVE_SOC = "give soc_version='Ascend310P3' or the like"
_NAMES = {Framework.ONNX: "onnx", Framework.TENSORFLOW: "tensorflow", Framework.MINDSPORE: "mindspore"}


@dataclass(frozen=True)
class Source:
    """A model in memory: its bytes, the files that belong to it, and what to call it."""

    data: bytes
    side_files: dict[str, bytes]
    label: str

    @property
    def is_compiled(self) -> bool:
        """Whether it is an OM file already."""
        return self.data[:4] == OM_MAGIC


class NpuEngine(Engine):
    """Compiles ONNX files, frozen TensorFlow graphs and MindSpore files with atc; takes ready OM files as they are."""

    id = ENGINE_ID

    def __init__(self, installation: Installation | None = None) -> None:
        self._installation = installation
        self._acl: Acl | None = None

    def describe(self, point: ProcessPoint) -> PointIO | None:
        """How many inputs and outputs an ONNX file has; their names, types and shapes are those the compiler gives.

        Nothing of other files, nor where outputs are chosen; a missing or empty file is always found.
        """
        if not isinstance(point, GraphProcessPoint):
            return None
        with _viewed(point) as (data, label):
            if point.framework is not Framework.ONNX or data[:4] == OM_MAGIC or chooses_outputs(point):
                return None
            try:
                inputs, outputs = onnx_ports(data)
            except WireError as cause:
                raise _no_onnx(cause, label) from None
        unknown = TensorSpec(DataType.UNDEFINED, None, "")
        return PointIO((unknown,) * len(inputs), (unknown,) * len(outputs))

    def cache_key(self, point: ProcessPoint, context: CompileContext) -> bytes:
        """SHA-256 over the model, its side files, what is asked for, the chip and the compiler."""
        source, asked, framework = _gathered(point, context)
        if source.is_compiled:
            return b""
        soc = self._soc(asked, context)
        facts = [VERSION, framework.name, soc, sorted(asked.atc.items()), asked.extra, asked.shapes,
                 self._compiler().version(), sorted(source.side_files)]
        digest = hashlib.sha256(json.dumps(facts).encode())
        for data in (source.data, *(source.side_files[name] for name in sorted(source.side_files))):
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.digest()

    def compile(self, point: ProcessPoint, context: CompileContext) -> GraphModel:
        """Compile with atc, or take a ready OM file."""
        try:
            return self._compiled(point, context)
        except DflowError as cause:
            cause.node = cause.node or context.node
            raise

    def _compiled(self, point: ProcessPoint, context: CompileContext) -> GraphModel:
        source, asked, framework = _gathered(point, context)
        for note in asked.notes:
            context.report(note)
        if source.is_compiled:
            compiled, soc = source.data, asked.soc
            context.report(f"{source.label} is a ready OM file; atc is not run")
        else:
            soc = self._soc(asked, context)
            compiler = self._compiler()
            compiled = compiler.compile(framework, source.data, source.side_files, soc, asked, source.label)
            context.report(f"compiled by atc for {soc}")
        info = self._described(compiled, context)
        inputs, outputs = _specs(info, context)
        _check_ports(context, inputs, outputs, source.label)
        settings = {"device": str(asked.device), "timeout": str(asked.timeout), "label": source.label}
        return GraphModel(
            name=context.node, engine=ENGINE_ID, inputs=inputs, outputs=outputs,
            functions=(FuncSpec("", tuple(range(len(inputs))), tuple(range(len(outputs)))),),
            framework=_NAMES[framework], source=b"", blob=compiled, blob_tag=soc, settings=settings,
        )

    def _compiler(self) -> AtcCompiler:
        return AtcCompiler(self._installation or Installation.of())

    def _library(self) -> Acl:
        if self._acl is None:
            self._acl = Acl()
        return self._acl

    def _soc(self, asked: Asked, context: CompileContext) -> str:
        """The chip asked for, else that of the device at hand."""
        if asked.soc:
            return asked.soc
        try:
            found = self._library().soc_name()
        except PluginError as cause:
            text = f"no soc_version is given, and no device can be asked: {cause.message}"
            raise CompileError(text, node=context.node, hint=_GIVE_SOC) from cause
        if not found:
            text = "no soc_version is given, and there is no device to ask"
            raise CompileError(text, node=context.node, hint=_GIVE_SOC)
        return found

    def _described(self, compiled: bytes, context: CompileContext) -> ModelInfo | None:
        """What the library says of a compiled model; None where it cannot be asked here."""
        try:
            acl = self._library()
        except PluginError as cause:
            context.report(f"inputs and outputs are known when the model is loaded, not now: {cause.message}")
            return None
        try:
            return describe_model(acl, compiled)
        except AclError as cause:
            if 100000 <= cause.code < 200000 or cause.code == 545001:
                raise ModelFormatError(f"the OM file is not taken: {cause.message}") from cause
            context.report(f"inputs and outputs are known when the model is loaded, not now: {cause.message}")
            return None


def tensor_spec(info: IoInfo) -> TensorSpec:
    """An input or output of a compiled model, as dflow describes tensors."""
    known = {int(one) for one in DataType}
    dtype = DataType(info.dtype) if info.dtype in known else DataType.UNDEFINED
    return TensorSpec(dtype, None if info.dims == (-2,) else info.dims, info.name)


def _specs(
    info: ModelInfo | None, context: CompileContext
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    if info is None:
        unknown = TensorSpec(DataType.UNDEFINED, None, "")
        return (unknown,) * context.input_count, (unknown,) * context.output_count
    return tuple(map(tensor_spec, info.inputs)), tuple(map(tensor_spec, info.outputs))


def _gathered(point: ProcessPoint, context: CompileContext) -> tuple[Source, Asked, Framework]:
    if not isinstance(point, GraphProcessPoint) or point.framework not in _NAMES:
        raise CompileError(f"the NPU engine does not compile {type(point).__name__} {point.name!r}", node=context.node,
                           hint="it takes ONNX, TensorFlow and MindSpore files, and OM files")
    asked = read_settings(point, context.options)
    if point.graph_bytes:
        return Source(point.graph_bytes, {}, "model given as bytes"), asked, point.framework
    path = _existing(point)
    try:
        data = path.read_bytes()
        source = Source(data, _side_files(point.framework, data, path), str(path))
    except OSError as cause:
        raise ModelFormatError(f"a file cannot be read: {cause.strerror}", path=str(cause.filename or path)) from cause
    return source, asked, point.framework


def _side_files(framework: Framework, data: bytes, path: Path) -> dict[str, bytes]:
    if framework is not Framework.ONNX or data[:4] == OM_MAGIC:
        return {}
    try:
        names = onnx_weight_files(data)
    except WireError as cause:
        raise _no_onnx(cause, str(path)) from None
    outside = [name for name in names if Path(name).is_absolute() or ".." in Path(name).parts]
    if outside:
        text = f"its weights should lie in {outside[0]!r}, which is outside its own folder"
        raise ModelFormatError(text, path=str(path))
    return {name: (path.parent / name).read_bytes() for name in names}


def _no_onnx(cause: WireError, label: str) -> ModelFormatError:
    return ModelFormatError(f"this is not an ONNX model, or it is damaged: {cause}", path=label)


@contextlib.contextmanager
def _viewed(point: GraphProcessPoint) -> Iterator[tuple[WireBuffer, str]]:
    """The bytes of a point's model, without reading its weights, and what to call it."""
    if point.graph_bytes:
        yield point.graph_bytes, "model given as bytes"
        return
    path = _existing(point)
    try:
        stream = path.open("rb")
    except OSError as cause:
        raise ModelFormatError(f"a file cannot be read: {cause.strerror}", path=str(path)) from cause
    with stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as view:
        yield view, str(path)


def _existing(point: GraphProcessPoint) -> Path:
    path = Path(point.graph_file)
    if not point.graph_file:
        raise ModelFormatError("neither a model file nor its bytes were given")
    if not path.is_file():
        raise ModelFormatError("the model file does not exist", path=point.graph_file)
    if path.stat().st_size == 0:
        raise ModelFormatError("the model file is empty", path=point.graph_file)
    return path


def _check_ports(
    context: CompileContext, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], label: str
) -> None:
    for what, count, specs in (("input", context.input_count, inputs), ("output", context.output_count, outputs)):
        if count != len(specs):
            tensors = ", ".join(f"{spec.name} {spec}" for spec in specs)
            text = f"the node has {count} {what}s, but {label} has {len(specs)}: {tensors}"
            raise CompileError(text, node=context.node, hint=f"make the node with {what}_num={len(specs)}")
