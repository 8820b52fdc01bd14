"""Loading, initialising, failing, suspending and ending instances, and bad input."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dflow_core.message import DataFlag

FINISHED, FAILED, SUSPENDED, RUNNING = 4, 5, 3, 2


def failed(rig: object) -> str:
    """Open a rig that cannot start; why."""
    assert rig.open() == 0, rig.error()
    rig.wait_for(FAILED)
    return rig.failure().message.decode()


@pytest.mark.parametrize(
    ("name", "attrs", "text"),
    [
        ("behave", {"init_code": 7}, "Init of function behave returned 7"),
        ("behave", {"init_throws": True}, "Init of function behave threw std::runtime_error: no such model file"),
        ("broken", {}, "function broken could not be made: std::logic_error: this one is never made"),
        ("nothing", {}, "function nothing is not registered; registered are: add, allocators, attributes, balance"),
        ("forward", {}, "function forward is registered with queues; set stream_input for it"),
    ],
)
def test_functions_that_cannot_start(make_rig: Callable, name: str, attrs: dict[str, object], text: str) -> None:
    assert text in failed(make_rig(name, attrs=attrs))


def test_a_function_with_messages_takes_no_queues(make_rig: Callable) -> None:
    assert "is registered with messages" in failed(make_rig(("pass", (0,), (0,), True)))


def test_init_that_asks_for_another_time_gets_it(make_rig: Callable) -> None:
    rig = make_rig("behave", attrs={"init_again": 3}).start()
    rig.feed(1, np.zeros(1, np.int32))
    assert rig.get().info.trans_id == 1


def test_a_library_that_is_not_there(make_rig: Callable, tmp_path: Path) -> None:
    text = failed(make_rig("pass", options={"library": str(tmp_path / "libnone.so").encode()}))
    assert "libnone.so" in text
    assert "cannot open shared object file" in text


def test_a_library_that_misses_a_symbol(make_rig: Callable, tmp_path: Path) -> None:
    source = tmp_path / "missing.cc"
    source.write_text('extern "C" int not_anywhere(); int value = not_anywhere();')
    target = tmp_path / "libmissing.so"
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    assert "undefined symbol: not_anywhere" in failed(make_rig("pass", options={"library": str(target).encode()}))


def test_a_library_that_needs_one_of_a_gpu_names_it(make_rig: Callable, tmp_path: Path) -> None:
    """A library that was linked on a machine with a GPU, and is loaded where there is none."""
    source, gpu = tmp_path / "needs.cc", tmp_path / "libcuda.so.1"
    source.write_text('extern "C" int cuInit(); int value = cuInit();')
    (tmp_path / "gpu.cc").write_text('extern "C" int cuInit() { return 0; }')
    made = ["-shared", "-fPIC", "-o"]
    subprocess.run(["g++", *made, str(gpu), "-Wl,-soname,libcuda.so.1", str(tmp_path / "gpu.cc")], check=True)
    target = tmp_path / "libneeds.so"
    subprocess.run(["g++", *made, str(target), str(source), str(gpu)], check=True)
    gpu.unlink()
    text = failed(make_rig("pass", options={"library": str(target).encode()}))
    assert "libneeds.so does not load: libcuda.so.1: cannot open shared object file" in text


@pytest.mark.parametrize(
    ("funcs", "more", "text"),
    [
        ([("pass", (0,)), ("add", (0, 1))], {"inputs": 2}, "input 0 is used twice"),
        ([("pass", (0,))], {"inputs": 2}, "input 1 is used by no function"),
        ([("pass", (3,))], {}, "function pass uses input 3, the node has 1"),
        ([("pass", (0,), (2,))], {}, "function pass uses output 2, the node has 1"),
        ([("", (0,))], {}, "a function has no name"),
        (["pass"], {"options": {"api": 9}}, "version 9"),
        (["pass"], {"options": {"transport": None}}, "no native table"),
        (["pass"], {"options": {"flags": 12}}, "cannot both scatter and gather"),
    ],
)
def test_wrong_configurations(make_rig: Callable, funcs: list, more: dict, text: str) -> None:
    rig = make_rig(*funcs, **more)
    assert rig.open() == -1
    assert text in rig.error()


def test_all_faults_are_named_at_once(make_rig: Callable) -> None:
    rig = make_rig(("pass", (4,), (5,)), options={"flags": 12})
    assert rig.open() == -1
    assert rig.error().count(";") == 3


def test_registered_functions_are_listed(make_rig: Callable) -> None:
    rig = make_rig("pass").start()
    api = rig.library
    buffer = ctypes.create_string_buffer(api.dflow_udf_functions(None, 0))
    api.dflow_udf_functions(buffer, len(buffer))
    lines = buffer.value.decode().splitlines()
    assert lines == sorted(lines)
    assert {"single pass", "multi first", "queue forward"} <= set(lines)


def test_an_output_queue_that_closes_ends_the_instance(make_rig: Callable) -> None:
    rig = make_rig("pass").start()
    rig.heap.close(rig.outs[0])
    rig.feed(1, np.zeros(1))
    rig.wait_for(FINISHED)


@pytest.mark.parametrize("resets", [True, False])
def test_suspension_drops_what_is_in_hand(make_rig: Callable, resets: bool) -> None:
    rig = make_rig(("first", (0,), (0,)), ("second", (1,), (1,)), inputs=2, outputs=2, attrs={"resets": resets}).start()
    rig.feed(1)
    assert int(rig.get().get_tensor()[0]) == 1001
    assert rig.library.dflow_udf_suspend(rig.udf) == 0
    rig.wait_for(SUSPENDED)
    rig.feed(2)  # is dropped
    assert rig.library.dflow_udf_recover(rig.udf) == 0
    rig.wait_for(RUNNING)
    rig.feed(3)
    out = rig.get()
    assert (out.info.trans_id, int(out.get_tensor()[0])) == (3, 1001)  # counts from the start, one Init either way
    assert rig.is_silent()


def test_calls_that_do_not_fit_the_state_are_refused(make_rig: Callable) -> None:
    rig = make_rig("pass").start()
    api = rig.library
    assert [api.dflow_udf_start(rig.udf), api.dflow_udf_recover(rig.udf)] == [-4, -4]
    assert "suspended" in rig.error()


def test_a_function_without_inputs_runs_until_it_is_stopped(make_rig: Callable) -> None:
    rig = make_rig(("source", ()), inputs=0, attrs={"count": 5}).start()
    outs = [rig.get() for _ in range(5)]
    assert [out.info.trans_id for out in outs] == [1, 2, 3, 4, 5]
    rig.library.dflow_udf_stop(rig.udf)
    rig.wait_for(FINISHED)


CRASH = """
import sys
sys.path.insert(0, {here!r})
import conftest, numpy
from pathlib import Path
rig = conftest.Rig(
    conftest.seam.runtime(conftest.LIBRARY), conftest.Heap(Path({heap!r})), [conftest.FuncSetup("behave")],
    options={{"library": {udfs!r}.encode()}},
)
rig.library.dflow_udf_catch_crashes()
rig.start().feed(41, numpy.array([{what}], numpy.int32))
rig.wait(2)
"""


def crashed(heap_library: Path, udf_library: Path, what: int) -> str:
    """What a process said that a function crashed."""
    here = str(Path(__file__).resolve().parent)
    program = CRASH.format(here=here, heap=str(heap_library), udfs=str(udf_library), what=what)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -11
    return done.stderr


def test_a_crash_leaves_its_stack(heap_library: Path, udf_library: Path) -> None:
    said = crashed(heap_library, udf_library, 12)
    head, *frames, end = said.splitlines()
    assert head == (
        "node#1: crashed with SIGSEGV (memory that is not there) at 0x0 in transaction 41, stack (innermost first):"
    )
    assert re.match(r"  #0 .*Behave::Proc\(std::vector<.*\+0x[0-9a-f]+, /.*\.so\+0x[0-9a-f]+$", frames[0])
    assert re.match(r"  \(and \d+ of the runtime\)$", end)
    assert "libflow_func" not in said, "the frames of the runtime say nothing to its users"


def test_of_several_threads_that_crash_at_once_one_tells(heap_library: Path, udf_library: Path) -> None:
    head, *frames = crashed(heap_library, udf_library, 15).splitlines()
    assert head.startswith("node#1: crashed with SIGSEGV (memory that is not there) at 0x0, stack")
    assert [int(re.match(r"  #(\d+) ", frame)[1]) for frame in frames] == list(range(len(frames)))


def test_errors_are_logged_with_the_node_in_front(make_rig: Callable, capfd: pytest.CaptureFixture[str]) -> None:
    rig = make_rig("behave").start()
    rig.feed(5, np.array([3], np.int32))
    assert rig.get().info.data_flag & DataFlag.ERROR
    rig.end()
    assert "node#1: ERROR transaction 5: std::out_of_range: index 7 of 3" in capfd.readouterr().err
