"""`dflow run --record` and `dflow replay`, over real graphs in this thread."""

from __future__ import annotations

import importlib
import io
import pdb
import sys

import numpy as np
import pytest

import dflow_core as df
from dflow_core.cli.debugging import SKIPPED
from dflow_core.cli.services import Services

SOURCE = """
import dflow_core as df

@df.pyflow
def half(value):
    return value / 2

@df.pyflow
def root(value):
    secret = 42
    if value.min() < 0:
        raise ValueError("negative")
    return value ** 0.5

@df.pyflow(stream_input="Queue")
def summed(queue):
    total = 0
    while True:
        value = queue.get()
        if value.min() < 0:
            raise ValueError("queued")
        yield value

x = df.FlowData("x")
queued = df.FlowGraph([summed.fnode("summed")(half.fnode("half")(x))], name="queued")
graph = df.FlowGraph([root.fnode("root")(half.fnode("half")(x))], name="roots")
"""


@pytest.fixture(autouse=True)
def module(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replay_graphs.py").write_text(SOURCE)
    np.save("good.npy", np.full(2, 8.0))
    np.save("bad.npy", np.full(2, -8.0))
    cli.services = Services()
    yield
    sys.modules.pop("replay_graphs", None)


@pytest.fixture
def recorded(cli):
    files = ["x=good.npy", "x=bad.npy", "x=good.npy"]
    result = cli("run", "replay_graphs:graph", *files, "--mode", "inline", "--record", "run.dfrec")
    assert result.code == 1 and "look into it with: dflow replay run.dfrec" in result.out
    return result


def typed(cli, text):
    """What the debugger shows when somebody types this."""
    seen = io.StringIO()
    cli.services = Services(debugger=lambda: pdb.Pdb(stdin=io.StringIO(text), stdout=seen, skip=SKIPPED, nosigint=True))
    return seen


def test_recording_is_listed(cli, recorded):
    result = cli("replay", "run.dfrec", "--list")
    assert result.code == 0 and "3 transactions, 1 failed" in result.out
    assert "root: ValueError: negative" in result.out and "x double[2]" in result.out
    found = cli("replay", "run.dfrec", "--list", "--json").json
    assert [one["end"] for one in found["transactions"]] == ["result", "error", "result"]
    assert (found["torn"], found["left_out"]) == (0, 0) and found["transactions"][1]["failed_calls"] == 1


def test_versions_of_nodes_are_listed_with_the_transactions_they_served(cli, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    replay_graphs = importlib.import_module("replay_graphs")
    node = replay_graphs.half.fnode("work")
    with df.FlowGraph([node(df.FlowData("x"))], {"record": "run.dfrec"}, mode="inline") as graph:
        graph(np.full(2, 4.0))
        graph.update(node, replay_graphs.root)
        with pytest.raises(df.NodeError):
            graph(np.full(2, -4.0))
    result = cli("replay", "run.dfrec", "--list")
    rows = [line.split() for line in result.out.splitlines() if line.split()[:1] in (["1"], ["2"])]
    assert [row[1:3] == ["work", "2"] for row in rows if row[1] != "transactions,"] == [False, True]
    assert "from transaction 2 on, " in result.out and "work is version 2" in result.out
    found = cli("replay", "run.dfrec", "--list", "--json").json
    assert [one["versions"] for one in found["transactions"]] == [{}, {"work": 2}]
    assert found["updates"][0]["nodes"] == {"work": 2}
    assert "the same error" in cli("replay", "run.dfrec").out
    assert "the same results" in cli("replay", "run.dfrec", "-t", "1").out


def test_first_failed_transaction_runs_again(cli, recorded):
    result = cli("replay", "run.dfrec")
    assert result.code == 1
    assert "x = float64[2] -8 -8" in result.out and "the graph ran again: the same error" in result.out
    found = cli("replay", "run.dfrec", "--json").json
    assert found["verdict"] == "the same error" and found["error"]["node"] == "root"
    assert found["recorded"]["inputs"] == {"x": "double[2]"}


def test_node_alone_runs_again_with_what_it_was_given(cli, recorded):
    result = cli("replay", "run.dfrec", "--node")
    assert result.code == 1
    assert "root input 0 = float64[2] -4 -4" in result.out and "the call of node root ran again" in result.out
    assert cli("replay", "run.dfrec", "--node", "--json").json["node"] == "root"


def test_node_can_be_named_and_one_that_did_not_fail_is_refused(cli, recorded):
    assert cli("replay", "run.dfrec", "--node", "root", "--json").json["node"] == "root"
    result = cli("replay", "run.dfrec", "--node", "half")
    assert result.code == 2 and "no failed call of node 'half'" in result.err and "those of root" in result.err


def test_function_with_queues_runs_again_alone_and_under_the_debugger(cli):
    cli("run", "replay_graphs:queued", "x=good.npy", "x=bad.npy", "--mode", "inline", "--record", "run.dfrec")
    result = cli("replay", "run.dfrec", "--node", "summed")
    assert result.code == 1 and "summed input 0 = float64[2] -4 -4" in result.out and "the same error" in result.out
    seen = typed(cli, "args\nuntil 20\np value\ncontinue\n")
    assert cli("replay", "run.dfrec", "--step", "--node").code == 1
    assert "queue = <" in seen.getvalue() and "(Pdb) array([-4., -4.])" in seen.getvalue()
    seen = typed(cli, "p value\nquit\n")
    assert cli("replay", "run.dfrec", "--pdb").code == 1
    assert "(Pdb) array([-4., -4.])" in seen.getvalue()


def test_good_transaction_runs_again(cli, recorded):
    result = cli("replay", "run.dfrec", "-t", "3")
    assert result.code == 0 and "float64[2] 2 2" in result.out and "the same results" in result.out
    found = cli("replay", "run.dfrec", "-t", "3", "--json").json
    assert found["outputs"] == [{"output": "root", "dtype": "float64", "shape": [2], "values": [2.0, 2.0]}]


def test_debugger_looks_at_the_place_of_the_error(cli, recorded):
    seen = typed(cli, "p secret, value\nup\nquit\n")
    assert cli("replay", "run.dfrec", "--pdb").code == 1
    assert "(42, array([-4., -4.]))" in seen.getvalue()


def test_debugger_stops_at_the_first_line_of_the_function_that_failed(cli, recorded):
    seen = typed(cli, "args\nuntil 13\np secret\ncontinue\n")
    result = cli("replay", "run.dfrec", "--step", "--node")
    assert result.code == 1 and "the same error" in result.out
    assert "value = array([-4., -4.])" in seen.getvalue() and "\n(Pdb) 42" in seen.getvalue()


def test_quitting_the_debugger_ends_the_command(cli, recorded):
    seen = typed(cli, "quit\n")
    result = cli("replay", "run.dfrec", "--step")
    assert result.code == 130 and "interrupted" in result.err
    assert "root()" in seen.getvalue(), "half, which did not fail, is not stopped in"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["run.dfrec", "-t", "9"], 2, "transaction 9 is not in run.dfrec"),
        (["run.dfrec", "--pdb", "--json"], 2, "a debugger needs this terminal"),
        (["run.dfrec", "--step", "--mode", "process"], 2, "a debugger needs this terminal"),
        (["run.dfrec", "-t", "1", "--node"], 2, "what the failed node was given is not in run.dfrec"),
        (["good.npy"], 1, "no recording: it begins with"),
        (["nothing.dfrec"], 1, "No such file"),
    ],
)
def test_what_cannot_be_replayed_says_why(cli, recorded, words, code, text):
    result = cli("replay", *words)
    assert result.code == code and text in result.out + result.err


def test_recording_without_a_failure_names_what_is_there(cli):
    cli("run", "replay_graphs:graph", "x=good.npy", "--mode", "inline", "--record", "run.dfrec")
    result = cli("replay", "run.dfrec")
    assert result.code == 2 and "no transaction of run.dfrec has failed" in result.err and "name one of 1" in result.err


def test_recording_of_a_killed_application_says_so(cli, recorded, tmp_path):
    data = (tmp_path / "run.dfrec").read_bytes()
    closed = data.rindex(b"\x89DFREC\r\n")
    (tmp_path / "run.dfrec").write_bytes(data[:closed])
    assert "the application ended before it had closed the graph" in cli("replay", "run.dfrec", "--list").out
    (tmp_path / "run.dfrec").write_bytes(data[: closed + 5])
    assert "the last 5 bytes are no whole record" in cli("replay", "run.dfrec", "--list").out


def test_output_file_that_cannot_be_written_is_told_before_anything_runs(cli, tmp_path):
    result = cli("run", "replay_graphs:graph", "x=good.npy", "--mode", "inline", "--record", "good.npy")
    assert result.code == 2 and "good.npy exists and is no recording" in result.err
