"""Folders about Python functions that users look at, and those that upstream's tool has made.

No compiler is needed for a Python function, so there is no C++ in them: the sources or pickles, and the config file
that tells which function owns which ports.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import dflow_core.graph
from dataflow import codes
from dataflow.packages import package_of
from dataflow.utils.errors import DfException
from dflow_core.graph import FuncPackage

__all__ = ["config_of", "python_workspace", "snake", "write_workspace"]


def snake(name: str) -> str:
    """A class name in snake case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def config_of(
    clz: str, functions: Sequence[Mapping[str, object]], ports: tuple[int, int], folder: Path,
    extra: Mapping[str, object],
) -> dict[str, object]:
    """The content of a function's config file.

    Args:
        clz: Class name.
        functions: Entries of `func_list`.
        ports: Numbers of inputs and outputs.
        folder: The workspace.
        extra: Further keys.
    """
    return {
        "func_list": list(functions), "input_num": ports[0], "output_num": ports[1],
        "target_bin": f"libfunc_{snake(clz)}.so", "workspace": str(folder.resolve()),
        "cmakelist_path": "CMakeLists.txt", "heavy_load": True, **extra,
    }


def write_workspace(py_func: object, package: FuncPackage, folder: str | None) -> Path:
    """Write the workspace of a Python function; gives the config file.

    Args:
        py_func: The class, or what `@pyflow` made.
        package: The same, ready to travel.
        folder: Where; `./<class name>_ws` if not given.
    """
    clz = str(getattr(py_func, "_clz_name", None) or getattr(py_func, "__name__", type(py_func).__name__))
    root = Path(folder or f"./{clz}_ws")
    sources = root / "src_python"
    sources.mkdir(parents=True, exist_ok=True)
    is_class = isinstance(py_func, type)
    if is_class:
        file = getattr(sys.modules.get(py_func.__module__), "__file__", None)
        if file and Path(file).is_file():
            (sources / f"func_{snake(clz)}.py").write_bytes(Path(file).read_bytes())
    else:
        (sources / f"{clz}.pkl").write_bytes(package.package)
    functions = [
        {
            "func_name": spec.name, "inputs_index": list(spec.inputs), "outputs_index": list(spec.outputs),
            "stream_input": spec.stream_input,
        }
        for spec in package.functions
    ]
    config = config_of(clz, functions, (package.input_num, package.output_num), root, _resources(py_func))
    path = root.resolve() / f"func_{snake(clz)}.json"
    path.write_text(json.dumps(config, indent=4) + "\n", encoding="utf-8")
    return path


def _resources(py_func: object) -> dict[str, object]:
    """Keys about what `@pyflow` was told an instance needs."""
    options = getattr(py_func, "_options", None)
    needs: Mapping[str, object] = getattr(options, "resources", {})
    found: dict[str, object] = {}
    if needs:
        names = {"num_cpus": "cpu"}
        found["running_resources_info"] = [{"type": names.get(key, key), "num": num} for key, num in needs.items()]
    if getattr(options, "visible_device_enable", False):
        found["visible_device_enable"] = True
    return found


def python_workspace(config_path: str) -> FuncPackage | None:
    """The Python function of a workspace, ready to travel; None if the config file is about something else.

    Args:
        config_path: The config file.

    Raises:
        DfException: 564000 if its source holds no class with `@proc_wrapper` methods.
    """
    source = _source_of(Path(config_path))
    if source is None:
        return None
    spec = importlib.util.spec_from_file_location(source.stem, source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[source.stem] = module
    spec.loader.exec_module(module)
    found = [
        value for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
        and any(hasattr(getattr(value, name, None), dflow_core.graph.PACKER_ATTRIBUTE) for name in dir(value))
    ]
    if len(found) != 1:
        raise DfException(f"{source} holds {len(found)} classes with @proc_wrapper methods, expected one",
                          codes.FUNC_FAILED)
    return package_of(found[0])


def _source_of(path: Path) -> Path | None:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # the engine says what is wrong with it
    if not isinstance(config, dict) or not isinstance(config.get("target_bin"), str):
        return None
    name = re.fullmatch(r"lib(.+)\.so", config["target_bin"])
    folder = Path(str(config.get("workspace", path.parent)))
    source = folder / "src_python" / f"{name[1]}.py" if name else None
    return source if source is not None and source.is_file() else None
