"""What functions with queues owe: which answer is whose, and how every message ends (runtime-semantics.md section 11).

A case is what a function does, step by step, and what comes out of its only output. Steps: `take N` (message N of input
0), `take 1:N` (of input 1), `send V`, `answer N V` (naming message N), `pass N` (sending message N itself), `drop N`
(letting it go), `wait` (without a limit) and `expire` (in vain), `return`, `fail`, `end`. What comes out: `N=V` (an
answer), `N.=V` (a part), `N|` (end of its parts), `N-` (skipped), `N!` (failed); `N+M` stands for both. Where messages
are lost: `cancel N`, `error 1:N` and `skip 1:N` (what comes at an input), `want 1` (the function waits there); it is
told of N with `N?`.
"""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from dflow_core.errors import AbortError, UsageError
from dflow_core.executor.node.call_context import CallContext
from dflow_core.executor.streams.context import StreamContext
from dflow_core.executor.streams.halves import HalfLostError
from dflow_core.executor.streams.ledger_context import LedgerContext
from dflow_core.executor.streams.runner import StreamPort
from dflow_core.executor.streams.segment_context import SegmentContext
from dflow_core.message import Aux, DataFlag, ErrorInfo, FlowMsg, HeapBlock, Member, MsgInfo, decode, encode, root_token
from dflow_core.types import FuncSpec


class Owner:
    """Explains errors, knows what was cancelled; nothing else is asked of it."""

    def __init__(self) -> None:
        self.cancelled = {9}

    def may_defer(self) -> bool:
        return False

    def complete(self, context: CallContext, error: BaseException | None) -> None:
        raise AssertionError

    def is_cancelled(self, trans_id: int) -> bool:
        return trans_id in self.cancelled

    def explain(self, error: BaseException, context: CallContext, inputs: object) -> ErrorInfo:
        raise AssertionError

    def ends(self, output: int, key: tuple[int, int]) -> bool:
        return True

    def called(self, key: str) -> object:
        raise UsageError(key)


class Bench:
    """A book, a function's messages, and what came out."""

    def __init__(self, kind: type[StreamContext], inputs: int = 1, outputs: int = 1) -> None:
        self.sent: list[tuple[int, FlowMsg]] = []
        spec = FuncSpec("f", tuple(range(inputs)), tuple(range(outputs)), stream_input=True)
        self.owner = Owner()
        self.book = kind(spec, lambda output, msg: self.sent.append((output, msg)), HeapBlock, self.owner)  # type: ignore[arg-type]
        self.held: dict[int, FlowMsg] = {}
        self.told: list[str] = []

    def head(self, number: int, **changes: object) -> MsgInfo:
        return MsgInfo(number, token=root_token(number), **changes)  # type: ignore[arg-type]

    def take(self, number: int, port: int = 0, **changes: object) -> FlowMsg | None:
        msg = encode(number * 10, self.head(number, **changes))
        if number in self.owner.cancelled:  # as the runner does
            msg = FlowMsg(replace(msg.info, data_flag=DataFlag.SKIP | DataFlag.NULL))
        given = self.book.took(port, msg)
        if given is not None:
            self.held[number] = given
        return given

    def come(self, port: int, number: int, flag: DataFlag) -> FlowMsg | None:
        return self.book.took(port, FlowMsg(self.head(number, data_flag=flag | DataFlag.NULL)))

    def do(self, step: str) -> None:
        try:
            self._do(*step.split())
        except HalfLostError as error:
            self.told.append(f"{error.trans_id}?")

    def _do(self, word: str, *rest: str) -> None:
        if word in ("error", "skip"):
            port, _, number = rest[0].partition(":")
            self.come(int(port), int(number), DataFlag.ERROR if word == "error" else DataFlag.SKIP)
        elif word == "cancel":
            self.owner.cancelled.add(int(rest[0]))
        elif word == "want":
            self.book.check_halves(int(rest[0]))
        elif word == "take":
            port, _, number = rest[0].rpartition(":")
            self.take(int(number), int(port or 0))
        elif word == "send":
            self.book.send(0, rest[0])
        elif word == "answer":
            self.book.send(0, rest[1], changes={"trans_id": int(rest[0])})
        elif word == "pass":
            self.book.send(0, self.held[int(rest[0])], like=self.held[int(rest[0])])
        elif word == "drop":
            del self.held[int(rest[0])]
            gc.collect()
        elif word in ("wait", "expire"):
            self.book.waits(0, forever=word == "wait")
        elif word == "return":
            self.book.end_call()
        elif word == "fail":
            self.book.fail_all(ErrorInfo("node", "it broke"), 0)
        else:
            assert word == "end"
            self.book.settle()

    def came(self, output: int = 0) -> list[str]:
        return [text(msg) for port, msg in self.sent if port == output]

    def owed(self, fed: set[int], output: int = 0) -> dict[int, int]:
        """For each transaction the xor of what came and what it began with; 0 where it is complete."""
        left = {number: root_token(number) for number in fed}
        for port, msg in self.sent:
            for info in [msg.info, *(m.info for m in msg.aux.members if m.info.key != msg.info.key)]:
                if port == output:
                    left[info.trans_id] ^= info.token
        return left


