"""Functions can ask which instance they are while they run; nobody else is taken for one."""

from __future__ import annotations

import threading

import numpy as np

import dflow_core as df
from dflow_core.spi import FuncParams, running
from dflow_core.types import FuncSpec
from dflow_core.udf import MethodSpec, PythonFunc, python_funcs


class Tells:
    """Remembers where each of its methods ran."""

    seen: dict[str, str]

    def __init__(self) -> None:
        self.seen = {"init": name()}

    def work(self, x: object) -> object:
        self.seen["work"] = name()
        return x

    def on_lost(self, trans_id: int) -> None:
        self.seen["on_lost"] = name()

    def reset_func_state(self) -> None:
        self.seen["reset_func_state"] = name()

    def close(self) -> None:
        self.seen["close"] = name()


def name() -> str:
    found = running()
    return found.name if found is not None else ""


def test_every_call_of_user_code_knows_its_instance_and_nothing_around_it_does() -> None:
    made: list[Tells] = []

    def make() -> Tells:
        made.append(Tells())
        return made[0]

    package = PythonFunc("class", make, methods=(MethodSpec("work"),))
    (func,) = python_funcs(package, [FuncSpec("work", (0,), (0,))])
    func.init(FuncParams("node", 1, 2))
    assert running() is None
    func.on_lost(3)
    func.reset()
    func.close()
    assert running() is None
    assert made[0].seen == dict.fromkeys(("init", "on_lost", "reset_func_state", "close"), "node")


@df.pyflow
def who(x):
    return np.array(list(name().encode()), np.uint8)


@df.pyflow
def parts(x):
    for _ in range(2):
        yield np.array(list(name().encode()), np.uint8)


@df.pyflow(stream_input="Queue")
def stream(queue):
    while True:
        queue.get()
        yield np.array(list(name().encode()), np.uint8)


def text(value: object) -> str:
    return bytes(np.asarray(value)).decode()


def test_the_caller_of_an_open_inline_graph_is_in_no_function() -> None:
    """Two graphs inline in one thread: each node knows itself, and between the calls nobody is a function."""
    x = df.FlowData("x")
    first = df.FlowGraph([who.fnode("one")(x)], mode="inline")
    second = df.FlowGraph([who.fnode("two")(x)], mode="inline")
    with first, second:
        assert running() is None
        for _ in range(2):
            assert (text(first(0)), text(second(0))) == ("one", "two")
            assert running() is None
        first.close()
        assert text(second(0)) == "two", "the end of one graph says nothing of the other"


def test_generators_and_functions_with_queues_know_their_instance_too() -> None:
    x = df.FlowData("x")
    with df.FlowGraph([parts.fnode("parts")(x)], mode="inline") as graph:
        graph.feed({x: 0})
        assert [text(graph.fetch()) for _ in range(2)] == ["parts", "parts"]
    with df.FlowGraph([stream.fnode("stream")(x)], mode="inline") as graph:
        assert text(graph(0)) == "stream" and running() is None


def test_instances_in_threads_of_one_process_do_not_mix() -> None:
    """Each of four threads is another instance, all at once."""
    ready, found = threading.Barrier(4), {}

    def live(number: int) -> None:
        package = PythonFunc("class", Waiting, (ready,), methods=(MethodSpec("work"),))
        (func,) = python_funcs(package, [FuncSpec("work", (0,), (0,))])
        func.init(FuncParams(f"node{number}", number, 4))
        found[number] = func.direct().__self__.seen  # type: ignore[union-attr]

    threads = [threading.Thread(target=live, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == {number: number for number in range(4)}


class Waiting:
    """Asks while the others are being made too."""

    def __init__(self, ready: threading.Barrier) -> None:
        ready.wait(30)
        params = running()
        assert params is not None
        self.seen = params.instance
        ready.wait(30)

    def work(self, x: object) -> object:
        return x
