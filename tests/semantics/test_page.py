"""The tables themselves: every test says what it shows, and what differs is on the list of differences."""

from __future__ import annotations

import re

from tests.semantics import rules


def found() -> list[tuple[str, list[rules.Rule]]]:
    return [
        (f"{module.__name__}::{name}", rows)
        for module in rules.modules() if not module.__name__.endswith("test_page")
        for name, rows in rules.tests_of(module)
    ]


def test_every_test_says_which_rule_it_shows():
    assert [name for name, rows in found() if not rows] == []


def test_no_two_rows_say_the_same():
    said = [(row.section, row.says, row.outcome) for _, rows in found() for row in rows]
    assert sorted({row for row in said if said.count(row) > 1}) == []


def test_sections_are_sections():
    wrong = [str(row) for _, rows in found() for row in rows if not re.fullmatch(r"[PC]?\d+(\.\d+)?", row.section)]
    assert wrong == []
    numbers = {int(row.section.partition(".")[0]) for _, rows in found() for row in rows if row.section[0].isdigit()}
    assert numbers <= set(rules.SECTIONS)


def test_what_differs_is_on_the_list_of_differences():
    text = rules.DIFFERENCES.read_text(encoding="utf-8")
    topics = {line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")}
    assert sorted({row.differs for _, rows in found() for row in rows if row.differs} - topics) == []