def text(msg: FlowMsg) -> str:
    flag, numbers = msg.info.data_flag, list(dict.fromkeys([msg.info.key, *(m.info.key for m in msg.aux.members)]))
    who = "+".join(str(trans_id) for trans_id, _ in numbers)
    for bit, sign in ((DataFlag.ERROR, "!"), (DataFlag.END, "|"), (DataFlag.SKIP, "-")):
        if flag & bit:
            return who + sign
    part = "." if msg.info.token != root_token(msg.info.trans_id) else ""
    return f"{who}{part}={decode(msg)}"


SEGMENTS = [
    ("one answer for each message", "take 1; send a; take 2; send b; return", "1=a 2=b"),
    ("an answer is sent when the next message is taken", "take 1; send a; wait", "1=a"),
    ("nothing is sent while there may be more answers", "take 1; send a", ""),
    ("several answers are parts", "take 1; send a; send b; wait", "1.=a 1.=b 1|"),
    ("a message without an answer ends when the next is taken", "take 1; take 2; send b; return", "1- 2=b"),
    ("or when the function waits without a limit", "take 1; wait", "1-"),
    ("or when it returns", "take 1; return", "1-"),
    ("one that waits in vain for company still has its turn", "take 1; expire; send a; return", "1=a"),
    ("and a second wait in vain is polling", "take 1; expire; expire", "1-"),
    ("messages of several inputs are answered together", "take 1; take 1:1; send a; return", "1=a"),
    ("also where they are of several transactions", "take 1; take 1:2; send a; return", "1+2=a"),
    ("and end together", "take 1; take 1:2; return", "1+2-"),
    ("their parts end for both", "take 1; take 1:2; send a; send b; return", "1.=a 1.=b 1+2|"),
    ("a failure ends what has no answer", "take 1; send a; take 2; fail", "1=a 2!"),
    ("and what was to be sent with it", "take 1; send a; fail", "1!"),
    ("nothing is answered twice", "take 1; send a; wait; take 1:1; send b; return", "1=a"),
    ("the end ends what is owed", "take 1; end", "1-"),
]
LEDGERS = [
    ("a message that is passed on answers itself", "take 1; take 2; pass 2; pass 1", "2=20 1=10"),
    ("an answer names its transaction", "take 1; take 2; answer 2 b; answer 1 a", "2=b 1=a"),
    ("one that names none answers the oldest", "take 1; take 2; send a; send b", "1=a 2=b"),
    ("which is the count where nothing is owed", "take 1; send a; send b", "1=a 2=b"),
    ("messages may be answered after the call", "take 1; return; answer 1 a", "1=a"),
    ("one that was let go ends, once answers are named", "take 1; take 2; pass 2; drop 1; take 3", "2=20 1-"),
    ("or at the next wait", "take 1; take 2; pass 2; drop 1; wait", "2=20 1-"),
    ("but not where answers are counted", "take 1; drop 1; take 2; send a; send b", "1=a 2=b"),
    ("a failure ends all that is owed", "take 1; take 2; pass 2; fail", "2=20 1!"),
    ("the end ends what is owed", "take 1; take 2; send a; end", "1=a 2-"),
]


@pytest.mark.parametrize(("rule", "steps", "expected"), SEGMENTS, ids=[rule for rule, _, _ in SEGMENTS])
def test_values_answer_what_was_taken_last(rule, steps, expected):
    bench = Bench(SegmentContext, inputs=2)
    if "answered twice" in rule:
        with pytest.raises(UsageError, match="answers no message"):
            [bench.do(step.strip()) for step in steps.split(";")]
    else:
        [bench.do(step.strip()) for step in steps.split(";")]
    assert " ".join(bench.came()) == expected, rule


@pytest.mark.parametrize(("rule", "steps", "expected"), LEDGERS, ids=[rule for rule, _, _ in LEDGERS])
def test_messages_answer_what_they_name(rule, steps, expected):
    bench = Bench(LedgerContext)
    for step in steps.split(";"):
        bench.do(step.strip())
    assert " ".join(bench.came()) == expected, rule


