"""Short calls of a model that overlap, in a real executor: every transaction ends once, with what is its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df

MODELS = Path(__file__).parents[1] / "data" / "models"


def graph_of(model: str, inputs: int, **options: object) -> df.FlowGraph:
    """One model node on OpenVINO, which takes two calls at once."""
    node = df.GraphProcessPoint(df.Framework.ONNX, MODELS / model, runtime="openvino").fnode(inputs, 1, "model")
    node.set_options(threads=1, **options)
    return df.FlowGraph([node(*(df.FlowData(f"x{port}") for port in range(inputs)))])


def feeds(count: int) -> list[dict[str, np.ndarray]]:
    """Pairs of vectors to add; every seventh, from the fourth on, does not fit together."""
    return [
        {"x0": np.full(3, n, np.float32), "x1": np.ones(4 if n % 7 == 3 else 3, np.float32)} for n in range(count)
    ]


def test_failing_calls_among_overlapping_ones_end_their_own_transactions_only() -> None:
    with graph_of("add_dynamic.onnx", 2) as graph:
        answers = list(graph.map(feeds(400), in_flight=8, errors="return"))
        assert len(answers) == 400
        for n, answer in enumerate(answers):
            if n % 7 == 3:
                assert isinstance(answer, df.NodeError) and answer.trans_id == n + 1
                assert answer.input_shapes == ("float[3]", "float[4]") and "OpenVINO failed" in str(answer)
            else:
                assert np.asarray(answer).tolist() == [n + 1] * 3
        (status,) = graph.running.deployment.status()  # type: ignore[union-attr]
        assert status.restarts == 0


def test_first_failing_call_stops_the_node_that_asks_for_it_and_is_named() -> None:
    with graph_of("add_dynamic.onnx", 2, on_error="stop") as graph:
        with pytest.raises(df.NodeError) as caught:
            list(graph.map(feeds(50), in_flight=8))
        assert caught.value.trans_id == 4


def test_killed_executor_loses_what_it_held_and_nothing_else() -> None:
    with graph_of("conv_medium.onnx", 1, restarts=100) as graph:
        image = np.zeros((1, 3, 128, 128), np.float32)
        expected = np.asarray(graph(image))
        lost = count = 0
        for answer in graph.map((image for _ in range(400)), in_flight=8, errors="return"):
            count += 1
            if isinstance(answer, df.InstanceLostError):
                lost += 1
            else:
                np.testing.assert_array_equal(answer, expected)  # type: ignore[arg-type]
            if count in (60, 200):
                (status,) = graph.running.deployment.status()  # type: ignore[union-attr]
                os.kill(status.pid, signal.SIGKILL)
        assert count == 400 and lost <= 2 * 3
        np.testing.assert_array_equal(graph(image), expected)  # type: ignore[arg-type]
