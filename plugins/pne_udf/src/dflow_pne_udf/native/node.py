"""Runs one instance of a C++ node: loads the library, gives it the node's queues, and watches it."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dflow_core.errors import ClosedError, DeployError, NodeError
from dflow_core.model import ExceptionNote, InvokedPlan, Route, UdfModel, scope_of
from dflow_core.spi import NATIVE_ABI, BoardWords, NativeTable, NodeLinks, NodeWorker
from dflow_core.types import FuncSpec
from dflow_pne_udf.native import seam
from dflow_pne_udf.native.attrs import pack_attrs

_BALANCE = {"": 0, "scatter": seam.BALANCE_SCATTER, "gather": seam.BALANCE_GATHER}
_RULES = {"label": 0, "transaction": 1, "sticky": 2, "load": 3}
_SLICE_NS = 200_000_000
_PATIENCE_NS = 60_000_000_000
_RESET_LIMIT = 30.0
_RESET_SLICE_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class LibraryPlace:
    """A library that is ready to load.

    Args:
        library: Its path.
        work_path: Folder with what was shipped beside it.
        functions: The functions of the node it is for.
        threads: Calls that may run at once; 0 is one for each function.
        end: Called when it is not needed any more.
        checks_inputs: Whether a call that changes one of its inputs fails.
    """

    library: str
    work_path: str
    functions: tuple[FuncSpec, ...]
    threads: int = 0
    end: Callable[[], None] | None = None
    checks_inputs: bool = False


class CppNode(NodeWorker):
    """One instance of a node of C++ functions.

    Args:
        model: The node's model.
        place: Finds the library when it is needed: unpacking may fail, and then the deployment has to say so.
        report: Takes a sentence for the log.
    """

    def __init__(
        self, model: UdfModel, place: Callable[[], LibraryPlace], report: Callable[[str], None] = lambda _text: None
    ) -> None:
        self._model = model
        self._place = place
        self._report = report
        self._handle: ctypes.c_void_p | None = None
        self._in_use = threading.Lock()
        self._table: NativeTable | None = None
        self._cancelled: BoardWords | None = None  # the runtime reads it until it is closed
        self._end: Callable[[], None] | None = None
        self._instance = 0
        self._last = seam.Stats()
        self._catches = False
        self._raised: Callable[[ExceptionNote], None] = lambda _note: None

    def open(self, links: NodeLinks) -> None:
        self._instance = links.plan.index
        self._catches, self._raised = links.catches, links.raised
        self._table = _native_table(links, self._model.name)
        self._cancelled = links.cancelled
        place = self._place()
        self._end = place.end
        api = seam.runtime()
        api.dflow_udf_catch_crashes()
        config = _Configuration(self._model, place, links, self._table.address)
        handle = ctypes.c_void_p()
        if api.dflow_udf_open(ctypes.byref(config.record), ctypes.byref(handle)):
            raise DeployError(self._last_error(), node=self._model.name, instance=self._instance)
        self._handle = handle
        state = seam.LOADING
        while state == seam.LOADING:  # a hung constructor is ended by the start time limit of the deployment
            state = api.dflow_udf_wait(handle, state, _SLICE_NS)
        if state != seam.READY:
            failure = self._failure()
            self.close()
            raise failure
        if links.trace:
            head = {"node": self._model.name, "instance": self._instance, "pid": os.getpid()}
            begun = json.dumps(head).rstrip("}") + ", "
            if api.dflow_udf_trace(handle, os.fsencode(links.trace), begun.encode()):
                raise DeployError(f"the trace cannot be written: {self._last_error()}", node=self._model.name)

    def run(self) -> None:
        api, handle = seam.runtime(), self._handle
        if handle is None:
            raise ClosedError("the node is closed")
        if api.dflow_udf_start(handle):
            raise DeployError(self._last_error(), node=self._model.name, instance=self._instance)
        state = seam.READY
        while seam.READY <= state < seam.FINISHED:
            state = api.dflow_udf_wait(handle, state, _PATIENCE_NS)
            if self._catches:
                self._report_exceptions(handle)
        if state != seam.FINISHED:
            raise self._failure()

    def stop(self) -> None:
        with self._in_use:
            if self._handle is not None:
                seam.runtime().dflow_udf_stop(self._handle)

    def hold(self, held: bool) -> None:
        self._told(lambda handle: int(seam.runtime().dflow_udf_hold(handle, held)))

    @property
    def is_quiet(self) -> bool:
        with self._in_use:
            return self._handle is None or seam.runtime().dflow_udf_is_quiet(self._handle) == 1

    def reset(self) -> bool:
        """Have the runtime drop all input and what its functions hold, and call `ResetFlowFuncState`."""
        api, limit = seam.runtime(), time.monotonic() + _RESET_LIMIT
        if not self._told(api.dflow_udf_suspend):
            return True  # it does not run, so it holds nothing
        while (state := self._state()) == seam.RUNNING and time.monotonic() < limit:
            self._changed_from(state)
        while not self._told(api.dflow_udf_recover) and time.monotonic() < limit:
            self._changed_from(self._state())
        while (state := self._state()) == seam.SUSPENDED and time.monotonic() < limit:
            self._changed_from(state)
        return state != seam.SUSPENDED

    def _told(self, call: Callable[[ctypes.c_void_p], int]) -> bool:
        with self._in_use:
            return self._handle is not None and call(self._handle) == 0

    def _state(self) -> int:
        with self._in_use:
            return seam.runtime().dflow_udf_get_state(self._handle) if self._handle is not None else seam.FINISHED

    def _changed_from(self, state: int) -> None:
        with self._in_use:
            if self._handle is not None:
                seam.runtime().dflow_udf_wait(self._handle, state, _RESET_SLICE_NS)

    def notify(self, note: ExceptionNote) -> None:
        record = seam.ExceptionRecord(note.code, note.expired, note.trans_id, note.user_context_id)
        record.head[:] = note.head.ljust(len(record.head), b"\0")
        with self._in_use:
            if self._handle is not None:
                scope = note.scope.encode()
                seam.runtime().dflow_udf_notify_exception(self._handle, scope, ctypes.byref(record))

    def close(self) -> None:
        self._refresh()
        with self._in_use:
            handle, self._handle = self._handle, None
        if handle is not None:
            seam.runtime().dflow_udf_close(handle)
        self._table = self._cancelled = None
        if self._end is not None:
            self._end()
            self._end = None

    @property
    def calls(self) -> int:
        return int(self._refresh().calls)

    @property
    def busy(self) -> float:
        return float(self._refresh().busy_ns) / 1e9

    @property
    def current(self) -> tuple[int, float] | None:
        stats = self._refresh()
        # Only the difference counts: the runtime's clock and Python's are the same.
        return (int(stats.current_trans), float(stats.current_since) / 1e9) if stats.current_since else None

    def _report_exceptions(self, handle: ctypes.c_void_p) -> None:
        record = seam.ExceptionRecord()
        while seam.runtime().dflow_udf_take_exception(handle, ctypes.byref(record)) == 1:
            self._raised(
                ExceptionNote(
                    int(record.trans_id), int(record.code), int(record.user_context_id), bytes(record.head),
                    self._model.name, self._instance,
                )
            )

    def _refresh(self) -> seam.Stats:
        stats = seam.Stats()
        with self._in_use:
            if self._handle and not seam.runtime().dflow_udf_get_stats(self._handle, -1, ctypes.byref(stats)):
                self._last = stats
        return self._last

    def _failure(self) -> DeployError | NodeError:
        record = seam.FailureRecord()
        seam.runtime().dflow_udf_get_failure(self._handle, ctypes.byref(record))
        message, kind = record.message.decode("utf-8", "replace"), record.error_type.decode("utf-8", "replace")
        if record.is_node:
            return NodeError(
                message, node=self._model.name, instance=self._instance, trans_id=int(record.trans_id),
                error_type=kind, ret_code=int(record.code),
            )
        text = f"{kind}: {message}" if kind and kind not in message else message
        return DeployError(text, node=self._model.name, instance=self._instance)

    def _last_error(self) -> str:
        found: bytes | None = seam.runtime().dflow_udf_last_error()
        return (found or b"the C++ function failed without saying why").decode("utf-8", "replace")


class _Configuration:
    """A `dflow_udf_config` with everything it points to.

    Args:
        model: The node's model.
        place: Its library.
        links: Its queues.
        table: Address of the native table.
    """

    def __init__(self, model: UdfModel, place: LibraryPlace, links: NodeLinks, table: int) -> None:
        self._alive: list[object] = []
        self._queue_numbers: dict[str, int] = {}
        self._table = table
        plan, limits = links.plan, links.limits
        flags = seam.STOP_ON_ERROR if model.options.on_error == "stop" else 0
        flags |= seam.EXCEPTION_CATCH if links.catches else 0
        flags |= seam.CHECK_INPUTS if place.checks_inputs else 0
        attrs = pack_attrs(links.params.attrs)
        funcs = [self._function(spec) for spec in place.functions]
        outputs = [self._output(routes) for routes in plan.outputs]
        dead = [
            seam.DeadPartRecord(part.trans_id, self._numbers(part.ports), part.data_label, len(part.ports))
            for part in links.dead_parts
        ]
        invoked = [self._called(one) for one in plan.invoked]
        notices = [seam.Notice(self._queue(queue), self._queue(told)) for queue, told in plan.notices.items()]
        self.record = seam.Config(
            api=seam.API,
            flags=flags | _BALANCE[model.balance],
            transport=table,
            library=place.library.encode("utf-8", "surrogateescape"),
            node=model.name.encode(),
            work_path=place.work_path.encode("utf-8", "surrogateescape"),
            device_id=int(plan.device.rpartition(":")[2] or 0),
            instance=plan.index,
            instance_count=plan.count,
            threads=place.threads,
            funcs=self._array(seam.Func, funcs),
            inputs=self._numbers([self._queue(name) for name in plan.inputs]),
            outputs=self._array(seam.Output, outputs),
            invoked=ctypes.cast(self._array(seam.Invoked, invoked), ctypes.c_void_p),
            dead_parts=self._array(seam.DeadPartRecord, dead),
            attrs=attrs,
            attrs_size=len(attrs),
            n_funcs=len(funcs),
            n_inputs=len(plan.inputs),
            n_outputs=len(outputs),
            n_invoked=len(invoked),
            n_dead_parts=len(dead),
            align_max_cache=limits.max_cache,
            align_timeout_ms=max(1, round(limits.timeout * 1000)) if limits and limits.timeout else -1,
            align_drop=limits.drop,
            scope=scope_of(model.name).encode(),
            notices=self._array(seam.Notice, notices),
            n_notices=len(notices),
            cancelled=None if links.cancelled is None else links.cancelled.ctypes.data,
            failed_calls=self._numbers([self._queue(links.failed_calls)]) if links.failed_calls else None,
        )

    def _function(self, spec: FuncSpec) -> seam.Func:
        flags = seam.STREAM_INPUT if spec.stream_input else 0
        return seam.Func(
            spec.name.encode(), self._numbers(spec.inputs), self._numbers(spec.outputs), len(spec.inputs),
            len(spec.outputs), flags, 0,
        )

    def _output(self, routes: Sequence[Route]) -> seam.Output:
        made = [
            seam.RouteList(
                self._numbers([self._queue(name) for name in route.queues]), len(route.queues), _RULES[route.by],
                route.spares,
            )
            for route in routes
        ]
        return seam.Output(self._array(seam.RouteList, made), len(made), 0)

    def _called(self, one: InvokedPlan) -> seam.Invoked:
        inputs = [self._output(routes) for routes in one.inputs]
        outputs = self._numbers([self._queue(name) for name in one.outputs])
        return seam.Invoked(
            one.key.encode(), self._array(seam.Output, inputs), outputs, len(inputs), len(one.outputs)
        )

    def _queue(self, name: str) -> int:
        if not name:
            return seam.NO_QUEUE
        if name not in self._queue_numbers:
            number = seam.find_queue(self._table, name)
            if number < 0:
                raise DeployError(f"the memory group has no queue {name!r}")
            self._queue_numbers[name] = number
        return self._queue_numbers[name]

    def _numbers(self, numbers: Sequence[int]) -> ctypes.Array[ctypes.c_uint32]:
        made = (ctypes.c_uint32 * len(numbers))(*numbers)
        self._alive.append(made)
        return made

    def _array(self, kind: type[ctypes.Structure], items: Sequence[ctypes.Structure]) -> ctypes.Array[ctypes.Structure]:
        made = (kind * len(items))(*items)
        self._alive.append(made)
        return made


def _native_table(links: NodeLinks, node: str) -> NativeTable:
    table = links.group.native_table()
    if table is None:
        raise DeployError(
            "C++ functions need a transport that native code can use; the one of this graph is not",
            node=node, hint="pip install dflow-transport-shm, and leave the option transport to it",
        )
    if table.abi != NATIVE_ABI:
        raise DeployError(
            f"the transport's native table is of version {table.abi}, dflow's is {NATIVE_ABI}", node=node,
            hint="upgrade dflow-core and the transport together",
        )
    return table
