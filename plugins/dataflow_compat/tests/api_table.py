"""The page about the symbols of `dataflow`, made of `data/symbols.txt` and of the package itself.

`python plugins/dataflow_compat/tests/api_table.py` writes it.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[2] / "docs" / "reference" / "dataflow-api.md"
LINE = re.compile(r"([DIT]) ([\w.]+)(?:: (.+)|(\(.*\)))")
ORIGINS = {"D": "documented", "I": "implementation", "T": "tests"}
HEAD = """# The symbols of `dataflow`

Every name that scripts and tools for CANN's DataFlow can use, and whether it is here. This page is written by
`plugins/dataflow_compat/tests/api_table.py` from the list beside it, and a test compares it with the package: what is
called present was found, with its parameters and defaults where the list has them. What is called different is there
and does something else, for the reason in the last column; [all differences](dataflow-differences.md).

"""


@dataclass(frozen=True)
class Row:
    """One symbol.

    Args:
        group: Heading it stands under.
        name: Full name, with parameters where they are checked.
        origin: `D`, `I` or `T`.
        state: `present`, `different` or `absent`.
        reason: Why, unless it is present.
    """

    group: str
    name: str
    origin: str
    state: str
    reason: str = ""


def rows() -> list[Row]:
    """Every symbol with its state."""
    different = dict(
        line.split("  ", 1) for line in (HERE / "data" / "differences.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    )
    found, group = [], ""
    for line in (HERE / "data" / "symbols.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            group = line[3:]
        match = LINE.fullmatch(line)
        if match is None:
            assert not line or line.startswith("#"), f"not a line of the list: {line}"
            continue
        origin, base, members, parameters = match.groups()
        names = [f"{base}.{name}" for name in members.split(", ")] if members else [base]
        for name in names:
            missing = _missing(name, parameters)
            state = "absent" if missing else "different" if name in different and not parameters else "present"
            found.append(Row(group, name + (parameters or ""), origin, state, missing or different.get(name, "")))
    unknown = set(different) - {row.name for row in found}
    assert not unknown, f"differences of symbols nobody lists: {unknown}"
    return found


def page() -> str:
    """The page."""
    table = rows()
    counts = Counter(row.state for row in table)
    documented = [row for row in table if row.origin == "D"]
    here = sum(row.state != "absent" for row in documented)
    lines = [
        HEAD, f"{len(table)} symbols: {counts['present']} present, {counts['different']} different, "
        f"{counts['absent']} absent. Of {len(documented)} documented ones {here} are here.\n",
    ]
    for group in dict.fromkeys(row.group for row in table):
        lines.append(f"\n## {group}\n\n| symbol | origin | state | |\n|---|---|---|---|\n")
        lines += [
            f"| `{row.name}` | {ORIGINS[row.origin]} | {row.state} | {row.reason if row.state != 'present' else ''} |\n"
            for row in table if row.group == group
        ]
    return "".join(lines)


def _missing(name: str, parameters: str | None) -> str:
    """Why a symbol counts as absent; empty if it is there."""
    try:
        found = _resolved(name)
    except AttributeError as error:
        return str(error)
    if parameters is None:
        return ""
    got = _signature(found)
    return "" if got == parameters else f"has the parameters {got}"


def _resolved(name: str) -> object:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = _member(found, part)
        return found
    raise AttributeError(f"no module {parts[0]}")


def _member(owner: object, name: str) -> object:
    if not hasattr(owner, name) and isinstance(owner, type) and _sets(owner, name):
        return None
    return getattr(owner, name)


def _sets(owner: type, name: str) -> bool:
    """Whether objects of a class have an attribute from their constructor on."""
    return any(f"self.{name} " in inspect.getsource(cls) or f"self.{name}:" in inspect.getsource(cls)
               for cls in owner.__mro__[:-1] if cls.__module__.startswith("dataflow"))


def _signature(found: object) -> str:
    assert callable(found)
    shown = []
    star = False
    for parameter in inspect.signature(found).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        default = parameter.default
        text = "" if default is inspect.Parameter.empty else f"={_default(default)}"
        shown.append(parameter.name + text)
    return f"({', '.join(shown)})"


def _default(value: object) -> str:
    if isinstance(value, (int, str, float, type(None))):
        return repr(value)
    return f"<{getattr(value, '__name__', getattr(value, 'name', value))}>"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
