"""Nothing that belongs to the whole process changes while it runs, but for what is listed here with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator

MAKERS = {"set", "dict", "list", "defaultdict", "deque", "Counter", "OrderedDict", "count", "local"}
MAKERS |= {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet"}

ALLOWED = {
    ("dflow_core/graph/names.py", "_creation_order"): "a clock: it gives the order in which names were made",
    ("dflow_core/frontend/default_session.py", "DefaultSession"): "`with df.FlowGraph(...)` names no session",
    ("plugins/dataflow_compat/src/dataflow/runtime.py", "Runtime"): "`df.init` of CANN's DataFlow",
    ("plugins/dataflow_compat/src/dataflow/settings.py", "_Told"): "options without effect are told once a process",
    ("plugins/dataflow_compat/src/dataflow/flow_func/func_register.py", "FlowFuncRegister"): "as CANN's DataFlow",
    ("plugins/dataflow_compat/src/dataflow/utils/running.py", "_Said"): "`set_running_...` of CANN's DataFlow",
    ("plugins/dataflow_compat/src/dataflow/utils/msg_type_register.py", "_Register"): "as CANN's DataFlow",
}


def test_no_state_belongs_to_the_whole_process(core, plugins) -> None:
    found = {(str(m.path), name): line for m in [*core, *plugins] for name, line in changing(m.tree)}
    new = [f"{path}:{found[path, name]}: {name}: pass the object" for path, name in found.keys() - ALLOWED.keys()]
    assert not new, "\n".join(sorted(new))


def test_the_list_names_nothing_that_is_gone(core, plugins) -> None:
    found = {(str(m.path), name) for m in [*core, *plugins] for name, _ in changing(m.tree)}
    assert not ALLOWED.keys() - found


def changing(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Names of a module, or of its classes, that hold something which changes; and the lines that say so."""
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for name, node in _filled_later(tree.body):
        yield name, node.lineno
    for name, found in classes.items():
        yield from ((name, node.lineno) for _, node in _filled_later(found.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield ", ".join(node.names), node.lineno
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _class_variables_set(node, classes)


def _filled_later(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Variables of a module or class that begin empty, or count: what else would they be for?"""
    for node in body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_empty(node.value):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                yield target.id, node


def _is_empty(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        made = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        return made in MAKERS and not value.args
    return (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Dict) and not value.keys)


def _class_variables_set(
    func: ast.FunctionDef | ast.AsyncFunctionDef, classes: dict[str, ast.ClassDef]
) -> Iterator[tuple[str, int]]:
    owner = next((name for name, node in classes.items() if func in node.body), "")
    for node in ast.walk(func):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            if owner and node.value.id == "cls" and func.name != "__init_subclass__":
                yield owner, node.lineno
            elif node.value.id in classes:
                yield node.value.id, node.lineno


def test_the_rule_sees_each_kind_of_it() -> None:
    """A rule that sees nothing would hold for ever."""
    text = (
        "import itertools\nA = {}\nB: list[int] = []\nC = itertools.count()\nFINE = {1: 2}\nALSO = ()\n"
        "class D:\n    found: dict = {}\nclass E:\n    x = 0\n    @classmethod\n    def f(cls): cls.x = 1\n"
        "class F:\n    x = 0\ndef g():\n    global A\n    F.x = 2\ndef h(self): self.x = {}\n"
    )
    assert {name for name, _ in changing(ast.parse(text))} == {"A", "B", "C", "D", "E", "F"}
