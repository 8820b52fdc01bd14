"""Rules of the system we are compatible with, as rows that tests run and that a page is made of.

A row names the section of the specification, says its rule in our words, and holds what is set up and what comes of
it. `rules` runs a test once for each row; `shows` ties rows to a test that runs a whole scenario. Tests that quote a
section in their docstring (`Section 8, 3: ...`) count too: their name is the outcome.

`page` makes docs/reference/semantics.md of them all; `make docs` writes it.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pytest

FOLDER = Path(__file__).resolve().parent
DIFFERENCES = FOLDER.parents[1] / "docs" / "reference" / "dataflow-differences.md"
QUOTED = re.compile(
    r"Sections? ([PC]?\d+(?:\.\d+)?)(?:, [^:]{1,30})?(?: and \d+)?: (.+?)(?=\s*Sections? \d|\s*BC-\d|\Z|\n\n)", re.S
)

SECTIONS = {
    1: "Overall flow", 2: "Head of a message", 3: "Tensors and kinds of messages", 4: "Transaction ids",
    5: "Status codes", 6: "Queues", 7: "Feed and fetch", 8: "Alignment at fetch", 9: "Function processes",
    10: "Inputs of functions and their alignment", 11: "Several functions, queues as inputs",
    12: "Balance, and routing between instances", 13: "Codes, null data, EOS and SEG", 14: "User exceptions",
    15: "Batches by time", 16: "Batches by count", 17: "Models", 18: "Invoked models and graphs",
    19: "Passes and validations", 20: "Relations between models", 21: "Resources, devices, deploy files",
    22: "Planning", 23: "Deployment and processes", 24: "Dynamic scheduling", 25: "What is lost, suspend and recover",
    26: "Caches", 27: "Model files", 28: "Defaults and limits", 29: "Quirks", 30: "Control messages",
}
"""Sections of the specification of what happens at run time. `P` and a number is one of the specification of the Python
interface, `C` one of that of files and options."""
OTHER = {"P": "Python interface", "C": "Files, options, attributes"}

INTRO = """# Semantics, rule by rule

<!-- Written by docs/build_reference.py from the tables in tests/semantics; change them and run `make docs`. -->

What the system that `dataflow` scripts are written for does, in the order of our notes about it, and what happens here.
Each line is run by the test it names, in `tests/semantics`; *differs* marks what differs on purpose, with the topic
under which [the list of differences](dataflow-differences.md) says why. What only C++ functions meet is in the tests of
`plugins/pne_udf`.
"""

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True)
class Rule:
    """One rule.

    Args:
        section: Its section, such as `7.2`; `P7.4` and `C9` are in the other two specifications.
        says: The rule.
        given: What is set up.
        expected: What comes of it.
        here: The same for readers, where `expected` does not say it.
        differs: Topic in the list of differences, where it is not as the rule says.
    """

    section: str
    says: str
    given: object = None
    expected: object = None
    here: str = ""
    differs: str = ""

    @property
    def outcome(self) -> str:
        """What a reader is told."""
        if self.here:
            return self.here
        value = self.expected
        return value.__name__ if isinstance(value, type) else repr(value)

    def __str__(self) -> str:
        return f"{self.section} {self.says}"[:80]


def rules(*rows: Rule) -> Callable[[F], F]:
    """Run a test for each row, as its argument `rule`."""

    def mark(test: F) -> F:
        test.rules = [*rows, *getattr(test, "rules", ())]  # type: ignore[attr-defined]
        return pytest.mark.parametrize("rule", rows, ids=str)(test)

    return mark


def shows(*rows: Rule) -> Callable[[F], F]:
    """A test shows rows all by itself."""

    def mark(test: F) -> F:
        test.rules = [*rows, *getattr(test, "rules", ())]  # type: ignore[attr-defined]
        return test

    return mark


def modules() -> Iterator[ModuleType]:
    """Every module with tests."""
    for path in sorted(FOLDER.glob("test_*.py")):
        yield importlib.import_module(f"tests.semantics.{path.stem}")


def tests_of(module: ModuleType) -> Iterator[tuple[str, list[Rule]]]:
    """Each test of a module with its rows."""
    for name, test in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(test) and test.__module__ == module.__name__:
            quoted = QUOTED.findall(inspect.getdoc(test) or "")
            words = name.removeprefix("test_").replace("_", " ")
            found = [Rule(section, _sentence(text), here=words) for section, text in quoted]
            yield name, [*getattr(test, "rules", ()), *found]


def _sentence(text: str) -> str:
    words = " ".join(text.split())
    return words[:1].upper() + words[1:]


def page() -> str:
    """The page of all rules."""
    lines: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        place = module.__name__.rpartition(".")[2]
        for name, rows in tests_of(module):
            for row in rows:
                cells = (row.says, row.outcome + (f" (*differs*: {row.differs})" if row.differs else ""))
                told = " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
                lines[row.section].append(f"| {row.section} | {told} | `{place}::{name}` |")
    parts = [INTRO]
    for number, title in [*((str(k), v) for k, v in SECTIONS.items()), *OTHER.items()]:
        mine = sorted((s for s in lines if _belongs(s, number)), key=_order)
        if mine:
            parts += [f"## {title}\n", "| section | rule | here | test |", "| --- | --- | --- | --- |"]
            parts += [line for section in mine for line in lines[section]] + [""]
    return "\n".join(parts).rstrip() + "\n"


def _belongs(section: str, number: str) -> bool:
    return section.startswith(number) if number in OTHER else section.partition(".")[0] == number


def _order(section: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", section)]
