"""Writes docs/reference from the docstrings: `make docs`. A test compares the pages with the code."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import itertools
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "reference"
MADE = "<!-- Written by docs/build_reference.py from the docstrings; change them and run `make docs`. -->\n"
WIDTH = 96
SECTIONS = ("Args", "Returns", "Raises", "Yields")
SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):\s*$")


def pages() -> dict[str, str]:
    """Every page by file name."""
    return {
        "api.md": api_page(),
        "hooks.md": hooks_page(),
        "plugin-contracts.md": contracts_page(),
        "errors.md": errors_page(),
        "options.md": options_page(),
        "command-line.md": command_page(),
        "cpp.md": cpp_page(),
        "semantics.md": semantics_page(),
    }


def semantics_page() -> str:
    """Rules of the system we are compatible with, and what happens here."""
    sys.path.insert(0, str(FOLDER.parents[1]))
    from tests.semantics.rules import page

    return page()


def cpp_page() -> str:
    """The C++ headers of the UDF plugin."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import cpp_reference

    return cpp_reference.page(MADE.replace("docstrings", "comments of the headers"))


def api_page() -> str:
    """What `import dflow_core as df` gives."""
    import dflow_core

    names = [name for name in dflow_core.__all__ if not name.startswith("_")]
    shown = [name for name in names if not _is_error(getattr(dflow_core, name))]
    errors = [name for name in names if name not in shown]
    parts = ["# Python interface\n", MADE, "```text\nimport dflow_core as df\n```\n"]
    parts += ["Errors have [a page of their own](errors.md): " + ", ".join(f"`{name}`" for name in errors) + ".\n"]
    parts += [describe(f"df.{name}", getattr(dflow_core, name)) for name in shown]
    return _join(parts)


def hooks_page() -> str:
    """The hooks, and the entries they return."""
    from dflow_core import spi
    from dflow_core.spi import hooks

    found = {name: value for name, value in vars(hooks).items() if name.startswith("dflow_")}
    intro = (inspect.getdoc(hooks) or "").split("\n\n", 1)
    parts = ["# Hooks\n", MADE, f"{intro[0]}\n\n{intro[1]}\n"]
    parts.append(f"Entry point group: `{spi.ENTRY_POINT_GROUP}`. Version of this contract: {spi.SPI_VERSION}.\n")
    for name, hook in found.items():
        returns = inspect.signature(hook).return_annotation
        parts.append(f"## `{name}`\n\n```text\n{name}() -> {returns}\n```\n\n{inspect.getdoc(hook)}\n")
    entries = [name for name in spi.__all__ if name.endswith("Entry")]
    parts += ["# Entries\n", *(describe(name, getattr(spi, name)) for name in entries)]
    return _join(parts)


def contracts_page() -> str:
    """The classes that plugin authors implement or are given."""
    from dflow_core import spi

    left_out = {"hookimpl", "hookspec"}
    names = [n for n in spi.__all__ if not n.endswith("Entry") and n not in left_out and not n.isupper()]
    intro = inspect.getdoc(spi) or ""
    parts = ["# Plugin contracts\n", MADE, f"{intro}\n", "[Hooks](hooks.md) say how a plugin is found.\n"]
    return _join([*parts, *(describe(name, getattr(spi, name)) for name in names)])


def errors_page() -> str:
    """The tree of exceptions."""
    from dflow_core import errors

    intro = (inspect.getdoc(errors) or "").split("\n\n")
    tree = next(part for part in intro if "DflowError" in part)
    rest = [part for part in intro if part is not tree]
    found = [value for value in vars(errors).values() if _is_error(value) and value.__module__ == errors.__name__]
    drawn = f"```text\n{textwrap.dedent(tree).strip()}\n```\n"
    parts = ["# Errors\n", MADE, f"{rest[0]}\n", drawn, *(f"{r}\n" for r in rest[1:])]
    return _join([*parts, describe("Fault", errors.Fault), *(describe(cls.__name__, cls) for cls in found)])


