"""`dflow plugins`."""

from __future__ import annotations

from dataclasses import replace


def test_every_plugin_is_listed_with_what_it_provides(cli):
    result = cli("plugins")
    assert result.code == 0
    assert "dist-engines 1.2" in result.out and "loaded" in result.out and "entry 0, entry 1" in result.out


def test_a_failed_plugin_is_shown_with_its_cause_and_does_not_hide_the_others(cli, make_registry, make_contribution):
    broken = make_contribution("broken", state="failed", error="ImportError: no libfoo.so")
    cli.services = replace(cli.services, registry=lambda: make_registry(broken))
    result = cli("plugins")
    assert result.code == 1
    assert "broken: ImportError: no libfoo.so" in result.out and "engines" in result.out
    assert "Traceback" not in result.out
    assert "Traceback" in cli("plugins", "--detail").out


def test_a_blocked_plugin_is_no_failure(cli, make_registry, make_contribution):
    blocked = make_contribution("shy", state="blocked", error="the allow list leaves it out")
    cli.services = replace(cli.services, registry=lambda: make_registry(blocked))
    assert cli("plugins").code == 0


def test_the_document_holds_the_report(cli):
    report = cli("plugins", "--json").json["plugins"]
    assert [one["name"] for one in report] == ["engines", "queues"]
    assert report[0]["provides"] == ["entry 0", "entry 1"]
