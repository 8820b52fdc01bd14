"""What `dflow run` feeds."""

from __future__ import annotations

import numpy as np
import pytest

from dflow_core.cli.command import Refused
from dflow_core.cli.feeds import from_files, made_up
from dflow_core.types import DataType, TensorSpec


def test_a_whole_transaction_comes_from_one_npz(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones(2))
    (feed,) = from_files([str(tmp_path / "a.npz")], ["x", "y"])
    assert feed.values["x"].tolist() == [0, 1, 2] and feed.values["y"].tolist() == [1, 1]


def test_the_only_array_feeds_the_only_input_whatever_its_name(tmp_path):
    np.savez(tmp_path / "a.npz", np.arange(3))
    (feed,) = from_files([str(tmp_path / "a.npz")], ["x"])
    assert feed.values["x"].tolist() == [0, 1, 2]


def test_files_of_single_inputs_are_paired_in_order(tmp_path):
    for name, value in [("a", 1), ("b", 2), ("c", 3), ("d", 4)]:
        np.save(tmp_path / f"{name}.npy", np.array(value))
    given = [f"{name}={tmp_path}/{file}.npy" for name, file in [("x", "a"), ("y", "b"), ("x", "c"), ("y", "d")]]
    feeds = from_files(given, ["x", "y"])
    assert [(f.values["x"].item(), f.values["y"].item()) for f in feeds] == [(1, 2), (3, 4)]


def test_a_plain_npy_feeds_the_only_input(tmp_path):
    np.save(tmp_path / "a.npy", np.array(5))
    assert from_files([str(tmp_path / "a.npy")], ["x"])[0].values["x"] == 5


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["nope=a.npy"], "no input 'nope'"),
        (["x=missing.npy"], "cannot be read as an array"),
        (["x=photo.png"], "is no .npy file"),
        (["missing.npz"], "cannot be read as .npz"),
        (["x={tmp}/text.npy"], "cannot be read as an array"),
        (["{tmp}/text.npy"], "cannot be read as .npz"),
        (["x={tmp}/a.npy"], "same number of files"),
        (["{tmp}/x.npz"], "no array for input 'y'"),
        (["x={tmp}/x.npz", "y={tmp}/a.npy"], "holds several arrays"),
        (["{tmp}/odd.npz"], "no input 'z'"),
        (["{tmp}/a.npy"], "cannot be read as .npz"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, given, told):
    np.save(tmp_path / "a.npy", np.array(1))
    np.savez(tmp_path / "x.npz", x=np.array(1))
    np.savez(tmp_path / "odd.npz", x=np.array(1), z=np.array(1))
    (tmp_path / "text.npy").write_text("hello")
    with pytest.raises(Refused, match=told):
        from_files([text.format(tmp=tmp_path) for text in given], ["x", "y"])


def test_objects_in_files_are_not_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(Refused, match="cannot be read"):
        from_files([f"x={tmp_path}/a.npy"], ["x"])


def test_made_up_data_follows_the_models():
    specs = {"x": TensorSpec(DataType.FLOAT, (2, -1)), "n": TensorSpec(DataType.INT64, (3,))}
    feeds = list(made_up(specs, 2, [], seed=1))
    assert len(feeds) == 2
    assert feeds[0].values["x"].shape == (2, 1) and feeds[0].values["x"].dtype == np.float32
    assert feeds[0].values["n"].dtype == np.int64
    again = list(made_up(specs, 1, [], seed=1))
    assert np.array_equal(again[0].values["x"], feeds[0].values["x"])


def test_a_shape_may_be_given_with_its_type():
    unknown = {"x": TensorSpec(DataType.UNDEFINED)}
    (feed,) = made_up(unknown, 1, ["x=2x3:uint8"], seed=0)
    assert feed.values["x"].shape == (2, 3) and feed.values["x"].dtype == np.uint8
    (feed,) = made_up(unknown, 1, ["scalar"], seed=0)
    assert feed.values["x"].shape == () and feed.values["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ([], "does not say what input 'x' takes"),
        (["x=1xq"], "expected name=1x3x224x224"),
        (["x=1:nope"], "expected name=1x3x224x224"),
        (["x=-1"], "cannot be negative"),
        (["2x3"], "which input"),
        (["z=2x3"], "no input 'z'"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, told):
    specs = {"x": TensorSpec(DataType.UNDEFINED), "y": TensorSpec(DataType.BOOL, ())}
    with pytest.raises(Refused, match=told):
        list(made_up(specs, 1, shapes, seed=0))
