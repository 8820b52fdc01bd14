"""C++ functions in graphs: results, faults of every kind, and what the caller is told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.errors import (
    CompileError,
    DeployError,
    GraphError,
    InstanceLostError,
    NodeError,
    PackagingError,
    StartupError,
    UsageError,
)
from dflow_core.executor import read_calls
from dflow_core.model import write_om
from dflow_core.recording import read_recording
from dflow_core.replay import replay_call, replay_transaction
from dflow_core.session import DFlowSession

COPIES = """
cmake_minimum_required(VERSION 3.14)
project(UDF NONE)
set(LIBRARY ${RELEASE_DIR}/lib${UDF_TARGET_LIB}.so)
add_custom_target(copy ALL ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_LIST_DIR}/data ${LIBRARY})
"""


@pytest.fixture
def node(built, store):
    """Makes a node of the built project: function, ports and node options."""

    def make(functions=("scale",), inputs=1, outputs=1, params=None, **options) -> df.FlowNode:
        funcs = [f if isinstance(f, dict) else {"func_name": f} for f in functions]
        point = df.FuncProcessPoint(built.configure(func_list=funcs, input_num=inputs, output_num=outputs))
        for name, value in (params or {}).items():
            point.set_init_param(name, value)
        made = point.fnode(inputs, outputs, name="cpp")
        return made.set_options(**options) if options else made

    yield make
    built.configure()


def graph_of(node, **options) -> df.FlowGraph:
    made = node(*(df.FlowData(f"x{i}") for i in range(node.input_num)))
    return df.FlowGraph(list(made) if isinstance(made, tuple) else [made], options)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_a_function_runs_with_its_parameters(node):
    with graph_of(node(params={"factor": 3})) as graph:
        for number in range(20):
            np.testing.assert_array_equal(graph(floats(number, 1)), floats(3 * number, 3))


def test_functions_of_one_object_own_their_ports(node):
    add = {"func_name": "add", "inputs_index": [0, 2], "outputs_index": [0]}
    with graph_of(node([add, {"func_name": "pass_on", "inputs_index": [1], "outputs_index": [1]}], 3, 2)) as graph:
        total, passed = graph(floats(1), floats(5), floats(2))
    np.testing.assert_array_equal(total, floats(3, 1))  # and Init was called once
    np.testing.assert_array_equal(passed, floats(5))


def test_cpp_and_python_nodes_work_on_each_others_results(node):
    halve = df.pyflow(lambda values: values / 2)
    first = node(params={"factor": 8})(df.FlowData("x"))
    with df.FlowGraph([halve.fnode()(first)]) as graph:
        results = list(graph.map([floats(i) for i in range(50)]))
    np.testing.assert_array_equal(np.concatenate(results), np.arange(50, dtype=np.float32) * 4)


def test_two_instances_share_the_work(node):
    with graph_of(node(instances=2)) as graph:
        results = list(graph.map([floats(i) for i in range(50)]))
        nodes = graph.running.stats().nodes
    np.testing.assert_array_equal(np.concatenate(results), np.arange(50, dtype=np.float32) * 2)
    assert sum(node.calls for node in nodes) == 50 and sum(node.busy for node in nodes) > 0


def test_a_timeline_shows_its_calls(node, tmp_path):
    with graph_of(node(), trace=str(tmp_path / "trace")) as graph:
        for number in range(3):
            graph(floats(number))
        (pid,) = [n.pid for n in graph.running.stats().nodes if n.pid]
    calls = read_calls(tmp_path / "trace")
    whose = [(call["node"], call["instance"], call["pid"], call["trans_id"]) for call in calls]
    assert whose == [("cpp", 0, pid, number) for number in (1, 2, 3)]
    times = [at for call in calls for at in (call["start"], call["end"])]
    assert times == sorted(times) and 0 < times[-1] - times[0] < 60 and times[-1] < time.monotonic()


def test_a_compiled_graph_holds_its_library(node, tmp_path):
    with DFlowSession() as session:
        write_om(session.compile(graph_of(node(params={"factor": 4}))), tmp_path / "graph.om")
    whole = df.ModelProcessPoint(tmp_path / "graph.om").fnode(1, 1)
    with graph_of(whole, cache=False) as graph:  # unpacked into a folder of the process, which goes with it
        pids = [n.pid for n in graph.running.stats().nodes]
        np.testing.assert_array_equal(graph(floats(2)), floats(8))
        assert [_scratch_of(pid) for pid in pids] != [[]]
    assert [_scratch_of(pid) for pid in pids] == [[]]


def _scratch_of(pid: int) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"dflow-udf-{pid}-*"))


def test_a_function_can_ask_how_many_calls_may_run(built):
    attrs = {"func_name": "attrs", "inputs_index": [0], "outputs_index": [0]}
    point = df.FuncProcessPoint(built.configure(func_list=[attrs], running_resources_info=[{"type": "cpu", "num": 3}]))
    try:
        with DFlowSession() as session:
            (model,) = session.compile(graph_of(point.fnode(1, 1))).submodels.values()
    finally:
        built.configure()
    assert model.params == {"__cpu_num": 3}


# What a call does wrong ends its own transaction.


def test_a_code_ends_its_own_transaction(node):
    with graph_of(node()) as graph:
        with pytest.raises(NodeError, match="9900013") as caught:
            graph(floats(-13))
        assert caught.value.node == "cpp" and caught.value.ret_code == 9900013
        np.testing.assert_array_equal(graph(floats(1)), floats(2))


def test_an_exception_ends_its_own_transaction(node):
    with graph_of(node()) as graph:
        with pytest.raises(NodeError, match="int"):
            graph(floats(-14))
        np.testing.assert_array_equal(graph(floats(1)), floats(2))


def test_a_crash_ends_its_transaction_and_the_instance_comes_back(node):
    with graph_of(node(restarts=1), output="none") as graph:
        with pytest.raises(InstanceLostError, match="SIGSEGV") as caught:
            graph(floats(-15))
        stack = re.search(r"innermost first\):\n((?:  .*\n)+)", str(caught.value))
        assert stack is not None
        first, *_, last = stack[1].splitlines()
        assert re.fullmatch(r"  #0 demo::Scale::Proc\(std::vector<.*\+0x[0-9a-f]+, .*libscale\.so\+0x[0-9a-f]+", first)
        assert re.fullmatch(r"  \(and \d+ of the runtime\)", last) and "libflow_func" not in stack[1]
        np.testing.assert_array_equal(graph(floats(1)), floats(2))


def test_recorded_failure_is_replayed_in_a_process(node, tmp_path):
    path = tmp_path / "run.dfrec"
    with graph_of(node(), record=str(path)) as graph:
        graph(floats(1))
        with pytest.raises(NodeError, match="9900013"):
            graph(floats(-13))
    recording = read_recording(path)
    with DFlowSession() as session:
        done = replay_transaction(session, recording, recording.transaction())
        assert (done.mode, done.verdict) == ("process", "the same error")
        with pytest.raises(UsageError, match="in a process of its own only"):
            replay_transaction(session, recording, recording.transaction(), mode="inline")
        assert replay_call(session, recording, recording.transaction()).verdict == "the same error"


def test_on_error_stop_ends_the_graph(node):
    with graph_of(node(on_error="stop")) as graph:
        with pytest.raises(NodeError, match="9900013"):
            graph(floats(-13))
        with pytest.raises(df.DflowError):
            graph(floats(1))


def test_instances_killed_under_load_cost_their_own_transactions(node):
    fed = 600
    with graph_of(node(instances=2, restarts=1000), output="none") as graph:
        ended = []
        for number, outcome in enumerate(graph.map((floats(i) for i in range(fed)), errors="return", timeout=30)):
            if number % 150 == 75:
                pids = [node.pid for node in graph.running.stats().nodes if node.pid]
                os.kill(pids[number % len(pids)], signal.SIGKILL)
            ended.append(outcome)
        stats = graph.running.stats()
    lost = [outcome for outcome in ended if isinstance(outcome, BaseException)]
    assert len(ended) == fed and all(isinstance(outcome, InstanceLostError) for outcome in lost)
    good = [i for i, outcome in enumerate(ended) if not isinstance(outcome, BaseException)]
    assert all(ended[i] == floats(2 * i) for i in good) and len(good) > fed / 2
    assert stats.in_flight == 0 and stats.transactions.delivered + stats.transactions.failed == fed


# What is wrong before the first message is an error of the start.


@pytest.mark.parametrize(
    ("function", "params", "text"),
    [("scale", {"factor": 99}, r"Init.* 7"), ("throws", {}, "no such device")],
)
def test_what_cannot_be_made_or_initialised_does_not_start(node, function, params, text):
    with pytest.raises(StartupError, match=text) as caught, graph_of(node([function], params=params)):
        pass
    assert caught.value.node == "cpp"


def test_a_constructor_that_hangs_ends_at_the_start_limit(node):
    with pytest.raises(DeployError, match="cpp"), graph_of(node(["hangs"]), start_timeout=1.0, stop_timeout=0.5):
        pass


def test_a_library_with_a_missing_symbol_does_not_start(project, tmp_path):
    source = tmp_path / "needs.c"
    source.write_text("void gpu_open_device(void); void f(void) { gpu_open_device(); }\n")
    library = project.folder / "data"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-z,now", "-o", str(library), str(source)], check=True)
    project.write("CMakeLists.txt", COPIES)
    point = df.FuncProcessPoint(project.config)
    with pytest.raises(StartupError, match="gpu_open_device"), graph_of(point.fnode(1, 1, name="cpp")):
        pass


# What is wrong with the project is told when the graph is compiled or checked.


def test_a_name_that_is_not_registered_lists_those_that_are(node):
    with pytest.raises(CompileError, match=r"does not register 'skale'; it registers: add, .*scale, .*throws"):
        graph_of(node(["skale"])).__enter__()


def test_faults_of_the_config_are_faults_of_the_graph(node):
    graph = graph_of(node(inputs=2))
    graph.nodes[0].point.compile_config_path = "/nowhere/func.json"
    with pytest.raises(GraphError, match=r"cpp: /nowhere/func.json: no such file"):
        graph.__enter__()


def test_a_node_with_other_ports_than_the_project_is_a_fault(built):
    point = df.FuncProcessPoint(built.configure(input_num=2))
    try:
        with pytest.raises(GraphError, match=r"expected 2 inputs, .* got 1"):
            graph_of(point.fnode(1, 1, name="cpp")).__enter__()
    finally:
        built.configure()


def test_inline_mode_says_that_it_cannot(node):
    made = node()(df.FlowData("x"))
    with pytest.raises(UsageError, match="in a process of its own only"), df.FlowGraph([made], mode="inline"):
        pass


def test_a_package_for_another_machine_says_what_it_is_for(built, store):
    from dflow_pne_udf.building.builder import Builder
    from dflow_pne_udf.building.release import unpack_release
    from dflow_pne_udf.config import read_config

    package = Builder(str(store)).package(read_config(str(built.config)))
    with pytest.raises(PackagingError, match="this machine is Sparc"):
        unpack_release(package, "Sparc", str(store))


def test_recovering_a_graph_empties_its_c_functions_too(node):
    x = df.FlowData("x")
    with df.FlowGraph([node(params={"factor": 2})(x)]) as graph:
        np.testing.assert_array_equal(graph(floats(1)), floats(2))
        for _ in range(3):
            fed = [graph.feed({x: floats(number)}) for number in range(5)]
            thrown = graph.recover()
            ended = []
            for _ in fed:
                try:
                    graph.fetch(timeout=20)
                except df.CancelledError as error:
                    ended.append(error)
            assert len(ended) == thrown
            np.testing.assert_array_equal(graph(floats(4)), floats(8))
        assert graph.running.client.in_flight == 0


def test_a_c_function_is_exchanged_while_its_graph_runs(node):
    with graph_of(node(params={"factor": 2}, instances=2)) as graph:
        np.testing.assert_array_equal(graph(floats(1)), floats(2))
        graph.update("cpp", node(params={"factor": 5}))
        for number in range(6):
            np.testing.assert_array_equal(graph(floats(number)), floats(5 * number))
        with pytest.raises(CompileError):
            graph.update("cpp", node(["skale"]))
        np.testing.assert_array_equal(graph(floats(2)), floats(10))


def test_a_c_function_is_exchanged_in_a_graph_that_is_a_node_and_in_one_that_a_function_calls(node):
    @df.pyflow
    class Asks:
        def __init__(self, called):
            self.called = called

        @df.method()
        def work(self, x):
            return self.called(x)

    inner = graph_of(node(params={"factor": 2}))
    point = df.FlowGraphProcessPoint(inner)
    end = Asks.fnode(point).work(point.fnode(1, 1, name="pre")(df.FlowData("x")))
    with df.FlowGraph([end]) as graph:
        np.testing.assert_array_equal(graph(floats(1)), floats(4))
        graph.update("pre/cpp", node(params={"factor": 5}))
        np.testing.assert_array_equal(graph(floats(1)), floats(25))
        assert sorted(graph.versions.values()) == [2, 2]
        with pytest.raises(CompileError):
            graph.update(inner.nodes[0], node(["skale"]))
        np.testing.assert_array_equal(graph(floats(1)), floats(25))
