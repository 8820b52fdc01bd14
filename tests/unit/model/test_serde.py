from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core.errors import ModelFormatError, PackagingError
from dflow_core.model import Endpoint, ModelEndpoints, ModelRelation, PneModel, SerializedModel, UdfModel
from dflow_core.model.frame import Frame
from dflow_core.model.packing import pack_submodel, unpack_submodel
from dflow_core.model.serde import (
    deserialize_metadata,
    deserialize_relation,
    deserialize_submodel,
    serialize_metadata,
    serialize_relation,
    serialize_submodel,
)
from dflow_core.proto import model_pb2 as pb
from dflow_core.proto import types_pb2
from dflow_core.types import DataType, FuncSpec, NodeOptions, TensorSpec
from dflow_core.types_serde import deserialize_options, serialize_options

SCALARS = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=20),
    st.sampled_from(DataType),
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4), max_leaves=10)


def packed(model: PneModel) -> bytes:
    return b"".join(pack_submodel(model))


def test_every_kind_of_submodel_survives_the_round_trip(flow_model):
    for model in flow_model.submodels.values():
        assert deserialize_submodel(serialize_submodel(model)) == model
        data = packed(model)
        assert unpack_submodel(data) == unpack_submodel(memoryview(data)) == model


def test_options_of_files_that_know_no_pauses_have_the_usual_ones() -> None:
    written = serialize_options(NodeOptions(restart_window=5.0, restart_delay=0.0, restart_delay_max=0.0))
    assert deserialize_options(written).restart_delay_max == 0.0
    for name in ("restart_window", "restart_delay", "restart_delay_max"):
        written.ClearField(name)  # type: ignore[arg-type]
    assert deserialize_options(written) == NodeOptions()


@pytest.mark.parametrize("kind", [FuncSpec, NodeOptions, TensorSpec, Endpoint])
def test_no_field_is_forgotten(kind, flow_model):
    """Each field of these classes has a value besides its default somewhere in the fixture, and comes back."""
    def all_of(value):
        if isinstance(value, kind):
            yield value
        elif dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                yield from all_of(getattr(value, field.name))
        elif isinstance(value, (tuple, dict)):
            for item in value.values() if isinstance(value, dict) else value:
                yield from all_of(item)

    found = list(all_of(flow_model))
    for field in dataclasses.fields(kind):
        assert any(getattr(item, field.name) != field.default for item in found), field.name


def test_large_bytes_are_sections_and_not_in_the_message(graph_model):
    """A protobuf message ends at 2 GiB; a model file need not."""
    frame = serialize_submodel(graph_model)
    assert frame.sections == (graph_model.source, b"\0\1", b"weights", b"")
    assert frame.sections[0] is graph_model.source
    assert graph_model.source not in frame.head


def test_equal_models_give_equal_bytes_whatever_the_order_of_their_mappings(graph_model, udf_model):
    def turned(mapping):
        return dict(reversed(list(mapping.items())))

    other = dataclasses.replace(graph_model, side_files=turned(graph_model.side_files))
    assert packed(other) == packed(graph_model)
    other = dataclasses.replace(udf_model, params=turned(udf_model.params))
    assert packed(other) == packed(udf_model)


@given(st.dictionaries(st.text(max_size=10), VALUES, max_size=5))
def test_init_parameters_keep_value_and_type(params):
    model = UdfModel(name="n", engine="UDF", params=params)
    found = unpack_submodel(packed(model))
    assert isinstance(found, UdfModel)
    assert repr(found.params) == repr({key: params[key] for key in sorted(params)})


def test_special_floats_travel():
    model = UdfModel(name="n", engine="UDF", params={"a": math.inf, "b": math.nan})
    found = unpack_submodel(packed(model)).params
    assert found["a"] == math.inf and math.isnan(found["b"])


@pytest.mark.parametrize("value", [None, b"x", 2**63, {"a": 1}, [object()]])
def test_a_parameter_that_cannot_travel_is_named(value):
    model = UdfModel(name="n", engine="UDF", params={"bad": value})
    with pytest.raises(PackagingError, match="n: init parameter 'bad' cannot be"):
        serialize_submodel(model)


def test_lists_nested_without_end_are_refused():
    value: list[object] = []
    value.append(value)
    with pytest.raises(PackagingError, match="bad"):
        serialize_submodel(UdfModel(name="n", engine="UDF", params={"bad": value}))


def test_a_model_of_a_class_of_its_own_is_refused():
    class Mine(SerializedModel):
        pass

    for model in (PneModel(name="n", engine="X"), Mine(name="n", engine="X", data=b"")):
        with pytest.raises(PackagingError, match="cannot be saved"):
            serialize_submodel(model)


