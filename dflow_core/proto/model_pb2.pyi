from dflow_core.proto import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GraphPart(_message.Message):
    __slots__ = ("framework", "blob_tag", "settings", "side_files")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    BLOB_TAG_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SIDE_FILES_FIELD_NUMBER: _ClassVar[int]
    framework: str
    blob_tag: str
    settings: _containers.ScalarMap[str, str]
    side_files: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, framework: _Optional[str] = ..., blob_tag: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ..., side_files: _Optional[_Iterable[str]] = ...) -> None: ...

class UdfPart(_message.Message):
    __slots__ = ("builtin", "params")
    class ParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _types_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_types_pb2.Value, _Mapping]] = ...) -> None: ...
    BUILTIN_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    builtin: str
    params: _containers.MessageMap[str, _types_pb2.Value]
    def __init__(self, builtin: _Optional[str] = ..., params: _Optional[_Mapping[str, _types_pb2.Value]] = ...) -> None: ...

class SerializedPart(_message.Message):
    __slots__ = ("settings",)
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    settings: _containers.ScalarMap[str, str]
    def __init__(self, settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SubmodelDef(_message.Message):
    __slots__ = ("model_name", "model_type", "engine", "inputs", "outputs", "functions", "options", "graph_part", "udf_part", "serialized_part", "labels", "balance")
    MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_TYPE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    GRAPH_PART_FIELD_NUMBER: _ClassVar[int]
    UDF_PART_FIELD_NUMBER: _ClassVar[int]
    SERIALIZED_PART_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    BALANCE_FIELD_NUMBER: _ClassVar[int]
    model_name: str
    model_type: str
    engine: str
    inputs: _containers.RepeatedCompositeFieldContainer[_types_pb2.TensorSpec]
    outputs: _containers.RepeatedCompositeFieldContainer[_types_pb2.TensorSpec]
    functions: _containers.RepeatedCompositeFieldContainer[_types_pb2.ProcessFunc]
    options: _types_pb2.NodeOptions
    graph_part: GraphPart
    udf_part: UdfPart
    serialized_part: SerializedPart
    labels: _containers.RepeatedScalarFieldContainer[str]
    balance: str
    def __init__(self, model_name: _Optional[str] = ..., model_type: _Optional[str] = ..., engine: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[_types_pb2.TensorSpec, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[_types_pb2.TensorSpec, _Mapping]]] = ..., functions: _Optional[_Iterable[_Union[_types_pb2.ProcessFunc, _Mapping]]] = ..., options: _Optional[_Union[_types_pb2.NodeOptions, _Mapping]] = ..., graph_part: _Optional[_Union[GraphPart, _Mapping]] = ..., udf_part: _Optional[_Union[UdfPart, _Mapping]] = ..., serialized_part: _Optional[_Union[SerializedPart, _Mapping]] = ..., labels: _Optional[_Iterable[str]] = ..., balance: _Optional[str] = ...) -> None: ...

class EndpointDef(_message.Message):
    __slots__ = ("name", "depth", "overflow", "dummy", "max_age")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    OVERFLOW_FIELD_NUMBER: _ClassVar[int]
    DUMMY_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    depth: int
    overflow: str
    dummy: bool
    max_age: float
    def __init__(self, name: _Optional[str] = ..., depth: _Optional[int] = ..., overflow: _Optional[str] = ..., dummy: bool = ..., max_age: _Optional[float] = ...) -> None: ...

class ModelEndpointInfo(_message.Message):
    __slots__ = ("model_name", "input_endpoint_name", "output_endpoint_name")
    MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    INPUT_ENDPOINT_NAME_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_ENDPOINT_NAME_FIELD_NUMBER: _ClassVar[int]
    model_name: str
    input_endpoint_name: _containers.RepeatedScalarFieldContainer[str]
    output_endpoint_name: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, model_name: _Optional[str] = ..., input_endpoint_name: _Optional[_Iterable[str]] = ..., output_endpoint_name: _Optional[_Iterable[str]] = ...) -> None: ...

class ModelEndpointEntry(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: ModelEndpointInfo
    def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ModelEndpointInfo, _Mapping]] = ...) -> None: ...

class InvokedModelQueueInfo(_message.Message):
    __slots__ = ("input_queue_name", "output_queue_name", "model", "key")
    INPUT_QUEUE_NAME_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_QUEUE_NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    input_queue_name: _containers.RepeatedScalarFieldContainer[str]
    output_queue_name: _containers.RepeatedScalarFieldContainer[str]
    model: str
    key: str
    def __init__(self, input_queue_name: _Optional[_Iterable[str]] = ..., output_queue_name: _Optional[_Iterable[str]] = ..., model: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class InvokedModelQueueEntry(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: InvokedModelQueueInfo
    def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[InvokedModelQueueInfo, _Mapping]] = ...) -> None: ...

class ModelRelationDef(_message.Message):
    __slots__ = ("invoked_model_queue_info", "endpoint", "submodel_endpoint_info", "root_model_endpoint_info", "input_name", "output_name")
    INVOKED_MODEL_QUEUE_INFO_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    SUBMODEL_ENDPOINT_INFO_FIELD_NUMBER: _ClassVar[int]
    ROOT_MODEL_ENDPOINT_INFO_FIELD_NUMBER: _ClassVar[int]
    INPUT_NAME_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_NAME_FIELD_NUMBER: _ClassVar[int]
    invoked_model_queue_info: _containers.RepeatedCompositeFieldContainer[InvokedModelQueueEntry]
    endpoint: _containers.RepeatedCompositeFieldContainer[EndpointDef]
    submodel_endpoint_info: _containers.RepeatedCompositeFieldContainer[ModelEndpointEntry]
    root_model_endpoint_info: ModelEndpointInfo
    input_name: _containers.RepeatedScalarFieldContainer[str]
    output_name: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, invoked_model_queue_info: _Optional[_Iterable[_Union[InvokedModelQueueEntry, _Mapping]]] = ..., endpoint: _Optional[_Iterable[_Union[EndpointDef, _Mapping]]] = ..., submodel_endpoint_info: _Optional[_Iterable[_Union[ModelEndpointEntry, _Mapping]]] = ..., root_model_endpoint_info: _Optional[_Union[ModelEndpointInfo, _Mapping]] = ..., input_name: _Optional[_Iterable[str]] = ..., output_name: _Optional[_Iterable[str]] = ...) -> None: ...

class SubmodelSummary(_message.Message):
    __slots__ = ("name", "type", "engine")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    engine: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., engine: _Optional[str] = ...) -> None: ...

class FlowModelDef(_message.Message):
    __slots__ = ("model_name", "relation", "submodel", "options", "made_by")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class MadeByEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    RELATION_FIELD_NUMBER: _ClassVar[int]
    SUBMODEL_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    model_name: str
    relation: ModelRelationDef
    submodel: _containers.RepeatedCompositeFieldContainer[SubmodelSummary]
    options: _containers.ScalarMap[str, str]
    made_by: _containers.ScalarMap[str, str]
    def __init__(self, model_name: _Optional[str] = ..., relation: _Optional[_Union[ModelRelationDef, _Mapping]] = ..., submodel: _Optional[_Iterable[_Union[SubmodelSummary, _Mapping]]] = ..., options: _Optional[_Mapping[str, str]] = ..., made_by: _Optional[_Mapping[str, str]] = ...) -> None: ...
