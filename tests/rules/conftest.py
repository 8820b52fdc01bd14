"""The sources, parsed once, as the rules look at them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")
NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


@dataclass(frozen=True)
class Import:
    """One import: the module as written, names taken from it, its line, and whether it is inside a function."""

    module: str
    line: int
    late: bool
    names: tuple[str, ...] = ()

    def targets(self, known: set[str]) -> set[str]:
        """The modules of `known` that it imports: `from package import module` means the module."""
        inner = {f"{self.module}.{name}" for name in self.names} & known
        return inner or {self.module} & known


@dataclass(frozen=True)
class Module:
    """One source file: its path in the repository, and the name it is imported by."""

    path: Path
    name: str
    is_package: bool
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def code_lines(self) -> set[int]:
        """Lines that are neither blank nor comment nor docstring."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        code = {n for t in tokens if t.type not in NOT_CODE for n in range(t.start[0], t.end[0] + 1)}
        return code - {n for node in ast.walk(self.tree) for n in _docstring_lines(node)}

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, FUNCTIONS)]

    def imports(self) -> Iterator[Import]:
        """Every import, function-level ones included; those for type checkers only are left out."""
        yield from self._imports(self.tree, late=False)

    def _imports(self, node: ast.AST, late: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, child.lineno, late) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                yield from self._import_from(child, late)
            elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
                for statement in child.orelse:
                    yield from self._imports(ast.Module([statement], []), late)
            else:
                yield from self._imports(child, late or isinstance(child, FUNCTIONS))

    def _import_from(self, node: ast.ImportFrom, late: bool) -> Iterator[Import]:
        here = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        stem = here[: len(here) - node.level + 1] if node.level else []
        base = ".".join([*stem, *([node.module] if node.module else [])])
        yield Import(base, node.lineno, late, tuple(alias.name for alias in node.names))


def code_length(module: Module, func: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Code lines of a function, `def` included."""
    return len(module.code_lines & {*range(func.lineno, (func.end_lineno or func.lineno) + 1)})


def nesting(node: ast.AST) -> int:
    """How many blocks deep the deepest statement sits; `elif` adds none, an inner `def` starts anew."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        deepest = max(deepest, (isinstance(child, BLOCKS) and not is_elif) + nesting(child))
    return deepest


def _docstring_lines(node: ast.AST) -> set[int]:
    body = getattr(node, "body", None)
    if not isinstance(body, list):
        return set()
    strings = [s.value for s in body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)]
    return {n for s in strings if isinstance(s.value, str) for n in range(s.lineno, (s.end_lineno or s.lineno) + 1)}


def read_tree(root: Path, folder: Path) -> list[Module]:
    """Every hand-written module below `folder`; names start there."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = list(path.relative_to(folder.parent).with_suffix("").parts)
        if GENERATED.search(path.name) or "tests" in parts[1:]:
            continue
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(Module(path.relative_to(root), name, is_package, path.read_text(encoding="utf-8")))
    return found


@pytest.fixture(scope="session")
def core(root: Path) -> list[Module]:
    """Modules of the core."""
    return read_tree(root, root / "dflow_core")


@pytest.fixture(scope="session")
def plugins(root: Path) -> list[Module]:
    """Modules of every plugin."""
    packages = [p for p in sorted(root.glob("plugins/*/src/*")) if (p / "__init__.py").exists()]
    return [module for package in packages for module in read_tree(root, package)]


@pytest.fixture(scope="session")
def everything(root: Path, core: list[Module], plugins: list[Module]) -> list[Module]:
    """Modules of the core, the plugins and the examples."""
    packages = [*root.glob("examples/*/src/*"), *root.glob("examples/third_party/*/src/*")]
    examples = [m for p in sorted(packages) if (p / "__init__.py").exists() for m in read_tree(root, p)]
    return [*core, *plugins, *examples]


@pytest.fixture(scope="session")
def measure() -> type[Measure]:
    """The two measures of a function."""
    return Measure


class Measure:
    """Size and depth of a function."""

    code_length = staticmethod(code_length)
    nesting = staticmethod(nesting)
