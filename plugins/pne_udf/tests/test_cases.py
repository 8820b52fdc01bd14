"""Faults from the field, reproduced with functions in C++: causes, crashes, layouts, texts, paths, changes."""

from __future__ import annotations

import gc
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.errors import CompileError, InstanceLostError, NodeError, RunError, StartupError
from dflow_core.testing.waiting import is_alive, wait_until

CASES = """
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <unistd.h>
#include "flow_func/meta_flow_func.h"
namespace demo {
using Inputs = const std::vector<std::shared_ptr<FlowFunc::FlowMsg>> &;

class Copies : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override { return FlowFunc::FLOW_FUNC_SUCCESS; }
    int32_t Proc(Inputs inputs) override
    {
        auto in = inputs[0]->GetTensor();
        if (in == nullptr) {
            return context_->SetOutput(0, context_->AllocEmptyDataMsg(FlowFunc::MsgType::MSG_TYPE_TENSOR_DATA));
        }
        auto out = context_->AllocTensorMsg(in->GetShape(), in->GetDataType());
        if (out == nullptr) {
            return 9900001;
        }
        std::memcpy(out->GetTensor()->GetData(), in->GetData(), in->GetDataSize());
        return context_->SetOutput(0, out);
    }
};
REGISTER_FLOW_FUNC("copies", Copies);

class HandsOn : public Copies {
public:
    int32_t Proc(Inputs inputs) override { return context_->SetOutput(0, inputs[0]); }
};
REGISTER_FLOW_FUNC("hands_on", HandsOn);

class Obeys : public Copies {
public:
    int32_t Proc(Inputs inputs) override
    {
        switch (*static_cast<const int64_t *>(inputs[0]->GetTensor()->GetData())) {
            case -1: throw std::runtime_error("bad pixel 7");
            case -2: throw std::bad_alloc();
            case -3: std::puts("last words"); std::fflush(stdout); ::_exit(9);
            case -4: *static_cast<volatile int *>(nullptr) = 1; break;
            case -5: throw std::runtime_error("no such file: /tmp/深度/é \\xff");
            case -6: for (;;) { ::usleep(1000); }
            case -7: std::abort();
            case -8: for (int i = 0; i < 20000; ++i) { std::printf("深度é %050d\\n", i); } break;
            default: break;
        }
        return Copies::Proc(inputs);
    }
};
REGISTER_FLOW_FUNC("obeys", Obeys);

class Writes : public Copies {
public:
    int32_t Proc(Inputs inputs) override
    {
        auto in = static_cast<int64_t *>(inputs[0]->GetTensor()->GetData());
        if (in[0] < 0) {
            in[inputs[0]->GetTensor()->GetElementCnt() - 1] += 1;
        }
        return Copies::Proc(inputs);
    }
};
REGISTER_FLOW_FUNC("writes", Writes);

class Keeps : public Copies {
public:
    int32_t Proc(Inputs inputs) override
    {
        if (kept_.size() < 4) {
            kept_.push_back(inputs[0]);
        }
        auto out = context_->AllocTensorMsg({static_cast<int64_t>(kept_.size())}, FlowFunc::TensorDataType::DT_INT64);
        auto to = static_cast<int64_t *>(out->GetTensor()->GetData());
        for (const auto &one : kept_) {
            *to++ = *static_cast<const int64_t *>(one->GetTensor()->GetData());
        }
        return context_->SetOutput(0, out);
    }
private:
    std::vector<std::shared_ptr<FlowFunc::FlowMsg>> kept_;
};
REGISTER_FLOW_FUNC("keeps", Keeps);
}
"""

SCALE_ONLY = """
#include "flow_func/meta_flow_func.h"
#include "shift.h"
namespace demo {
class Scale : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override
    {
        (void)context_->GetAttr("factor", factor_);
        return FlowFunc::FLOW_FUNC_SUCCESS;
    }
    int32_t Proc(const std::vector<std::shared_ptr<FlowFunc::FlowMsg>> &inputs) override
    {
        auto in = inputs[0]->GetTensor();
        auto out = context_->AllocTensorMsg(in->GetShape(), in->GetDataType());
        auto to = static_cast<float *>(out->GetTensor()->GetData());
        *to = *static_cast<const float *>(in->GetData()) * static_cast<float>(factor_) + SHIFT + EXTRA;
        return context_->SetOutput(0, out);
    }
private:
    int64_t factor_ = 2;
};
REGISTER_FLOW_FUNC("scale", Scale);
}
"""


@df.pyflow
def same(x):
    return x


@pytest.fixture(scope="module")
def cases(tmp_path_factory, store, make_udf_project):
    """A project of the functions above, built once."""
    from dflow_pne_udf.building.builder import Builder
    from dflow_pne_udf.config import read_config

    project = make_udf_project(tmp_path_factory.mktemp("cases"), {"cases": CASES})
    Builder(str(store)).package(read_config(str(project.config)))
    return project


