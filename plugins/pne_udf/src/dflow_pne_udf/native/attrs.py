"""Init parameters as bytes, as `dflow_udf_config.attrs` wants them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from dflow_core.errors import OptionError
from dflow_core.types import DataType

_STRING, _INT, _FLOAT, _BOOL, _TYPE = 1, 2, 3, 4, 5
_LIST = 5
"""What is added to a kind to make it a list of it."""
_INT_LISTS = 11


def pack_attrs(attrs: Mapping[str, object]) -> bytes:
    """All parameters, one after the other.

    Raises:
        OptionError: a value cannot be a parameter.
    """
    return b"".join(_text(name) + _value(name, value) for name, value in attrs.items())


def _value(name: str, value: object) -> bytes:
    if not isinstance(value, (list, tuple)):
        kind, data = _scalar(name, value)
        return bytes([kind]) + data
    if value and all(isinstance(item, (list, tuple)) for item in value):
        lists = [_items(name, item) for item in value]
        return bytes([_INT_LISTS]) + struct.pack("<I", len(lists)) + b"".join(data for _, data in lists)
    kind, data = _items(name, value)
    return bytes([kind + _LIST]) + data


def _items(name: str, items: Sequence[object]) -> tuple[int, bytes]:
    """The kind of a list's items, and the list. An empty one has no kind; ints serve for all: none is read as any."""
    scalars = [_scalar(name, item) for item in items]
    kind = scalars[0][0] if scalars else _INT
    return kind, struct.pack("<I", len(scalars)) + b"".join(data for _, data in scalars)


def _scalar(name: str, value: object) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return _BOOL, struct.pack("<B", value)
    if isinstance(value, DataType):
        return _TYPE, struct.pack("<i", value.value)
    if isinstance(value, int):
        return _INT, struct.pack("<q", value)
    if isinstance(value, float):
        return _FLOAT, struct.pack("<f", value)
    if isinstance(value, str):
        return _STRING, _text(value)
    raise OptionError(f"init parameter {name!r} cannot be given to a C++ function: {value!r}")


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<I", len(data)) + data
