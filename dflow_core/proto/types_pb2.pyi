from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TensorSpec(_message.Message):
    __slots__ = ("dtype", "has_shape", "shape", "name")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    HAS_SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    dtype: int
    has_shape: bool
    shape: _containers.RepeatedScalarFieldContainer[int]
    name: str
    def __init__(self, dtype: _Optional[int] = ..., has_shape: bool = ..., shape: _Optional[_Iterable[int]] = ..., name: _Optional[str] = ...) -> None: ...

class ListValue(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, items: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("text", "flag", "integer", "number", "data_type", "list")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    text: str
    flag: bool
    integer: int
    number: float
    data_type: int
    list: ListValue
    def __init__(self, text: _Optional[str] = ..., flag: bool = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., data_type: _Optional[int] = ..., list: _Optional[_Union[ListValue, _Mapping]] = ...) -> None: ...

class NodeOptions(_message.Message):
    __slots__ = ("instances", "threads", "env", "call_timeout", "on_error", "restarts", "process", "dispatch", "when_lost", "restart_window", "restart_delay", "restart_delay_max", "align_max_cache", "align_timeout", "align_drop")
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CALL_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ON_ERROR_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    WHEN_LOST_FIELD_NUMBER: _ClassVar[int]
    RESTART_WINDOW_FIELD_NUMBER: _ClassVar[int]
    RESTART_DELAY_FIELD_NUMBER: _ClassVar[int]
    RESTART_DELAY_MAX_FIELD_NUMBER: _ClassVar[int]
    ALIGN_MAX_CACHE_FIELD_NUMBER: _ClassVar[int]
    ALIGN_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ALIGN_DROP_FIELD_NUMBER: _ClassVar[int]
    instances: int
    threads: int
    env: str
    call_timeout: float
    on_error: str
    restarts: int
    process: str
    dispatch: str
    when_lost: str
    restart_window: float
    restart_delay: float
    restart_delay_max: float
    align_max_cache: int
    align_timeout: float
    align_drop: bool
    def __init__(self, instances: _Optional[int] = ..., threads: _Optional[int] = ..., env: _Optional[str] = ..., call_timeout: _Optional[float] = ..., on_error: _Optional[str] = ..., restarts: _Optional[int] = ..., process: _Optional[str] = ..., dispatch: _Optional[str] = ..., when_lost: _Optional[str] = ..., restart_window: _Optional[float] = ..., restart_delay: _Optional[float] = ..., restart_delay_max: _Optional[float] = ..., align_max_cache: _Optional[int] = ..., align_timeout: _Optional[float] = ..., align_drop: bool = ...) -> None: ...

class ProcessFunc(_message.Message):
    __slots__ = ("name", "in_index", "out_index", "gather", "holds_inputs", "stream_input", "n_mapping", "generator")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IN_INDEX_FIELD_NUMBER: _ClassVar[int]
    OUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    GATHER_FIELD_NUMBER: _ClassVar[int]
    HOLDS_INPUTS_FIELD_NUMBER: _ClassVar[int]
    STREAM_INPUT_FIELD_NUMBER: _ClassVar[int]
    N_MAPPING_FIELD_NUMBER: _ClassVar[int]
    GENERATOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    in_index: _containers.RepeatedScalarFieldContainer[int]
    out_index: _containers.RepeatedScalarFieldContainer[int]
    gather: bool
    holds_inputs: bool
    stream_input: bool
    n_mapping: bool
    generator: bool
    def __init__(self, name: _Optional[str] = ..., in_index: _Optional[_Iterable[int]] = ..., out_index: _Optional[_Iterable[int]] = ..., gather: bool = ..., holds_inputs: bool = ..., stream_input: bool = ..., n_mapping: bool = ..., generator: bool = ...) -> None: ...
