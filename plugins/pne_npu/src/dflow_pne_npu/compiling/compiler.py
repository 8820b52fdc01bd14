"""atc, found and run."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dflow_core.errors import CompileError, PluginError
from dflow_core.graph import Framework
from dflow_pne_npu.compiling.command import arguments
from dflow_pne_npu.compiling.process import run_program
from dflow_pne_npu.installation import Installation
from dflow_pne_npu.settings import Asked

_SUFFIXES = {Framework.ONNX: ".onnx", Framework.TENSORFLOW: ".pb", Framework.MINDSPORE: ".air"}
_ID = re.compile(r"(?:^|\()([EW][A-Z0-9]\d{4})\)?:", re.MULTILINE)
_LONGEST_NAME = 60
_MOST_LINES = 6


class AtcFailedError(CompileError):
    """atc could not compile a model.

    Args:
        message: What happened, one sentence.
        id: Its error id, such as `E10501`; "" if it gave none.
        lines: The first lines it said about it.
    """

    def __init__(self, message: str, id: str = "", lines: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.id = id
        self.lines = lines


@dataclass(frozen=True)
class AtcCompiler:
    """The model compiler of an installation.

    Args:
        installation: Where to look for it.
    """

    installation: Installation

    def path(self) -> Path:
        """Where it is.

        Raises:
            PluginError: there is none; says where it was looked for.
        """
        if self.installation.fault:
            raise PluginError(self.installation.fault, hint="set it to the folder of the CANN toolkit, or unset it")
        found = self.installation.atc()
        if found is None:
            raise PluginError(
                f"atc, the model compiler of CANN, was not found in {self.installation.places()} nor on PATH",
                hint="install the CANN toolkit and source its set_env.sh, give a ready .om file, or run under "
                     "`dflow npu emulate -- COMMAND`",
            )
        return found

    def version(self) -> str:
        """What tells this compiler from another: version of the toolkit, path, size and time of the program."""
        path = self.path()
        about = path.stat()
        return f"{self.installation.version()} {path} {about.st_size} {about.st_mtime_ns}"

    def compile(
        self, framework: Framework, data: bytes, side_files: Mapping[str, bytes], soc: str, asked: Asked, label: str
    ) -> bytes:
        """Compile a model in a folder of its own.

        Args:
            framework: What wrote the model.
            data: The model file.
            side_files: Files that belong to it, by relative name.
            soc: The chip.
            asked: What the user asks.
            label: What to call the model in errors.

        Returns:
            The OM file.

        Raises:
            AtcFailedError: with the compiler's error id and first lines.
            PluginError: there is no compiler.
        """
        program = self.path()
        with tempfile.TemporaryDirectory(prefix="dflow-atc-") as name:
            folder = Path(name)
            model = folder / f"model{_SUFFIXES[framework]}"
            model.write_bytes(data)
            for side, content in side_files.items():
                target = folder.joinpath(*PurePosixPath(side).parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            made = folder / "made"
            made.mkdir()
            words = [str(program), *arguments(framework, model, made / _plain_name(label), soc, asked)]
            try:
                done = run_program(words, folder, asked.atc_timeout)
            except OSError as cause:
                raise PluginError(f"{program} cannot be started: {cause.strerror}") from cause
            if done.status is None:
                text = f"atc did not end within {asked.atc_timeout:g} s for {label}"
                raise AtcFailedError(text, lines=_lines(done.text),
                                     hint="give it more time with atc_timeout=SECONDS, or run it by hand")
            if done.status != 0:
                raise _failure(done.status, done.text, label)
            return _result(made, label, done.text)


def _plain_name(label: str) -> str:
    """What the compiled model is called, in timelines and profiles too."""
    return re.sub(r"\W+", "_", Path(label).stem, flags=re.ASCII)[:_LONGEST_NAME].strip("_") or "model"


def _result(folder: Path, label: str, text: str) -> bytes:
    """The OM file, which may be named after the host's system and processor."""
    found = sorted(path for path in folder.glob("*.om") if path.stat().st_size > 0)
    if not found:
        raise AtcFailedError(f"atc said it was successful, but wrote no model for {label}", lines=_lines(text))
    return found[0].read_bytes()


def _failure(status: int, text: str, label: str) -> AtcFailedError:
    found = _ID.search(text)
    lines = _lines(text[found.start():] if found else text)
    first = lines.splitlines()[0].strip(" (") if lines else "it said nothing"
    code = found[1] if found else ""
    sentence = first.partition("): ")[2] or first.partition(": ")[2] or first
    named = f"{code}: {sentence}" if code else sentence
    return AtcFailedError(f"atc could not compile {label} (exit status {status}): {named}", code, lines,
                          hint="the whole text is in the error's `lines`; logs are in ~/ascend/log")


def _lines(text: str) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][:_MOST_LINES])
