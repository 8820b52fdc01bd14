"""What a node makes of its messages: results, parts, skips, errors."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from dflow_core.message import DataFlag, FlowMsg, decode, root_token
from tests.unit.executor.support import NOTHING, Func, Node, message


def run(node: Node, *messages: tuple[int, FlowMsg]) -> list[tuple[int, FlowMsg]]:
    runner = node.runner()
    for port, msg in messages:
        runner.accept(port, msg)
    return node.sent


def test_result_inherits_the_head_of_the_input() -> None:
    node = Node("double", Func(lambda x: x * 2), ["x"])
    ((_, out),) = run(node, (0, message(7, np.array([1, 2]), start_time=5, flags=2, user_data=b"u")))
    assert decode(out).tolist() == [2, 4]  # type: ignore[attr-defined]
    assert (out.info.trans_id, out.info.start_time, out.info.flags) == (7, 5, 2)
    assert out.info.user_data.rstrip(b"\0") == b"u" and out.info.token == root_token(7)


def test_input_is_read_only_and_says_so() -> None:
    """BC-018."""
    def write(x: np.ndarray) -> None:
        x += 1

    node = Node("writer", Func(write), ["x"])
    ((_, out),) = run(node, (0, message(1, np.zeros(3))))
    assert out.aux.error is not None and "read-only" in out.aux.error.message and "copy()" in out.aux.error.hint


def test_exception_ends_the_transaction_on_every_output_with_shapes_and_traceback() -> None:
    """BC-057."""
    def bad(x: object) -> object:
        raise ValueError("bad pixel 7")

    node = Node("bad", Func(bad), ["x"], outputs=2)
    sent = run(node, (0, message(5, np.zeros((2, 3), np.float32))))
    assert [output for output, _ in sent] == [0, 1]
    for _, out in sent:
        error = out.aux.error
        assert error is not None and out.info.trans_id == 5
        assert (error.error_type, error.message, error.node) == ("ValueError", "bad pixel 7", "bad")
        assert error.input_shapes == ("float[2, 3]",) and 'raise ValueError("bad pixel 7")' in error.traceback


def test_sys_exit_in_user_code_is_an_error_of_its_transaction() -> None:
    def leave(x: object) -> object:
        raise SystemExit(3)

    node = Node("leaver", Func(leave), ["x"])
    sent = run(node, (0, message(1)), (0, message(2)))
    assert [m.info.trans_id for _, m in sent] == [1, 2]
    assert sent[0][1].aux.error is not None and "sys.exit(3)" in sent[0][1].aux.error.message


class OwnBase(BaseException):
    """Not an Exception."""


@pytest.mark.parametrize("error", [
    KeyboardInterrupt("me"), GeneratorExit(), asyncio.CancelledError("gone"), OwnBase("odd"), StopIteration(3),
], ids=repr)
@pytest.mark.parametrize("where", ["call", "result"])
def test_whatever_user_code_raises_ends_its_transaction_only(error: BaseException, where: str) -> None:
    """spotify/luigi#1227: also what is no Exception, also while a result is written; no executor dies of it."""
    class Odd:
        def __reduce__(self) -> str:
            raise error

    def raising(x: np.ndarray) -> object:
        if x == 2:
            return x
        if where == "result":
            return Odd()
        raise error

    node = Node("odd", Func(raising), ["x"])
    (_, failed), (_, good) = run(node, (0, message(1)), (0, message(2)))
    assert failed.aux.error is not None and decode(good) == 2
    expected = "PackagingError" if where == "result" and isinstance(error, Exception) else type(error).__name__
    assert (failed.info.trans_id, failed.aux.error.error_type, failed.aux.error.node) == (1, expected, "odd")


def test_ctrl_c_inline_ends_the_transaction_and_reaches_whoever_runs_the_graph() -> None:
    def interrupted(x: object) -> object:
        raise KeyboardInterrupt

    node = Node("slow", Func(interrupted), ["x"])
    runner = node.runner(keep_exceptions=True)
    with pytest.raises(KeyboardInterrupt):
        runner.accept(0, message(1))
    ((_, out),) = node.sent
    assert out.aux.error is not None and (out.info.trans_id, out.aux.error.error_type) == (1, "KeyboardInterrupt")
    assert runner.current is None and runner.calls == 1


