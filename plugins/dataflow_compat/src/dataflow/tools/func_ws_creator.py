"""Workspaces of Python functions: a class to fill in, and the config file that names its ports."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dataflow.flow_func.func_register import FlowFuncInfos
from dataflow.tools.tpl.source import python_source
from dataflow.utils.msg_type_register import MSG_TYPE_PICKLED_MSG
from dataflow.workspace import config_of, snake

__all__ = ["MSG_TYPE_PICKLED_MSG", "FuncWsCreator"]

_PORT = re.compile(r"([io])(\d+)")
_NAMES_IN_CLASS = 4


@dataclass(frozen=True, slots=True)
class _Func:
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stream_input: bool

    @property
    def ports(self) -> str:
        """As `@proc_wrapper` takes them."""
        words = [*(f"i{i}" for i in self.inputs), *(f"o{o}" for o in self.outputs)]
        return ",".join([*words, *(["stream_input"] if self.stream_input else [])])

    @property
    def entry(self) -> dict[str, object]:
        """As config files have them."""
        return {
            "func_name": self.name, "inputs_index": list(self.inputs), "outputs_index": list(self.outputs),
            "stream_input": self.stream_input,
        }


class FuncWsCreator:
    """Makes a workspace.

    Args:
        funcs_param: Functions and their ports, `Name:i0:i2:o0,Other:i1:o1`; `stream_input` for one that takes queues.
        clz_name: Class name; made of the names of the functions if not given.
        ws_dir: Folder; the current one if not given.
        flow_func_infos: What is known of the class besides.

    Raises:
        ValueError: a text that names no functions and ports.
    """

    def __init__(
        self, funcs_param: str, clz_name: str = "", ws_dir: str = "", flow_func_infos: FlowFuncInfos | None = None
    ) -> None:
        self._funcs = [_parsed(text) for text in funcs_param.split(",")]
        self._clz = clz_name or "".join(func.name.title() for func in self._funcs[:_NAMES_IN_CLASS])
        if not self._clz.isidentifier():
            raise ValueError(f"class name {self._clz!r} is no identifier")
        self._folder = Path(ws_dir or ".").resolve()
        self._infos = flow_func_infos or FlowFuncInfos()

    def generate(self) -> None:
        """Write the workspace; existing files are replaced.

        Raises:
            ValueError: inputs that are not 0 to n-1, each once, or outputs that leave a number out.
        """
        sources = self._folder / "src_python"
        sources.mkdir(parents=True, exist_ok=True)
        functions = [(func.name, func.ports, func.inputs, func.outputs) for func in self._funcs]
        self._source.write_text(python_source(self._clz, functions), encoding="utf-8")
        ports = _counted(self._funcs)
        extra: dict[str, object] = {}
        if self._infos.get_running_resources_info():
            extra["running_resources_info"] = self._infos.get_running_resources_info()
        if self._infos.get_visible_device_enable():
            extra["visible_device_enable"] = True
        config = config_of(self._clz, [func.entry for func in self._funcs], ports, self._folder, extra)
        Path(self.get_config_file()).write_text(json.dumps(config, indent=4) + "\n", encoding="utf-8")

    def copy_py_src_file(self, path: str) -> None:
        """Let a file be the source of the workspace.

        Args:
            path: A Python file with the class.
        """
        self._source.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, self._source)

    def get_config_file(self) -> str:
        """Path of the config file."""
        return str(self._folder / f"func_{snake(self._clz)}.json")

    @property
    def _source(self) -> Path:
        return self._folder / "src_python" / f"func_{snake(self._clz)}.py"


def _parsed(text: str) -> _Func:
    name, *words = text.split(":")
    if len(words) < 2:
        raise ValueError(f"{text!r}: expected a name and its ports, such as Name:i0:o0")
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no identifier")
    sides: dict[str, list[int]] = {"i": [], "o": []}
    stream = False
    for word in words:
        match = _PORT.fullmatch(word)
        if word == "stream_input":
            stream = True
        elif match is None:
            raise ValueError(f"{text!r}: {word!r} is no port")
        else:
            sides[match[1]].append(int(match[2]))
    return _Func(name, tuple(sides["i"]), tuple(sides["o"]), stream)


def _counted(funcs: Sequence[_Func]) -> tuple[int, int]:
    inputs = sorted(port for func in funcs for port in func.inputs)
    outputs = sorted({port for func in funcs for port in func.outputs})
    for side, ports in (("inputs", inputs), ("outputs", outputs)):
        if ports != list(range(len(ports))):
            raise ValueError(f"{side} must be numbered from 0 on, got {ports}")
    return len(inputs), len(outputs)
