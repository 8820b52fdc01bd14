"""Failed calls of C++ functions are recorded with their messages, and made again alone, in one process."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import dflow_core as df
from dflow_core.cli.app import app
from dflow_core.errors import InstanceLostError, NodeError, UsageError
from dflow_core.executor.failed_calls import native_call
from dflow_core.message import decode
from dflow_core.recording import Recording, read_recording
from dflow_core.replay import replay_call, replay_transaction
from dflow_core.session import DFlowSession

KINDS = """
#include <stdexcept>
#include "flow_func/meta_flow_func.h"
#include "flow_func/meta_multi_func.h"
namespace demo {
using namespace FlowFunc;
using Context = const std::shared_ptr<MetaRunContext> &;
using Inputs = const std::vector<std::shared_ptr<FlowMsg>> &;
using Queues = const std::vector<std::shared_ptr<FlowMsgQueue>> &;
using Msg = std::shared_ptr<FlowMsg>;

int64_t First(const Msg &msg) { return *static_cast<int64_t *>(msg->GetTensor()->GetData()); }

class Single : public MetaFlowFunc {
public:
    int32_t Init() override { return context_->GetAttr("limit", limit_); }
    int32_t Proc(Inputs in) override
    {
        in[0]->SetStartTime(77);  // what is set on an input is not what came
        if (First(in[0]) > limit_) {
            throw std::runtime_error("above " + std::to_string(limit_));
        }
        if (First(in[0]) == -99) {
            *static_cast<volatile int *>(nullptr) = 1;
        }
        return context_->SetOutput(0, in[0]);
    }
private:
    int64_t limit_ = 0;
};
REGISTER_FLOW_FUNC("single", Single);

class Multi : public MetaMultiFunc {
public:
    int32_t Good(Context context, Inputs in) { return context->SetOutput(0, in[0]); }
    int32_t Join(Context context, Inputs in)
    {
        return First(in[0]) < First(in[1]) ? 9900011 : context->SetOutput(1, in[1]);
    }
    int32_t Queue(Context context, Queues queues)
    {
        std::vector<Msg> waiting;  // answers come two messages late
        for (;;) {
            Msg msg;
            const int32_t code = queues[0]->Dequeue(msg);
            if (msg == nullptr) {
                return code;
            }
            waiting.push_back(msg);
            if (First(msg) == -99) {
                *static_cast<volatile int *>(nullptr) = 1;
            }
            if (First(msg) < 0) {
                throw std::runtime_error(std::to_string(waiting.size()) + " waiting");
            }
            if (waiting.size() == 3) {
                (void)context->SetOutput(2, waiting.front());
                waiting.erase(waiting.begin());
            }
        }
    }
};
FLOW_FUNC_REGISTRAR(Multi).RegProcFunc("good", &Multi::Good).RegProcFunc("join", &Multi::Join)
    .RegProcFunc("queue", &Multi::Queue);
}
"""

@pytest.fixture(scope="module")
def project(make_udf_project, tmp_path_factory):
    return make_udf_project(tmp_path_factory.mktemp("recorded"), {"kinds": KINDS})


def single(project, **params: int) -> df.FlowNode:
    point = df.FuncProcessPoint(project.configure(func_list=[{"func_name": "single"}], target_bin="libkinds.so"))
    point.set_init_param("limit", params.get("limit", 5))
    return point.fnode(1, 1, name="cpp")


def multi(project) -> df.FlowNode:
    funcs = [
        {"func_name": "good", "inputs_index": [0], "outputs_index": [0]},
        {"func_name": "join", "inputs_index": [1, 2], "outputs_index": [1]},
        {"func_name": "queue", "inputs_index": [3], "outputs_index": [2], "stream_input": True},
    ]
    config = project.configure(func_list=funcs, input_num=4, output_num=3, target_bin="libkinds.so")
    return df.FuncProcessPoint(config).fnode(4, 3, name="cpp")


def number(value: int) -> np.ndarray:
    return np.array([value], np.int64)


def graph_of(node: df.FlowNode, path: Path) -> df.FlowGraph:
    made = node(*(df.FlowData(f"x{i}") for i in range(node.input_num)))
    return df.FlowGraph(list(made) if isinstance(made, tuple) else [made], {"record": str(path), "output": "none"})


def failed_call_of(recording: Recording) -> tuple[object, list[int], tuple[int, ...]]:
    """Name of the function that failed, its messages, and the inputs they were taken from."""
    failed = recording.transaction()
    call = recording.failed_call(failed)
    name = recording.model(failed).submodels[call.node].functions[call.function].name
    return name, [int(decode(msg)[0]) for msg in call.inputs], call.ports  # type: ignore[index]


def test_single_function_that_throws_is_called_again_in_this_process(project, tmp_path):
    path = tmp_path / "run.dfrec"
    with graph_of(single(project), path) as graph:
        assert graph(number(3)) == 3
        with pytest.raises(NodeError, match="above 5"):
            graph.feed({"x0": number(6)}, info=df.FeedInfo(start_time=5))
            graph.fetch()
        assert graph(number(4)) == 4
    recording = read_recording(path)
    assert failed_call_of(recording) == ("single", [6], ())
    (msg,) = recording.failed_call(recording.transaction()).inputs
    assert (msg.info.trans_id, msg.info.start_time) == (2, 5), "as it came, whatever the function set"
    with DFlowSession() as session:
        done = replay_call(session, recording, recording.transaction())
        assert (done.node, done.verdict, done.mode) == ("cpp", "the same error", "inline")
        assert "above 5" in str(done.error) and done.error.trans_id == 2
        with pytest.raises(UsageError, match="the debugger of Python does not see into") as caught:
            replay_call(session, recording, recording.transaction(), wrap=lambda _name, func: func)
        assert str(caught.value.hint).startswith("gdb --args")
        whole = replay_transaction(session, recording, recording.transaction())
        assert (whole.mode, whole.verdict) == ("process", "the same error")


def test_functions_of_one_object_are_told_apart_and_a_join_has_both_messages(project, tmp_path):
    path = tmp_path / "run.dfrec"
    with graph_of(multi(project), path) as graph:
        graph.feed({"x1": number(1), "x2": number(2)}, partial=True)
        graph.feed({"x0": number(7)}, partial=True)
        with pytest.raises(NodeError, match="9900011"):
            graph.fetch()
    recording = read_recording(path)
    assert failed_call_of(recording) == ("join", [1, 2], ())
    with DFlowSession() as session:
        done = replay_call(session, recording, recording.transaction())
        assert done.verdict == "the same error" and "9900011" in str(done.error)


def test_function_with_queues_is_called_again_with_what_it_owes(project, tmp_path):
    path = tmp_path / "run.dfrec"
    with graph_of(multi(project), path) as graph:
        for value in (1, 2, 3, 4, -5):
            graph.feed({"x3": number(value)}, partial=True)
        with pytest.raises(NodeError, match="3 waiting"):
            for _ in range(15):
                graph.fetch(timeout=30)
        assert graph.stats().in_flight < 15
    recording = read_recording(path)
    assert failed_call_of(recording) == ("queue", [3, 4, -5], (0, 0, 0))
    with DFlowSession() as session:
        done = replay_call(session, recording, recording.transaction())
        assert done.verdict == "the same error" and "3 waiting" in str(done.error)


def test_call_that_is_mended_gives_its_outputs(project, tmp_path, monkeypatch):
    """The library in the recording is the one that failed; the limit is a parameter of the graph, changed here."""
    path = tmp_path / "run.dfrec"
    with graph_of(single(project), path) as graph, pytest.raises(NodeError):
        graph(number(6))
    recording = read_recording(path)
    model = recording.model()
    part = model.submodels["cpp"]
    mended = replace(model, submodels={"cpp": replace(part, params={**part.params, "limit": 10})})
    monkeypatch.setattr(Recording, "model", lambda *_: mended)
    with DFlowSession() as session:
        done = replay_call(session, recording, recording.transaction())
    assert done.verdict == "no error this time"
    assert [(name, decode(msg).tolist()) for name, msg in done.outputs] == [("cpp:0", [6])]


def test_crash_leaves_no_messages_and_is_replayed_whole(project, tmp_path):
    path = tmp_path / "run.dfrec"
    with graph_of(single(project), path) as graph, pytest.raises(InstanceLostError):
        graph(number(-99))
    recording = read_recording(path)
    assert recording.transaction().end.how == "lost"
    with DFlowSession() as session, pytest.raises(UsageError, match="a process that dies leaves no messages behind"):
        replay_call(session, recording, recording.transaction())


def test_command_runs_the_node_alone(project, tmp_path):
    path = tmp_path / "run.dfrec"
    with graph_of(single(project), path) as graph, pytest.raises(NodeError):
        graph(number(6))
    done = CliRunner().invoke(app, ["replay", str(path), "--node", "cpp"])
    assert done.exit_code == 1 and "the call of node cpp ran again: the same error" in done.output
    refused = CliRunner().invoke(app, ["replay", str(path), "--node", "--step"])
    assert refused.exit_code != 0 and "gdb --args" in refused.output
    command = [sys.executable, "-m", "dflow_core.cli.main", "replay", str(path), "--node"]  # what gdb is given
    alone = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert alone.returncode == 1 and "above 5" in alone.stdout, alone.stderr


def test_calls_are_recorded_without_keeping_memory(project, tmp_path):
    """A function with queues that answers holds nothing for the recording while it waits."""
    path = tmp_path / "run.dfrec"
    with graph_of(multi(project), path) as graph:
        for value in (1, 2, 3):
            graph.feed({"x3": number(value)}, partial=True)
        graph.recover()
        assert graph.stats().bytes_in_use == 0


def test_crash_of_a_function_with_queues_ends_what_it_owed_once_although_it_was_remembered(project, tmp_path):
    path = tmp_path / "run.dfrec"
    with graph_of(multi(project), path) as graph:
        for value in (1, 2, 3, -99):
            graph.feed({"x3": number(value)}, partial=True)
        for _ in range(4):
            with contextlib.suppress(InstanceLostError):
                graph.fetch(timeout=30)
        stats = graph.stats()
        assert (stats.in_flight, stats.bytes_in_use) == (0, 0)
    recording = read_recording(path)
    assert [one.end.how for one in recording.transactions.values()] == ["result", "lost", "lost", "lost"]


@pytest.mark.parametrize("data", [b"dflowfc1", b"dflowfc1" + bytes(16) + bytes(8), b"dflowfc1" + b"\xff" * 40])
def test_what_is_no_call_is_refused(data: bytes) -> None:
    with pytest.raises(df.ModelFormatError, match="a failed call cannot be read"):
        native_call(data)
