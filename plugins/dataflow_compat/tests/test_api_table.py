"""The page of symbols says what is so, and enough of them are here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("api_table", Path(__file__).parent / "api_table.py")
api_table = importlib.util.module_from_spec(spec)
sys.modules["api_table"] = api_table  # dataclasses look their module up
spec.loader.exec_module(api_table)


def test_the_page_is_up_to_date() -> None:
    written = api_table.PAGE.read_text(encoding="utf-8")
    assert written == api_table.page(), "run python plugins/dataflow_compat/tests/api_table.py"


def test_every_documented_symbol_is_here() -> None:
    assert [row.name for row in api_table.rows() if row.origin == "D" and row.state == "absent"] == []


def test_nearly_every_symbol_is_here() -> None:
    rows = api_table.rows()
    assert sum(row.state != "absent" for row in rows) >= 0.95 * len(rows)


def test_what_is_not_there_is_called_absent() -> None:
    assert api_table._missing("dataflow.no_such_name", None)
    assert api_table._missing("dataflow.init", "(options)") == "has the parameters (flow_options)"
