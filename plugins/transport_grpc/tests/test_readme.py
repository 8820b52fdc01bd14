"""What the README says is so."""

from __future__ import annotations

from importlib.metadata import entry_points, metadata
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_package_is_found_by_the_name_the_readme_gives():
    assert metadata("dflow-transport-grpc")["Name"] in README.read_text(encoding="utf-8")
    assert "transport_grpc" in {entry.name for entry in entry_points(group="dflow.plugins")}
