"""Exceptions of users, without processes: runtime-semantics.md section 14."""

from __future__ import annotations

from dflow_core.executor.exceptions import ExceptionDesk, error_of_note
from dflow_core.message import MsgInfo
from dflow_core.model import ExceptionNote, ExceptionTable
from dflow_core.model.control_serde import deserialize_control, serialize_control


def note(trans_id: int, node: str = "n", function: int = 0, **more: object) -> ExceptionNote:
    return ExceptionNote(trans_id, 9900001, 5, b"", node, 0, function, **more)  # type: ignore[arg-type]


def test_the_first_of_a_transaction_and_scope_counts() -> None:
    table = ExceptionTable()
    first = note(7, "a")
    assert table.add(first) == [first]
    assert table.add(note(7, "b")) == []
    inner = note(7, "outer/a")
    assert table.add(inner) == [inner]


def test_of_more_than_1024_the_lowest_transaction_is_forgotten_not_the_oldest() -> None:
    """BC-052: the set of ids does not grow for ever."""
    table = ExceptionTable()
    for trans_id in (5, 1, *range(6, 1028)):
        table.add(note(trans_id))
    assert len(table) == 1024
    expired, added = table.add(note(2000))
    assert (expired.expired, expired.trans_id) == (True, 1)
    assert (added.expired, added.trans_id) == (False, 2000)
    assert len(table) == 1024
    assert table.add(note(1)) != []  # it may be raised again


def test_a_desk_takes_what_is_to_be_forgotten_first_and_then_the_lowest_transaction() -> None:
    desk = ExceptionDesk("n", 0, lambda _note: None)
    for one in (note(4), note(2), note(9, expired=True)):
        desk.notify(one)
    assert desk.has_news
    assert [(n.trans_id, n.expired) for n in desk.take()] == [(9, True), (2, False), (4, False)]
    assert not desk.has_news


def test_a_desk_hears_only_of_its_own_scope() -> None:
    desk = ExceptionDesk("outer/n", 0, lambda _note: None)
    desk.notify(note(1, "n"))
    desk.notify(note(2, "outer/inner/n"))
    assert not desk.has_news
    desk.notify(note(3, "outer/m"))
    assert [n.trans_id for n in desk.take()] == [3]


def test_a_function_raises_once_for_a_transaction_until_that_is_forgotten() -> None:
    raised: list[ExceptionNote] = []
    desk = ExceptionDesk("n", 2, raised.append)
    info = MsgInfo(3, start_time=1, end_time=2, flags=2, user_data=b"abc")
    first = desk.raise_exception(0, info, -4, 2**63)
    assert first is not None and desk.raise_exception(0, info, 5, 6) is None
    assert desk.raise_exception(1, info, 5, 6) is not None
    assert [n.function for n in raised] == [0, 1]
    assert desk.is_own(0, first) and not desk.is_own(1, first)
    desk.forget(ExceptionNote(3, node="n", expired=True))
    assert desk.raise_exception(0, info, 5, 6) is not None


def test_the_error_holds_what_the_message_said() -> None:
    info = MsgInfo(3, start_time=1, end_time=2, flags=2, user_data=b"abc")
    desk = ExceptionDesk("n", 2, lambda _note: None)
    found = desk.raise_exception(0, info, -4, 2**63)
    assert found is not None
    travelled = deserialize_control(serialize_control(found))
    assert travelled == found
    error = error_of_note(travelled)
    assert (error.code, error.user_context_id, error.node, error.instance, error.trans_id) == (-4, 2**63, "n", 2, 3)
    assert (error.start_time, error.end_time, error.flow_flags, error.user_data[:3]) == (1, 2, 2, b"abc")
