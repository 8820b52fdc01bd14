"""Classes of the user's own that travel as messages with a number of their own."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from dataflow.utils.errors import DfException
from dflow_core.message import TypeCodec, msg_types

__all__ = ["MSG_TYPE_PICKLED_MSG", "MsgTypeRegister", "get_msg_type_register", "set_msg_type_register"]

MSG_TYPE_PICKLED_MSG = 65535

Serialize: TypeAlias = Callable[[object], "bytes | bytearray | memoryview"]
Deserialize: TypeAlias = Callable[[memoryview], object]
Size: TypeAlias = Callable[[object], int]


@dataclass(frozen=True)
class _PickledMsg:
    """What everything that is registered nowhere travels as."""


@dataclass(frozen=True, slots=True)
class _Entry:
    clz: type
    serialize: Serialize
    deserialize: Deserialize
    size: Size | None


def _dumps(obj: object) -> bytes:
    import cloudpickle

    data: bytes = cloudpickle.dumps(obj)
    return data


class MsgTypeRegister:
    """Message types by number and class. 65535 is there from the start, with cloudpickle."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {
            MSG_TYPE_PICKLED_MSG: _Entry(_PickledMsg, _dumps, pickle.loads, None)
        }
        self._numbers: dict[type, int] = {_PickledMsg: MSG_TYPE_PICKLED_MSG}

    def register(
        self, msg_type: int, clz: type, serialize_func: Serialize, deserialize_func: Deserialize,
        size_func: Size | None = None,
    ) -> None:
        """Let objects of a class travel as messages of a type. The same pair again replaces the functions.

        Args:
            msg_type: 1024 to 65534.
            clz: The class; those derived from it are not meant.
            serialize_func: Gives the bytes of an object.
            deserialize_func: Gives the object of a memoryview.
            size_func: Reserved.

        Raises:
            DfException: the number belongs to another class, or the class to another number.
        """
        msg_type = int(msg_type)
        known = self._entries.get(msg_type)
        if known is not None and known.clz is not clz:
            raise DfException(f"message type {msg_type} is registered for {known.clz.__name__} already")
        if self._numbers.get(clz, msg_type) != msg_type:
            raise DfException(f"class {clz.__name__} is registered as message type {self._numbers[clz]} already")
        self._entries[msg_type] = _Entry(clz, serialize_func, deserialize_func, size_func)
        self._numbers[clz] = msg_type
        if self is _Register.current:
            self.enforce()

    def enforce(self) -> None:
        """Let the core read and write messages by this register; pickles are its own affair."""
        msg_types.update(
            TypeCodec(number, entry.clz, entry.serialize, entry.deserialize)
            for number, entry in self._entries.items() if number != MSG_TYPE_PICKLED_MSG
        )

    def registered(self, msg_type: int) -> bool:
        """Whether a type is known."""
        return msg_type in self._entries

    def get_msg_type(self, clz: type) -> int | None:
        """The type objects of exactly this class travel as."""
        return self._numbers.get(clz)

    def get_serialize_func(self, msg_type: int) -> Serialize | None:
        """What makes bytes of an object."""
        entry = self._entries.get(msg_type)
        return None if entry is None else entry.serialize

    def get_deserialize_func(self, msg_type: int) -> Deserialize | None:
        """What makes an object of bytes."""
        entry = self._entries.get(msg_type)
        return None if entry is None else entry.deserialize

    def get_size_func(self, msg_type: int) -> Size | None:
        """What was given as `size_func`."""
        entry = self._entries.get(msg_type)
        return None if entry is None else entry.size

    def deserialize_from_file(self, pkl_file: str, work_path: str | None = None) -> object:
        """The object in a pickle file.

        Args:
            pkl_file: The file. Runs code: only for files of your own.
            work_path: Folder where modules it needs are looked for too.
        """
        if work_path is not None and work_path not in sys.path:
            sys.path.append(work_path)
        with open(pkl_file, "rb") as file:
            found: object = pickle.load(file)
        return found


class _Register:
    """The register in force in this process."""

    current: ClassVar[MsgTypeRegister] = MsgTypeRegister()


def get_msg_type_register() -> MsgTypeRegister:
    """The message types in force."""
    return _Register.current


def set_msg_type_register(register: MsgTypeRegister) -> None:
    """Let other message types be in force, such as those a graph was built with."""
    for codec in msg_types.codecs():
        msg_types.unregister(codec.msg_type)
    _Register.current = register
    register.enforce()
