"""One table of behaviour for functions that take from queues, in C++ and hand-written in Python.

Each node has four such functions: what they do is below, in both languages, and what their caller gets is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.message import FlowMsg
from dflow_core.udf import MessageQueue, MetaRunContext

ITEMS = 6
STREAMS = """
#include "flow_func/meta_multi_func.h"
namespace demo {
using namespace FlowFunc;
using Context = const std::shared_ptr<MetaRunContext> &;
using Queues = const std::vector<std::shared_ptr<FlowMsgQueue>> &;
using Msg = std::shared_ptr<FlowMsg>;

class Streams : public MetaMultiFunc {
public:
    int32_t Forward(Context context, Queues queues)
    {
        for (;;) {
            Msg msg;
            const int32_t code = queues[0]->Dequeue(msg);
            if (msg == nullptr) {
                return code;
            }
            (void)context->SetOutput(0, msg);
        }
    }
    int32_t Reverse(Context context, Queues queues)
    {
        std::vector<Msg> taken;
        while (taken.size() < 3) {
            Msg msg;
            const int32_t code = queues[0]->Dequeue(msg, 20000);
            if (msg == nullptr) {
                return code;
            }
            taken.push_back(msg);
        }
        for (auto at = taken.rbegin(); at != taken.rend(); ++at) {
            (void)context->SetOutput(1, *at);
        }
        return 0;
    }
    int32_t Odd(Context context, Queues queues)
    {
        Msg msg;
        const int32_t code = queues[0]->Dequeue(msg);
        if (msg == nullptr) {
            return code;
        }
        return First(msg) % 2 != 0 ? context->SetOutput(2, msg) : 0;
    }
    int32_t Codes(Context context, Queues queues)
    {
        Msg msg;
        Msg none;
        const int32_t code = queues[0]->Dequeue(msg);
        if (msg == nullptr) {
            return code;
        }
        if (First(msg) == 4) {
            return 9900004;
        }
        const int64_t now = First(msg) == 5 ? queues[0]->Dequeue(none, 0) : 0;
        const int64_t later = First(msg) == 5 ? queues[0]->Dequeue(none, 20) : 0;
        auto out = context->AllocTensorMsg({3}, TensorDataType::DT_INT64);
        auto to = static_cast<int64_t *>(out->GetTensor()->GetData());
        to[0] = now;
        to[1] = later;
        to[2] = queues[0]->Depth() > 1;
        out->SetTransactionId(msg->GetTransactionId());
        return context->SetOutput(3, out);
    }
private:
    static int64_t First(const Msg &msg)
    {
        return *static_cast<int64_t *>(msg->GetTensor()->GetData());
    }
};
FLOW_FUNC_REGISTRAR(Streams).RegProcFunc("forward", &Streams::Forward).RegProcFunc("reverse", &Streams::Reverse)
    .RegProcFunc("odd", &Streams::Odd).RegProcFunc("codes", &Streams::Codes);
}
"""


def first_of(msg: FlowMsg) -> int:
    tensor = msg.get_tensor()
    assert tensor is not None
    return int(tensor[0])


class Streams:
    @df.proc_wrapper("i0,o0,stream_input")
    def forward(self, context: MetaRunContext, queues: list[MessageQueue]) -> int:
        while True:
            code, msg = queues[0].dequeue()
            if msg is None:
                return code
            context.set_output(0, msg)

    @df.proc_wrapper("i1,o1,stream_input")
    def reverse(self, context: MetaRunContext, queues: list[MessageQueue]) -> int:
        taken: list[FlowMsg] = []
        while len(taken) < 3:
            code, msg = queues[0].dequeue(20000)
            if msg is None:
                return code
            taken.append(msg)
        for msg in reversed(taken):
            context.set_output(1, msg)
        return 0

    @df.proc_wrapper("i2,o2,stream_input")
    def odd(self, context: MetaRunContext, queues: list[MessageQueue]) -> int:
        code, msg = queues[0].dequeue()
        if msg is None:
            return code
        return context.set_output(2, msg) if first_of(msg) % 2 else 0

    @df.proc_wrapper("i3,o3,stream_input")
    def codes(self, context: MetaRunContext, queues: list[MessageQueue]) -> int:
        code, msg = queues[0].dequeue()
        if msg is None:
            return code
        if first_of(msg) == 4:
            return 9900004
        asks = first_of(msg) == 5
        now, later = (queues[0].dequeue(0)[0], queues[0].dequeue(20)[0]) if asks else (0, 0)
        out = context.alloc_tensor_msg([3], np.int64)
        tensor = out.get_tensor()
        assert tensor is not None
        tensor[...] = [now, later, queues[0].depth() > 1]
        out.set_transaction_id(msg.get_transaction_id())
        return context.set_output(3, out)


RULES = [
    (0, [[n] for n in range(ITEMS)], "a message that is sent on answers itself"),
    (1, [[n] for n in range(ITEMS)], "answers may come in another order than the messages"),
    (2, [None, [1], None, [3], None, [5]], "a message that is let go of without an answer ends without a result"),
    (3, [[0, 0, 1]] * 4 + ["9900004", [564001, 564001, 1]], "waits in vain and failures give their codes"),
]


@pytest.fixture(scope="module", params=["cpp", "python"])
def outcomes(
    request: pytest.FixtureRequest, make_udf_project: Callable, store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[object]]:
    """What the caller gets for each transaction: a tuple with one entry for each function, or an error."""
    names = ("forward", "reverse", "odd", "codes")
    if request.param == "cpp":
        project = make_udf_project(tmp_path_factory.mktemp("streams"), {"streams": STREAMS})
        functions = [
            {"func_name": name, "inputs_index": [i], "outputs_index": [i], "stream_input": True}
            for i, name in enumerate(names)
        ]
        point = df.FuncProcessPoint(project.configure(func_list=functions, input_num=4, output_num=4))
    else:
        point = df.FuncProcessPoint(py_func=Streams)
    node = point.fnode(4, 4, name="streams")
    outputs = node(*(df.FlowData(name) for name in names))
    with df.FlowGraph(list(outputs)) as graph:
        found = dict(_each(graph, [dict.fromkeys(names, np.array([n])) for n in range(ITEMS)]))
        yield [found[number] for number in sorted(found)]


def _each(graph: df.FlowGraph, items: list[dict[str, np.ndarray]]) -> Iterator[tuple[int, object]]:
    """Three transactions at a time, as `reverse` wants them; each with its number, in any order."""
    for start in range(0, len(items), 3):
        for item in items[start : start + 3]:
            graph.feed(item)
        for _ in range(3):
            try:
                result, info = graph.fetch(with_info=True, timeout=30)
                yield info.transaction_id, result
            except df.NodeError as error:
                assert error.trans_id is not None
                yield error.trans_id, error


@pytest.mark.parametrize(("output", "expected", "rule"), RULES, ids=[rule for _, _, rule in RULES])
def test_both_languages_do_the_same_with_queues(outcomes, output, expected, rule):
    for number, (outcome, wanted) in enumerate(zip(outcomes, expected)):
        if isinstance(outcome, df.NodeError):
            assert (number, outcome.ret_code) == (4, 9900004)
        else:
            value = outcome[output]
            assert (None if value is None else value.tolist()) == wanted, rule
