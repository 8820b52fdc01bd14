"""Test programs, compiled against the emulator's headers and run with its environment."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from dflow_acl_emulator import emulated_environment, home
from dflow_acl_emulator.atc import main

PROGRAMS = Path(__file__).resolve().parent / "programs"
MODELS = Path(__file__).resolve().parents[4] / "tests" / "data" / "models"
Done: TypeAlias = "subprocess.CompletedProcess[str]"
RunProgram: TypeAlias = Callable[..., Done]
Atc: TypeAlias = Callable[..., Done]


@pytest.fixture(scope="session")
def compiler_and_source() -> Callable[[str], list[str]]:
    """For a test program, in C or C++: the compiler, its language's version, and the source."""
    def words(name: str) -> list[str]:
        source = PROGRAMS / f"{name}.c"
        if source.exists():
            return [shutil.which(os.environ.get("CC", "cc")) or "cc", "-std=c11", str(source)]
        return [shutil.which(os.environ.get("CXX", "c++")) or "c++", "-std=c++17", str(source.with_suffix(".cc"))]

    return words


@pytest.fixture(scope="session")
def models() -> Path:
    """Folder of the small model files."""
    return MODELS


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """An environment that leads to the emulator."""
    return {name: value for name, value in emulated_environment().items() if not name.startswith("PYTEST")}


@pytest.fixture(scope="session")
def program(
    tmp_path_factory: pytest.TempPathFactory, compiler_and_source: Callable[[str], list[str]]
) -> Callable[[str], Path]:
    """Compiles one of the test programs, once."""
    folder = tmp_path_factory.mktemp("programs")

    def compile_program(name: str) -> Path:
        target = folder / name
        if not target.exists():
            place = home()
            flags = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", f"-I{place / 'include'}"]
            libraries = [f"-L{place / 'lib64'}", "-lascendcl", "-pthread", "-o", str(target)]
            command = [*compiler_and_source(name), *flags, *libraries]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        return target

    return compile_program


@pytest.fixture(scope="session")
def run_program(program: Callable[[str], Path], environment: Mapping[str, str]) -> RunProgram:
    """Runs one of the test programs with arguments, and settings of the emulator by their short names."""

    def run(name: str, *arguments: object, **settings: object) -> Done:
        more = {f"ACL_EMULATOR_{key.upper()}": str(value) for key, value in settings.items()}
        command = [str(program(name)), *map(str, arguments)]
        return subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, timeout=50)

    return run


@pytest.fixture(scope="session")
def atc() -> Atc:
    """Runs the emulator's atc with options, in this process: a new one takes most of a second to import OpenVINO."""

    def run(model: Path | str, output: Path, framework: int = 5, soc: str = "Ascend310P3", **options: object) -> Done:
        words = [f"--framework={framework}", f"--model={model}", f"--output={output}", f"--soc_version={soc}",
                 *(f"--{key}={value}" for key, value in options.items())]
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            code = main(words)
        return subprocess.CompletedProcess(words, code, text.getvalue(), "")

    return run


@pytest.fixture(scope="session")
def om(atc: Atc, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A model compiled by atc, once."""
    folder = tmp_path_factory.mktemp("om")
    made: dict[str, Path] = {}

    def compiled(model: Path, **options: object) -> Path:
        key = f"{model} {sorted(options.items())}"
        if key not in made:
            target = folder / f"model{len(made)}"
            done = atc(model, target, 3 if model.suffix == ".pb" else 5, **options)
            assert done.returncode == 0, done.stdout + done.stderr
            made[key] = target.with_suffix(".om")
        return made[key]

    return compiled


@pytest.fixture(scope="session")
def add_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ONNX file: y = relu(a + b) over float32 [n, 4]."""
    from onnx import TensorProto, helper

    sides = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in names] for names in ("ab", "y")
    ]
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"], name="add"),
             helper.make_node("Relu", ["sum"], ["y"], name="relu")]
    graph = helper.make_graph(nodes, "g", *sides)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = tmp_path_factory.mktemp("model") / "add.onnx"
    path.write_bytes(model.SerializeToString())
    return path
