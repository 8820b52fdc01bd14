"""A session that has forms of its model for inputs of certain shapes, besides the general one.

A form whose shapes are fixed is faster (its memory is laid out once, and the library knows every size) and smaller, but
takes nothing else. Everything else is run by the general form, which is loaded when it is needed first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dflow_core.spi import OutputAlloc
from dflow_core.types import Array
from dflow_pne_cpu.recipe import Shapes
from dflow_pne_cpu.runtimes.base import RefusedError, Session, Traits

_LENGTH = 8


@dataclass(frozen=True, slots=True)
class _Started:
    """A call, and the form it was started on."""

    session: Session
    call: object


class SessionByShape(Session):
    """Runs each call on the form for the shapes of its inputs.

    Args:
        fixed: The forms of fixed shapes, by the shapes of the inputs.
        general: Gives the form for all others.
        like: A form whose tensors and numbers of calls this session shows.
        traits: Of the general form; they hold for the others too.
    """

    def __init__(
        self, fixed: Mapping[Shapes, Session], general: Callable[[], Session], like: Session, traits: Traits
    ) -> None:
        self.inputs, self.outputs = like.inputs, like.outputs
        self.depth, self.streams = like.depth, like.streams
        self.traits = traits
        self._fixed = fixed
        self._make_general = general
        self._made: Session | None = None

    def run(self, inputs: Sequence[Array], targets: Sequence[Array | None], alloc: OutputAlloc) -> list[Array]:
        return self._session_for(inputs).run(inputs, targets, alloc)

    def start(self, inputs: Sequence[Array], targets: Sequence[Array | None]) -> object:
        session = self._session_for(inputs)
        return _Started(session, session.start(inputs, targets))

    def finish(self, call: object, alloc: OutputAlloc) -> list[Array]:
        assert isinstance(call, _Started)
        return call.session.finish(call.call, alloc)

    def export(self) -> bytes:
        return join_blobs([self.general().export(), *(session.export() for session in self._fixed.values())])

    def close(self) -> None:
        for session in self._fixed.values():
            session.close()
        if self._made is not None:
            self._made.close()

    def general(self) -> Session:
        """The form for inputs of any shapes."""
        if self._made is None:
            self._made = self._make_general()
        return self._made

    def _session_for(self, inputs: Sequence[Array]) -> Session:
        return self._fixed.get(tuple([array.shape for array in inputs])) or self.general()


def join_blobs(blobs: Sequence[bytes]) -> bytes:
    """Some compiled forms in one."""
    head = json.dumps([len(blob) for blob in blobs]).encode()
    return b"".join([len(head).to_bytes(_LENGTH, "little"), head, *blobs])


def split_blob(data: bytes, count: int) -> list[bytes]:
    """The inverse of `join_blobs`.

    Raises:
        RefusedError: if these are not so many compiled forms.
    """
    start = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    try:
        sizes = json.loads(data[_LENGTH:start]) if start <= len(data) else None
    except (ValueError, RecursionError):
        sizes = None
    if not isinstance(sizes, list) or any(type(size) is not int or size < 0 for size in sizes):
        raise RefusedError("the compiled form is damaged")
    if len(sizes) != count or start + sum(sizes) != len(data):
        raise RefusedError("the compiled form is damaged")
    blobs = []
    for size in sizes:
        blobs.append(data[start : start + size])
        start += size
    return blobs
