"""One table of options, one precedence, and the origin of every value (BC-045, BC-065)."""

from __future__ import annotations

import dataclasses
import math
import os
from datetime import timedelta

import pytest

from dflow_core.errors import OptionError
from dflow_core.graph import FlowGraph
from dflow_core.options import (
    OPTIONS,
    Options,
    as_texts,
    default_cache_dir,
    effective,
    find,
    from_texts,
    nearest,
    normalize,
    parse,
    resolve,
    seconds,
)

EMPTY: dict[str, str] = {}


def test_every_field_of_options_is_in_the_table_and_described():
    fields = {field.name for field in dataclasses.fields(Options)} - {"extra"}
    assert set(OPTIONS) == fields
    for info in OPTIONS.values():
        assert info.meaning
        assert type(info.default) is info.type
        assert set(info.scopes) <= {"session", "graph", "node"}
        assert (info.env == f"DFLOW_{info.key.upper()}") is ("session" in info.scopes)
        assert parse(info.key, info.default) == info.default
        assert parse(info.key, str(info.default)) == info.default


@pytest.mark.parametrize(
    ("places", "value", "origin"),
    [
        ({}, 16, "default"),
        ({"environ": {"DFLOW_QUEUE_DEPTH": "2"}}, 2, "DFLOW_QUEUE_DEPTH"),
        ({"environ": {"DFLOW_QUEUE_DEPTH": "2"}, "session": {"queue_depth": 3}}, 3, "session"),
        ({"session": {"queue_depth": 3}, "graph": {"queue_depth": "4"}}, 4, "graph"),
        ({"session": {"queue_depth": 3}, "graph": {"queue_depth": 4}, "node": {"queue_depth": 5}}, 5, "node"),
    ],
)
def test_the_nearest_place_wins_and_is_named(places, value, origin):
    """BC-065: effective values equal the documented precedence; value + origin."""
    places = {"environ": EMPTY} | places
    assert resolve(**places).queue_depth == value
    shown = {item.info.key: item for item in effective(**places)}
    assert (shown["queue_depth"].value, shown["queue_depth"].origin) == (value, origin)


def test_every_option_can_be_set_from_every_place_it_has():
    """BC-065: set every option by each documented route."""
    samples = {bool: False, int: 7, float: 1.5, str: "abc"}
    for key, info in OPTIONS.items():
        value = info.choices[0] if info.choices else samples[info.type]
        for scope in info.scopes:
            assert getattr(resolve(**{scope: {key: value}}, environ=EMPTY), key) == value
            assert getattr(resolve(**{scope: {key: str(value)}}, environ=EMPTY), key) == value
        if info.env:
            assert getattr(resolve(environ={info.env: str(value)}), key) == value


def test_the_process_environment_is_the_default(monkeypatch):
    monkeypatch.setenv("DFLOW_SPIN_US", "9")
    assert resolve().spin_us == 9
    monkeypatch.setenv("DFLOW_SPIN_US", "")
    assert resolve().spin_us == 5
    monkeypatch.undo()


def test_an_unknown_option_names_the_nearest_wherever_it_is():
    for place in ("session", "graph", "node"):
        with pytest.raises(OptionError, match="did you mean 'queue_depth'"):
            resolve(**{place: {"queue_deph": 1}}, environ=EMPTY)


def test_an_option_in_the_wrong_place_says_where_it_belongs():
    with pytest.raises(OptionError, match="cannot be set on a node\n.*set it on the session"):
        resolve(node={"transport": "shm"}, environ=EMPTY)
    with pytest.raises(OptionError, match="cannot be set on a graph"):
        normalize({"plugins": "a"}, "graph")


@pytest.mark.parametrize(
    ("key", "value", "parsed"),
    [
        ("cache", "Yes", True), ("cache", "off", False), ("cache", True, True), ("queue_depth", " 3 ", 3),
        ("memory_limit", "2G", 2 << 30), ("memory_limit", "1.5m", 3 << 19), ("memory_limit", "64k", 65536),
        ("memory_limit", "100", 100), ("feed_timeout", "0.25", 0.25), ("feed_timeout", 2, 2.0),
        ("feed_timeout", 0, 0.0), ("feed_timeout", timedelta(milliseconds=250), 0.25), ("log_level", "debug", "debug"),
        ("transport", " shm ", "shm"),
    ],
)
def test_values_are_understood(key, value, parsed):
    assert parse(key, value) == parsed
    assert type(parse(key, value)) is OPTIONS[key].type


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cache", "maybe"), ("cache", 1), ("queue_depth", 0), ("queue_depth", "x"), ("queue_depth", 1.5),
        ("queue_depth", True), ("queue_depth", "2k"), ("memory_limit", "-1"), ("memory_limit", "G"),
        ("feed_timeout", -1), ("feed_timeout", "nan"), ("feed_timeout", "inf"), ("feed_timeout", "soon"),
        ("feed_timeout", None), ("feed_timeout", timedelta(seconds=-1)), ("log_level", "loud"), ("transport", 3),
    ],
)
def test_values_that_cannot_be_are_refused_with_the_option(key, value):
    """BC-045: float, negative, 0 and huge values validated in one way everywhere."""
    with pytest.raises(OptionError, match=f"option '{key}': expected"):
        parse(key, value)