@pytest.mark.parametrize("kind", [SegmentContext, LedgerContext])
def test_every_transaction_ends_once_on_every_output(kind):
    bench = Bench(kind, outputs=2)
    for number in range(1, 6):
        bench.take(number)
        if number % 2:
            bench.book.send(0, number)
            bench.book.send(0, number) if kind is SegmentContext else None
    bench.book.end_call()
    bench.book.settle()
    assert set(bench.owed(set(range(1, 6)), 0).values()) == {0}
    assert set(bench.owed(set(range(1, 6)), 1).values()) == {0}


@pytest.mark.parametrize("kind", [SegmentContext, LedgerContext])
def test_errors_skips_and_ends_pass_by_the_function(kind):
    bench = Bench(kind, outputs=2)
    flags = {1: DataFlag.ERROR, 2: DataFlag.SKIP, 3: DataFlag.END}
    passed = [FlowMsg(bench.head(number, data_flag=flag | DataFlag.NULL)) for number, flag in flags.items()]
    for msg in passed:
        assert bench.book.took(0, msg) is None
    assert bench.came(0) == bench.came(1) == ["1!", "2-", "3|"]


@pytest.mark.parametrize("kind", [SegmentContext, LedgerContext])
def test_of_several_inputs_one_that_was_skipped_waits_for_the_others(kind):
    bench = Bench(kind, inputs=2)
    skip = DataFlag.SKIP | DataFlag.NULL
    for number, port in ((1, 0), (1, 1), (2, 0)):
        assert bench.book.took(port, FlowMsg(bench.head(number, data_flag=skip))) is None
    assert bench.came() == ["1-"]
    bench.take(2, 1)
    bench.book.send(0, "b")
    bench.book.end_call()
    bench.book.settle()
    assert bench.came() == ["1-", "2=b"]


@pytest.mark.parametrize("kind", [SegmentContext, LedgerContext])
def test_an_error_beside_a_message_ends_its_transaction_once(kind):
    bench = Bench(kind, inputs=2)
    bench.take(1)
    with pytest.raises(HalfLostError, match="input 1 gets no message of transaction 1, which failed"):
        bench.come(1, 1, DataFlag.ERROR)
    bench.book.end_call()
    bench.book.settle()
    assert bench.came() == ["1!"]


HALVES = [
    ("both halves are given, or none", "cancel 1; take 1; take 1:1; take 2; take 1:2; answer 2 b", "", "1- 2=b"),
    ("none where the first was lost, the other not", "error 1:1; take 1; take 2; take 1:2; answer 2 b", "", "1! 2=b"),
    ("one that has a half is told when it wants the other", "take 1; cancel 1; want 1; take 1:1; end", "1?", "1-"),
    ("once", "take 1; cancel 1; want 1; want 1; end", "1?", "1-"),
    ("also if the other never comes", "take 1; cancel 1; want 1; take 2; take 1:2; answer 2 b", "1?", "1- 2=b"),
    ("also if it comes first", "take 1; cancel 1; take 1:1; end", "1?", "1-"),
    ("and of one that failed", "take 1; error 1:1; take 2; take 1:2; answer 2 b", "1?", "1! 2=b"),
    ("not where it wants another half of the same input", "take 1; cancel 1; want 0; answer 1 a; return", "", "1=a"),
    ("not of what has its answer", "take 1; answer 1 a; return; cancel 1; want 1; skip 1:1; end", "", "1=a"),
    ("not of a branch that was not taken", "take 1; want 1; skip 1:1; answer 1 a; return", "", "1=a"),
    ("where all branches were not taken it ends", "skip 1:1; skip 0:1; take 2; take 1:2; answer 2 b", "", "1- 2=b"),
    ("one not taken, the other cancelled", "skip 1:1; cancel 1; take 1; take 2; take 1:2; answer 2 b", "", "1- 2=b"),
]


@pytest.mark.parametrize("kind", [SegmentContext, LedgerContext])
@pytest.mark.parametrize(("rule", "steps", "told", "expected"), HALVES, ids=[rule for rule, *_ in HALVES])
def test_halves_of_two_transactions_are_never_paired(kind, rule, steps, told, expected):
    bench = Bench(kind, inputs=2)
    for step in [*steps.split(";"), "return", "end"]:
        step = step.strip()
        bench.do(step if kind is LedgerContext else step.replace("answer 1", "send").replace("answer 2", "send"))
    assert " ".join(bench.came()) == expected, rule
    assert " ".join(bench.told) == told, rule


