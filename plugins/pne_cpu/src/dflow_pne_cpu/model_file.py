"""The bytes of a model and of the files that belong to it, and what they say about themselves."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from dflow_core.errors import ModelFormatError
from dflow_core.graph import Framework, GraphProcessPoint, WireBuffer, WireError, onnx_weight_files
from dflow_pne_cpu.facts import FileFacts
from dflow_pne_cpu.onnx_file import read_onnx
from dflow_pne_cpu.tf_file import read_graph_def

ONNX = "onnx"
TENSORFLOW = "tensorflow"

_KINDS = {Framework.ONNX: ONNX, Framework.TENSORFLOW: TENSORFLOW}
_WORDS = {ONNX: "an ONNX model", TENSORFLOW: "a frozen TensorFlow graph"}


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model in memory.

    Args:
        framework: `onnx` or `tensorflow`.
        data: The model file.
        side_files: Files with weights of it, by name relative to it.
        label: What to call it in errors: its path, or words.
    """

    framework: str
    data: bytes
    side_files: Mapping[str, bytes] = field(default_factory=dict)
    label: str = "model given as bytes"

    @contextlib.contextmanager
    def opened(self) -> Iterator[str]:
        """A path under which a model library finds the model and its side files, for as long as the context lasts.

        The model lies in anonymous memory; only side files need a temporary folder.
        """
        if self.side_files:
            with tempfile.TemporaryDirectory(prefix="dflow-model-") as folder:
                for name, data in self.side_files.items():
                    target = Path(folder, name)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(data)
                path = Path(folder, f"model.{self.framework}")
                path.write_bytes(self.data)
                yield str(path)
            return
        descriptor = os.memfd_create("dflow-model")
        try:
            with open(descriptor, "wb", closefd=False) as stream:
                stream.write(self.data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)


def framework_of(point: GraphProcessPoint) -> str:
    """`onnx` or `tensorflow`; "" if the CPU engine runs neither."""
    return _KINDS.get(point.framework, "")


def read_facts(point: GraphProcessPoint) -> FileFacts:
    """What a point's model file says about itself; weights are not read.

    Raises:
        ModelFormatError: if it is missing or is not the model it should be.
    """
    framework = framework_of(point)
    if point.graph_bytes:
        return facts_of(framework, point.graph_bytes, _label(point))
    path = _existing(point)
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as view:
            facts = facts_of(framework, view, str(path))
            if framework == ONNX:
                for name in _external(view, str(path)):
                    _find_side_file(path, name)
            return facts
    except OSError as cause:
        raise ModelFormatError(f"the model file cannot be read: {cause.strerror}", path=str(path)) from cause


def facts_of(framework: str, buffer: WireBuffer, label: str) -> FileFacts:
    """What the bytes of a model say about themselves.

    Raises:
        ModelFormatError: if they are not the model they should be; says what they are, where that can be told.
    """
    reader = {ONNX: read_onnx, TENSORFLOW: read_graph_def}[framework]
    try:
        return reader(buffer)
    except WireError as cause:
        other = _other_kind(framework, buffer)
        if other:
            raise ModelFormatError(f"this is {_WORDS[other]}, not {_WORDS[framework]}", path=label) from None
        text = f"this is not {_WORDS[framework]}, or it is damaged: {cause.message}"
        raise ModelFormatError(text, path=label, offset=cause.offset) from None


def read_model(point: GraphProcessPoint) -> ModelFile:
    """A point's model and every file that belongs to it.

    Raises:
        ModelFormatError: if one of them is missing, or the model is not what it should be.
    """
    framework, label = framework_of(point), _label(point)
    path = None if point.graph_bytes and not point.graph_file else Path(point.graph_file)
    data = point.graph_bytes
    if not data:
        path = _existing(point)
        try:
            data = path.read_bytes()
        except OSError as cause:
            raise ModelFormatError(f"the model file cannot be read: {cause.strerror}", path=label) from cause
    side_files = {}
    for name in _external(data, label) if framework == ONNX else ():
        if path is None:
            text = f"its weights lie in {name!r} beside the model file; give the path of the model instead of its bytes"
            raise ModelFormatError(text, path=label)
        side_files[name] = _find_side_file(path, name).read_bytes()
    return ModelFile(framework, data, side_files, label)


def _label(point: GraphProcessPoint) -> str:
    return point.graph_file or "model given as bytes"


def _existing(point: GraphProcessPoint) -> Path:
    path = Path(point.graph_file)
    if not point.graph_file:
        raise ModelFormatError("neither a model file nor its bytes were given")
    if not path.exists():
        broken = " (a symbolic link that leads nowhere)" if path.is_symlink() else ""
        raise ModelFormatError(f"the model file does not exist{broken}", path=point.graph_file)
    if path.is_dir():
        raise ModelFormatError("this is a folder, not a model file; a SavedModel must be frozen first",
                               path=point.graph_file)
    if path.stat().st_size == 0:
        raise ModelFormatError("the model file is empty", path=point.graph_file)
    return path


def _external(buffer: WireBuffer, label: str) -> tuple[str, ...]:
    try:
        names = onnx_weight_files(buffer)
    except WireError as cause:
        raise ModelFormatError(f"damaged ONNX model: {cause.message}", path=label, offset=cause.offset) from None
    for name in names:
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or "\0" in name:
            raise ModelFormatError(f"its weights should lie in {name!r}, which is outside its own folder", path=label)
    return names


def _find_side_file(model: Path, name: str) -> Path:
    """Beside the path as given, else beside the file a symbolic link leads to."""
    for folder in (model.parent, model.resolve().parent):
        if (folder / name).is_file():
            return folder / name
    raise ModelFormatError(f"its weights file {name!r} is missing; it must lie beside the model", path=str(model))


def _other_kind(framework: str, buffer: WireBuffer) -> str:
    other = TENSORFLOW if framework == ONNX else ONNX
    reader = read_graph_def if framework == ONNX else read_onnx
    try:
        reader(buffer)
    except WireError:
        return ""
    return other
