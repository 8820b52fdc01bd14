"""A builtin module for executors in tests: an engine `TEST` whose nodes do what their package says.

The package is `<behaviour>` or `<behaviour>:<argument>`.
"""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from dflow_core.message import FlowMsg
from dflow_core.model import PneModel, UdfModel
from dflow_core.spi import Engine, EngineEntry, FlowFunc, FuncParams, RunContext, WorkerContext, hookimpl
from dflow_core.types import Array


class Node(FlowFunc):
    """Sends its first input to every output after its behaviour has seen it."""

    def __init__(self, behaviour: str, argument: str) -> None:
        self.behaviour, self.argument = behaviour, argument
        self.outputs = 0
        self.seen = 0.0

    def init(self, params: FuncParams) -> None:
        self.outputs = params.output_num
        START.get(self.behaviour, lambda _argument: None)(self.argument)

    def deadline(self) -> float | None:
        if self.behaviour == "bad-timer-on" and self.seen == float(self.argument):
            raise RuntimeError("a fault outside any call")
        return None

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        value = inputs[0].get_tensor()
        assert value is not None
        self.seen = float(value.ravel()[0])
        result = WORK.get(self.behaviour, lambda given, _argument: given)(value, self.argument)
        for index in range(self.outputs):
            context.send(index, result)


def say_no(_argument: str) -> None:
    raise ValueError("the constructor said no: 模型")


def crash_at_start(_argument: str) -> None:
    print("last words", flush=True)
    ctypes.string_at(0)


START: dict[str, Callable[[str], object]] = {
    "broken": say_no,
    "crash-at-start": crash_at_start,
    "slow-start": lambda argument: time.sleep(float(argument)),
    "exit-at-start": lambda _argument: sys.exit(3),
}


def pid(value: Array, _argument: str) -> object:
    return np.float64(os.getpid())


def raise_error(value: Array, _argument: str) -> object:
    raise ValueError(f"bad value {value.ravel()[0]:g}")


def segfault_on(value: Array, argument: str) -> object:
    if value.ravel()[0] == float(argument):
        print("about to crash")
        ctypes.string_at(0)
    return value


def leave_on(value: Array, argument: str) -> object:
    if value.ravel()[0] == float(argument):
        os._exit(0)
    return value


def sleep_on(value: Array, argument: str) -> object:
    if value.ravel()[0] == float(argument):
        time.sleep(600)
    return value


def sleep_in_c_on(value: Array, argument: str) -> object:
    if value.ravel()[0] == float(argument):
        ctypes.PyDLL(None).sleep(600)  # keeps the GIL
    return value


def refuse_to_end(value: Array, _argument: str) -> object:
    while True:
        try:
            time.sleep(0.01)
        except BaseException as error:
            print(f"caught {error!r}")


def print_lines(value: Array, argument: str) -> object:
    for number in range(int(argument)):
        print(f"line {number} äöü 模型")
    ctypes.CDLL(None).printf(b"a line from C\n")
    logging.getLogger("user").warning("a line from logging")
    return value


def flood(value: Array, argument: str) -> object:
    line = "x" * 1023
    for _ in range(int(argument)):
        print(line)
    return value


def variable(value: Array, argument: str) -> object:
    return os.environ.get(argument, "")


def start_program(value: Array, _argument: str) -> object:
    return np.float64(subprocess.Popen(["sleep", "600"]).pid)


def is_main_signal_free(value: Array, _argument: str) -> object:
    import signal

    return str(signal.getsignal(signal.SIGINT))


WORK: dict[str, Callable[[Array, str], object]] = {
    "pid": pid,
    "raise": raise_error,
    "segfault-on": segfault_on,
    "leave-on": leave_on,
    "sleep-on": sleep_on,
    "sleep-in-c-on": sleep_in_c_on,
    "refuse-to-end": refuse_to_end,
    "print": print_lines,
    "flood": flood,
    "variable": variable,
    "start-program": start_program,
    "sigint": is_main_signal_free,
}


def load(model: PneModel, _context: WorkerContext) -> Sequence[FlowFunc]:
    """Worker loader of the engine."""
    assert isinstance(model, UdfModel)
    behaviour, _, argument = model.package.decode().partition(":")
    return [Node(behaviour, argument) for _ in model.functions]


def no_engine() -> Engine:
    raise NotImplementedError("nothing is compiled in these tests")


@hookimpl
def dflow_register_engines() -> Sequence[EngineEntry]:
    """The engine."""
    return [EngineEntry("TEST", lambda _point: False, no_engine, lambda: load)]