def test_node_goes_on_after_an_exception() -> None:
    node = Node("picky", Func(lambda x: 1 // int(x)), ["x"])
    sent = run(node, (0, message(1, np.array(0))), (0, message(2, np.array(1))))
    assert [bool(m.info.data_flag & DataFlag.ERROR) for _, m in sent] == [True, False]


def test_error_and_skip_pass_by_the_function() -> None:
    calls: list[object] = []
    node = Node("n", Func(lambda x: calls.append(x)), ["x"])
    error, skip = message(1), message(2)
    error.info.data_flag |= DataFlag.ERROR
    skip.info.data_flag |= DataFlag.SKIP
    sent = run(node, (0, error), (0, skip))
    assert not calls
    assert [m.info.data_flag & (DataFlag.ERROR | DataFlag.SKIP) for _, m in sent] == [DataFlag.ERROR, DataFlag.SKIP]


def test_output_not_sent_is_skipped() -> None:
    node = Node("choice", Func(lambda x: (x, NOTHING)), ["x"], outputs=2)
    sent = dict(run(node, (0, message(1))))
    assert sent[0].is_data and sent[1].info.data_flag & DataFlag.SKIP
    assert sent[1].info.token == root_token(1)


def test_parts_have_labels_of_their_own_and_tokens_that_sum_up() -> None:
    node = Node("split", Func(lambda x: [10, 20, 30]), ["x"])
    sent = [m for _, m in run(node, (0, message(4)))]
    *parts, end = sent
    assert [decode(p) for p in parts] == [10, 20, 30]
    assert [p.info.data_label for p in parts] == [1, 2, 3]
    assert end.info.data_flag & DataFlag.END and end.info.data_label == 0
    total = root_token(4)
    for m in sent:
        total ^= m.info.token
    assert total == 0


def test_empty_stream_still_closes() -> None:
    node = Node("split", Func(lambda x: []), ["x"])
    ((_, end),) = run(node, (0, message(4)))
    assert end.info.data_flag & DataFlag.END and end.info.token == root_token(4)


def test_gathering_function_gets_all_parts_in_order() -> None:
    split = Node("split", Func(lambda x: [1, 2, 3]), ["x"])
    parts = [m for _, m in run(split, (0, message(9)))]
    gather = Node("join", Func(sum, gather=True), ["x"], gather=True)
    shuffled = [parts[2], parts[3], parts[0], parts[1]]
    ((_, out),) = run(gather, *((0, m) for m in shuffled))
    assert decode(out) == 6
    assert (out.info.trans_id, out.info.data_label, out.info.token) == (9, 0, root_token(9))


def test_gathering_function_is_called_for_zero_parts() -> None:
    split = Node("split", Func(lambda x: []), ["x"])
    ((_, end),) = run(split, (0, message(9)))
    gather = Node("join", Func(len, gather=True), ["x"], gather=True)
    ((_, out),) = run(gather, (0, end))
    assert decode(out) == 0


def test_gathering_function_fails_once_if_a_part_failed() -> None:
    split = Node("split", Func(lambda x: [1, 2]), ["x"])
    first, second, end = (m for _, m in run(split, (0, message(9))))
    second.info.data_flag |= DataFlag.ERROR
    gather = Node("join", Func(len, gather=True), ["x"], gather=True)
    sent = run(gather, (0, first), (0, second), (0, end))
    assert len(sent) == 1 and sent[0][1].info.data_flag & DataFlag.ERROR


def test_parts_of_parts_gather_too() -> None:
    outer = Node("outer", Func(lambda x: [1, 2, 3]), ["x"])
    inner = Node("inner", Func(lambda n: [n] * int(n)), ["x"])
    leaves = [m for _, m in run(inner, *((0, m) for _, m in run(outer, (0, message(3)))))]
    gather = Node("join", Func(lambda v: str(v), gather=True), ["x"], gather=True)
    ((_, out),) = run(gather, *((0, m) for m in leaves))
    assert decode(out) == "[1, 2, 2, 3, 3, 3]"


def test_same_array_sent_to_two_outputs_stays_whole() -> None:
    def both(x: np.ndarray) -> tuple[object, object]:
        return x, x

    node = Node("both", Func(both), ["x"], outputs=2)
    sent = run(node, (0, message(1, np.arange(5))))
    assert all(decode(m).tolist() == [0, 1, 2, 3, 4] for _, m in sent)  # type: ignore[attr-defined]


def test_failing_call_does_not_pin_its_messages() -> None:
    def bad(x: object) -> object:
        raise ValueError

    runner = Node("bad", Func(bad), ["x"]).runner()
    runner.accept(0, message(1))
    assert runner.last_exception is None


@pytest.mark.parametrize("value", [np.zeros((0, 4)), np.array(3), np.array(True), np.array(["ü", ""])])
def test_any_tensor_passes_through(value: np.ndarray) -> None:
    """BC-067."""
    node = Node("pass", Func(lambda x: x), ["x"])
    ((_, out),) = run(node, (0, message(1, value)))
    result = decode(out)
    assert isinstance(result, np.ndarray) and result.shape == value.shape and result.dtype == value.dtype
    np.testing.assert_array_equal(result, value)
