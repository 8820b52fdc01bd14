"""The three model files that the package rapidocr ships, and the alphabet inside one of them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dflow_ocr.errors import ModelMissingError

__all__ = ["BLANK", "ModelFiles", "find_models", "read_alphabet"]

BLANK: Final = 0
"""The class that stands for "no character here" in the recogniser's answer."""

_PACKAGE: Final = "rapidocr"
_FILES: Final = {
    "det": "PP-OCRv6_det_small.onnx",
    "cls": "ch_ppocr_mobile_v2.0_cls_mobile.onnx",
    "rec": "PP-OCRv6_rec_small.onnx",
}
_KEY: Final = b"character"
# Field numbers of ModelProto and StringStringEntryProto (onnx.proto), and the two wire types met on the way.
_METADATA_FIELD: Final = 14
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_VARINT, _LENGTH_DELIMITED = 0, 2


@dataclass(frozen=True)
class ModelFiles:
    """The paths of the detector, the angle classifier and the recogniser."""

    det: Path
    cls: Path
    rec: Path


def find_models() -> ModelFiles:
    """Find the models inside the installed package; nothing is imported from it and nothing is fetched.

    Returns:
        The three files.

    Raises:
        ModelMissingError: The package or one of the files is not there.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelMissingError(f"The models ship in the package {_PACKAGE!r}: pip install rapidocr==3.10.0")
    folder = Path(spec.origin).parent / "models"
    missing = [file for file in _FILES.values() if not (folder / file).is_file()]
    if missing:
        raise ModelMissingError(f"The installed {_PACKAGE!r} lacks {', '.join(missing)}: pip install rapidocr==3.10.0")
    return ModelFiles(**{kind: folder / file for kind, file in _FILES.items()})


def read_alphabet(model: Path) -> tuple[str, ...]:
    """Read the characters that a recogniser's classes stand for.

    The list is a metadata entry of the ONNX file. Only the outermost fields of the file are walked, so neither an
    engine nor the onnx package is loaded for it.

    Args:
        model: The recogniser's file.

    Returns:
        The character of each class: a blank first (as the empty string), the listed characters, a space last.

    Raises:
        ModelMissingError: The file carries no such list.
    """
    data = model.read_bytes()
    for field, start, end in _fields(memoryview(data)):
        if field != _METADATA_FIELD:
            continue
        entry = {f: data[start + a : start + b] for f, a, b in _fields(memoryview(data)[start:end])}
        if entry.get(_ENTRY_KEY) == _KEY:
            return ("", *entry[_ENTRY_VALUE].decode("utf-8").splitlines(), " ")
    raise ModelMissingError(f"{model.name} carries no alphabet in its metadata key {_KEY.decode()!r}")


def _fields(data: memoryview) -> list[tuple[int, int, int]]:
    """List the length-delimited fields of a protobuf message as number, start and end."""
    found = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == _LENGTH_DELIMITED:
            found.append((tag >> 3, at, at + value))
            at += value
        elif tag & 7 != _VARINT:
            raise ModelMissingError(f"Not an ONNX file: wire type {tag & 7} at byte {at}")
    return found


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Read one varint; give its value and where the next field starts."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
