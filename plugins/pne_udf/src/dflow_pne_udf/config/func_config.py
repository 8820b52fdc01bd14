"""What a function compile JSON says, read and checked (config-and-options.md section 1)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dflow_core.errors import CompileError
from dflow_core.types import FuncSpec
from dflow_pne_udf.config.fields import Faults, Fields, read_object

WHAT = "function compile config"
RESOURCE_TYPES = ("X86", "Aarch", "Ascend")

_TOP = (
    "func_list", "input_num", "output_num", "workspace", "target_bin", "cmakelist_path", "compiler",
    "running_resources_info", "heavy_load", "visible_device_enable", "buf_cfg", "built_in_flow_func",
)
_FUNC = ("func_name", "inputs_index", "outputs_index", "stream_input")
_POOL = ("total_size", "blk_size", "max_buf_size", "page_type")
_TARGET = re.compile(r"lib([A-Za-z0-9._-]+)\.so")
_PAGES: Mapping[str, int] = {"normal": 4096, "huge": 2 << 20}
_MOST_POOLS = 64
_MOST_PORTS = 65536
_LARGEST_BLOCK = 2 << 20


@dataclass(frozen=True, slots=True)
class BufferPool:
    """A memory pool a project asks for; sizes in bytes."""

    total_size: int
    blk_size: int
    max_buf_size: int
    page_type: str


@dataclass(frozen=True, slots=True)
class FuncConfig:
    """What a function project says of itself.

    Args:
        path: The file it was read from.
        input_num, output_num: Ports of the node.
        functions: Its functions, with the ports they own.
        workspace: Folder with the sources; absolute.
        cmakelist: CMakeLists file; absolute.
        target_bin: Name of the library, such as `libscale.so`.
        toolchains: C++ compiler for each resource type that a toolchain file names.
        cpu: Calls that may run at once; 0 where nothing is said.
        resources: Everything else an instance needs, by type, such as `memory` in MB.
        heavy_load, visible_device_enable: As in the file; without meaning where no resource file names devices.
        pools: Memory pools; read and checked, but messages lie in the graph's own memory.
        is_builtin: Whether the functions are ready-made ones and nothing is built.
    """

    path: str
    input_num: int
    output_num: int
    functions: tuple[FuncSpec, ...]
    workspace: str = ""
    cmakelist: str = ""
    target_bin: str = ""
    toolchains: Mapping[str, str] = field(default_factory=dict)
    cpu: int = 0
    resources: Mapping[str, int] = field(default_factory=dict)
    heavy_load: bool = False
    visible_device_enable: bool = False
    pools: tuple[BufferPool, ...] = ()
    is_builtin: bool = False

    @property
    def target(self) -> str:
        """The library's name as CMake knows it: `scale` for `libscale.so`."""
        return self.target_bin[3:-3]


def read_config(path: str) -> FuncConfig:
    """Read a function compile JSON. Starts nothing and reads nothing but JSON files.

    A relative workspace or toolchain file counts from the folder of the JSON file; where it is not there, from the
    current folder, as upstream has it.

    Raises:
        CompileError: the file is missing or has faults; holds all of them.
    """
    faults = Faults(path, WHAT)
    fields = Fields(read_object(path, WHAT), "", _TOP, faults)
    is_builtin = fields.flag("built_in_flow_func")
    inputs, outputs = _ports(fields, "input_num"), _ports(fields, "output_num")
    functions = _functions(fields, inputs, outputs)
    resources = _resources(fields)
    pools = _pools(fields)
    required = "" if is_builtin else None
    workspace, target_bin = fields.text("workspace", required), fields.text("target_bin", required)
    if target_bin and not is_builtin and not _TARGET.fullmatch(target_bin):
        fields.fault("target_bin", f"expected a name such as libscale.so, got {target_bin!r}")
    cmakelist = fields.text("cmakelist_path", "CMakeLists.txt")
    compiler = fields.text("compiler")
    heavy_load, visible = fields.flag("heavy_load"), fields.flag("visible_device_enable")
    faults.check()
    folder = os.path.dirname(os.path.abspath(path))
    toolchains = _read_toolchains(_placed(folder, compiler)) if compiler else {}
    base = "" if is_builtin else _placed(folder, workspace, cmakelist)
    return FuncConfig(
        os.path.abspath(path), inputs, outputs, functions, base, os.path.normpath(os.path.join(base, cmakelist)),
        target_bin, toolchains, resources.pop("cpu", 0), resources, heavy_load, visible, pools, is_builtin,
    )


def _ports(fields: Fields, name: str) -> int:
    count = fields.number(name, None)
    if count > _MOST_PORTS:
        fields.fault(name, f"expected at most {_MOST_PORTS}, got {count}")
        return 0
    return count


