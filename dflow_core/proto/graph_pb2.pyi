from dflow_core.proto import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Edge(_message.Message):
    __slots__ = ("node_name", "index")
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    index: int
    def __init__(self, node_name: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class ProcessPoint(_message.Message):
    __slots__ = ("name", "type", "compile_cfg_file", "funcs", "graphs", "invoke_pps", "in_edges", "out_edges", "attrs", "is_built_in", "pp_extend_attrs", "kind", "framework", "graph_bytes", "load_params", "package", "builtin", "flow_graph", "data")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FUNCTION: _ClassVar[ProcessPoint.Type]
        GRAPH: _ClassVar[ProcessPoint.Type]
        INNER: _ClassVar[ProcessPoint.Type]
        FLOW_GRAPH: _ClassVar[ProcessPoint.Type]
        INVALID: _ClassVar[ProcessPoint.Type]
    FUNCTION: ProcessPoint.Type
    GRAPH: ProcessPoint.Type
    INNER: ProcessPoint.Type
    FLOW_GRAPH: ProcessPoint.Type
    INVALID: ProcessPoint.Type
    class InvokePpsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ProcessPoint
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ProcessPoint, _Mapping]] = ...) -> None: ...
    class AttrsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _types_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_types_pb2.Value, _Mapping]] = ...) -> None: ...
    class PpExtendAttrsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LoadParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COMPILE_CFG_FILE_FIELD_NUMBER: _ClassVar[int]
    FUNCS_FIELD_NUMBER: _ClassVar[int]
    GRAPHS_FIELD_NUMBER: _ClassVar[int]
    INVOKE_PPS_FIELD_NUMBER: _ClassVar[int]
    IN_EDGES_FIELD_NUMBER: _ClassVar[int]
    OUT_EDGES_FIELD_NUMBER: _ClassVar[int]
    ATTRS_FIELD_NUMBER: _ClassVar[int]
    IS_BUILT_IN_FIELD_NUMBER: _ClassVar[int]
    PP_EXTEND_ATTRS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    GRAPH_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOAD_PARAMS_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_FIELD_NUMBER: _ClassVar[int]
    BUILTIN_FIELD_NUMBER: _ClassVar[int]
    FLOW_GRAPH_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: ProcessPoint.Type
    compile_cfg_file: str
    funcs: _containers.RepeatedCompositeFieldContainer[_types_pb2.ProcessFunc]
    graphs: _containers.RepeatedScalarFieldContainer[str]
    invoke_pps: _containers.MessageMap[str, ProcessPoint]
    in_edges: _containers.RepeatedCompositeFieldContainer[Edge]
    out_edges: _containers.RepeatedCompositeFieldContainer[Edge]
    attrs: _containers.MessageMap[str, _types_pb2.Value]
    is_built_in: bool
    pp_extend_attrs: _containers.ScalarMap[str, str]
    kind: str
    framework: int
    graph_bytes: bytes
    load_params: _containers.ScalarMap[str, str]
    package: bytes
    builtin: str
    flow_graph: Graph
    data: bytes
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[ProcessPoint.Type, str]] = ..., compile_cfg_file: _Optional[str] = ..., funcs: _Optional[_Iterable[_Union[_types_pb2.ProcessFunc, _Mapping]]] = ..., graphs: _Optional[_Iterable[str]] = ..., invoke_pps: _Optional[_Mapping[str, ProcessPoint]] = ..., in_edges: _Optional[_Iterable[_Union[Edge, _Mapping]]] = ..., out_edges: _Optional[_Iterable[_Union[Edge, _Mapping]]] = ..., attrs: _Optional[_Mapping[str, _types_pb2.Value]] = ..., is_built_in: bool = ..., pp_extend_attrs: _Optional[_Mapping[str, str]] = ..., kind: _Optional[str] = ..., framework: _Optional[int] = ..., graph_bytes: _Optional[bytes] = ..., load_params: _Optional[_Mapping[str, str]] = ..., package: _Optional[bytes] = ..., builtin: _Optional[str] = ..., flow_graph: _Optional[_Union[Graph, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("time", "count")
    class Time(_message.Message):
        __slots__ = ("window", "dim", "drop_remainder")
        WINDOW_FIELD_NUMBER: _ClassVar[int]
        DIM_FIELD_NUMBER: _ClassVar[int]
        DROP_REMAINDER_FIELD_NUMBER: _ClassVar[int]
        window: float
        dim: int
        drop_remainder: bool
        def __init__(self, window: _Optional[float] = ..., dim: _Optional[int] = ..., drop_remainder: bool = ...) -> None: ...
    class Count(_message.Message):
        __slots__ = ("size", "slide_stride", "timeout", "padding")
        SIZE_FIELD_NUMBER: _ClassVar[int]
        SLIDE_STRIDE_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_FIELD_NUMBER: _ClassVar[int]
        PADDING_FIELD_NUMBER: _ClassVar[int]
        size: int
        slide_stride: int
        timeout: float
        padding: bool
        def __init__(self, size: _Optional[int] = ..., slide_stride: _Optional[int] = ..., timeout: _Optional[float] = ..., padding: bool = ...) -> None: ...
    TIME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    time: Batch.Time
    count: Batch.Count
    def __init__(self, time: _Optional[_Union[Batch.Time, _Mapping]] = ..., count: _Optional[_Union[Batch.Count, _Mapping]] = ...) -> None: ...

class PortMap(_message.Message):
    __slots__ = ("node_index", "point_index", "attrs")
    NODE_INDEX_FIELD_NUMBER: _ClassVar[int]
    POINT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTRS_FIELD_NUMBER: _ClassVar[int]
    node_index: int
    point_index: int
    attrs: _containers.RepeatedCompositeFieldContainer[Batch]
    def __init__(self, node_index: _Optional[int] = ..., point_index: _Optional[int] = ..., attrs: _Optional[_Iterable[_Union[Batch, _Mapping]]] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("depth", "overflow", "max_age")
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    OVERFLOW_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    depth: int
    overflow: str
    max_age: float
    def __init__(self, depth: _Optional[int] = ..., overflow: _Optional[str] = ..., max_age: _Optional[float] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("input", "output")
    class Output(_message.Message):
        __slots__ = ("node", "index")
        NODE_FIELD_NUMBER: _ClassVar[int]
        INDEX_FIELD_NUMBER: _ClassVar[int]
        node: int
        index: int
        def __init__(self, node: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    input: int
    output: Source.Output
    def __init__(self, input: _Optional[int] = ..., output: _Optional[_Union[Source.Output, _Mapping]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("name", "input_num", "output_num", "alias", "sources", "point", "input_maps", "output_maps", "attrs", "options", "queues", "depth")
    class AttrsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _types_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_types_pb2.Value, _Mapping]] = ...) -> None: ...
    class QueuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: Queue
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    INPUT_NUM_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_NUM_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    POINT_FIELD_NUMBER: _ClassVar[int]
    INPUT_MAPS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_MAPS_FIELD_NUMBER: _ClassVar[int]
    ATTRS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    name: str
    input_num: int
    output_num: int
    alias: str
    sources: _containers.RepeatedCompositeFieldContainer[Source]
    point: ProcessPoint
    input_maps: _containers.RepeatedCompositeFieldContainer[PortMap]
    output_maps: _containers.RepeatedCompositeFieldContainer[PortMap]
    attrs: _containers.MessageMap[str, _types_pb2.Value]
    options: _types_pb2.NodeOptions
    queues: _containers.MessageMap[int, Queue]
    depth: int
    def __init__(self, name: _Optional[str] = ..., input_num: _Optional[int] = ..., output_num: _Optional[int] = ..., alias: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[Source, _Mapping]]] = ..., point: _Optional[_Union[ProcessPoint, _Mapping]] = ..., input_maps: _Optional[_Iterable[_Union[PortMap, _Mapping]]] = ..., output_maps: _Optional[_Iterable[_Union[PortMap, _Mapping]]] = ..., attrs: _Optional[_Mapping[str, _types_pb2.Value]] = ..., options: _Optional[_Union[_types_pb2.NodeOptions, _Mapping]] = ..., queues: _Optional[_Mapping[int, Queue]] = ..., depth: _Optional[int] = ...) -> None: ...

class Data(_message.Message):
    __slots__ = ("name", "schema", "queue")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    schema: _types_pb2.TensorSpec
    queue: Queue
    def __init__(self, name: _Optional[str] = ..., schema: _Optional[_Union[_types_pb2.TensorSpec, _Mapping]] = ..., queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class Graph(_message.Message):
    __slots__ = ("version", "name", "options", "inputs", "nodes", "outputs")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    version: int
    name: str
    options: _containers.ScalarMap[str, str]
    inputs: _containers.RepeatedCompositeFieldContainer[Data]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    outputs: _containers.RepeatedCompositeFieldContainer[Source.Output]
    def __init__(self, version: _Optional[int] = ..., name: _Optional[str] = ..., options: _Optional[_Mapping[str, str]] = ..., inputs: _Optional[_Iterable[_Union[Data, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[Source.Output, _Mapping]]] = ...) -> None: ...