@pytest.fixture(scope="module")
def node(cases) -> Callable[..., df.FlowNode]:
    def make(function: str, name: str = "cpp", **options: object) -> df.FlowNode:
        path = cases.configure(func_list=[{"func_name": function}])
        point = df.FuncProcessPoint(path.rename(path.with_name(f"{function}.json")))
        made = point.fnode(1, 1, name=name)
        return made.set_options(**options) if options else made

    return make


def graph_of(first: df.FlowNode, *more: df.FlowNode, **options: object) -> df.FlowGraph:
    end = first(df.FlowData("x"))
    for node in more:
        end = node(end)
    return df.FlowGraph([end], {key: str(value) for key, value in options.items()})


def pids(graph: df.FlowGraph) -> list[int]:
    return [status.pid for status in graph.running.deployment.status() if status.pid]


# ------------------------------------------------------------------------------- BC-057, BC-061: causes and crashes


@pytest.mark.parametrize(
    ("order", "kind", "said"),
    [
        (-1, NodeError, r"runtime_error: bad pixel 7"), (-2, NodeError, "bad_alloc"),
        (-3, InstanceLostError, r"exit code 9[\s\S]*last words"), (-4, InstanceLostError, "SIGSEGV|signal 11"),
        (-5, NodeError, "no such file: /tmp/深度/é"), (-7, InstanceLostError, "SIGABRT|signal 6"),
    ],
)
def test_error_of_the_fifth_item_keeps_its_cause_behind_two_more_nodes(node, order, kind, said):
    """BC-057: node, instance, transaction and what was thrown (not all of it UTF-8), or signal or exit code."""
    chain = [node("obeys", "a"), same.fnode("b"), node("copies", "c")]
    with graph_of(*chain, output="none") as graph:
        results = list(graph.map(map(np.int64, [1, 2, 3, 4, order, 6]), errors="return", in_flight=1, timeout=30))
    assert [int(r) for r in (*results[:4], results[5])] == [1, 2, 3, 4, 6]
    error = results[4]
    assert type(error) is kind and (error.node, error.instance, error.trans_id) == ("a", 0, 5)
    assert re.search(said, str(error)), str(error)


def test_crash_under_concurrency_costs_what_its_instance_held(node):
    """BC-061: 64 at once over 4 instances; every 40th ends its process with SIGSEGV; totals add up."""
    fed = [-4 if n % 40 == 20 else n for n in range(200)]
    with graph_of(node("obeys", instances=4, restarts=1000), output="none") as graph:
        ended = list(graph.map(map(np.int64, fed), in_flight=64, errors="return", timeout=30, copy=True))
        counters = graph.counters
    assert len(ended) == len(fed) == counters.fed and counters.fed == counters.delivered + counters.failed
    for given, got in zip(fed, ended):
        assert isinstance(got, InstanceLostError) or got == given
        assert given != -4 or isinstance(got, InstanceLostError)
    assert sum(not isinstance(got, RunError) for got in ended) > 100


# ------------------------------------------------------------------------------- BC-062, BC-064: output, stopping


def test_printing_from_c_never_blocks_and_every_line_arrives(node, tmp_path):
    """BC-062: 1 MiB with each call through stdio, which has a buffer of its own; flushed when the node ends."""
    with graph_of(node("obeys"), output=f"dir:{tmp_path}") as graph:
        for _ in range(2):
            assert graph(np.int64(-8), timeout=20) == -8
    (log,) = [path for path in tmp_path.iterdir() if "cpp" in path.name]
    assert len(re.findall(r"深度é 0{45}19999", log.read_text(encoding="utf-8"))) == 2


def test_node_that_never_returns_is_named_and_ends_within_the_limit(node):
    """BC-063, BC-064."""
    with graph_of(node("obeys"), stop_timeout=0.5) as graph:
        graph.feed({"x": np.int64(-6)})
        wait_until(lambda: any(edge.delivered for edge in graph.stats().edges if "cpp:0" in edge.name))
        running = pids(graph)
        with pytest.raises(df.WaitTimeoutError, match=r"cpp#0 pid \d+: running.*working on transaction 1 for "):
            graph.fetch(timeout=0.5)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert running and not any(map(is_alive, running))


# ------------------------------------------------------------------------------- BC-016, BC-004: what a function keeps


