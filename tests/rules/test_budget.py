"""Small modules, short functions, shallow blocks, everything annotated; a bounded number of public names."""

from __future__ import annotations

import ast
import importlib
import statistics

import pytest

MODULE_LINES = 400
MEDIAN_LINES = 150
FUNCTION_LINES = 50
NESTING = 4
PUBLIC_NAMES = 60


def test_no_module_is_too_long(everything):
    long = [f"{m.path}: {m.lines} lines; split it by concept" for m in everything if m.lines > MODULE_LINES]
    assert not long, "\n".join(long)


def test_the_median_module_of_the_core_is_small(core):
    assert statistics.median(m.lines for m in core if m.code_lines) <= MEDIAN_LINES


def test_no_function_is_too_long(everything, measure):
    long = [
        f"{m.path}:{f.lineno}: {f.name} has {length} code lines"
        for m in everything
        for f in m.functions
        if (length := measure.code_length(m, f)) > FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_no_function_is_nested_too_deep(everything, measure):
    deep = [
        f"{m.path}:{f.lineno}: {f.name} is {depth} blocks deep"
        for m in everything
        for f in m.functions
        if (depth := measure.nesting(f)) > NESTING
    ]
    assert not deep, "\n".join(deep)


def test_everything_is_annotated(core, plugins):
    bare = []
    for module in [*core, *plugins]:
        for func in module.functions:
            args = [*func.args.posonlyargs, *func.args.args, *func.args.kwonlyargs]
            args += [a for a in (func.args.vararg, func.args.kwarg) if a]
            missing = [a.arg for a in args if a.annotation is None and a.arg not in ("self", "cls", "mcs")]
            if missing or func.returns is None:
                bare.append(f"{module.path}:{func.lineno}: {func.name}: {', '.join(missing) or 'return'}")
    assert not bare, "\n".join(bare)


BINDINGS = {"bindings", "runtimes"}
"""Folders whose modules call a library that has no types."""


def test_any_stays_in_binding_packages(core, plugins):
    wrong = sorted({
        f"{m.path}:{i.line}: Any"
        for m in [*core, *plugins]
        for i in m.imports()
        if i.module == "typing.Any" and not BINDINGS & {*m.path.parts}
    })
    assert not wrong, "\n".join(wrong)


def test_the_core_has_a_bounded_number_of_public_names():
    import dflow_core

    assert len(dflow_core.__all__) <= PUBLIC_NAMES
    missing = [name for name in dflow_core.__all__ if not hasattr(dflow_core, name)]
    assert not missing


def test_all_lists_are_sorted_and_true(core):
    packages = [m for m in core if m.is_package and m.name.count(".") == 1 and m.name != "dflow_core.proto"]
    wrong = []
    for package in packages:
        names = getattr(importlib.import_module(package.name), "__all__", [])
        loaded = importlib.import_module(package.name)
        wrong += [f"{package.path}: {name} is listed but missing" for name in names if not hasattr(loaded, name)]
    assert not wrong, "\n".join(wrong)


def test_public_classes_and_functions_have_a_docstring(core):
    bare = []
    for module in core:
        listed = _listed(module.tree)
        for node in module.tree.body:
            named = isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            public = named and not node.name.startswith("_") and not module.name.split(".")[-1].startswith("_")
            if public and ast.get_docstring(node) is None and (not listed or node.name in listed):
                bare.append(f"{module.path}:{node.lineno}: {node.name}")
    assert not bare, "\n".join(bare)


def _listed(tree: ast.Module) -> set[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return set(ast.literal_eval(node.value))
    return set()


@pytest.mark.parametrize(
    ("source", "depth"),
    [
        ("def f(): return 1", 0),
        ("def f():\n if a:\n  pass\n elif b:\n  pass", 1),
        ("def f():\n for a in b:\n  with c:\n   pass", 2),
    ],
)
def test_depth_is_counted_in_blocks(measure, source, depth):
    assert measure.nesting(ast.parse(source).body[0]) == depth
