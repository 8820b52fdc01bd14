"""Transactions that end before their time: exactly once, whatever comes when, and nothing of them stays anywhere."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflow_core.errors import CancelledError, ClosedError, DeadlineError, NodeError, UsageError
from dflow_core.executor.caller.cancelling import Deadlines, Traces
from dflow_core.executor.caller.transactions import TransactionTable
from dflow_core.executor.cancel_board import SLOTS, CancelBoard, CancelReader, no_words
from dflow_core.executor.node.unwanted import Unwanted
from dflow_core.executor.outcomes import Channel
from dflow_core.message import Aux, DataFlag, ErrorInfo, FlowMsg, MsgInfo, child_token, current_transaction, root_token
from tests.unit.executor.support import Func, Node, inline, message

OUTPUTS = 2


class Graph:
    """What a graph may do to a table: messages of each transaction under way to each output, in any order."""

    def __init__(self) -> None:
        self.words = no_words()
        self.board = CancelBoard(self.words)
        self.table = TransactionTable(1, OUTPUTS, traces=Traces(self.board))
        self.channel = Channel()
        self.flying: list[tuple[int, FlowMsg]] = []
        self.next = 1

    def feed(self, parts: int, kind: str, deadline: float | None = None) -> None:
        trans_id, self.next = self.next, self.next + 1
        self.table.begin([0], trans_id, self.channel, deadline)
        root, tokens = root_token(trans_id), []
        for part in range(parts):
            tokens.append(child_token(root, part))
        end = root
        for token in tokens:
            end ^= token
        for output in range(OUTPUTS):
            for part, token in enumerate(tokens):
                info = MsgInfo(trans_id=trans_id, token=token, data_label=part + 1)
                self.flying.append((output, FlowMsg(info)))
            flag = {"end": DataFlag.END | DataFlag.NULL, "skip": DataFlag.SKIP, "error": DataFlag.ERROR}[kind]
            error = ErrorInfo("node", "no") if kind == "error" else None
            info = MsgInfo(trans_id=trans_id, token=end, data_flag=flag)
            self.flying.append((output, FlowMsg(info, None, Aux((), error))))

    def arrive(self, which: int) -> None:
        if self.flying:
            output, msg = self.flying.pop(which % len(self.flying))
            # A node takes what is on the board for a skip, or has sent it before it was there.
            if which % 3 and msg.info.trans_id in CancelReader(self.words):
                msg = Unwanted(CancelReader(self.words)).stand_in(msg)
            self.table.arrive(output, msg)

    def cancel(self, which: int) -> None:
        trans_id = which % self.next + 1
        was_open = self.table.is_open(trans_id)
        assert self.table.cancel(trans_id, CancelledError("no", trans_id=trans_id)) is was_open
        assert self.table.cancel(trans_id, CancelledError("no", trans_id=trans_id)) is False

    def expire(self, which: int) -> None:
        for trans_id in self.table.due(float(which)):
            assert self.table.cancel(trans_id, DeadlineError("late", trans_id=trans_id)) is True

    def check(self) -> None:
        counters = self.table.counters
        assert counters.fed == counters.delivered + counters.failed + counters.dropped + self.table.in_flight
        ended = Counter(outcome.trans_id for outcome in self.channel.outcomes if outcome.last)
        assert all(count == 1 for count in ended.values())
        assert not any(self.table.is_open(trans_id) for trans_id in ended)
        assert len(ended) == counters.fed - self.table.in_flight
        assert len(self.board) == len(self.table.traces) == int(self.words[0])

    def run_dry(self) -> None:
        while self.flying:
            self.arrive(0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), st.integers(0, 3), st.sampled_from(["end", "skip", "error"]), st.integers(0, 40)),
        st.tuples(st.just("arrive"), st.integers(0, 1 << 16)),
        st.tuples(st.just("cancel"), st.integers(0, 1 << 16)),
        st.tuples(st.just("expire"), st.integers(0, 40)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.booleans())
def test_every_transaction_ends_once_whatever_comes_when(steps, close):
    """The end of a transaction that was cancelled, timed out and completed at once is one of them."""
    graph = Graph()
    for step in steps:
        if step[0] == "feed":
            graph.feed(step[1], step[2], float(step[3]))
        else:
            getattr(graph, step[0])(step[1])
        graph.check()
    if close:
        graph.table.fail_all(ClosedError("closed"))
    graph.run_dry()
    graph.check()
    assert graph.table.in_flight == 0
    assert len(graph.board) == 0, "nothing of it is under way, so it is on the board no more"


def test_races_of_cancel_completion_and_close_end_each_transaction_once():
    """BC-054: five thousand rounds of cancelling a transaction at a random moment of its life."""
    rounds, dice = 5000, random.Random(7)
    graph = Graph()
    for _ in range(rounds):
        graph.feed(dice.randrange(3), dice.choice(["end", "skip"]), None)
        for _ in range(dice.randrange(6)):
            dice.choice((graph.arrive, graph.cancel))(dice.randrange(1 << 16))
    graph.run_dry()
    graph.check()
    assert (graph.table.in_flight, len(graph.board)) == (0, 0)
    assert graph.table.counters.cancelled > 100


def test_a_part_fed_after_the_end_does_not_open_the_transaction_again():
    table = TransactionTable(2, 1)
    channel = Channel()
    table.begin([0], 1, channel)
    assert table.cancel(1, CancelledError("no"))
    table.begin([1], 1, channel)
    assert (table.in_flight, table.counters.fed, len(channel.outcomes)) == (0, 1, 1)


def test_the_board_keeps_the_latest_and_a_reader_sees_each_change():
    words = no_words()
    board, reader = CancelBoard(words), CancelReader(words)
    assert not reader.has_news()
    assert [board.add(trans_id) for trans_id in range(1, SLOTS + 1)] == [0] * SLOTS
    assert reader.has_news() and not reader.has_news()
    assert board.add(9999) == 1, "the oldest gives way"
    assert (1 in reader, 2 in reader, 9999 in reader, 5 in CancelReader(words)) == (False, True, True, True)
    for trans_id in [*range(2, SLOTS + 1), 9999]:
        board.remove(trans_id)
    assert (int(words[0]), 2 in reader, board.add(3), 3 in reader) == (0, False, 0, True)


def test_deadlines_of_what_has_ended_are_forgotten():
    deadlines, live = Deadlines(), {1000}
    for trans_id in range(1000):
        deadlines.add(trans_id, float(trans_id), live, 1)
    deadlines.add(1000, 5.0, live, 1)
    assert deadlines.next(live) == 5.0
    assert len(deadlines._heap) < 100
    assert (deadlines.due(4.0, live), deadlines.due(6.0, live), deadlines.due(6.0, live)) == ([], [1000], [])


def cancelled_board(*trans_ids: int) -> Unwanted:
    words = no_words()
    board = CancelBoard(words)
    for trans_id in trans_ids:
        board.add(trans_id)
    return Unwanted(CancelReader(words))


def test_a_cancelled_message_passes_as_a_skip_and_its_function_is_not_called():
    called: list[int] = []
    node = Node("n", Func(lambda x: called.append(int(x)) or x), ["x"])
    runner = node.runner(unwanted=cancelled_board(2))
    for trans_id in (1, 2, 3):
        runner.accept(0, message(trans_id))
    assert called == [1, 3]
    assert [(m.info.trans_id, m.is_data, m.body is None) for _, m in node.sent] == [
        (1, True, False), (2, False, True), (3, True, False)
    ]
    assert node.sent[1][1].info.token == root_token(2)


def test_what_waits_in_a_join_of_a_cancelled_transaction_is_freed_and_still_pairs():
    words = no_words()
    board, node = CancelBoard(words), Node("n", Func(lambda a, b: a + b), ["a", "b"])
    runner = node.runner(unwanted=Unwanted(CancelReader(words)))
    runner.accept(0, message(1))
    board.add(1)
    runner.let_go()
    ((waiting,),) = [queue for rows in runner._functions[0].aligner._waiting.values() for queue in rows if queue]
    assert waiting.body is None and waiting.block is None
    runner.accept(1, message(1))
    assert [(m.info.trans_id, m.is_data) for _, m in node.sent] == [(1, False)]
    assert runner.pending == 0


def test_a_gathering_function_is_not_called_for_a_cancelled_transaction():
    words, called = no_words(), []
    board = CancelBoard(words)
    node = Node("n", Func(lambda values: called.append(values), gather=True), ["x"], gather=True)
    runner = node.runner(unwanted=Unwanted(CancelReader(words)))
    tokens = [child_token(root_token(1), part) for part in (0, 1)]
    end = root_token(1) ^ tokens[0] ^ tokens[1]
    runner.accept(0, FlowMsg(MsgInfo(trans_id=1, token=tokens[0], data_label=1)))
    board.add(1)
    runner.accept(0, FlowMsg(MsgInfo(trans_id=1, token=tokens[1], data_label=2)))
    runner.accept(0, FlowMsg(MsgInfo(trans_id=1, token=end, data_flag=DataFlag.END)))
    assert not called and runner.pending == 0
    assert [m.is_data for _, m in node.sent] == [False]


def test_a_function_can_ask_whether_its_transaction_is_still_wanted():
    words, seen = no_words(), []
    board = CancelBoard(words)

    def work(x: object) -> object:
        mine = current_transaction()
        seen.append((mine.id, mine.cancelled))
        board.add(mine.id)
        seen.append((mine.id, mine.cancelled))
        mine.raise_if_cancelled()
        return x

    client = inline([Node("n", Func(work), ["x"])], ["x"], ["n:0"])
    client._backend._cancelled[:] = 0  # type: ignore[attr-defined]
    board._words = memoryview(client._backend._cancelled).cast("B").cast("Q")  # type: ignore[attr-defined]
    client.feed({0: np.array(5)})
    outcome = client.fetch(0)
    assert isinstance(outcome.error, NodeError) and outcome.error.error_type == "CancelledError"
    assert seen == [(1, False), (1, True)]
    with pytest.raises(UsageError, match="works on no transaction"):
        current_transaction()


def test_cancelling_from_another_thread_ends_a_call_at_once_and_tells_the_function():
    inside, leave, seen = threading.Event(), threading.Event(), []

    def work(x: object) -> object:
        inside.set()
        assert leave.wait(10)
        seen.append(current_transaction().cancelled)
        return x

    client = inline([Node("n", Func(work), ["x"])], ["x"], ["n:0"])
    caller = threading.Thread(target=lambda: client.feed({0: np.array(1)}))
    caller.start()
    assert inside.wait(10)
    assert client.cancel(1) is True
    assert client.counters.failed == 1, "it has ended for its caller although the function still runs"
    leave.set()
    caller.join(10)
    assert isinstance(client.fetch(1).error, CancelledError)
    assert (seen, client.cancel(1), client.is_open(1)) == ([True], False, False)


def test_a_deadline_ends_a_transaction_that_a_batch_holds():
    client = inline([Node("n", Hold(), ["x"], holds=True)], ["x"], ["n:0"])
    client.feed({0: np.array(1)}, deadline=0.05)
    client.feed({0: np.array(2)})
    outcome = client.fetch(10)
    assert isinstance(outcome.error, DeadlineError) and isinstance(outcome.error, TimeoutError)
    assert (outcome.trans_id, client.in_flight) == (1, 1)
    client.close()


def test_a_deadline_that_has_passed_ends_the_transaction_at_once_and_feeds_nothing():
    called: list[object] = []
    client = inline([Node("n", Func(called.append), ["x"])], ["x"], ["n:0"])
    with pytest.raises(DeadlineError, match="before it could be fed"):
        client.call({0: np.array(1)}, deadline=0)
    assert (called, client.counters.cancelled, client.in_flight) == ([], 1, 0)


def test_a_stream_with_deadlines_gives_an_error_in_the_place_of_each_late_item():
    def work(x: np.ndarray) -> object:
        if x == 1:
            time.sleep(0.3)
        return x

    client = inline([Node("n", Func(work), ["x"])], ["x"], ["n:0"])
    items = ({0: np.array(n)} for n in range(3))
    outcomes = list(client.stream(items, in_flight=1, ordered=True, deadline=0.2))
    assert [type(outcome.error) for outcome in outcomes] == [type(None), DeadlineError, type(None)]


def test_a_deadline_that_passes_in_the_first_call_ends_it_in_one_thread_too():
    def work(x: np.ndarray) -> object:
        mine, until = current_transaction(), time.monotonic() + 30
        while not mine.cancelled and time.monotonic() < until:
            time.sleep(0.001)
        return x

    client = inline([Node("n", Func(work), ["x"])], ["x"], ["n:0"])
    with pytest.raises(DeadlineError, match="while this node worked on it"):
        client.call({0: np.array(1)}, deadline=0.05)
    client.close()


def test_the_thread_for_deadlines_ends_with_the_graph():
    before = set(threading.enumerate())
    client = inline([Node("n", Func(lambda x: x), ["x"])], ["x"], ["n:0"])
    client.call({0: np.array(1)}, deadline=60)
    assert [thread.name for thread in set(threading.enumerate()) - before] == ["dflow-deadlines"]
    client.close()
    assert not set(threading.enumerate()) - before


class Hold(Func):
    """Keeps every message."""

    def __init__(self) -> None:
        super().__init__(lambda x: x)
        self.held: list[FlowMsg] = []

    def proc(self, context: object, inputs: object) -> None:
        self.held.extend(inputs)  # type: ignore[arg-type]

    def on_cancel(self, context: object, is_cancelled: object) -> None:
        gone = [msg for msg in self.held if is_cancelled(msg.info.trans_id)]  # type: ignore[operator]
        self.held = [msg for msg in self.held if msg not in gone]
        for msg in gone:
            context.skip(msg)  # type: ignore[attr-defined]