def test_what_is_sent_for_a_transaction_that_was_let_go_goes_nowhere_until_it_is_fed_again():
    bench = Bench(LedgerContext, inputs=2)
    for step in ("take 1", "take 2", "cancel 1", "want 1", "answer 1 a", "send b"):
        bench.do(step)
    assert (bench.came(), bench.told) == (["1-", "2=b"], ["1?"])
    bench.owner.cancelled.clear()
    bench.book.reset()
    for step in ("take 1", "take 1:1", "answer 1 a"):
        bench.do(step)
    assert bench.came() == ["1-", "2=b", "1=a"]


def test_one_half_may_be_let_go_before_the_other_is_taken():
    """As C++ functions do whose messages have a scope each."""
    bench = Bench(LedgerContext, inputs=2)
    for step in ("take 1", "take 1:1", "answer 1 a", "take 2", "drop 2", "wait", "take 1:2", "wait", "answer 2 b"):
        bench.do(step)
    assert bench.came() == ["1=a", "2=b"]
    for step in ("take 3", "drop 3", "take 1:3", "wait", "drop 3", "wait"):
        bench.do(step)
    assert bench.came() == ["1=a", "2=b", "3-"], "both halves are gone"


def test_a_batch_is_lost_when_all_its_members_are():
    bench = Bench(LedgerContext, inputs=2)
    members = tuple(Member(bench.head(number)) for number in (1, 2))
    bench.book.took(0, encode("batch", bench.head(1), aux=Aux(members)))
    for step in ("cancel 1", "want 1", "cancel 2", "want 1"):
        bench.do(step)
    assert (bench.came(), bench.told) == (["1+2-"], ["1?"])


def test_an_output_that_is_read_by_nobody_needs_no_answers_but_pairs_all_the_same():
    bench = Bench(LedgerContext, inputs=2, outputs=0)
    for step in ("take 1", "cancel 1", "want 1", "take 2", "take 1:2"):
        bench.do(step)
    assert bench.told == ["1?"] and sorted(bench.held) == [1, 2]


@pytest.mark.parametrize("kind", [SegmentContext, LedgerContext])
def test_what_is_thrown_away_is_owed_no_more_and_may_come_again(kind):
    bench = Bench(kind)
    bench.take(1)
    assert bench.book.reset()
    assert not bench.book.reset()
    bench.book.end_call()
    bench.book.settle()
    assert bench.came() == []
    bench.take(1)
    bench.book.send(0, "a")
    bench.book.settle()
    assert bench.came() == ["1=a"]


def test_a_function_can_ask_whether_what_it_took_is_wanted_still():
    bench = Bench(SegmentContext)
    answers = []
    bench.owner.cancelled.clear()
    for number in (8, 9):
        bench.take(number)
        bench.owner.cancelled |= {number} - {8}
        answers.append(bench.book.cancelled)
    assert answers == [False, True]


def test_a_batch_stays_one_for_all_its_members():
    bench = Bench(SegmentContext)
    members = tuple(Member(bench.head(number)) for number in (1, 2))
    batch = encode("batch", bench.head(1), aux=Aux(members))
    bench.book.took(0, batch)
    bench.book.send(0, "both")
    bench.book.end_call()
    assert bench.came() == ["1+2=both"]


class LastSource:
    """A queue that ends when it is empty."""

    depth, has_ended = 4, False

    def __init__(self, *msgs: FlowMsg) -> None:
        self.msgs = list(msgs)

    def take(self, timeout: float | None, lets_look: bool = False) -> FlowMsg | None:
        if not self.msgs:
            raise AbortError("the end")
        return self.msgs.pop(0)

    def level(self) -> int:
        return len(self.msgs)

    def until(self, timeout: float | None) -> float | None:
        return None

    def left(self, until: float | None) -> float | None:
        return None


def test_an_answer_leaves_before_a_wait_also_where_only_a_cancelled_message_was_queued():
    bench = Bench(SegmentContext)
    cancelled = FlowMsg(bench.head(2, data_flag=DataFlag.SKIP | DataFlag.NULL))
    port = StreamPort(0, LastSource(encode(10, bench.head(1)), cancelled), bench.book, lambda msg: msg)  # type: ignore[arg-type]
    assert port.get() is not None
    bench.book.send(0, 5)
    with pytest.raises(AbortError):
        port.get()
    assert [msg.info.trans_id for _, msg in bench.sent if msg.is_data] == [1]


def test_an_answer_inherits_times_and_user_data_of_its_message():
    bench = Bench(SegmentContext)
    bench.take(1, start_time=3, user_data=b"abc", flags=1)
    bench.book.send(0, "a")
    bench.book.end_call()
    ((_, msg),) = bench.sent
    assert replace(msg.info, msg_type=0, user_data=b"") == bench.head(1, start_time=3, flags=1)
    assert msg.info.user_data.rstrip(b"\0") == b"abc"
