"""The README tells what the code does."""

from __future__ import annotations

from pathlib import Path

from dflow_builtin_udf import plugin

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_every_parameter_is_documented() -> None:
    for entry in plugin.dflow_register_udfs():
        row = next(line for line in README.splitlines() if line.startswith(f"| `{entry.name}`"))
        assert all(f"`{name}`" in row for name in entry.parameters)
