"""Batching inside a graph, in this thread: what the caller gets for each transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from dflow_builtin_udf import plugin
from dflow_core import builtin
from dflow_core.executor import GraphClient
from dflow_core.graph import CountBatch, FlowData, FlowGraph, FlowOutput, FuncProcessPoint
from dflow_core.message import FeedInfo, Flag
from dflow_core.plugins import load_plugins
from dflow_core.session import DFlowSession
from dflow_core.testing import fakes
from dflow_core.testing.fakes import FakePoint
from dflow_core.types import Array, DataType, TensorSpec

ROWS = TensorSpec(DataType.FLOAT, (-1, 2))


@pytest.fixture
def session() -> Iterator[DFlowSession]:
    """A session with the engine for functions, the fake one, and these functions."""
    udf = pytest.importorskip("dflow_pne_udf.plugin")
    with DFlowSession(registry=load_plugins(builtin=(builtin, udf, plugin, fakes), allow=())) as session:
        yield session


def double(rows: npt.NDArray[np.float32]) -> Sequence[Array]:
    if (rows < 0).any():
        raise ValueError("negative")
    return [rows + rows]


def batched(batch: CountBatch) -> FlowOutput:
    """A model that takes batches, with single messages around it."""
    point = FakePoint(double, [ROWS], [ROWS], name="model")
    node = point.fnode(1, 1, "model")
    node.map_input(0, point, 0, [batch])
    output = node(FlowData("x"))
    assert isinstance(output, FlowOutput)
    return output


def unbatched(batch: CountBatch) -> FlowGraph:
    point = FuncProcessPoint(builtin="_BuiltIn_Unbatch")
    point.set_init_param("padding", batch.padding)
    output = point.fnode(1, 1, "unbatch")(batched(batch))
    assert isinstance(output, FlowOutput)
    return FlowGraph([output])


def results(client: GraphClient, count: int) -> list[tuple[int, list[list[float]] | list[float] | str]]:
    """The next outcomes: transaction, and value or type of the error."""
    found: list[tuple[int, list[list[float]] | list[float] | str]] = []
    for _ in range(count):
        outcome = client.fetch(timeout=10)
        if outcome.error is not None:
            found.append((outcome.trans_id, type(outcome.error).__name__))
            continue
        (msg,) = outcome.messages
        assert msg is not None
        array = msg.get_tensor()
        assert array is not None
        found.append((outcome.trans_id, array.tolist()))
    return found


def row(value: float) -> dict[int, object]:
    return {0: np.full(2, value, np.float32)}


def test_each_transaction_gets_its_own_row_back(session: DFlowSession) -> None:
    """BC-047: with padding too."""
    client = session.run(unbatched(CountBatch(4, timeout=0.02, padding=True)), mode="inline").client
    for value in range(7):
        client.feed(row(value))
    assert sorted(results(client, 7)) == [(i + 1, [2.0 * i, 2.0 * i]) for i in range(7)]
    assert client.in_flight == 0
    assert client.counters.late == 0


def test_failing_batch_ends_each_of_its_transactions(session: DFlowSession) -> None:
    client = session.run(unbatched(CountBatch(2)), mode="inline").client
    for value in (1, -1, 3, 4):
        client.feed(row(value))
    got = dict(results(client, 4))
    assert got == {1: "NodeError", 2: "NodeError", 3: [6, 6], 4: [8, 8]}
    assert client.in_flight == 0


def test_batch_is_the_result_of_its_newest_transaction(session: DFlowSession) -> None:
    client = session.run(FlowGraph([batched(CountBatch(2))]), mode="inline").client
    client.feed(row(1))
    client.feed(row(2))
    assert results(client, 1) == [(2, [[2, 2], [4, 4]])]
    assert (client.in_flight, client.counters.delivered, client.counters.dropped) == (0, 1, 1)


def test_example_of_the_semantics_reaches_the_caller(session: DFlowSession) -> None:
    """B=5, s=2, padding: the windows that hold nothing new arrive as further results of the newest transaction."""
    batch = CountBatch(5, slide_stride=2, timeout=0.03, padding=True)
    client = session.run(FlowGraph([batched(batch)]), mode="inline").client
    for value in range(1, 8):
        client.feed(row(value))
    got = [(trans_id, [r[0] / 2 for r in rows if isinstance(r, list)]) for trans_id, rows in results(client, 4)]
    assert got == [(5, [1, 2, 3, 4, 5]), (7, [3, 4, 5, 6, 7]), (7, [5, 6, 7, 0, 0]), (7, [7, 0, 0, 0, 0])]
    assert (client.in_flight, client.counters.late) == (0, 0)


def test_eos_sends_the_tail(session: DFlowSession) -> None:
    """BC-039."""
    client = session.run(unbatched(CountBatch(10)), mode="inline").client
    client.feed(row(1))
    client.feed(row(2), info=FeedInfo(flow_flags=Flag.EOS))
    assert sorted(results(client, 2)) == [(1, [2, 2]), (2, [4, 4])]
