"""A function with two queues never pairs halves of two transactions, in whatever language (runtime-semantics.md 11).

Each function takes a message of either queue, in order, and gives what it took; the table says what happens to the two
messages of each transaction, and what the caller gets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.executor.cancel_board import BOARD, WORDS
from dflow_core.message import FlowMsg
from dflow_core.testing.waiting import wait_until
from dflow_core.udf import MessageQueue, MetaRunContext

TWINS = """
#include "flow_func/meta_multi_func.h"
namespace demo {
using namespace FlowFunc;
class Twins : public MetaMultiFunc {
public:
    int32_t Pair(const std::shared_ptr<MetaRunContext> &context,
                 const std::vector<std::shared_ptr<FlowMsgQueue>> &queues)
    {
        std::vector<std::shared_ptr<FlowMsg>> taken(2);
        for (int i = 0; i < 2; i++) {
            const int32_t code = queues[i]->Dequeue(taken[i]);
            if (code != 0) {
                return code;
            }
        }
        auto out = context->AllocTensorMsg({2}, TensorDataType::DT_INT64);
        for (int i = 0; i < 2; i++) {
            static_cast<int64_t *>(out->GetTensor()->GetData())[i] =
                *static_cast<int64_t *>(taken[i]->GetTensor()->GetData());
        }
        out->SetTransactionId(taken[0]->GetTransactionId());
        return context->SetOutput(0, out);
    }
};
FLOW_FUNC_REGISTRAR(Twins).RegProcFunc("twins", &Twins::Pair);
}
"""


class Twins:
    @df.proc_wrapper("i0,i1,o0,stream_input")
    def twins(self, context: MetaRunContext, queues: list[MessageQueue]) -> int:
        taken: list[FlowMsg] = []
        for one in queues:
            code, msg = one.dequeue()
            if msg is None:
                return code
            taken.append(msg)
        out = context.alloc_tensor_msg([2], np.int64)
        out.get_tensor()[...] = [msg.get_tensor()[0] for msg in taken]
        out.set_transaction_id(taken[0].get_transaction_id())
        return context.set_output(0, out)


@df.pyflow(stream_input="Queue")
def twins(left, right):
    """Called once for each pair; told of a lost half by an exception, which it lets pass."""
    return np.concatenate([left.get(), right.get()])


@df.pyflow(stream_input="Queue")
def loop(left, right):
    """One call for all; told of a lost half by an exception, after which it goes on."""
    while True:
        pair = [left.get()]
        with contextlib.suppress(df.MissingError):
            pair.append(right.get())
            yield np.concatenate(pair)
        del pair  # what it holds while it waits, nobody else can use


@df.pyflow
def checked(x):
    if x[0] < 0:
        raise ValueError("no negative numbers")
    return x


@pytest.fixture(scope="module")
def project(make_udf_project: Callable, store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_udf_project(tmp_path_factory.mktemp("twins"), {"twins": TWINS})
    function = {"func_name": "twins", "inputs_index": [0, 1], "outputs_index": [0], "stream_input": True}
    return made.configure(func_list=[function], input_num=2)


MAKERS = {
    "cpp": lambda project: df.FuncProcessPoint(project).fnode(2, 1, name="twins"),
    "python": lambda _: df.FuncProcessPoint(py_func=Twins).fnode(2, 1, name="twins"),
    "pyflow": lambda _: twins.fnode(name="twins"),
    "pyflow loop": lambda _: loop.fnode(name="twins"),
}


@pytest.fixture(scope="module", params=MAKERS, ids=[name.replace(" ", "-") for name in MAKERS])
def graph(request: pytest.FixtureRequest, project: Path) -> Iterator[df.FlowGraph]:
    x, y = df.FlowData("x"), df.FlowData("y")
    end = MAKERS[request.param](project)(x, checked.fnode(name="checked")(y))
    with df.FlowGraph([end], {"output": "none"}) as made:
        yield made


def number(value: int) -> np.ndarray:
    return np.array([value], np.int64)


def check_pairs(graph: df.FlowGraph, *values: int) -> None:
    items = [{"x": number(value), "y": number(value)} for value in values]
    assert [pair.tolist() for pair in graph.map(items, timeout=30, copy=True)] == [[value, value] for value in values]


def is_clean(graph: df.FlowGraph) -> bool:
    """Whether nothing is in flight, in memory, or on the board of cancelled transactions."""
    group = graph.running.deployment.group
    return not group.stats().bytes_in_use and not group.board(BOARD, WORDS)[0] and not graph.running.client.in_flight


def level(graph: df.FlowGraph, port: int) -> int:
    return sum(edge.level for edge in graph.stats().edges if edge.name.endswith(f"twins:{port}"))


def next_end(graph: df.FlowGraph) -> tuple[int, list[int] | None]:
    """The next transaction to end, and its pair; None if it was cancelled."""
    try:
        pair, info = graph.fetch(with_info=True, timeout=30)
    except df.CancelledError as error:
        assert error.trans_id is not None
        return error.trans_id, None
    return info.transaction_id, pair.tolist()


ENDS = {
    # what takes the half away that the function waits for: the error its transaction ends with
    "cancelled": df.CancelledError, "late": df.DeadlineError, "failed": df.NodeError,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_half_that_is_taken_away_takes_the_other_along(graph: df.FlowGraph, end: str) -> None:
    check_pairs(graph, 1, 2)
    for value in (5, 6):
        if end == "failed":
            graph.feed({"x": number(value), "y": number(-1)})
        else:
            transaction = graph.feed({"x": number(value)}, partial=True, deadline=0.2 if end == "late" else None)
            wait_until(lambda: level(graph, 0) == 0)
            assert end == "late" or transaction.cancel()
        with pytest.raises(ENDS[end]):
            graph.fetch(timeout=30)
        check_pairs(graph, 7, 8, 9)
    wait_until(lambda: is_clean(graph))


def test_halves_of_transactions_cancelled_at_any_moment_pair_with_their_own(graph: df.FlowGraph) -> None:
    for turn in range(60):
        fed = [graph.feed({"x": number(n), "y": number(n)}) for n in range(4)]
        cancelled = {int(one) for i, one in enumerate(fed) if (turn + i) % 3 == 0 and one.cancel()}
        ended = dict(next_end(graph) for _ in fed)
        assert ended == {int(one): None if int(one) in cancelled else [n, n] for n, one in enumerate(fed)}
    graph(number(0), number(0), timeout=30)  # who fetches reads what is left of those before it
    wait_until(lambda: is_clean(graph))
