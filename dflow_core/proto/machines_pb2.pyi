from dflow_core.proto import control_pb2 as _control_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Queue(_message.Message):
    __slots__ = ("name", "depth", "overflow", "max_age", "notices")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    OVERFLOW_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    name: str
    depth: int
    overflow: str
    max_age: float
    notices: str
    def __init__(self, name: _Optional[str] = ..., depth: _Optional[int] = ..., overflow: _Optional[str] = ..., max_age: _Optional[float] = ..., notices: _Optional[str] = ...) -> None: ...

class Crossing(_message.Message):
    __slots__ = ("queue", "source", "target")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    queue: str
    source: str
    target: str
    def __init__(self, queue: _Optional[str] = ..., source: _Optional[str] = ..., target: _Optional[str] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("device", "resource_type", "logical_device", "spare", "visible", "machine")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_DEVICE_FIELD_NUMBER: _ClassVar[int]
    SPARE_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    device: str
    resource_type: str
    logical_device: str
    spare: bool
    visible: int
    machine: str
    def __init__(self, device: _Optional[str] = ..., resource_type: _Optional[str] = ..., logical_device: _Optional[str] = ..., spare: bool = ..., visible: _Optional[int] = ..., machine: _Optional[str] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ("node", "places", "dispatch")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    node: str
    places: _containers.RepeatedCompositeFieldContainer[Place]
    dispatch: str
    def __init__(self, node: _Optional[str] = ..., places: _Optional[_Iterable[_Union[Place, _Mapping]]] = ..., dispatch: _Optional[str] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("graph", "transport", "processes", "queues", "crossings", "placements", "cpus", "machine")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    CROSSINGS_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    graph: str
    transport: str
    processes: _containers.RepeatedCompositeFieldContainer[_control_pb2.Process]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    crossings: _containers.RepeatedCompositeFieldContainer[Crossing]
    placements: _containers.RepeatedCompositeFieldContainer[Placement]
    cpus: int
    machine: str
    def __init__(self, graph: _Optional[str] = ..., transport: _Optional[str] = ..., processes: _Optional[_Iterable[_Union[_control_pb2.Process, _Mapping]]] = ..., queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., crossings: _Optional[_Iterable[_Union[Crossing, _Mapping]]] = ..., placements: _Optional[_Iterable[_Union[Placement, _Mapping]]] = ..., cpus: _Optional[int] = ..., machine: _Optional[str] = ...) -> None: ...

class Deploy(_message.Message):
    __slots__ = ("part", "options")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PART_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    part: Part
    options: _containers.ScalarMap[str, str]
    def __init__(self, part: _Optional[_Union[Part, _Mapping]] = ..., options: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Ask(_message.Message):
    __slots__ = ("question", "timeout")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    question: str
    timeout: float
    def __init__(self, question: _Optional[str] = ..., timeout: _Optional[float] = ...) -> None: ...

class InstanceStatus(_message.Message):
    __slots__ = ("node", "instance", "process", "pid", "state", "restarts", "calls", "busy", "trans_id", "call_age", "given_up", "given_up_age", "failed", "blocked", "waiting")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    TRANS_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_AGE_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_AGE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    node: str
    instance: int
    process: str
    pid: int
    state: str
    restarts: int
    calls: int
    busy: float
    trans_id: int
    call_age: float
    given_up: str
    given_up_age: float
    failed: int
    blocked: float
    waiting: float
    def __init__(self, node: _Optional[str] = ..., instance: _Optional[int] = ..., process: _Optional[str] = ..., pid: _Optional[int] = ..., state: _Optional[str] = ..., restarts: _Optional[int] = ..., calls: _Optional[int] = ..., busy: _Optional[float] = ..., trans_id: _Optional[int] = ..., call_age: _Optional[float] = ..., given_up: _Optional[str] = ..., given_up_age: _Optional[float] = ..., failed: _Optional[int] = ..., blocked: _Optional[float] = ..., waiting: _Optional[float] = ...) -> None: ...

class QueueStats(_message.Message):
    __slots__ = ("name", "depth", "level", "sent", "delivered", "dropped", "failed", "oldest_age", "blocked", "waiting")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_AGE_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    name: str
    depth: int
    level: int
    sent: int
    delivered: int
    dropped: int
    failed: int
    oldest_age: float
    blocked: float
    waiting: float
    def __init__(self, name: _Optional[str] = ..., depth: _Optional[int] = ..., level: _Optional[int] = ..., sent: _Optional[int] = ..., delivered: _Optional[int] = ..., dropped: _Optional[int] = ..., failed: _Optional[int] = ..., oldest_age: _Optional[float] = ..., blocked: _Optional[float] = ..., waiting: _Optional[float] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("failure", "verdict", "statuses", "stacks", "queues")
    class StacksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    STACKS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    failure: _control_pb2.Failure
    verdict: bool
    statuses: _containers.RepeatedCompositeFieldContainer[InstanceStatus]
    stacks: _containers.ScalarMap[str, str]
    queues: _containers.RepeatedCompositeFieldContainer[QueueStats]
    def __init__(self, failure: _Optional[_Union[_control_pb2.Failure, _Mapping]] = ..., verdict: bool = ..., statuses: _Optional[_Iterable[_Union[InstanceStatus, _Mapping]]] = ..., stacks: _Optional[_Mapping[str, str]] = ..., queues: _Optional[_Iterable[_Union[QueueStats, _Mapping]]] = ...) -> None: ...

class MachineMessage(_message.Message):
    __slots__ = ("number", "deploy", "ask", "answer", "raised", "broken")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DEPLOY_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    RAISED_FIELD_NUMBER: _ClassVar[int]
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    number: int
    deploy: Deploy
    ask: Ask
    answer: Answer
    raised: _control_pb2.ExceptionNote
    broken: _control_pb2.Failure
    def __init__(self, number: _Optional[int] = ..., deploy: _Optional[_Union[Deploy, _Mapping]] = ..., ask: _Optional[_Union[Ask, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ..., raised: _Optional[_Union[_control_pb2.ExceptionNote, _Mapping]] = ..., broken: _Optional[_Union[_control_pb2.Failure, _Mapping]] = ...) -> None: ...
