"""The page of cases names tests that exist, and no case that a test covers is missing there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDERS = {
    "unit": "tests/unit", "system": "tests/system", "semantics": "tests/semantics", "rules": "tests/rules",
    "shm": "plugins/transport_shm/tests",
    "batching": "plugins/builtin_udf/tests", "cpu": "plugins/pne_cpu/tests",
    "udf": "plugins/pne_udf/tests", "grpc": "plugins/transport_grpc/tests",
    "contract": "dflow_core/testing/transport_contract", "broken": "examples/third_party/acme_broken/tests",
}
ROW = re.compile(r"^\| (BC-\d{3}) \| [^|]+ \| ([^|]+) \|(.*)\|$", re.MULTILINE)


@pytest.fixture(scope="module")
def rows(root: Path) -> dict[str, tuple[list[Path], str]]:
    """Test files and note of each case."""
    text = (root / "docs" / "reference" / "cases.md").read_text(encoding="utf-8")
    found = {}
    for case, tests, note in ROW.findall(text):
        assert case not in found, f"{case} has two rows"
        names = [name.partition("/") for name in re.findall(r"`([^`]+)`", tests)]
        found[case] = [root / FOLDERS[folder] / f"{rest}.py" for folder, _, rest in names], note.strip()
    return found


def test_each_test_named_on_the_page_exists_and_quotes_its_case(rows: dict[str, tuple[list[Path], str]]) -> None:
    wrong = [
        f"{case}: {path}" for case, (paths, _) in rows.items() for path in paths
        if not path.exists() or case not in path.read_text(encoding="utf-8")
    ]
    assert not wrong, "\n".join(wrong)


def test_each_case_has_a_test_or_a_reason(rows: dict[str, tuple[list[Path], str]]) -> None:
    assert len(rows) >= 70
    assert [case for case, (paths, note) in rows.items() if not paths and not note] == []


def test_each_case_that_a_test_quotes_is_on_the_page(root: Path, rows: dict[str, tuple[list[Path], str]]) -> None:
    quoted: dict[str, Path] = {}
    for folder in FOLDERS.values():
        for path in (root / folder).rglob("*.py"):
            quoted |= dict.fromkeys(re.findall(r"BC-\d{3}", path.read_text(encoding="utf-8")), path)
    assert {case: path for case, path in quoted.items() if not rows.get(case, ([], ""))[0]} == {}
