"""Makes an error of what build tools printed: the first fault on top, with file and line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dflow_core.errors import CompileError

_TAIL = 40
_COMPILER = re.compile(r"^(?P<place>[^\s:][^:\n]*:\d+(?::\d+)?): (?:fatal )?error: (?P<text>.*)$")
_CMAKE = re.compile(r"^CMake Error(?: at (?P<place>.+:\d+) \(\w+\))?:\s*(?P<text>.*)$")
_FAULTS = "undefined reference|multiple definition|cannot find"
_LINKER = re.compile(rf"^(?:/\S*/ld(?:\.\w+)?: )?(?P<place>[^\n]*?):? ?(?P<text>(?:{_FAULTS}).*)$")


def build_error(step: str, what: str, code: int, log: str) -> CompileError:
    """The error for a tool that failed.

    Args:
        step: What was done, such as `compile`.
        what: What it was done to.
        code: Exit code of the tool.
        log: Everything it printed.
    """
    lines = log.splitlines()
    found = first_errors(lines)
    top = found[0] if found else f"the tool ended with code {code}"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    tail = "\n".join(lines[-_TAIL:])
    cut = f"--- last {_TAIL} of {len(lines)} lines ---" if len(lines) > _TAIL else "--- what was printed ---"
    return CompileError(f"{what}: cannot {step}: {top}{more}\n{cut}\n{tail}".rstrip())


def first_errors(lines: Sequence[str]) -> list[str]:
    """Every error in the output of compilers, linkers and CMake, in order, as `file:line: text`."""
    found = []
    for number, line in enumerate(lines):
        match = _COMPILER.match(line) or _CMAKE.match(line) or _LINKER.match(line)
        if match is None:
            continue
        place, text = match["place"] or "", match["text"].strip()
        if not text:  # CMake puts its text below, indented
            below = lines[number + 1 : number + 6]
            text = " ".join(part.strip() for part in below if part.startswith("  ")).strip() or "it failed"
        found.append(f"{place}: {text}" if place else text)
    return found