def test_message_that_a_function_keeps_never_changes_and_comes_back_when_it_dies(node):
    """BC-016, BC-004: four messages are kept while the memory is used over and over; then the process is killed."""
    with graph_of(node("keeps", restarts=3), memory_limit="16M", output="none") as graph:
        for number in range(100):
            got = graph(np.full(100_000, number), timeout=20, copy=True)
            assert got.tolist() == list(range(min(number + 1, 4)))
        del got
        group = graph.running.deployment.group
        gc.collect()
        assert group.stats().blocks_in_use == 4
        os.kill(pids(graph)[0], signal.SIGKILL)
        assert graph(np.full(100_000, 7), timeout=20, copy=True).tolist() == [7]
        gc.collect()
        assert group.stats().blocks_in_use == 1


# ------------------------------------------------------------------------------- BC-018: writing into an input


def test_function_that_writes_into_an_input_is_named_where_inputs_are_checked(node):
    """BC-018: its transaction ends with node, function and input; calls that only read are as always."""
    with graph_of(node("writes", "cpp"), **{"plugin.udf.check_inputs": 1}) as graph:
        for size in (1, 2, 1000):
            assert graph(np.arange(size), timeout=30, copy=True).tolist() == list(range(size))
            said = rf"writes wrote into input 0 \(int64\[{size}\]\), which other"
            with pytest.raises(NodeError, match=said) as caught:
                graph(np.full(size, -5), timeout=30)
            assert (caught.value.node, caught.value.error_type) == ("cpp", "InputChangedError")
            assert caught.value.trans_id
    with graph_of(node("writes", "cpp")) as graph:
        assert graph(np.full(2, -5), timeout=30, copy=True).tolist() == [-5, -4], "nobody looks without the option"


# ------------------------------------------------------------------------------- BC-066, BC-067, BC-070: tensors

LAYOUTS = {
    "transposed": lambda a: a.T,
    "every second": lambda a: a[::2, :, 1::2],
    "backwards": lambda a: a[::-1, :, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[0], (7, 4, 5)),
    "fortran": lambda a: np.asfortranarray(a),
    "permuted": lambda a: a.transpose(2, 0, 1),
    "size one, odd strides": lambda a: np.lib.stride_tricks.as_strided(a[:1, :, :1], (1, 4, 1), (77, a.strides[1], 13)),
    "big-endian": lambda a: a.astype(">i4"),
}


@df.pyflow
def layout(case):
    return LAYOUTS[case](np.arange(60, dtype=np.int32).reshape(3, 4, 5))


@pytest.fixture(scope="module")
def hops(node) -> Iterator[df.FlowGraph]:
    """C++, Python and C++ again: one copies the elements, the others hand on what they got."""
    with graph_of(node("copies", "a"), same.fnode("b"), node("hands_on", "c")) as graph:
        yield graph


def test_array_of_any_layout_reaches_a_cpp_function_as_if_it_were_contiguous(node, hops):
    """BC-066: fed, and returned by the Python function in front."""
    with graph_of(layout.fnode("made"), node("copies")) as graph:
        for case, arrange in LAYOUTS.items():
            array = arrange(np.arange(60, dtype=np.int32).reshape(3, 4, 5))
            wanted = np.ascontiguousarray(array).astype(np.int32)
            for got in (hops(array, timeout=20), graph(case, timeout=20)):
                assert got.dtype == np.int32 and got.shape == wanted.shape, case
                np.testing.assert_array_equal(got, wanted, err_msg=case)


def test_empty_and_scalar_tensors_of_every_type_pass_cpp_functions(hops):
    """BC-067: and nothing at all is not an empty tensor."""
    for dtype in ("f4", "f2", "i1", "i4", "u1", "i2", "u2", "u4", "i8", "u8", "f8", "?"):
        for shape in ((), (0,), (0, 4), (4, 0, 2), (1, 0)):
            value = np.ones(shape, dtype)
            got = hops(value, timeout=20)
            assert isinstance(got, np.ndarray) and (got.shape, got.dtype) == (value.shape, value.dtype)
            np.testing.assert_array_equal(got, value)
    assert hops(None, timeout=20) is None


@pytest.mark.parametrize(
    "value",
    [
        np.array(["深度", "é", "", " a "]), np.array([b"a\0b", b"c\0", b"", "é\0x"], object),
        np.array([["a", "bb"], ["ccc", ""]]), np.array(["y深" * 350_000], object), np.array([], "U5"), np.array("深"),
    ],
    ids=["unicode", "NUL", "two dimensions", "1 MiB", "none", "0-d"],
)
def test_strings_pass_a_cpp_function_byte_for_byte(node, value):
    """BC-070: those that are handed on; their elements are not the function's to read."""
    with graph_of(node("hands_on"), same.fnode()) as graph:
        got = graph(value, timeout=20)
    assert got.shape == value.shape and got.dtype.kind == value.dtype.kind and got.tolist() == value.tolist()


