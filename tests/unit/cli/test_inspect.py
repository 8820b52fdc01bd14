"""`dflow inspect`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflow_core.model import (
    Endpoint,
    FlowModel,
    GraphModel,
    ModelEndpoints,
    ModelRelation,
    write_om,
)
from dflow_core.types import DataType, TensorSpec


@pytest.fixture
def om(tmp_path: Path) -> Path:
    spec = TensorSpec(DataType.FLOAT, (1, -1))
    sub = GraphModel(name="net", engine="CPU", inputs=(spec,), outputs=(spec,), framework="onnx", source=b"x" * 5000)
    relation = ModelRelation(
        endpoints=(Endpoint("g:x"), Endpoint("net:0")),
        submodels={"net": ModelEndpoints("net", ("g:x",), ("net:0",))},
        root=ModelEndpoints("g", ("g:x",), ("net:0",)),
        input_names=("x",),
        output_names=("net",),
    )
    path = tmp_path / "g.om"
    write_om(FlowModel("g", {"net": sub}, relation, made_by={"dflow": "0.1.0"}), path)
    return path


def test_the_content_of_a_file_is_told(cli, om):
    result = cli("inspect", str(om))
    assert result.code == 0
    assert "net" in result.out and "CPU" in result.out and "dflow 0.1.0" in result.out


def test_the_document_holds_partitions_and_submodels(cli, om):
    found = cli("inspect", str(om), "--json").json
    assert [p["type"] for p in found["partitions"]] == ["graph", "metadata", "submodel"]
    assert found["submodels"][0]["name"] == "net" and found["inputs"] == ["x"] and found["verified"] is False
    assert all(len(p["sha256"]) == 64 for p in found["partitions"])


def test_verifying_loads_every_submodel(cli, om):
    result = cli("inspect", str(om), "--verify")
    assert "every byte checked: 1 submodel" in result.out and "float[1, ?] -> float[1, ?]" in result.out


def test_a_file_altered_anywhere_is_refused(cli, om):
    data = bytearray(om.read_bytes())
    data[-1] ^= 1
    om.write_bytes(data)
    assert cli("inspect", str(om)).code == 0
    result = cli("inspect", str(om), "--verify")
    assert result.code == 1 and "error:" in result.err and "Traceback" not in result.err


@pytest.mark.parametrize("content", [b"", b"hello", None])
def test_what_is_no_such_file_is_refused(cli, tmp_path, content):
    path = tmp_path / "a.om"
    if content is not None:
        path.write_bytes(content)
    result = cli("inspect", str(path), "--json")
    assert result.code == 1 and result.json["error"]["type"] == "ModelFormatError"
