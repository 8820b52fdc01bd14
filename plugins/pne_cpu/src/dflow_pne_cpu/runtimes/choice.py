"""Which model library runs a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dflow_core.errors import CompileError, PluginError
from dflow_pne_cpu.model_file import ModelFile
from dflow_pne_cpu.recipe import Recipe
from dflow_pne_cpu.runtimes.base import RefusedError, Runtime, Session
from dflow_pne_cpu.runtimes.onnxruntime_runtime import OnnxRuntime
from dflow_pne_cpu.runtimes.openvino_runtime import OpenVinoRuntime


@dataclass(frozen=True, slots=True)
class RuntimeSet:
    """The model libraries by id, the preferred one first."""

    runtimes: Mapping[str, Runtime]

    def __getitem__(self, name: str) -> Runtime:
        return self.runtimes[name]

    def versions(self) -> dict[str, str]:
        """Version of each library; "" for one that is not installed."""
        return {name: runtime.version() for name, runtime in self.runtimes.items()}

    def compile(
        self, wanted: str, file: ModelFile, recipe: Recipe, threads: int, report: Callable[[str], None]
    ) -> tuple[Runtime, Session]:
        """Compile with the library that is wanted; `auto` goes on to the next one that reads such files.

        Args:
            wanted: `auto` or the id of a library.
            file, recipe, threads: As in `Runtime.compile`.
            report: Takes a sentence if another one than the first had to be taken.

        Raises:
            PluginError: if the only library is not installed; says what to install.
            CompileError: if none takes the model; names the reason of each.
        """
        if wanted != "auto":
            return self[wanted], self._compile(self[wanted], file, recipe, threads)
        refusals: list[CompileError | PluginError] = []
        for runtime in self.runtimes.values():
            if file.framework not in runtime.frameworks:
                continue
            try:
                session = self._compile(runtime, file, recipe, threads)
            except (RefusedError, PluginError) as cause:
                refusals.append(cause)
                continue
            if refusals:
                report(f"runs on {runtime.id} because {refusals[0].message}")
            return runtime, session
        raise _summed(refusals, file)

    @staticmethod
    def _compile(runtime: Runtime, file: ModelFile, recipe: Recipe, threads: int) -> Session:
        if file.framework not in runtime.frameworks:
            raise CompileError(f"{runtime.id} does not read {file.framework} files such as {file.label}",
                               hint="leave runtime out, or use runtime='openvino'")
        return runtime.compile(file, recipe, threads)


def _summed(refusals: list[CompileError | PluginError], file: ModelFile) -> CompileError | PluginError:
    if len(refusals) == 1:
        return refusals[0]
    if refusals and all(isinstance(refusal, PluginError) for refusal in refusals):
        return PluginError("no model library can be imported: " + "; ".join(r.message for r in refusals),
                           hint="pip install openvino")
    hints = [refusal.hint for refusal in refusals if refusal.hint]
    return CompileError(f"no model library takes {file.label}: " + "; ".join(r.message for r in refusals),
                        hint=hints[0] if hints else None)


def default_runtimes() -> RuntimeSet:
    """OpenVINO, then onnxruntime."""
    return RuntimeSet({runtime.id: runtime for runtime in (OpenVinoRuntime(), OnnxRuntime())})