def test_sizes_grow_and_shrink_through_a_cpp_function(hops):
    """BC-072, BC-074: 2^k - 1 to 2^k + 1 bytes up to 32 MiB and small again, to the last byte."""
    for exponent in (*range(10, 26, 3), 10):
        for size in (2**exponent - 1, 2**exponent, 2**exponent + 1):
            value = np.arange(size, dtype=np.uint32).astype(np.uint8)
            value[-3:] = 0
            np.testing.assert_array_equal(hops(value, timeout=30), value)


# ------------------------------------------------------------------------------- BC-084: paths


PLAIN = "#define SHIFT 0.5f\n#define EXTRA 0.0f\n"


def test_project_in_a_folder_of_odd_names_builds_and_runs(tmp_path, make_udf_project, monkeypatch):
    """BC-084: what means something to shells, CMake or make, other scripts, a long path, a link; so is the cache."""
    real = tmp_path / "a b" / "模型 é'x(1)" / "q\"u;o#t\\e:d$HOME%=$(touch x)*" / ("long" * 30)
    project = make_udf_project(real / "project", {"scale": SCALE_ONLY}, shift=PLAIN)
    monkeypatch.setenv("DFLOW_CACHE_DIR", str(real / "the cache"))
    link = tmp_path / "link to it"
    link.symlink_to(project.folder, target_is_directory=True)
    for config in (project.config, link / "func.json"):
        with graph_of(df.FuncProcessPoint(config).fnode(1, 1, name="cpp")) as graph:
            assert graph(np.float32(2), timeout=20) == 4.5
    assert not list(Path.cwd().glob("x")) and not list(tmp_path.glob("**/x"))
    project.write("scale.cpp", "int broken( {\n")
    with pytest.raises(CompileError) as caught:
        graph_of(df.FuncProcessPoint(project.config).fnode(1, 1, name="cpp")).start()
    assert "scale.cpp:1" in str(caught.value)


# ------------------------------------------------------------------------------- BC-087: changes


def test_every_change_of_a_cpp_function_counts_and_builds_what_it_touches(tmp_path, make_udf_project, monkeypatch):
    """BC-087: header and source of the same size and time, compiler flags, parameters; what is equal builds nothing."""
    monkeypatch.setenv("DFLOW_CACHE_DIR", str(tmp_path / "cache"))
    header = "#define SHIFT 1.0f\n#ifndef EXTRA\n#define EXTRA 0.0f\n#endif\n"
    project = make_udf_project(tmp_path / "project", {"scale": SCALE_ONLY}, shift=header)

    def run(factor: int) -> float:
        point = df.FuncProcessPoint(project.config)
        point.set_init_param("factor", factor)
        with graph_of(point.fnode(1, 1, name="cpp")) as graph:
            return float(graph(np.float32(10), timeout=20))

    def keep_time(name: str, text: str) -> None:
        """Change a file, and leave its time (and here its size) as it was."""
        path = project.folder / name
        before = path.stat()
        project.write(name, text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert run(2) == 21
    packages = sorted((tmp_path / "cache" / "udf" / "kept").iterdir())
    assert (run(2), run(3)) == (21, 31)
    assert sorted((tmp_path / "cache" / "udf" / "kept").iterdir()) == packages, "nothing was built"
    keep_time("shift.h", (project.folder / "shift.h").read_text().replace("1.0f", "2.0f"))
    assert run(2) == 22
    keep_time("scale.cpp", SCALE_ONLY.replace("+ SHIFT", "- SHIFT"))
    assert run(2) == 18
    cmake = (project.folder / "CMakeLists.txt").read_text()
    project.write("CMakeLists.txt", cmake + "target_compile_definitions(${UDF_TARGET_LIB} PRIVATE EXTRA=100.0f)\n")
    assert run(2) == 118


# ------------------------------------------------------------------------------- BC-098: what does not start


def test_failing_build_and_failing_constructor_are_told_once_and_not_repeated(project):
    """BC-098: the compiler's first error with file and line; the constructor's text; no second try."""
    project.write("scale.cpp", '#include "shift.h"\nint f() { return missing; }\n')
    point = df.FuncProcessPoint(project.config)
    with pytest.raises(CompileError, match=r"scale.cpp:2:.*missing") as failed:
        graph_of(point.fnode(1, 1, name="cpp")).start()
    assert failed.value.node == "cpp"


def test_constructor_that_throws_is_told_with_its_text(built, store):
    """BC-098: one of four instances is enough, and all of them do."""
    point = df.FuncProcessPoint(built.configure(func_list=[{"func_name": "throws"}]))
    try:
        with pytest.raises(StartupError, match="no such device") as caught:
            graph_of(point.fnode(1, 1, name="cpp").set_options(instances=4, restarts=5)).start()
    finally:
        built.configure()
    assert caught.value.node == "cpp"
