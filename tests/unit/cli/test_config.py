"""`dflow config show`."""

from __future__ import annotations

from dflow_core.options import OPTIONS


def test_every_option_is_shown_with_value_and_origin(cli):
    found = cli("config", "show", "--json").json
    assert set(found) == set(OPTIONS)
    assert found["queue_depth"]["origin"] == "default"
    assert found["queue_depth"]["environment"] == "DFLOW_QUEUE_DEPTH"


def test_the_environment_is_named_as_origin(cli):
    found = cli("config", "show", "--json", env={"DFLOW_QUEUE_DEPTH": "4"}).json["queue_depth"]
    assert (found["value"], found["origin"]) == (4, "DFLOW_QUEUE_DEPTH")


def test_an_option_given_here_wins(cli):
    shown = cli("config", "show", "--json", "-O", "queue_depth=9", env={"DFLOW_QUEUE_DEPTH": "4"}).json["queue_depth"]
    assert (shown["value"], shown["origin"]) == (9, "session")


def test_a_misspelt_option_names_the_nearest(cli):
    result = cli("config", "show", "-O", "queue_depht=9")
    assert result.code == 2
    assert "unknown option 'queue_depht'" in result.err and "queue_depth" in result.err


def test_the_table_is_for_people(cli):
    result = cli("config", "show")
    assert result.code == 0
    assert "longest wait of a feed for room (seconds)" in result.out