def options_page() -> str:
    """Options of sessions, graphs and nodes, and attributes of nodes."""
    from dflow_core.graph import NODE_ATTRIBUTES
    from dflow_core.options import OPTIONS
    from dflow_core.types import NodeOptions

    rows = [
        (f"`{i.key}`", i.type.__name__, _code(i.default), i.unit or "-", ", ".join(i.scopes), _code(i.env), i.meaning)
        for i in OPTIONS.values()
    ]
    aliases = [(f"`{a}`", f"`{i.key}`") for i in OPTIONS.values() for a in i.aliases]
    attributes = [(f"`{name}`", a.type.__name__, a.meaning) for name, a in NODE_ATTRIBUTES.items()]
    lookup = (
        "A value is looked up at the node, then the graph, then the session (`df.init`), then the environment; what is "
        "nowhere has its default.\n`dflow config show` prints every value in force and where it comes from.\n"
    )
    return _join([
        "# Options\n", MADE, lookup,
        _table(("option", "type", "default", "unit", "may be set on", "variable", "meaning"), rows),
        "## Other spellings\n", _table(("spelling", "option"), aliases),
        "## How a node is run\n", "Given to `node.set_options(...)`.\n", _arguments(inspect.getdoc(NodeOptions) or ""),
        "## Node attributes\n", "Given to `node.set_attr(name, value)`.\n",
        _table(("attribute", "type", "meaning"), attributes),
    ])  # fmt: skip


def command_page() -> str:
    """Every command with its help."""
    import click

    from dflow_core.cli.app import COMMANDS, app

    root = click.Context(app, info_name="dflow", **app.context_settings)
    codes = "Exit codes: 0 done, 1 faults or a failed run, 2 wrong usage, 130 interrupted.\n"
    parts = ["# Command line\n", MADE, "`pip install 'dflow-core[cli]'`\n", codes]
    for name in COMMANDS:
        command = app.get_command(root, name)
        assert command is not None
        leaves = list(command.commands.values()) if isinstance(command, click.Group) else [command]
        parent = click.Context(command, info_name=name, parent=root) if isinstance(command, click.Group) else root
        for leaf in leaves:
            context = click.Context(leaf, info_name=leaf.name, parent=parent)
            rows = [record for p in leaf.get_params(context) if (record := p.get_help_record(context))]
            usage = " ".join([context.command_path, *leaf.collect_usage_pieces(context)])
            text = inspect.cleandoc(leaf.help or "")
            shown = [(f"`{given}`", meaning) for given, meaning in rows]
            parts.append(f"## `{context.command_path}`\n\n```text\n{usage}\n```\n\n{text}\n")
            parts.append(_table(("option", "meaning"), shown))
    return _join(parts)


def describe(title: str, value: object) -> str:
    """A section about a class, a function or a value."""
    if typing.get_origin(value) is not None:
        return _alias(title)
    if inspect.isclass(value):
        return _join([_head(title, value, _class_signature(value)), *_members(value)])
    if callable(value):
        return _head(title, value, _signature(value))
    if type(value).__module__.startswith("dflow_core"):  # an object of ours: what can be done with it
        cls = type(value)
        return _join([f"## `{title}`\n\n{inspect.getdoc(cls) or cls.__name__}\n", *_members(cls)])
    return f"## `{title}`\n\n`{value!r}`\n"


