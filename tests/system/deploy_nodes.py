"""A builtin module for executors in tests: an engine whose nodes do what the name in their package says.

The package is `<name>` or `<name>:<argument>`; functions below whose names begin with `node_` are those names.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

from dflow_core.model import PneModel, UdfModel
from dflow_core.spi import EngineEntry, FlowFunc, hookimpl


class Node(FlowFunc):
    """Passes every message on, after what its behaviour does with it."""

    def __init__(self, behaviour, argument):
        self.behaviour, self.argument, self.calls = behaviour, argument, 0

    def proc(self, context, inputs):
        self.calls += 1
        value = self.behaviour(self, inputs[0].get_tensor())
        for index in range(self.outputs):
            context.send(index, value)

    def init(self, params):
        self.outputs = params.output_num
        if self.behaviour is node_broken:
            raise ValueError("the constructor said no: 模型")
        if self.behaviour is node_dies_at_start:
            print("last words", flush=True)
            ctypes.string_at(0)
        if self.behaviour is node_slow_start:
            time.sleep(float(self.argument))
        if self.behaviour is node_exits_at_start:
            sys.exit(3)


def node_echo(node, value):
    return value


def node_pid(node, value):
    return value * 0 + os.getpid()


def node_environment(node, value):
    print(f"{node.argument}={os.environ.get(node.argument)}", flush=True)
    return value


node_broken = node_dies_at_start = node_slow_start = node_exits_at_start = None


def node_raises(node, value):
    raise ValueError(f"bad value {value.ravel()[0]}")


def node_segfault_on(node, value):
    if value.ravel()[0] == float(node.argument):
        print("about to crash", flush=True)
        ctypes.string_at(0)
    return value


def node_exit_on(node, value):
    if value.ravel()[0] == float(node.argument):
        os._exit(0)
    return value


def node_sleep(node, value):
    time.sleep(float(node.argument))
    return value


def node_sleep_in_c(node, value):
    # PyDLL keeps the GIL during the call.
    ctypes.PyDLL(None).usleep(int(float(node.argument) * 1e6))
    return value


def node_catches_all(node, value):
    while True:
        try:
            time.sleep(0.01)
        except BaseException as error:
            print(f"caught {error!r}")


def node_prints(node, value):
    text = "äöü 模型 " * 8
    for number in range(int(node.argument)):
        print(number, text)
    ctypes.CDLL(None).printf(b"from C\n")
    return value


def node_starts_program(node, value):
    import subprocess

    child = subprocess.Popen(["sleep", "600"])
    return value * 0 + child.pid


def load(model: PneModel, context):
    assert isinstance(model, UdfModel)
    name, _, argument = model.package.decode().partition(":")
    return [Node(_by_name(name), argument) for _ in model.functions]


def _by_name(name):
    return globals()[f"node_{name}"]


def _placeholder(name):
    def behaviour(node, value):
        return value

    behaviour.__name__ = name
    return behaviour


for _name in ("node_broken", "node_dies_at_start", "node_slow_start", "node_exits_at_start"):
    globals()[_name] = _placeholder(_name)


@hookimpl
def dflow_register_engines():
    return [EngineEntry("TEST", lambda point: False, lambda: None, lambda: load)]
