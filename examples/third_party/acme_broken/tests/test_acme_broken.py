"""A plugin that cannot be imported is reported, and disturbs nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflow_core import builtin
from dflow_core.errors import PluginError
from dflow_core.plugins import PluginRegistry, load_plugins

HERE = Path(__file__).parents[1]


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    """A registry where the plugin is installed, as pip would do it."""
    info = tmp_path / "acme_broken-0.9.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-broken\nVersion: 0.9.0\n")
    (info / "entry_points.txt").write_text("[dflow.plugins]\nacme_broken = acme_broken.plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(HERE / "src"))
    return load_plugins(builtin=(builtin,), allow={"acme_broken"})


def test_failure_is_reported_with_its_cause(registry: PluginRegistry) -> None:
    report = next(r for r in registry.report if r.name == "acme_broken")
    assert (report.state, report.distribution, report.version) == ("failed", "acme-broken", "0.9.0")
    assert "libacme_driver.so.2" in report.error
    assert "acme_broken/plugin.py" in report.detail


def test_others_do_not_notice(registry: PluginRegistry) -> None:
    assert registry.transport("inproc")
    assert registry.deployer("local")


def test_who_needs_it_is_told(registry: PluginRegistry) -> None:
    """BC-079."""
    with pytest.raises(PluginError, match="'acme_broken' .acme-broken 0.9.0.*libacme_driver"):
        registry.engine("ACME")
