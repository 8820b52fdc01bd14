"""Whatever a compiled graph is like, it comes back from its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflow_core.model import (
    Endpoint,
    FlowModel,
    GraphModel,
    ModelEndpoints,
    ModelRelation,
    SerializedModel,
    UdfModel,
    om_chunks,
    pack_submodel,
    read_om,
    unpack_submodel,
    write_om,
)
from dflow_core.types import DataType, FuncSpec, NodeOptions, TensorSpec

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FILE_NAMES = TEXT.filter(lambda name: not name.startswith("/") and ".." not in name and "\0" not in name)
BYTES = st.binary(max_size=150)
NUMBERS = st.integers(0, 2**32 - 1)
FLAGS = st.booleans()
TEXTS = st.dictionaries(TEXT, TEXT, max_size=3)
PORTS = st.lists(NUMBERS, max_size=3).map(tuple)
SPECS = st.lists(
    st.builds(
        TensorSpec, st.sampled_from(DataType), st.none() | st.lists(st.integers(-1, 2**62), max_size=4).map(tuple), TEXT
    ),
    max_size=3,
).map(tuple)
FUNCTIONS = st.lists(st.builds(FuncSpec, TEXT, PORTS, PORTS, FLAGS, FLAGS, FLAGS, FLAGS, FLAGS), max_size=2).map(tuple)
OPTIONS = st.builds(NodeOptions, NUMBERS, NUMBERS, TEXT, st.floats(0, 1e9), TEXT, NUMBERS, TEXT)
COMMON = {"engine": TEXT, "inputs": SPECS, "outputs": SPECS, "functions": FUNCTIONS, "options": OPTIONS}
MODELS = st.one_of(
    st.builds(
        GraphModel, name=TEXT, framework=TEXT, source=BYTES, side_files=st.dictionaries(FILE_NAMES, BYTES, max_size=2),
        blob=BYTES, blob_tag=TEXT, settings=TEXTS, **COMMON,
    ),
    st.builds(
        UdfModel, name=TEXT, package=BYTES, builtin=TEXT,
        params=st.dictionaries(TEXT, FLAGS | st.integers(-(2**63), 2**63 - 1) | TEXT, max_size=3), **COMMON,
    ),
    st.builds(SerializedModel, name=TEXT, data=BYTES, settings=TEXTS, **COMMON),
)


@st.composite
def flow_models(draw: st.DrawFn) -> FlowModel:
    models = draw(st.lists(MODELS, max_size=4, unique_by=lambda model: model.name))
    names = draw(st.lists(TEXT, min_size=1, max_size=6, unique=True))
    endpoints = tuple(Endpoint(n, draw(NUMBERS), draw(TEXT), draw(FLAGS)) for n in names)
    ends = st.lists(st.sampled_from(names), max_size=3).map(tuple)
    sides = {model.name: ModelEndpoints(model.name, draw(ends), draw(ends)) for model in models}
    root = ModelEndpoints(draw(TEXT), draw(ends), draw(ends))
    relation = ModelRelation(endpoints, sides, root, draw(ends), draw(ends))
    submodels = {model.name: model for model in models}
    return FlowModel(draw(TEXT), submodels, relation, draw(BYTES), draw(TEXTS), draw(TEXTS))


@settings(max_examples=60)
@given(flow_models())
def test_any_compiled_graph_survives_the_file(model: FlowModel):
    data = b"".join(om_chunks(model))
    loaded = read_om(data)
    assert loaded == model
    assert list(loaded.submodels) == list(model.submodels)
    assert b"".join(om_chunks(loaded)) == data


@settings(max_examples=60)
@given(MODELS)
def test_any_submodel_survives_the_wire(model):
    assert unpack_submodel(b"".join(pack_submodel(model))) == model


@pytest.mark.parametrize("name", sorted(p.name for p in (Path(__file__).parents[2] / "data" / "models").iterdir()))
def test_every_model_file_we_have_survives(models: Path, tmp_path: Path, name: str):
    source = (models / name).read_bytes()
    model = GraphModel(name="m", engine="CPU", framework="onnx", source=source, side_files={name: source}, blob=source)
    sides = ModelEndpoints("m", (), ())
    graph = FlowModel("g", {"m": model}, ModelRelation((), {"m": sides}, ModelEndpoints("g", (), ())))
    write_om(graph, tmp_path / "g.om")
    assert read_om(tmp_path / "g.om") == graph