@pytest.mark.parametrize(
    "model",
    [
        UdfModel(name="n", engine="UDF", params={"a": "\ud800"}),
        UdfModel(name="n", engine="UDF", builtin="\udcff"),
        UdfModel(name="n", engine="UDF", options=NodeOptions(threads=-1)),
    ],
)
def test_what_protobuf_refuses_names_the_model(model):
    """BC-084: names of files may be no Unicode."""
    with pytest.raises(PackagingError, match="node 'n': it cannot be saved"):
        serialize_submodel(model)


@pytest.mark.parametrize("name", ["/etc/passwd", "../w.bin", "a/../../w.bin", "a\0"])
def test_side_files_stay_inside_the_models_folder(graph_model, name):
    with pytest.raises(PackagingError, match="outside the model's folder"):
        serialize_submodel(dataclasses.replace(graph_model, side_files={name: b""}))
    frame = serialize_submodel(graph_model)
    proto = pb.SubmodelDef.FromString(frame.head)
    proto.graph_part.side_files[0] = name
    with pytest.raises(ModelFormatError, match="outside the model's folder"):
        deserialize_submodel(Frame(proto.SerializeToString(), frame.sections))


def test_metadata_that_cannot_be_written_names_the_graph(flow_model):
    with pytest.raises(PackagingError, match="node 'g'"):
        serialize_metadata(dataclasses.replace(flow_model, options={"a": "\udcff"}))


def test_the_relation_survives_the_round_trip(flow_model):
    relation = deserialize_relation(serialize_relation(flow_model.relation))
    assert relation == flow_model.relation
    assert list(relation.submodels) == list(flow_model.relation.submodels)


def test_field_numbers_of_the_relation_are_upstreams(flow_model):
    numbers = {field.name: field.number for field in pb.ModelRelationDef.DESCRIPTOR.fields}
    assert numbers["endpoint"] == 5
    assert numbers["submodel_endpoint_info"] == 6
    assert numbers["root_model_endpoint_info"] == 7
    assert [field.number for field in pb.SubmodelDef.DESCRIPTOR.fields if field.number < 100] == [1, 2]


def test_metadata_names_the_submodels_in_order(flow_model):
    model, summaries = deserialize_metadata(serialize_metadata(flow_model))
    assert model == dataclasses.replace(flow_model, submodels={}, graph=b"")
    assert summaries == (("outer/join", "udf", "UDF"), ("detect", "graph", "CPU"), ("else", "serialized", "X"))


def broken_relation(**changes: object) -> bytes:
    sides = ModelEndpoints("m", ("a",), ())
    relation = ModelRelation((Endpoint("a"),), {"m": sides}, ModelEndpoints("g", ("a",), ()))
    return serialize_relation(dataclasses.replace(relation, **changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"endpoints": (Endpoint("a"), Endpoint("a"))}, "two endpoints of one name"),
        ({"endpoints": ()}, "endpoints that are not listed"),
        ({"root": ModelEndpoints("g", ("b",), ())}, r"\['b'\]"),
    ],
)
def test_a_relation_that_does_not_hold_together_is_refused(changes, text):
    with pytest.raises(ModelFormatError, match=text):
        deserialize_relation(broken_relation(**changes))


def test_a_submodel_with_the_wrong_number_of_sections_is_refused(graph_model):
    frame = serialize_submodel(graph_model)
    with pytest.raises(ModelFormatError, match="4 sections belong to it, 3 are there"):
        deserialize_submodel(Frame(frame.head, frame.sections[:3]))


@pytest.mark.parametrize(
    "head",
    [
        pb.SubmodelDef(model_name="n").SerializeToString(),
        pb.SubmodelDef(model_type="graph", udf_part=pb.UdfPart()).SerializeToString(),
        pb.SubmodelDef(
            model_type="udf", udf_part=pb.UdfPart(), inputs=[types_pb2.TensorSpec(dtype=99)]
        ).SerializeToString(),
        pb.SubmodelDef(model_type="udf", udf_part=pb.UdfPart(params={"a": types_pb2.Value()})).SerializeToString(),
        b"\xff" * 20,
        b"\x0a\x02\xff\xff",
    ],
)
def test_a_message_that_is_no_submodel_is_refused(head):
    with pytest.raises(ModelFormatError, match="broken submodel"):
        deserialize_submodel(Frame(head, (b"",)))


@given(st.binary(max_size=120))
def test_any_message_is_read_or_refused(data):
    for read in (deserialize_metadata, deserialize_relation, lambda head: deserialize_submodel(Frame(head, (b"",)))):
        try:
            read(data)
        except ModelFormatError as error:
            assert "broken" in str(error)
