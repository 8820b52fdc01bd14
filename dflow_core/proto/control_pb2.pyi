from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Route(_message.Message):
    __slots__ = ("queues", "by", "spares")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SPARES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedScalarFieldContainer[str]
    by: str
    spares: int
    def __init__(self, queues: _Optional[_Iterable[str]] = ..., by: _Optional[str] = ..., spares: _Optional[int] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("routes",)
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    routes: _containers.RepeatedCompositeFieldContainer[Route]
    def __init__(self, routes: _Optional[_Iterable[_Union[Route, _Mapping]]] = ...) -> None: ...

class Invoked(_message.Message):
    __slots__ = ("key", "inputs", "outputs")
    KEY_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    key: str
    inputs: _containers.RepeatedCompositeFieldContainer[Output]
    outputs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Output, _Mapping]]] = ..., outputs: _Optional[_Iterable[str]] = ...) -> None: ...

class Instance(_message.Message):
    __slots__ = ("model", "index", "count", "process", "device", "threads", "inputs", "outputs", "notices", "invoked")
    class NoticesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    INVOKED_FIELD_NUMBER: _ClassVar[int]
    model: str
    index: int
    count: int
    process: str
    device: str
    threads: int
    inputs: _containers.RepeatedScalarFieldContainer[str]
    outputs: _containers.RepeatedCompositeFieldContainer[Output]
    notices: _containers.ScalarMap[str, str]
    invoked: _containers.RepeatedCompositeFieldContainer[Invoked]
    def __init__(self, model: _Optional[str] = ..., index: _Optional[int] = ..., count: _Optional[int] = ..., process: _Optional[str] = ..., device: _Optional[str] = ..., threads: _Optional[int] = ..., inputs: _Optional[_Iterable[str]] = ..., outputs: _Optional[_Iterable[_Union[Output, _Mapping]]] = ..., notices: _Optional[_Mapping[str, str]] = ..., invoked: _Optional[_Iterable[_Union[Invoked, _Mapping]]] = ...) -> None: ...

class Process(_message.Message):
    __slots__ = ("name", "engine", "env", "instances", "machine")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    name: str
    engine: str
    env: str
    instances: _containers.RepeatedCompositeFieldContainer[Instance]
    machine: str
    def __init__(self, name: _Optional[str] = ..., engine: _Optional[str] = ..., env: _Optional[str] = ..., instances: _Optional[_Iterable[_Union[Instance, _Mapping]]] = ..., machine: _Optional[str] = ...) -> None: ...

class DeadPart(_message.Message):
    __slots__ = ("model", "index", "trans_id", "data_label", "ports")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TRANS_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_LABEL_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    model: str
    index: int
    trans_id: int
    data_label: int
    ports: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, model: _Optional[str] = ..., index: _Optional[int] = ..., trans_id: _Optional[int] = ..., data_label: _Optional[int] = ..., ports: _Optional[_Iterable[int]] = ...) -> None: ...