@pytest.mark.parametrize("wrong", [3, "queue_depth=4", ["queue_depth"], [("queue_depth", "4")], True])
def test_options_that_are_no_mapping_are_refused(wrong):
    with pytest.raises(OptionError, match="options of a session: expected values by name"):
        normalize(wrong, "session")
    with pytest.raises(OptionError, match="options of a graph: expected values by name"):
        FlowGraph([], wrong)


def test_a_bad_environment_variable_is_named():
    with pytest.raises(OptionError, match="environment variable DFLOW_QUEUE_DEPTH: option"):
        resolve(environ={"DFLOW_QUEUE_DEPTH": "many"})


@pytest.mark.parametrize("bad", [
    True, "1", None, math.nan, math.inf, -1e-9, 1e300, 10**400, timedelta(days=-1), timedelta.max,
])
def test_seconds_refuses(bad):
    """BC-045: in one way everywhere, also what the system could not wait for."""
    with pytest.raises(OptionError, match="limit: expected"):
        seconds(bad, "limit")


@pytest.mark.parametrize(
    ("upstream", "given", "key", "value"),
    [
        ("ge.graph_compiler_cache_dir", "/c", "cache_dir", "/c"), ("ge.graph_key", "k", "graph_key", "k"),
        ("ge.runFlag", "0", "run", False), ("ge.runFlag", "1", "run", True),
        ("ge.flowGraphMemMaxSize", "2048:1024,2048", "memory_limit", 4096),
    ],
)
def test_upstream_spellings_are_understood(upstream, given, key, value):
    assert normalize({upstream: given}, "graph") == {key: value}


def test_upstream_options_without_use_say_why_instead_of_being_taken_silently():
    """BC-065: an option is accepted but not in force."""
    with pytest.raises(OptionError, match="no effect here\n.*fetch_timeout"):
        find("ge.exec.graphExecTimeout")
    with pytest.raises(OptionError, match=r"times size"):
        parse("ge.flowGraphMemMaxSize", "much")


def test_one_option_under_two_names_is_refused():
    with pytest.raises(OptionError, match="twice"):
        normalize({"run": True, "ge.runFlag": "1"}, "graph")


def test_names_must_be_texts():
    with pytest.raises(OptionError, match="must be a text"):
        normalize({3: 1}, "graph")


def test_keys_of_plugins_are_passed_on_as_text():
    options = resolve(session={"plugin.acme.speed": 3}, graph={"plugin.acme.speed": "4"}, environ=EMPTY)
    assert options.extra == {"plugin.acme.speed": "4"}
    assert from_texts(as_texts(options)) == options


def test_options_survive_as_texts():
    options = resolve(graph={"cache": False, "feed_timeout": 0.1, "graph_key": "k"}, environ={"DFLOW_PLUGINS": "a,b"})
    texts = as_texts(options)
    assert all(isinstance(text, str) for text in texts.values())
    assert from_texts(texts) == options
    with pytest.raises(OptionError, match="unknown option"):
        from_texts({"nonsense": "1"})


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({}, ""), ({"HOME": ""}, ""), ({"HOME": "relative"}, ""), ({"HOME": "{tmp}"}, "{tmp}/.cache/dflow"),
        ({"HOME": "{tmp}", "XDG_CACHE_HOME": "{tmp}/x/y"}, "{tmp}/x/y/dflow"),
        ({"HOME": "{tmp}", "XDG_CACHE_HOME": "relative"}, ""), ({"HOME": "/dev/null"}, ""),
    ],
)
def test_the_cache_folder_is_the_users_or_none(environ, folder, tmp_path):
    environ = {key: value.format(tmp=tmp_path) for key, value in environ.items()}
    assert default_cache_dir(environ) == folder.format(tmp=tmp_path)
    assert resolve(environ=environ).cache_dir == folder.format(tmp=tmp_path)


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(tmp_path))
    assert default_cache_dir({"HOME": str(tmp_path)}) == ""


def test_a_cache_folder_that_was_given_is_kept():
    assert resolve(graph={"cache_dir": "/mine"}, environ={"HOME": "/h"}).cache_dir == "/mine"


def test_hints_name_near_words_or_all():
    assert nearest("tranport", OPTIONS) == "did you mean 'transport' or 'stall_report'?"
    assert nearest("xyzzy", ["b", "a"]) == "known: a, b"
    assert nearest("x", []) == "none is known"


@pytest.mark.parametrize(("key", "value"), [("align_max_cache", "1025"), ("align_timeout", "601")])
def test_limits_of_alignment_are_limited_wherever_they_are_set(key: str, value: str) -> None:
    with pytest.raises(OptionError, match="expected at most"):
        normalize({key: value}, "graph")
