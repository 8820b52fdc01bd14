"""Compiled graphs to bytes and back; the only module of this folder that knows protobuf.

For every dataclass there is `serialize_x` and `deserialize_x`. A submodel becomes a `Frame`: a small message, then
its large bytes as raw sections in this order:

    GraphModel       source, blob, side files in the order the message names them
    UdfModel         package
    SerializedModel  data

Equal models give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from dflow_core.errors import ModelFormatError, PackagingError, UsageError
from dflow_core.model.flow_model import (
    Endpoint,
    FlowModel,
    GraphModel,
    InvokedEndpoints,
    ModelEndpoints,
    ModelRelation,
    PneModel,
    SerializedModel,
    UdfModel,
)
from dflow_core.model.frame import Frame
from dflow_core.proto import model_pb2 as pb
from dflow_core.types_serde import (
    deserialize_func,
    deserialize_options,
    deserialize_spec,
    deserialize_value,
    serialize_func,
    serialize_options,
    serialize_spec,
    serialize_value,
)

T = TypeVar("T")

_TYPES: Mapping[type[PneModel], str] = {GraphModel: "graph", UdfModel: "udf", SerializedModel: "serialized"}


def serialize_submodel(model: PneModel) -> Frame:
    """A submodel as a message and its raw sections.

    Raises:
        PackagingError: if it is of a class of its own, or an init parameter or a text in it cannot travel.
    """
    return _written(model.name, lambda: _frame(model))


def deserialize_submodel(frame: Frame) -> PneModel:
    """The inverse of `serialize_submodel`.

    Raises:
        ModelFormatError: if the frame holds no submodel.
    """
    return _guarded("submodel", lambda: _submodel(frame))


def serialize_relation(relation: ModelRelation) -> bytes:
    """How submodels are joined, as a message."""
    return _to_bytes(_serialize_relation(relation))


def deserialize_relation(data: bytes) -> ModelRelation:
    """The inverse of `serialize_relation`.

    Raises:
        ModelFormatError: if the bytes are no relation.
    """
    return _guarded("relation", lambda: _relation(pb.ModelRelationDef.FromString(data)))


def serialize_metadata(model: FlowModel) -> bytes:
    """Everything of a FlowModel besides its submodels and its graph, as a message; names the submodels in order.

    Raises:
        PackagingError: if a text in it cannot travel.
    """
    return _written(model.name, lambda: _metadata_bytes(model))


def deserialize_metadata(data: bytes) -> tuple[FlowModel, tuple[tuple[str, str, str], ...]]:
    """The inverse of `serialize_metadata`.

    Returns:
        A FlowModel without submodels and graph, and (name, type, engine) of each submodel.

    Raises:
        ModelFormatError: if the bytes are no metadata, or a name appears twice.
    """
    return _guarded("metadata", lambda: _metadata(data))


def _frame(model: PneModel) -> Frame:
    proto = pb.SubmodelDef(
        model_name=model.name,
        model_type=_type_name(model),
        engine=model.engine,
        inputs=map(serialize_spec, model.inputs),
        outputs=map(serialize_spec, model.outputs),
        functions=map(serialize_func, model.functions),
        options=serialize_options(model.options),
        labels=model.labels,
        balance=model.balance,
    )
    sections: tuple[bytes, ...]
    if isinstance(model, GraphModel):
        names = [_file_name(name) for name in sorted(model.side_files)]
        proto.graph_part.CopyFrom(
            pb.GraphPart(
                framework=model.framework, blob_tag=model.blob_tag, settings=dict(model.settings), side_files=names
            )
        )
        sections = (model.source, model.blob, *(model.side_files[name] for name in names))
    elif isinstance(model, UdfModel):
        proto.udf_part.builtin = model.builtin
        for name, value in model.params.items():
            proto.udf_part.params[name].CopyFrom(serialize_value(value, f"{model.name}: init parameter {name!r}"))
        sections = (model.package,)
    else:
        assert isinstance(model, SerializedModel)
        proto.serialized_part.CopyFrom(pb.SerializedPart(settings=dict(model.settings)))
        sections = (model.data,)
    return Frame(_to_bytes(proto), sections)


def _metadata_bytes(model: FlowModel) -> bytes:
    proto = pb.FlowModelDef(
        model_name=model.name,
        relation=_serialize_relation(model.relation),
        submodel=[
            pb.SubmodelSummary(name=name, type=_type_name(sub), engine=sub.engine)
            for name, sub in model.submodels.items()
        ],
        options=dict(model.options),
        made_by=dict(model.made_by),
    )
    return _to_bytes(proto)


def _metadata(data: bytes) -> tuple[FlowModel, tuple[tuple[str, str, str], ...]]:
    proto = pb.FlowModelDef.FromString(data)
    summaries = tuple((item.name, item.type, item.engine) for item in proto.submodel)
    if len({name for name, _, _ in summaries}) != len(summaries):
        raise ValueError("two submodels of one name")
    model = FlowModel(
        proto.model_name, {}, _relation(proto.relation), options=dict(proto.options), made_by=dict(proto.made_by)
    )
    return model, summaries


def _type_name(model: PneModel) -> str:
    found = _TYPES.get(type(model))
    if found is None:
        raise PackagingError(
            f"a {type(model).__name__} cannot be saved",
            node=model.name,
            hint="an engine gives GraphModel, UdfModel or SerializedModel, and not a class derived from one",
        )
    return found


def _submodel(frame: Frame) -> PneModel:
    proto = pb.SubmodelDef.FromString(frame.head)
    part = proto.WhichOneof("part") or "none"
    if part != f"{proto.model_type}_part":
        raise ValueError(f"its type is {proto.model_type!r}, its content {part!r}")
    extra = len(proto.graph_part.side_files) + 1 if part == "graph_part" else 0
    if len(frame.sections) != 1 + extra:
        raise ValueError(f"{1 + extra} sections belong to it, {len(frame.sections)} are there")
    name, engine = proto.model_name, proto.engine
    inputs, outputs = tuple(map(deserialize_spec, proto.inputs)), tuple(map(deserialize_spec, proto.outputs))
    functions, options = tuple(map(deserialize_func, proto.functions)), deserialize_options(proto.options)
    labels, balance = tuple(proto.labels), proto.balance
    if part == "graph_part":
        graph = proto.graph_part
        source, blob, *files = frame.sections
        names = map(_file_name, graph.side_files)
        return GraphModel(
            name=name, engine=engine, inputs=inputs, outputs=outputs, functions=functions, options=options,
            labels=labels, balance=balance,
            framework=graph.framework, source=source, side_files=dict(zip(names, files)), blob=blob,
            blob_tag=graph.blob_tag, settings=dict(graph.settings),
        )
    if part == "udf_part":
        udf = proto.udf_part
        return UdfModel(
            name=name, engine=engine, inputs=inputs, outputs=outputs, functions=functions, options=options,
            labels=labels, balance=balance,
            package=frame.sections[0], builtin=udf.builtin,
            params={key: deserialize_value(udf.params[key]) for key in sorted(udf.params)},
        )
    return SerializedModel(
        name=name, engine=engine, inputs=inputs, outputs=outputs, functions=functions, options=options,
        labels=labels, balance=balance,
        data=frame.sections[0], settings=dict(proto.serialized_part.settings),
    )


def _file_name(name: str) -> str:
    """A side file's name, if it stays inside the folder somebody may unpack it into."""
    if name.startswith("/") or "\0" in name or ".." in name.split("/"):
        raise ValueError(f"a side file cannot be called {name!r}: it would lie outside the model's folder")
    return name