class LoadRequest(_message.Message):
    __slots__ = ("process", "models", "options", "group_scheme", "group_token", "group_fds", "dead_parts", "builtins", "all_plugins_allowed", "allowed_plugins", "hold")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    GROUP_SCHEME_FIELD_NUMBER: _ClassVar[int]
    GROUP_TOKEN_FIELD_NUMBER: _ClassVar[int]
    GROUP_FDS_FIELD_NUMBER: _ClassVar[int]
    DEAD_PARTS_FIELD_NUMBER: _ClassVar[int]
    BUILTINS_FIELD_NUMBER: _ClassVar[int]
    ALL_PLUGINS_ALLOWED_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_PLUGINS_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    process: Process
    models: _containers.RepeatedScalarFieldContainer[str]
    options: _containers.ScalarMap[str, str]
    group_scheme: str
    group_token: bytes
    group_fds: int
    dead_parts: _containers.RepeatedCompositeFieldContainer[DeadPart]
    builtins: _containers.RepeatedScalarFieldContainer[str]
    all_plugins_allowed: bool
    allowed_plugins: _containers.RepeatedScalarFieldContainer[str]
    hold: bool
    def __init__(self, process: _Optional[_Union[Process, _Mapping]] = ..., models: _Optional[_Iterable[str]] = ..., options: _Optional[_Mapping[str, str]] = ..., group_scheme: _Optional[str] = ..., group_token: _Optional[bytes] = ..., group_fds: _Optional[int] = ..., dead_parts: _Optional[_Iterable[_Union[DeadPart, _Mapping]]] = ..., builtins: _Optional[_Iterable[str]] = ..., all_plugins_allowed: bool = ..., allowed_plugins: _Optional[_Iterable[str]] = ..., hold: bool = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Failure(_message.Message):
    __slots__ = ("kind", "message", "traceback", "node", "instance", "hint", "trans_id", "input_shapes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    TRANS_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_SHAPES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    traceback: str
    node: str
    instance: int
    hint: str
    trans_id: int
    input_shapes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ..., node: _Optional[str] = ..., instance: _Optional[int] = ..., hint: _Optional[str] = ..., trans_id: _Optional[int] = ..., input_shapes: _Optional[_Iterable[str]] = ...) -> None: ...

class LoadFailed(_message.Message):
    __slots__ = ("failure",)
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Fatal(_message.Message):
    __slots__ = ("failure",)
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class InstanceDone(_message.Message):
    __slots__ = ("model", "index")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    model: str
    index: int
    def __init__(self, model: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("drain",)
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    drain: bool
    def __init__(self, drain: bool = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class InstanceState(_message.Message):
    __slots__ = ("model", "index", "calls", "busy", "in_call", "trans_id", "call_age")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    IN_CALL_FIELD_NUMBER: _ClassVar[int]
    TRANS_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_AGE_FIELD_NUMBER: _ClassVar[int]
    model: str
    index: int
    calls: int
    busy: float
    in_call: bool
    trans_id: int
    call_age: float
    def __init__(self, model: _Optional[str] = ..., index: _Optional[int] = ..., calls: _Optional[int] = ..., busy: _Optional[float] = ..., in_call: bool = ..., trans_id: _Optional[int] = ..., call_age: _Optional[float] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("number", "instances")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    number: int
    instances: _containers.RepeatedCompositeFieldContainer[InstanceState]
    def __init__(self, number: _Optional[int] = ..., instances: _Optional[_Iterable[_Union[InstanceState, _Mapping]]] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("kind", "number")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    number: int
    def __init__(self, kind: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class Obeyed(_message.Message):
    __slots__ = ("number", "quiet")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    QUIET_FIELD_NUMBER: _ClassVar[int]
    number: int
    quiet: bool
    def __init__(self, number: _Optional[int] = ..., quiet: bool = ...) -> None: ...

class ExceptionNote(_message.Message):
    __slots__ = ("trans_id", "code", "user_context_id", "head", "node", "instance", "function", "expired")
    TRANS_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    USER_CONTEXT_ID_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    trans_id: int
    code: int
    user_context_id: int
    head: bytes
    node: str
    instance: int
    function: int
    expired: bool
    def __init__(self, trans_id: _Optional[int] = ..., code: _Optional[int] = ..., user_context_id: _Optional[int] = ..., head: _Optional[bytes] = ..., node: _Optional[str] = ..., instance: _Optional[int] = ..., function: _Optional[int] = ..., expired: bool = ...) -> None: ...

class ControlMessage(_message.Message):
    __slots__ = ("load_request", "ready", "load_failed", "fatal", "instance_done", "stop", "status_request", "status", "order", "obeyed", "exception")
    LOAD_REQUEST_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    LOAD_FAILED_FIELD_NUMBER: _ClassVar[int]
    FATAL_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_DONE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STATUS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    OBEYED_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_FIELD_NUMBER: _ClassVar[int]
    load_request: LoadRequest
    ready: Ready
    load_failed: LoadFailed
    fatal: Fatal
    instance_done: InstanceDone
    stop: Stop
    status_request: StatusRequest
    status: Status
    order: Order
    obeyed: Obeyed
    exception: ExceptionNote
    def __init__(self, load_request: _Optional[_Union[LoadRequest, _Mapping]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., load_failed: _Optional[_Union[LoadFailed, _Mapping]] = ..., fatal: _Optional[_Union[Fatal, _Mapping]] = ..., instance_done: _Optional[_Union[InstanceDone, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ..., status_request: _Optional[_Union[StatusRequest, _Mapping]] = ..., status: _Optional[_Union[Status, _Mapping]] = ..., order: _Optional[_Union[Order, _Mapping]] = ..., obeyed: _Optional[_Union[Obeyed, _Mapping]] = ..., exception: _Optional[_Union[ExceptionNote, _Mapping]] = ...) -> None: ...
