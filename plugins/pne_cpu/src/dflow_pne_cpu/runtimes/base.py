"""The small interface behind which model libraries are interchangeable."""

from __future__ import annotations

import abc
import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dflow_core.errors import CompileError
from dflow_core.spi import OutputAlloc
from dflow_core.types import Array, TensorSpec
from dflow_pne_cpu.model_file import ModelFile
from dflow_pne_cpu.recipe import Recipe


class RefusedError(CompileError):
    """A library that works does not take this model (or this blob); another one might."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What was found out about a model when it was compiled, and holds wherever it is loaded.

    Args:
        bindable: For each output, whether its shape depends on the shapes of the inputs alone, so that a buffer of
            the shape that an earlier call gave is large enough for the next one with the same input shapes.
        steady: Whether that holds for every tensor inside the model.
    """

    bindable: tuple[bool, ...]
    steady: bool

    def to_text(self) -> str:
        """As JSON."""
        return json.dumps([self.bindable, self.steady])

    @classmethod
    def from_text(cls, text: str) -> Traits:
        """The inverse of `to_text`."""
        bindable, steady = json.loads(text)
        return cls(tuple(bindable), steady)


class Session(abc.ABC):
    """A model ready to run; used by one thread at a time.

    Attributes:
        inputs, outputs: Its tensors, in the order of the recipe.
        traits: What is known of their shapes.
        streams: How many calls run at the same time.
        depth: How many calls may be in flight; above 1 if there is `start` and `finish`.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    traits: Traits
    depth: int = 1
    streams: int = 1

    @abc.abstractmethod
    def run(self, inputs: Sequence[Array], targets: Sequence[Array | None], alloc: OutputAlloc) -> list[Array]:
        """Run the model once.

        Args:
            inputs: C-contiguous arrays of native byte order, in the order of `inputs`; may be read-only, never written.
            targets: For each output an array of exactly its shape to write it into, or None if its shape is unknown.
            alloc: Gives the array for an output that has no target.

        Returns:
            One array per output: its target, unless the result did not fit it. No array is referred to afterwards.
        """

    def start(self, inputs: Sequence[Array], targets: Sequence[Array | None]) -> object:
        """Start a call, and keep its arrays until it ends; arguments as for `run`, which must not be called meanwhile.

        Raises:
            TensorError: if an input cannot be computed with; then there is no call.
        """
        raise NotImplementedError(f"{type(self).__name__} runs one call at a time")

    def finish(self, call: object, alloc: OutputAlloc) -> list[Array]:
        """Wait for the oldest call that was started; gives and raises what `run` would have."""
        raise NotImplementedError(f"{type(self).__name__} runs one call at a time")

    @abc.abstractmethod
    def export(self) -> bytes:
        """The compiled model, for `Runtime.load`; empty if the library has no such form of it."""

    @abc.abstractmethod
    def close(self) -> None:
        """Free everything, after the calls in flight have ended. Idempotent."""


class Runtime(abc.ABC):
    """A model library. Used from several threads at once."""

    id: ClassVar[str]
    package: ClassVar[str]
    frameworks: ClassVar[frozenset[str]]

    def version(self) -> str:
        """Version of the installed library, read without importing it; "" if it is not installed."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return ""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Import the library.

        Raises:
            PluginError: if it cannot be imported; says what to install.
        """

    @abc.abstractmethod
    def compile(self, file: ModelFile, recipe: Recipe, threads: int) -> Session:
        """Read and compile a model.

        Raises:
            RefusedError: if the library does not take it.
        """

    @abc.abstractmethod
    def load(self, blob: bytes, recipe: Recipe, traits: Traits, threads: int) -> Session:
        """Load what `Session.export` gave.

        Raises:
            RefusedError: if it cannot.
        """


def words_of(error: BaseException) -> str:
    """What a library's exception says, in one short line; such texts may be empty or many lines long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    noise = ("Exception from", "Check '", "FrontEnd API failed")
    told = [line for line in lines if not line.startswith(noise)] or lines
    text = " ".join(told)[:400].strip()
    return text or f"{type(error).__name__} without a word"
