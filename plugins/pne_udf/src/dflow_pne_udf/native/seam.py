"""The structures and functions of `dflow/flow_func_runtime.h`, and of `dflow/transport.h` what is needed of it."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path

from dflow_core.errors import PluginError
from dflow_pne_udf import sdk_dir

API = 1
NO_QUEUE = 0xFFFFFFFF
STREAM_INPUT = 1
STOP_ON_ERROR = 1
EXCEPTION_CATCH, BALANCE_SCATTER, BALANCE_GATHER, CHECK_INPUTS = 2, 4, 8, 16
LOADING, READY, RUNNING, SUSPENDED, FINISHED, FAILED = range(6)
E_CONFIG, E_LIBRARY, E_FUNCTION, E_STATE, E_SYSTEM = -1, -2, -3, -4, -5


class Func(Structure):
    """`struct dflow_udf_func`."""

    _fields_ = (
        ("name", c_char_p), ("inputs", POINTER(c_uint32)), ("outputs", POINTER(c_uint32)), ("n_inputs", c_uint32),
        ("n_outputs", c_uint32), ("flags", c_uint32), ("unused", c_uint32),
    )


class RouteList(Structure):
    """`struct dflow_udf_route`."""

    _fields_ = (("queues", POINTER(c_uint32)), ("n_queues", c_uint32), ("rule", c_uint16), ("spares", c_uint16))


class Output(Structure):
    """`struct dflow_udf_output`."""

    _fields_ = (("routes", POINTER(RouteList)), ("n_routes", c_uint32), ("unused", c_uint32))


class Invoked(Structure):
    """`struct dflow_udf_invoked`."""

    _fields_ = (
        ("key", c_char_p), ("inputs", POINTER(Output)), ("outputs", POINTER(c_uint32)), ("n_inputs", c_uint32),
        ("n_outputs", c_uint32),
    )


class DeadPartRecord(Structure):
    """`struct dflow_udf_dead_part`."""

    _fields_ = (
        ("trans_id", c_uint64), ("ports", POINTER(c_uint32)), ("data_label", c_uint32), ("n_ports", c_uint32),
    )


class Notice(Structure):
    """`struct dflow_udf_notice`."""

    _fields_ = (("queue", c_uint32), ("notices", c_uint32))


class Config(Structure):
    """`struct dflow_udf_config`."""

    _fields_ = (
        ("api", c_uint32), ("flags", c_uint32), ("transport", c_void_p), ("library", c_char_p), ("node", c_char_p),
        ("work_path", c_char_p), ("device_id", c_int32), ("instance", c_int32), ("instance_count", c_int32),
        ("threads", c_uint32), ("funcs", POINTER(Func)), ("inputs", POINTER(c_uint32)), ("outputs", POINTER(Output)),
        ("invoked", c_void_p), ("dead_parts", POINTER(DeadPartRecord)), ("attrs", c_char_p), ("attrs_size", c_uint64),
        ("n_funcs", c_uint32), ("n_inputs", c_uint32), ("n_outputs", c_uint32), ("n_invoked", c_uint32),
        ("n_dead_parts", c_uint32), ("align_max_cache", c_uint32), ("align_timeout_ms", c_int32),
        ("align_drop", c_uint32), ("scope", c_char_p), ("notices", POINTER(Notice)), ("n_notices", c_uint64),
        ("cancelled", c_void_p), ("failed_calls", POINTER(c_uint32)),
    )


class Stats(Structure):
    """`struct dflow_udf_stats`."""

    _fields_ = (
        ("calls", c_uint64), ("failed", c_uint64), ("sent", c_uint64), ("busy_ns", c_uint64), ("blocked_ns", c_uint64),
        ("current_trans", c_uint64), ("current_since", c_int64), ("state", c_uint32), ("pending", c_uint32),
    )


class FailureRecord(Structure):
    """`struct dflow_udf_failure`."""

    _fields_ = (
        ("code", c_int32), ("is_node", c_int32), ("trans_id", c_uint64), ("error_type", ctypes.c_char * 128),
        ("message", ctypes.c_char * 4096),
    )


class ExceptionRecord(Structure):
    """`struct dflow_udf_exception`."""

    _fields_ = (
        ("code", c_int32), ("expired", c_uint32), ("trans_id", c_uint64), ("user_context_id", c_uint64),
        ("head", ctypes.c_uint8 * 256),
    )


class _TableHead(Structure):
    """The beginning of `struct dflow_transport`, up to what finds a queue."""

    _fields_ = (
        ("abi", c_uint32), ("size", c_uint32), ("context", c_void_p), ("allocate", c_void_p), ("retain", c_void_p),
        ("release", c_void_p), ("view", c_void_p), ("queue_find", c_void_p),
    )


_FIND = CFUNCTYPE(c_int64, c_void_p, c_char_p)


def find_queue(table: int, name: str) -> int:
    """The number of a queue in a native table; negative if there is none of that name."""
    head = _TableHead.from_address(table)
    return int(_FIND(head.queue_find)(head.context, name.encode()))


@functools.cache
def runtime(path: Path | None = None) -> ctypes.CDLL:
    """libflow_func.so, loaded so that the libraries of users find it.

    Raises:
        PluginError: it is missing, does not load, or is of another version than this package.
    """
    library = path or sdk_dir.library()
    try:
        found = ctypes.CDLL(str(library), os.RTLD_NOW | os.RTLD_GLOBAL)
    except OSError as cause:
        raise PluginError(f"{library} does not load: {cause}", hint="reinstall dflow-pne-udf") from cause
    asks = getattr(found, "dflow_udf_api", None)
    version = asks() if asks is not None else "another"
    if version != API:
        raise PluginError(
            f"{library} speaks version {version} of the runtime interface, this package {API}",
            hint="reinstall dflow-pne-udf, and let LD_LIBRARY_PATH name no other libflow_func.so",
        )
    for name, result, arguments in _PROTOTYPES:
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


_PROTOTYPES: tuple[tuple[str, object, list[object]], ...] = (
    ("dflow_udf_last_error", c_char_p, []),
    ("dflow_udf_load", c_int, [c_char_p]),
    ("dflow_udf_sdk_versions", c_int, [c_char_p, POINTER(c_uint32)]),
    ("dflow_udf_functions", c_int64, [c_char_p, c_uint64]),
    ("dflow_udf_open", c_int, [POINTER(Config), POINTER(c_void_p)]),
    ("dflow_udf_wait", c_int, [c_void_p, c_int, c_int64]),
    ("dflow_udf_get_state", c_int, [c_void_p]),
    ("dflow_udf_trace", c_int, [c_void_p, c_char_p, c_char_p]),
    ("dflow_udf_start", c_int, [c_void_p]),
    ("dflow_udf_stop", c_int, [c_void_p]),
    ("dflow_udf_suspend", c_int, [c_void_p]),
    ("dflow_udf_recover", c_int, [c_void_p]),
    ("dflow_udf_hold", c_int, [c_void_p, c_int]),
    ("dflow_udf_is_quiet", c_int, [c_void_p]),
    ("dflow_udf_close", None, [c_void_p]),
    ("dflow_udf_get_stats", c_int, [c_void_p, c_int32, POINTER(Stats)]),
    ("dflow_udf_get_failure", c_int, [c_void_p, POINTER(FailureRecord)]),
    ("dflow_udf_catch_crashes", c_int, []),
    ("dflow_udf_take_exception", c_int, [c_void_p, POINTER(ExceptionRecord)]),
    ("dflow_udf_notify_exception", c_int, [c_void_p, c_char_p, POINTER(ExceptionRecord)]),
)