def _functions(fields: Fields, inputs: int, outputs: int) -> tuple[FuncSpec, ...]:
    entries = fields.objects("func_list", _FUNC, required=True)
    names = [entry.text("func_name", None) for entry in entries]
    owners: Counter[int] = Counter()
    found = []
    for entry, name in zip(entries, names):
        if name and names.count(name) > 1:
            entry.fault("func_name", f"{name!r} is there {names.count(name)} times; expected it once")
        takes = _indexes(entry, "inputs_index", inputs, "input_num")
        gives = _indexes(entry, "outputs_index", outputs, "output_num")
        if takes is None and len(entries) > 1:
            entry.fault("inputs_index", f"missing; with {len(entries)} functions each says which inputs are its own")
        stream = entry.flag("stream_input")
        takes = tuple(range(inputs)) if takes is None else takes
        owners.update(takes)
        gives = tuple(range(outputs)) if gives is None else gives
        found.append(FuncSpec(name, takes, gives, stream_input=stream, n_mapping=stream))
    for port, times in sorted(owners.items()):
        if times > 1:
            users = ", ".join(repr(f.name) for f in found for i in f.inputs if i == port)
            fields.fault("func_list", f"input {port} is used {times} times, by {users}; expected one function")
    missing = sorted(set(range(inputs)) - set(owners))
    if entries and missing and all(port < inputs for port in owners):
        shown = ", ".join(map(str, missing[:8]))
        fields.fault("func_list", f"no function uses input {shown}; expected all {inputs} (input_num) to be used")
    return tuple(found)


def _indexes(entry: Fields, name: str, count: int, limit: str) -> tuple[int, ...] | None:
    found = entry.numbers(name)
    for index in found or ():
        if index >= count:
            entry.fault(name, f"expected numbers below {limit} ({count}), got {index}")
    if name == "outputs_index" and found and len(set(found)) != len(found):
        entry.fault(name, f"expected each output once, got {list(found)}")
    return found


def _resources(fields: Fields) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in fields.objects("running_resources_info", ("type", "num")):
        kind, number = entry.text("type", None), entry.number("num", None)
        if kind == "num_npus" and number != 1:
            entry.fault("num", f"expected 1 for num_npus, got {number}")
        if kind in found:
            entry.fault("type", f"{kind!r} is there twice")
        found[kind] = number
    return found


def _pools(fields: Fields) -> tuple[BufferPool, ...]:
    entries = fields.objects("buf_cfg", _POOL)
    if len(entries) > _MOST_POOLS:
        fields.fault("buf_cfg", f"expected at most {_MOST_POOLS} entries, got {len(entries)}")
    largest: dict[str, int] = {}
    found = []
    for entry in entries:
        total, block, most = (entry.number(name, None) for name in _POOL[:3])
        pool = BufferPool(total, block, most, entry.text("page_type", None))
        found.append(pool)
        if total and block and most and pool.page_type:
            _check_pool(entry, pool, largest.get(pool.page_type, 0))
            largest[pool.page_type] = pool.max_buf_size
    return tuple(found)


def _check_pool(entry: Fields, pool: BufferPool, below: int) -> None:
    total, block, most, page = pool.total_size, pool.blk_size, pool.max_buf_size, _PAGES.get(pool.page_type)
    if page is None:
        entry.fault("page_type", f"expected {' or '.join(_PAGES)}, got {pool.page_type!r}")
    if block & (block - 1) or block > _LARGEST_BLOCK:
        entry.fault("blk_size", f"expected a power of two up to {_LARGEST_BLOCK}, got {block}")
    elif total % block or (page and total % page):
        entry.fault("total_size", f"expected a multiple of blk_size ({block}) and of a page ({page}), got {total}")
    if not block <= most < total:
        entry.fault("max_buf_size", f"expected from blk_size ({block}) to below total_size ({total}), got {most}")
    if most <= below:
        entry.fault("max_buf_size", f"expected more than the {below} of the entry before it, got {most}")


def _read_toolchains(path: str) -> Mapping[str, str]:
    """The compiler of each resource type that a toolchain file names."""
    what = "toolchain file"
    faults = Faults(path, what)
    fields = Fields(read_object(path, what), "", ("compiler",), faults)
    found: dict[str, str] = {}
    for entry in fields.objects("compiler", ("resource_type", "toolchain"), required=True):
        kind, compiler = entry.text("resource_type", None), entry.text("toolchain", None)
        if kind and kind not in RESOURCE_TYPES:
            entry.fault("resource_type", f"expected one of {', '.join(RESOURCE_TYPES)}, got {kind!r}")
        if kind in found:
            entry.fault("resource_type", f"{kind!r} is there twice")
        found[kind] = compiler
    faults.check()
    return found


def _placed(folder: str, name: str, needed: str = "") -> str:
    """An absolute path for what a JSON file names: as seen from its folder, or from the current one."""
    places = [os.path.normpath(os.path.join(place, name)) for place in (folder, os.getcwd())]
    return _first(places, needed) or _first(places, "") or places[0]


def _first(places: Sequence[str], needed: str) -> str:
    return next((place for place in places if os.path.exists(os.path.join(place, needed))), "")


def check_sources(config: FuncConfig) -> None:
    """Whether the sources are where the config says.

    Raises:
        CompileError: there is no such workspace, or no CMakeLists in it.
    """
    if not os.path.isdir(config.workspace):
        raise CompileError(
            f"{config.path}: workspace: there is no folder {config.workspace}",
            hint="a relative workspace counts from the folder of the JSON file, then from the current one",
        )
    if not os.path.isfile(config.cmakelist):
        raise CompileError(
            f"{config.path}: there is no {config.cmakelist}",
            hint="set cmakelist_path, relative to the workspace, or write one: `dflow udf new NAME` shows how",
        )
