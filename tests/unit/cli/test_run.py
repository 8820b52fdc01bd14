"""`dflow run`, over real graphs in this thread."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from dflow_core.cli.results import as_data, outputs_of, save, summary
from dflow_core.cli.services import Services

SOURCE = """
import dflow_core as df
import numpy as np

@df.pyflow(num_returns=2)
def split(value):
    if value.min() < 0:
        raise ValueError("negative")
    return value * 2, value + 1

@df.pyflow
def words(value):
    return {"sum": int(value.sum())}

@df.pyflow
def parts(value):
    yield from range(5)

burst = parts.fnode("burst").set_queue(0, depth=2, overflow="drop_oldest")
lossy = df.FlowGraph([burst(df.FlowData("x"))], name="lossy")
x = df.FlowData("x", df.TensorSpec(df.DataType.INT32, (3,)))
two = df.FlowGraph(list(split.fnode()(x)), name="two")
one = df.FlowGraph([words.fnode()(x)], name="one")
"""


@pytest.fixture(autouse=True)
def module(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run_graphs.py").write_text(SOURCE)
    cli.services = Services()
    yield
    sys.modules.pop("run_graphs", None)


def test_made_up_data_runs_through(cli):
    result = cli("run", "run_graphs:two", "--mode", "inline", "-n", "2")
    assert result.code == 0
    assert "split:0" in result.out and "int32[3]" in result.out and "2 fed, 2 results, 0 errors" in result.out


def test_run_that_lost_something_says_so(cli):
    """BC-026: never plain success."""
    result = cli("run", "run_graphs:lossy", "--mode", "inline", "--shape", "3")
    assert "incomplete: lost burst:0->fetch:0: 3 dropped of 5 messages" in result.out
    result = cli("run", "run_graphs:lossy", "--mode", "inline", "--shape", "3", "--json")
    assert result.json["status"].startswith("incomplete")
    assert cli("run", "run_graphs:one", "--mode", "inline", "--json").json["status"] == "complete"


def test_files_run_through_and_results_are_kept(cli, tmp_path):
    np.save("a.npy", np.array([1, 2, 3], np.int32))
    result = cli("run", "run_graphs:two", "a.npy", "--mode", "inline", "--save", "out.npz", "--json")
    assert result.code == 0
    outputs = result.json["results"][0]["outputs"]
    assert outputs["split:0"] == {"dtype": "int32", "shape": [3], "values": [2, 4, 6]}
    with np.load(tmp_path / "out.npz") as kept:
        assert kept["split:1"].tolist() == [2, 3, 4]


def test_a_failing_transaction_gives_exit_code_1_and_the_others_their_results(cli):
    np.save("good.npy", np.array([1, 2, 3], np.int32))
    np.save("bad.npy", np.array([-1, 2, 3], np.int32))
    files = ["x=good.npy", "x=bad.npy", "x=good.npy"]
    result = cli("run", "run_graphs:two", *files, "--mode", "inline")
    assert result.code == 1
    assert "3 fed, 2 results, 1 error" in result.out and "ValueError: negative" in result.out
    found = cli("run", "run_graphs:two", *files, "--mode", "inline", "--json").json
    assert found["failed"] == 1 and found["results"][1]["error"]["node"] == "split"


def test_input_that_does_not_fit_is_an_error(cli):
    np.save("a.npy", np.zeros(4, np.int32))
    result = cli("run", "run_graphs:two", "a.npy", "--mode", "inline")
    assert result.code == 1 and "shape differs" in result.err


def test_what_is_no_array_is_shown_and_not_kept(cli):
    result = cli("run", "run_graphs:one", "--mode", "inline", "--save", "out.npz")
    assert result.code == 0
    assert "{'sum':" in result.out and "not kept, because it is no array: words" in result.out


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.arange(10, dtype=np.int8), "int8[10] 0 1 2 3 4 5 ..."),
        (np.array(1.5), "float64[] 1.5"),
        (np.zeros((0, 3), bool), "bool[0, 3] "),
        ("x" * 200, "'" + "x" * 96 + "..."),
    ],
)
def test_values_are_told_in_one_line(value, told):
    assert summary(value) == told


def test_large_arrays_are_left_out_of_documents():
    assert as_data(np.zeros(1000)) == {"dtype": "float64", "shape": [1000]}
    assert as_data(np.array([1j]))["values"] == ["1j"]
    assert as_data(object)["value"].startswith("<class")


def test_a_result_of_one_output_is_its_value():
    assert outputs_of((1, 2), 1) == ((1, 2),)
    assert outputs_of((1, 2), 2) == (1, 2)


def test_results_of_several_transactions_are_numbered(tmp_path: Path):
    left = save(tmp_path / "a.npz", ["y"], [(np.ones(2),), (3,), ({"a": 1},)])
    with np.load(tmp_path / "a.npz") as kept:
        assert set(kept.files) == {"y.0", "y.1"}
    assert left == ["y.2"]