def _alias(title: str) -> str:
    """A section about a type alias, from its line in the source and the string below it."""
    for path in sorted(FOLDER.parent.parent.glob("dflow_core/**/*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for statement, after in itertools.pairwise(body):
            if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == title and statement.value:
                told = ast.literal_eval(after.value) if isinstance(after, ast.Expr) else ""
                return f"## `{title}`\n\n```text\n{title} = {ast.unparse(statement.value)}\n```\n\n{told}\n"
    return f"## `{title}`\n"


def _head(title: str, value: object, signature: str, level: int = 2) -> str:
    name = title.split(".")[-1]
    call = f"\n\n```text\n{name}{signature}\n```" if signature else ""
    return f"{'#' * level} `{title}`{call}\n\n{document(inspect.getdoc(value) or '')}"


def document(text: str) -> str:
    """A docstring as Markdown: `Args:` and the like become lists."""
    body: list[str] = []
    section: list[str] | None = None
    for line in [*text.splitlines(), "Raises:"]:
        if SECTION.match(line):
            if section:
                body += _section(section)
            section = [line]
        elif section is not None and (line.startswith(" ") or not line.strip()):
            section.append(line)
        else:
            if section:
                body += _section(section)
            section = None
            body.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(body)).strip() + "\n"


def _section(lines: Sequence[str]) -> Iterator[str]:
    title, entries = lines[0].rstrip(":"), _entries(inspect.cleandoc("\n".join(["", *lines[1:]])).splitlines())
    if not entries:
        return
    yield f"\n*{title}*\n"
    for entry in entries:
        name, colon, meaning = entry.partition(": ")
        named = colon and title != "Returns" and re.fullmatch(r"[\w, .*]+", name)
        yield f"- `{name}`: {meaning}" if named else f"- {entry}"
    yield ""


def _entries(lines: Sequence[str]) -> list[str]:
    """Lines joined to entries: what is indented goes on with the entry before."""
    found: list[str] = []
    for line in lines:
        if line.startswith(" ") and found:
            found[-1] += f" {line.strip()}"
        elif line.strip():
            found.append(line.strip())
    return found


def _members(cls: type) -> Iterator[str]:
    if issubclass(cls, enum.Enum):
        members = cls.__members__.items()
        yield _table(("member", "value"), [(f"`{name}`", _code(member.value)) for name, member in members])
        return
    for name, member in _public_members(cls):
        if isinstance(member, property):
            yield _head(f"{cls.__name__}.{name}", member, "", level=3)
        else:
            yield _head(f"{cls.__name__}.{name}", member, _signature(member, skip_self=True), level=3)


def _public_members(cls: type) -> Iterator[tuple[str, object]]:
    for name, member in vars(cls).items():
        plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        wanted = name in ("__call__",) or not name.startswith("_")
        if wanted and (inspect.isfunction(plain) or isinstance(plain, property)) and inspect.getdoc(plain):
            yield name, plain


def _class_signature(cls: type) -> str:
    if issubclass(cls, enum.Enum) or inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
        return ""
    own = "__init__" in vars(cls) or dataclasses.is_dataclass(cls)
    return _signature(cls.__init__, skip_self=True, returns=False) if own else ""


def _signature(value: Callable[..., object], skip_self: bool = False, returns: bool = True) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = list(signature.parameters.values())[int(skip_self) :]
    texts: list[str] = []
    keyword_only = False
    for one in parameters:
        if one.kind is one.VAR_POSITIONAL:
            keyword_only = True
        elif one.kind is one.KEYWORD_ONLY and not keyword_only:
            texts.append("*")
            keyword_only = True
        texts.append(_parameter(one))
    result = _type(signature.return_annotation) if returns else ""
    ends = f" -> {result}" if result else ""
    line = f"({', '.join(texts)}){ends}"
    return line if len(line) <= WIDTH else "(\n    " + ",\n    ".join(texts) + f",\n){ends}"


def _parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    kind = _type(one.annotation)
    text = f"{stars}{one.name}" + (f": {kind}" if kind else "")
    if one.default is one.empty:
        return text
    # Functions and factories print with an address or a private name.
    shown = repr(one.default)
    shown = str(one.default) if isinstance(one.default, enum.Enum) else "..." if shown.startswith("<") else shown
    return f"{text} = {shown}" if kind else f"{text}={shown}"


def _type(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _arguments(text: str) -> str:
    listed = document(text).partition("*Args*")[2]
    return listed.strip() + "\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return ""
    lines = [columns, ["---"] * len(columns), *rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


def _code(value: object) -> str:
    return "-" if value == "" else f"`{value}`"


def _is_error(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


def _join(parts: Sequence[str]) -> str:
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def main() -> int:
    """Write the pages; say which changed."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"written: {path.relative_to(FOLDER.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
