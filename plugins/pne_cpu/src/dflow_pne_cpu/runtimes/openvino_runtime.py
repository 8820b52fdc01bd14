# mypy: disallow-any-explicit=False
"""OpenVINO behind the interface of `base`.

What was measured about it, and shapes this file (docs of the plugin, "traps"):

- Unset, it computes in bfloat16 where the CPU can, pins threads to cores so that two processes share one, and takes all
  cores: precision, pinning and threads are always set.
- It reads TensorFlow graphs from a path only, sorts their outputs and shows port 0 alone: the front-end API is told
  which tensors are wanted.
- Python refuses read-only arrays: they are wrapped through their address. It keeps no reference to an array: callers
  hold them for the length of a call.
- With one thread a synchronous `infer` swallows every exception and leaves the last answer in place. Handing a call to
  another thread tells, but costs 10 to 60 us. So the first call with inputs of some shapes is handed over; later ones
  with the same shapes run here, if no shape inside the model depends on data, with a mark at the end of each output
  that the answer overwrites; where a mark is left, the call is made again the safe way. Calls that overlap with the
  caller's work are all handed over: two requests of one model, whose thread takes one after the other.
- After an exception a compiled model may answer wrongly (a node that saw the shapes of the failing call takes the next
  ones for unchanged), also through a new request: it is loaded again before the next call, from the form saved when it
  was compiled, because a model that was loaded saves itself wrongly. A call that was in flight behind the failing one
  is made again.
- It computes 64-bit integers in 32 bits and cuts what does not fit: such inputs are refused.
- A bound output smaller than the result is lost without an error, and aborts the process later: an output is bound only
  if its shape is known (`Traits.bindable`); all others go back to a tensor of the request's own before each call.
"""
from __future__ import annotations

import sys
import threading
from typing import Any, ClassVar

from dflow_core.errors import PluginError
from dflow_pne_cpu.model_file import ModelFile
from dflow_pne_cpu.recipe import Recipe
from dflow_pne_cpu.runtimes.base import RefusedError, Runtime, Session, Traits, words_of
from dflow_pne_cpu.runtimes.by_shape import SessionByShape, split_blob
from dflow_pne_cpu.runtimes.openvino_reader import FRONT_ENDS, read_model
from dflow_pne_cpu.runtimes.openvino_session import OpenVinoSession, SavedForm
from dflow_pne_cpu.runtimes.openvino_shapes import traits_of
from dflow_pne_cpu.runtimes.signal_stack import signal_stack_kept

_TELEMETRY = "openvino_telemetry"
_IMPORTING = threading.Lock()
"""The import changes `sys.modules` for a moment, and runtimes may be made in several threads."""


def import_quietly() -> Any:
    """The module `openvino`, without its telemetry.

    Importing openvino starts a thread that sends a record of use over the network. Nobody who runs a pipeline
    has asked for that; without the package `openvino_telemetry` it falls back to a stub, so it is made to miss it.
    """
    with _IMPORTING:
        absent = _TELEMETRY not in sys.modules
        if absent:
            sys.modules[_TELEMETRY] = None  # type: ignore[assignment]
        try:
            import openvino
        finally:
            if absent:
                del sys.modules[_TELEMETRY]
    return openvino


class OpenVinoRuntime(Runtime):
    """OpenVINO's CPU plug-in."""

    id: ClassVar[str] = "openvino"
    package: ClassVar[str] = "openvino"
    frameworks: ClassVar[frozenset[str]] = frozenset(FRONT_ENDS)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._core: Any = None

    def prepare(self) -> None:
        with self._lock:
            if self._core is not None:
                return
            try:
                openvino = import_quietly()
            except (ImportError, OSError) as cause:
                raise PluginError(f"OpenVINO cannot be imported: {words_of(cause)}",
                                  hint="pip install openvino, or ask for runtime='onnxruntime'") from cause
            core = openvino.Core()
            with signal_stack_kept():
                core.get_property("CPU", "FULL_DEVICE_NAME")  # loads the plug-in, which changes the signal stack
            self._core = core

    def compile(self, file: ModelFile, recipe: Recipe, threads: int) -> Session:
        self.prepare()
        general = self._compile(file, recipe, threads)
        if not recipe.fixed_shapes:
            return general
        fixed = {shapes: self._compile(file, recipe.fixed_to(shapes), threads) for shapes in recipe.fixed_shapes}
        return SessionByShape(fixed, lambda: general, general, general.traits)

    def load(self, blob: bytes, recipe: Recipe, traits: Traits, threads: int) -> Session:
        self.prepare()
        if not recipe.fixed_shapes:
            return self._load(blob, recipe, traits, threads)
        first, *others = split_blob(blob, 1 + len(recipe.fixed_shapes))
        fixed = {
            shapes: self._load(form, recipe.fixed_to(shapes), traits, threads)
            for shapes, form in zip(recipe.fixed_shapes, others)
        }
        some = next(iter(fixed.values()))
        return SessionByShape(fixed, lambda: self._load(first, recipe, traits, threads), some, traits)

    def _compile(self, file: ModelFile, recipe: Recipe, threads: int) -> OpenVinoSession:
        model = read_model(file, recipe)
        traits = traits_of(model)
        config = _config(recipe, threads)
        try:
            compiled = self._core.compile_model(model, "CPU", config)
        except Exception as cause:
            raise RefusedError(f"OpenVINO cannot compile {file.label}: {words_of(cause)}") from cause
        return OpenVinoSession(compiled, recipe, traits, SavedForm(self._core, config))

    def _load(self, blob: bytes, recipe: Recipe, traits: Traits, threads: int) -> OpenVinoSession:
        saved = SavedForm(self._core, _config(recipe, threads), blob)
        try:
            compiled = saved.load()
        except Exception as cause:
            raise RefusedError(f"OpenVINO does not take the compiled form: {words_of(cause)}") from cause
        return OpenVinoSession(compiled, recipe, traits, saved)


def _config(recipe: Recipe, threads: int) -> dict[str, Any]:
    return {
        "INFERENCE_PRECISION_HINT": recipe.precision,
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_NUM_THREADS": max(threads, recipe.streams),
        "NUM_STREAMS": recipe.streams,
    }
