"""Imports run downwards, never sideways, never in a circle; foreign libraries enter at one place."""

from __future__ import annotations

import re

import pytest

# Lowest first. Folders on one line stand side by side: `|` in the design means that they may not import each other.
LAYERS = [
    ({"errors", "proto"}, False),
    ({"cann_options"}, False),
    ({"types", "options"}, True),
    ({"types_serde"}, False),
    ({"message"}, False),
    ({"graph", "model"}, False),
    ({"recording"}, False),
    ({"spi"}, False),
    ({"plugins"}, False),
    ({"compiler", "deploy", "executor", "udf"}, False),
    ({"session", "running_graph", "builtin", "builtin_transport"}, True),
    ({"replay"}, False),
    ({"cli", "frontend", "testing"}, True),
]
HEIGHT = {part: height for height, (parts, _) in enumerate(LAYERS) for part in parts}
SIDEWAYS = {part for parts, allowed in LAYERS if allowed for part in parts}
OUTSIDE = {"", "__main__"}
# What front doors leave out so that importing them stays light (protobuf), and the module that pluggy reads as a whole.
SIDE_DOORS = (r"(^|\.)(\w+_)?serde$", r"^dflow_core\.spi\.hooks$")
FOR_PLUGINS = {"spi", "graph", "model", "message", "types", "errors", "udf"}
# Plugins that stand on top of the core, as the command line does: they plug nothing in, and may bring commands.
APPLICATIONS = {
    "dflow_offline_inference": {"session", "running_graph", "deploy", "cli"}, "dflow_pne_udf": {"cli", "options"},
    "dataflow": {"session", "running_graph", "options", "executor"},
}

# A library, and the modules it may be imported by.
BORDERS = {
    "google.protobuf": r"(^|\.)(\w+_)?serde$|^dflow_core\.proto",
    "dflow_core.proto": r"(^|\.)(\w+_)?serde$|^dflow_core\.proto",
    "pluggy": r"^dflow_core\.(spi|plugins)\b",
    "subprocess": r"^dflow_(core\.deploy\.children\.processes|pne_udf\.building\.process|pne_npu\.compiling\.process)$",
    "multiprocessing": r"^$",
    "cffi": r"bindings(\.|$)",
    "grpc": r"^dflow_transport_grpc\b",
    "click": r"^dflow_core\.cli\b|^dflow_\w+\.commands\.",
    "rich": r"^dflow_core\.(cli\b|frontend\.progress$)|^dflow_\w+\.commands\.",
}


def part_of(name: str) -> str:
    """`dflow_core.graph.serde` lives in `graph`."""
    return name.split(".")[1] if "." in name else ""


def inside(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def written(imported) -> list[str]:
    """Everything an import statement names."""
    return [f"{imported.module}.{name}" for name in imported.names] or [imported.module]


def knots(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other in a circle."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        stack = [start]
        while stack:
            new = graph.get(stack.pop(), set()) - seen
            seen |= new
            stack += new
        return seen

    reached = {name: reach(name) for name in graph}
    circles = {frozenset(o for o in reached[n] if n in reached[o]) for n in graph if n in reached[n]}
    return sorted(sorted(circle) for circle in circles)


def test_every_folder_of_the_core_has_a_layer(core):
    parts = {part_of(m.name) for m in core} - OUTSIDE
    assert parts <= set(HEIGHT), f"name the layer of {sorted(parts - set(HEIGHT))} in LAYERS and in pyproject.toml"


def test_imports_of_the_core_run_downwards(core):
    known, wrong = {m.name for m in core}, []
    for module in core:
        own = part_of(module.name)
        for imported in module.imports():
            for target in imported.targets(known):
                other, place = part_of(target), f"{module.path}:{imported.line}"
                if own in OUTSIDE or other == own:
                    continue
                if other in OUTSIDE:
                    wrong.append(f"{place}: imports the package from inside it")
                elif HEIGHT[other] > HEIGHT[own]:
                    wrong.append(f"{place}: {own} imports upwards: {target}")
                elif HEIGHT[other] == HEIGHT[own] and not {own, other} <= SIDEWAYS:
                    wrong.append(f"{place}: {own} imports sideways: {target}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_no_modules_import_each_other_in_a_circle(everything):
    known = {m.name for m in everything}
    graph = {m.name: {t for i in m.imports() for t in i.targets(known)} - {m.name} for m in everything}
    circles = knots(graph)
    assert not circles, "\n".join(" <-> ".join(circle) for circle in circles)


def test_other_folders_are_used_through_their_front_door(core):
    folders = {m.name for m in core if m.is_package and m.name.count(".") == 1} - {"dflow_core.proto"}
    known, wrong = {m.name for m in core}, []
    for module in core:
        for imported in module.imports():
            for target in imported.targets(known):
                folder = ".".join(target.split(".")[:2])
                deep = target != folder and folder in folders and part_of(module.name) != part_of(folder)
                if deep and not any(re.search(pattern, target) for pattern in SIDE_DOORS):
                    wrong.append(f"{module.path}:{imported.line}: {target} is private to {folder}")
    assert not wrong, "\n".join(sorted(set(wrong)))


@pytest.mark.parametrize("library", BORDERS)
def test_a_library_enters_at_one_place(everything, library):
    allowed = re.compile(BORDERS[library])
    ours = [m for m in everything if not m.path.parts[0].startswith("examples")]
    wrong = {
        f"{m.path}:{i.line}: {library}"
        for m in ours
        for i in m.imports()
        if any(inside(name, library) for name in written(i)) and not allowed.search(m.name)
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_only_the_deployer_forks(core, plugins):
    wrong = [
        f"{m.path}:{number}"
        for m in [*core, *plugins]
        if m.name != "dflow_core.deploy.children.processes" and not inside(m.name, "dflow_core.testing")
        for number, line in enumerate(m.text.splitlines(), 1)
        if re.search(r"\bos\.(fork|forkpty|posix_spawnp?|spawn[lv]p?e?|system|popen)\(", line.split("#")[0])
    ]
    assert not wrong, "\n".join(wrong)


def test_a_plugin_sees_only_what_is_meant_for_plugins(plugins):
    wrong = []
    for module in plugins:
        own = module.name.split(".")[0]
        for imported in module.imports():
            name = imported.module
            if inside(name, "dflow_core"):
                parts = {part_of(full) for full in written(imported)} - {""}
                if not parts <= FOR_PLUGINS | APPLICATIONS.get(own, set()):
                    wrong.append(f"{module.path}:{imported.line}: {name} is not for plugins")
            elif name.startswith("dflow_") and name.split(".")[0] != own:
                wrong.append(f"{module.path}:{imported.line}: a plugin imports a plugin: {name}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_the_core_names_no_model_library(core):
    banned = {"openvino", "onnxruntime", "onnx", "tensorflow", "torch"}
    wrong = sorted({f"{m.path}:{i.line}: {i.module}" for m in core for i in m.imports() if _top(i.module) in banned})
    assert not wrong, "\n".join(wrong)


def _top(name: str) -> str:
    return name.split(".")[0]


def test_a_circle_is_found_when_there_is_one():
    assert knots({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert knots({"a": {"b"}, "b": set()}) == []