def _serialize_relation(relation: ModelRelation) -> pb.ModelRelationDef:
    return pb.ModelRelationDef(
        endpoint=[
            pb.EndpointDef(
                name=item.name, depth=item.depth, overflow=item.overflow, dummy=item.dummy, max_age=item.max_age
            )
            for item in relation.endpoints
        ],
        submodel_endpoint_info=[
            pb.ModelEndpointEntry(key=key, value=_serialize_sides(sides)) for key, sides in relation.submodels.items()
        ],
        root_model_endpoint_info=_serialize_sides(relation.root),
        input_name=relation.input_names,
        output_name=relation.output_names,
        invoked_model_queue_info=[
            pb.InvokedModelQueueEntry(
                key=one.name,
                value=pb.InvokedModelQueueInfo(
                    input_queue_name=one.inputs, output_queue_name=one.outputs, model=one.model, key=one.key
                ),
            )
            for one in relation.invoked
        ],
    )


def _relation(proto: pb.ModelRelationDef) -> ModelRelation:
    entries = proto.submodel_endpoint_info
    submodels = {entry.key: _sides(entry.value) for entry in entries}
    relation = ModelRelation(
        tuple(Endpoint(item.name, item.depth, item.overflow, item.dummy, item.max_age) for item in proto.endpoint),
        submodels,
        _sides(proto.root_model_endpoint_info),
        tuple(proto.input_name),
        tuple(proto.output_name),
        tuple(
            InvokedEndpoints(v.model, v.key, tuple(v.input_queue_name), tuple(v.output_queue_name))
            for v in (entry.value for entry in proto.invoked_model_queue_info)
        ),
    )
    _unique("endpoints", [item.name for item in relation.endpoints])
    _unique("models", [entry.key for entry in entries])
    known = {item.name for item in relation.endpoints}
    for sides in (*submodels.values(), relation.root):
        unknown = {*sides.inputs, *sides.outputs} - known
        if unknown:
            raise ValueError(f"{sides.model_name!r} uses endpoints that are not listed: {sorted(unknown)}")
    _check_invoked(relation, known)
    return relation


def _check_invoked(relation: ModelRelation, known: set[str]) -> None:
    _unique("invoked graphs", [one.name for one in relation.invoked])
    for one in relation.invoked:
        unknown = {*one.inputs, *one.outputs} - known
        if unknown or one.model not in relation.submodels:
            raise ValueError(f"invoked graph {one.name!r} uses what is not listed: {sorted(unknown) or one.model!r}")


def _unique(what: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise ValueError(f"two {what} of one name")


def _serialize_sides(sides: ModelEndpoints) -> pb.ModelEndpointInfo:
    return pb.ModelEndpointInfo(
        model_name=sides.model_name, input_endpoint_name=sides.inputs, output_endpoint_name=sides.outputs
    )


def _sides(proto: pb.ModelEndpointInfo) -> ModelEndpoints:
    return ModelEndpoints(proto.model_name, tuple(proto.input_endpoint_name), tuple(proto.output_endpoint_name))


def _to_bytes(proto: Message) -> bytes:
    data: bytes = proto.SerializeToString(deterministic=True)
    return data


def _written(name: str, write: Callable[[], T]) -> T:
    """Runs a writer; what protobuf refuses (texts that are no Unicode, numbers out of range) names the model."""
    try:
        return write()
    except UsageError:
        raise
    except (ValueError, TypeError) as cause:
        raise PackagingError(f"it cannot be saved: {cause}", node=name) from cause


def _guarded(what: str, read: Callable[[], T]) -> T:
    """Runs a reader; whatever broken bytes make it raise becomes a ModelFormatError."""
    try:
        return read()
    except (DecodeError, ValueError, RecursionError) as cause:
        raise ModelFormatError(f"broken {what}: {cause}") from cause
