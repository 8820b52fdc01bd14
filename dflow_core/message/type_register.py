"""Objects that travel in a form of their own instead of pickled (python-api.md section 9).

The register belongs to the process, as that of `copyreg` does for pickle: whatever reads or writes a message looks into
it. What is registered when a function is made ready to travel goes along, and is registered where it runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dflow_core.errors import UsageError
from dflow_core.message.info import MsgType


@dataclass(frozen=True, slots=True)
class TypeCodec:
    """How objects of one class travel.

    Args:
        msg_type: Number of the type.
        cls: The class; classes derived from it are others.
        serialize: Gives what can be seen as bytes; or, where there is a `size`, writes into the buffer it is given.
        deserialize: Gives the object, of a read-only memoryview that lies in the message.
        size: Bytes that an object takes; None lets `serialize` say.
    """

    msg_type: int
    cls: type
    serialize: Callable[..., object]
    deserialize: Callable[[memoryview], object]
    size: Callable[[object], int] | None = None


class MsgTypes:
    """A register of types. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_class: dict[type, TypeCodec] = {}
        self._by_number: dict[int, TypeCodec] = {}

    def register(
        self, msg_type: int, cls: type, serialize: Callable[..., object], deserialize: Callable[[memoryview], object],
        size: Callable[[object], int] | None = None,
    ) -> None:
        """Let objects of a class travel in a form of their own; register it before nodes are made that need it.

        Args:
            msg_type: Number of the type, from 1024 to 65534.
            cls: The class; classes derived from it are others.
            serialize: Gives bytes, or anything that can be seen as bytes: `serialize(obj)`. With `size` it writes into
                the message itself instead: `serialize(obj, buffer)`.
            deserialize: Gives the object of a read-only memoryview, which lies in the message: nothing is copied, and
                the memory stays as long as something refers to it.
            size: Bytes that an object takes.

        Raises:
            UsageError: a number out of range, or one that another class has; a class that has another number. The same
                pair again replaces the functions.
        """
        first, last = MsgType.USER_DEFINE_START.value, MsgType.PICKLED.value - 1
        if isinstance(msg_type, bool) or not isinstance(msg_type, int) or not first <= msg_type <= last:
            raise UsageError(f"expected a message type from {first} to {last}, got {msg_type!r}")
        if not isinstance(cls, type):
            raise UsageError(f"message type {msg_type}: expected a class, got {cls!r}")
        for what, function in (("serialize", serialize), ("deserialize", deserialize), ("size", size)):
            if not callable(function) and not (what == "size" and function is None):
                raise UsageError(f"message type {msg_type}: {what} must be a function, got {function!r}")
        self.update([TypeCodec(msg_type, cls, serialize, deserialize, size)])

    def update(self, codecs: Iterable[TypeCodec]) -> None:
        """Register several; errors as for `register`."""
        with self._lock:
            for codec in codecs:
                other = self._by_number.get(codec.msg_type)
                if other is not None and other.cls is not codec.cls:
                    raise UsageError(
                        f"message type {codec.msg_type} is that of {other.cls.__qualname__} already",
                        hint=f"choose another number for {codec.cls.__qualname__}",
                    )
                known = self._by_class.get(codec.cls)
                if known is not None and known.msg_type != codec.msg_type:
                    raise UsageError(f"{codec.cls.__qualname__} has message type {known.msg_type} already")
                self._by_class[codec.cls] = self._by_number[codec.msg_type] = codec

    def unregister(self, msg_type: int) -> None:
        """Forget a type; nothing happens if there is none."""
        with self._lock:
            codec = self._by_number.pop(msg_type, None)
            if codec is not None:
                del self._by_class[codec.cls]

    def of_class(self, cls: type) -> TypeCodec | None:
        """How objects of exactly this class travel, if that was registered."""
        return self._by_class.get(cls)

    def of_number(self, msg_type: int) -> TypeCodec | None:
        """How objects of a type travel, if that was registered."""
        return self._by_number.get(msg_type)

    def codecs(self) -> tuple[TypeCodec, ...]:
        """Everything that is registered, by number."""
        with self._lock:
            return tuple(self._by_number[number] for number in sorted(self._by_number))


msg_types = MsgTypes()
"""The register of this process."""
