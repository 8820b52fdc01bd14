"""The caller's side of a graph that a function calls: whose answer is whose, and how calls end."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from dflow_core.errors import (
    ClosedError,
    DflowError,
    InstanceLostError,
    NodeError,
    UsageError,
    WaitTimeoutError,
)
from dflow_core.executor.backend import ALLOC_LIMIT, Backend
from dflow_core.executor.node.called_graph import CalledGraph, find_called
from dflow_core.message import Aux, Block, DataFlag, ErrorInfo, FlowMsg, HeapBlock, Member, MsgInfo, child_token, decode

HEAD = MsgInfo(7, start_time=1, end_time=2, flags=1, step_id=5, token=99, data_label=3, route_label=4, user_data=b"u")
LIMIT = 10.0


class Queues(Backend):
    """Keeps what was fed, and gives what the test puts in."""

    def __init__(self) -> None:
        self.fed: list[dict[int, FlowMsg]] = []
        self.answers: list[tuple[int, FlowMsg]] = []
        self.ended: DflowError | None = None
        self.changed = threading.Condition()

    def alloc(self, size: int, timeout: float = ALLOC_LIMIT) -> Block:
        return HeapBlock(size)

    def owns(self, block: Block) -> bool:
        return isinstance(block, HeapBlock)

    def has_room(self, inputs: Sequence[int]) -> bool:
        return True

    def feed(self, trans_id: int, blocks: Mapping[int, Block]) -> None:
        self.fed.append({port: FlowMsg.from_block(block) for port, block in blocks.items()})

    def pump(self, timeout: float, room_for: Sequence[int] = ()) -> list[tuple[int, FlowMsg]]:
        with self.changed:
            self.changed.wait_for(lambda: self.answers, timeout)
            answers, self.answers = self.answers, []
        return answers

    def failure(self) -> DflowError | None:
        return self.ended

    def report(self, stacks: bool = True) -> str:
        return ""

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def close(self) -> None:
        pass

    def answer(self, msg: FlowMsg, output: int = 0, **changes: object) -> None:
        """Send a message with the head of another."""
        with self.changed:
            self.answers.append((output, FlowMsg(replace(msg.info, **changes), msg.body, msg.aux, msg.block)))
            self.changed.notify_all()


def graph(outputs: int = 1, inputs: int = 1) -> tuple[CalledGraph, Queues]:
    queues = Queues()
    names = [f"i{n}" for n in range(inputs)], [f"o{n}" for n in range(outputs)]
    return CalledGraph("f/k", *names, queues), queues


def test_messages_inherit_the_callers_head_under_the_number_of_the_call():
    called, queues = graph(inputs=2)
    call = called.start(HEAD, [np.arange(3), "object"])
    first, second = queues.fed[0][0].info, queues.fed[0][1].info
    assert (first.trans_id, first.start_time, first.end_time, first.flags, first.route_label) == (7, 1, 2, 1, 4)
    assert first.user_data.rstrip(b"\0") == b"u"
    assert (first.data_label, first.step_id, first.token) == (second.data_label, second.step_id, second.token)
    assert first.data_label == first.step_id not in (0, HEAD.data_label)
    queues.answer(queues.fed[0][0])
    ((answer,),) = call.results(LIMIT)
    assert answer is not None
    assert replace(answer.info, user_data=b"u") == replace(HEAD, start_time=1)
    assert decode(answer) is not None


def test_calls_of_one_transaction_get_their_own_answers_in_any_order():
    called, queues = graph()
    calls = [called.start(HEAD, [np.array(n)]) for n in range(3)]
    for fed in reversed(queues.fed):
        queues.answer(fed[0])
    assert [int(np.asarray(decode(call.results(LIMIT)[0][0]))) for call in calls] == [0, 1, 2]


def test_answers_to_calls_that_nobody_waits_for_are_let_go():
    called, queues = graph()
    late = called.start(HEAD, [np.array(1)])
    with pytest.raises(WaitTimeoutError):
        late.results(0)
    late.cancel()
    former = replace(queues.fed[0][0].info, step_id=(queues.fed[0][0].info.step_id + (1 << 30)) & 0xFFFFFFFF)
    call = called.start(HEAD, [np.array(2)])
    queues.answer(queues.fed[0][0])
    queues.answer(FlowMsg(former))
    queues.answer(queues.fed[1][0])
    assert int(np.asarray(decode(call.results(LIMIT)[0][0]))) == 2


def test_a_call_that_is_not_ended_in_time_can_be_waited_for_again():
    called, queues = graph()
    call = called.start(HEAD, [np.array(1)])
    with pytest.raises(WaitTimeoutError):
        call.results(0)
    queues.answer(queues.fed[0][0])
    assert len(call.results(LIMIT)) == len(call.results(LIMIT)) == 1


@pytest.mark.parametrize(("kind", "error"), [("node", NodeError), ("lost", InstanceLostError)])
def test_an_error_in_there_ends_the_call_with_its_node_and_the_callers_transaction(kind, error):
    called, queues = graph(outputs=2)
    call = called.start(HEAD, [np.array(1)])
    failed = ErrorInfo(kind, "it broke", "ValueError" if kind == "node" else "", "f/k/a", 0, "trace")
    msg = FlowMsg(queues.fed[0][0].info, None, Aux(error=failed))
    queues.answer(msg, 1, data_flag=DataFlag.ERROR | DataFlag.NULL)
    for _ in range(2):
        with pytest.raises(error, match="it broke") as caught:
            call.results(LIMIT)
        assert (caught.value.node, caught.value.trans_id) == ("f/k/a", 7)


def test_outputs_come_in_order_with_none_where_a_branch_was_not_taken():
    called, queues = graph(outputs=2)
    call = called.start(HEAD, [np.array(1)])
    queues.answer(queues.fed[0][0], 1)
    queues.answer(queues.fed[0][0], 0, data_flag=DataFlag.SKIP | DataFlag.NULL)
    ((first, second),) = call.results(LIMIT)
    assert first is None
    assert second is not None
    nothing = called.start(HEAD, [np.array(1)])
    for output in (0, 1):
        queues.answer(queues.fed[1][0], output, data_flag=DataFlag.SKIP | DataFlag.NULL)
    assert nothing.results(LIMIT) == []


def test_parts_that_a_node_in_there_makes_are_results_of_one_call():
    called, queues = graph()
    call = called.start(HEAD, [np.array(1)])
    fed = queues.fed[0][0]
    tokens = [child_token(fed.info.token, n) for n in range(2)]
    for n, token in enumerate(tokens):
        queues.answer(fed, token=token, data_label=n + 1)
    end = fed.info.token ^ tokens[0] ^ tokens[1]
    queues.answer(FlowMsg(fed.info), data_flag=DataFlag.END | DataFlag.NULL, token=end)
    assert len(call.results(LIMIT)) == 2


def test_a_batch_of_several_calls_ends_each_of_them():
    called, queues = graph()
    calls = [called.start(HEAD, [np.array(n)]) for n in range(2)]
    heads = [fed[0].info for fed in queues.fed]
    batch = FlowMsg(heads[0], queues.fed[0][0].body, Aux(tuple(Member(info) for info in heads)), queues.fed[0][0].block)
    queues.answer(batch)
    assert [len(call.results(LIMIT)) for call in calls] == [1, 0]


@pytest.mark.parametrize("end", [lambda called, call: call.cancel(), lambda called, call: called.cancel(7)])
def test_cancelling_ends_who_waits_at_once(end):
    called, queues = graph()
    call = called.start(HEAD, [np.array(1)])
    other = called.start(replace(HEAD, trans_id=8), [np.array(2)])
    waits = threading.Event()

    def cancel() -> None:
        waits.wait(LIMIT)
        end(called, call)

    thread = threading.Thread(target=cancel)
    thread.start()
    waits.set()
    with pytest.raises(ClosedError, match="call for transaction 7 was cancelled"):
        call.results(LIMIT)
    thread.join()
    queues.answer(queues.fed[0][0])
    queues.answer(queues.fed[1][0])
    assert len(other.results(LIMIT)) == 1


def test_calls_end_when_the_graph_ends():
    called, queues = graph()
    call = called.start(HEAD, [np.array(1)])
    queues.ended = ClosedError("the graph ends")
    called.wake()
    with pytest.raises(ClosedError, match="the graph ends"):
        call.results(LIMIT)


def test_wrong_calls_say_what_there_is():
    called, _ = graph(inputs=2)
    with pytest.raises(UsageError, match=r"'f/k' has 2 inputs \(i0, i1\), got 1 values"):
        called.start(HEAD, [1])
    with pytest.raises(UsageError, match="there is no graph 'x' to call; there is 'k'"):
        find_called({"k": called}, "x", "f")
