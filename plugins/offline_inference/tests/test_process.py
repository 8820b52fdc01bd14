"""Workers in executor processes: the same results, and what becomes of requests when one dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from dflow_core import builtin
from dflow_core.graph import Framework, GraphProcessPoint
from dflow_core.plugins import load_plugins
from dflow_core.session import DFlowSession
from dflow_core.spi import ModelWorker
from dflow_core.testing.machine import CleanMachine
from dflow_core.types import DataType, TensorSpec
from dflow_offline_inference import ModelConfig, OfflineInference, RequestError, WorkerLostError
from dflow_offline_inference.workers import RemoteWorker, compile_models

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def session() -> Iterator[DFlowSession]:
    with DFlowSession({}, load_plugins(builtin=[builtin])) as made:
        yield made


def pictures(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.random((1, 3, 32, 32), np.float32) for _ in range(count)]


def test_the_same_results_as_threads(models: Path) -> None:
    found = {}
    for workers in ("thread", "process"):
        config = ModelConfig(models / "conv_small.onnx", batch=4, instances=2)
        with OfflineInference({"net": config}, workers=workers) as offline:
            found[workers] = [result["probs"] for result in offline.map("net", pictures(30))]
    for here, there in zip(found["thread"], found["process"]):
        np.testing.assert_allclose(here, there, atol=1e-6)
        assert there.flags.writeable and there.flags.owndata, "results are no views of shared memory"


def test_a_bad_element_fails_alone_there_too() -> None:
    """Whole numbers beyond 32 bits are refused by the engine when the call begins, in the other process."""
    make = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g",
                              [make("x", TensorProto.INT64, ["N", 1])], [make("y", TensorProto.INT64, ["N", 1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    point = GraphProcessPoint(Framework.ONNX, model.SerializeToString(), runtime="openvino")
    config = ModelConfig(point, batch=4, batch_wait=60.0)
    with OfflineInference({"net": config}, workers="process") as offline:
        handles = [offline.infer("net", np.array([[n]])) for n in (1, 2, 2**40, 4)]
        offline.close()
    assert [handle.result(0)["y"].item() for handle in handles if handle is not handles[2]] == [1, 2, 4]
    error = handles[2].exception(0)
    assert isinstance(error, RequestError) and "32 bits" in str(error) and f"request {handles[2].id}" in str(error)


def test_a_process_that_is_killed_ends_what_it_held_and_comes_back(models: Path, until) -> None:
    with OfflineInference({"net": ModelConfig(models / "conv_medium.onnx")}, workers="process") as offline:
        picture = np.zeros((1, 3, 128, 128), np.float32)
        offline.infer("net", picture).result(30)
        (lane,) = offline._machinery.engine.lanes
        handles = [offline.infer("net", picture) for _ in range(50)]
        handles[2].result(30)
        os.kill(lane.worker._running.deployment.status()[0].pid, signal.SIGKILL)
        errors = [handle.exception(60) for handle in handles]
        assert all(error is None or isinstance(error, RequestError) for error in errors)
        assert sum(error is not None for error in errors) <= 3, "only what it held is lost"
        assert offline.infer("net", picture).result(60)["probs"].shape == (1, 100)


def test_a_process_that_keeps_dying_ends_everything_asked_of_its_model(models: Path, until) -> None:
    point_options = ModelConfig(models / "conv_small.onnx")
    with OfflineInference({"net": point_options, "other": models / "add_float.onnx"}, workers="process") as offline:
        lane = next(lane for lane in offline._machinery.engine.lanes if lane.station.name == "net")
        deployment = lane.worker._running.deployment
        picture = pictures(1)[0]
        killed: set[int] = set()

        def gone() -> bool:
            pid = deployment.status()[0].pid
            if pid and pid not in killed:
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            return offline.infer("net", picture).exception(30) is not None and deployment.failure() is not None

        until(gone)
        error = offline.infer("net", picture).exception(30)
        assert isinstance(error, WorkerLostError) and "no worker left" in str(error)
        ones = np.ones(3, np.float32)
        assert offline.infer("other", (ones, ones)).result(30)["Y"].tolist() == [2, 2, 2]


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_nothing_is_left(models: Path, workers: str) -> None:
    machine = CleanMachine(limit=10.0)
    ones = np.ones(3, np.float32)
    with OfflineInference({"net": ModelConfig(models / "add_float.onnx", instances=2)}, workers=workers) as offline:
        assert offline.infer("net", (ones, ones)).result(30)["Y"].tolist() == [2, 2, 2]
        machine.limit = 0.0
        assert machine.left(), "the check sees what runs"
    machine.limit = 10.0
    machine.check()


def test_a_remote_worker_keeps_the_contract_of_workers(session: DFlowSession, models: Path) -> None:
    compiled = compile_models(session, {"net": ModelConfig(models / "add_dynamic.onnx")})["net"]
    worker: ModelWorker = RemoteWorker(session, compiled.graph)
    try:
        assert [spec.mismatch(DataType.FLOAT, (3,)) for spec in worker.inputs] == [None, None]
        assert worker.failure() is None and isinstance(worker.outputs[0], TensorSpec)
        ones = np.ones(3, np.float32)
        ones.flags.writeable = False
        calls = [worker.begin([ones, ones], np.empty) for _ in range(worker.depth)]
        assert [worker.finish(call)[0].tolist() for call in calls] == [[2, 2, 2]] * worker.depth
        assert worker.execute([ones * 2, ones], np.empty)[0].tolist() == [3, 3, 3]
    finally:
        worker.close()
        worker.close()


LEFT_OPEN = """
import sys, numpy as np
from dflow_offline_inference import OfflineInference
offline = OfflineInference({"net": sys.argv[1]}, workers=sys.argv[2])
offline.init()
ones = np.ones((1, 3, 128, 128), np.float32)
handles = [offline.infer("net", ones) for _ in range(300)]
handles[0].result()
print("leaving")
"""


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_a_program_that_forgets_to_close_ends_all_the_same(models: Path, workers: str) -> None:
    machine = CleanMachine(limit=10.0)
    command = [sys.executable, "-c", LEFT_OPEN, str(models / "conv_medium.onnx"), workers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")
    machine.check()
