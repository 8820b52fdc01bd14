"""What is fed in pieces concerns only the outputs it reaches; and results output by output."""

from __future__ import annotations

import pytest

from dflow_core.errors import NodeError
from dflow_core.executor import Channel, needed_inputs
from dflow_core.executor.caller.transactions import TransactionTable
from dflow_core.message import DataFlag, FlowMsg, MsgInfo
from dflow_core.model import Endpoint, FlowModel, ModelEndpoints, ModelRelation, UdfModel
from dflow_core.types import FuncSpec


def msg(trans_id: int, token: int, **head: int) -> FlowMsg:
    return FlowMsg(MsgInfo(trans_id, token=token, **head))


@pytest.fixture
def table() -> TransactionTable:
    """Two inputs; output 0 needs the first, output 1 the second, output 2 both."""
    made = TransactionTable(2, 3)
    made.learn_needs([frozenset({0}), frozenset({1}), frozenset({0, 1})])
    return made


def outcomes(channel: Channel) -> list[list[int]]:
    """Outputs that each outcome has messages of; takes them."""
    found = [[i for i, m in enumerate(outcome.messages) if m is not None] for outcome in channel.outcomes]
    channel.outcomes.clear()
    return found


def test_each_message_is_a_result_as_it_comes(table) -> None:
    channel = Channel(endings=False, by_output=True)
    token = table.begin([0], 1, channel)
    table.arrive(0, msg(1, token))
    assert outcomes(channel) == [[0]]
    assert table.in_flight == 1  # output 2 needs the other input too
    assert table.begin([1], 1, channel) == token
    table.arrive(1, msg(1, token))
    table.arrive(2, msg(1, token))
    assert outcomes(channel) == [[1], [2]]
    assert (table.in_flight, table.counters.delivered, channel.open) == (0, 1, 0)


def test_an_output_that_is_not_reached_is_not_waited_for() -> None:
    table = TransactionTable(2, 2)
    table.learn_needs([frozenset({0}), frozenset({1})])
    channel = Channel(endings=False)
    for round_ in (1, 2):
        for port in (0, 1):
            token = table.begin([port], round_, channel)
            table.arrive(port, msg(round_, token))
            assert outcomes(channel) == [[port]]
    assert (table.in_flight, table.counters.fed, table.counters.delivered, table.counters.late) == (0, 4, 4, 0)


def test_an_id_that_is_fed_again_in_pieces_is_another_round_of_the_outputs_it_reaches(table) -> None:
    channel = Channel(endings=False, by_output=True)
    first = table.begin([0], 1, channel)
    second = table.begin([0], 1, channel)
    assert first != second
    for token in (first, second):
        table.arrive(0, msg(1, token))
    assert outcomes(channel) == [[0], [0]]
    for token in (first, second):  # the other input, twice too
        assert table.begin([1], 1, channel) == token
        table.arrive(1, msg(1, token))
        table.arrive(2, msg(1, token))
    assert outcomes(channel) == [[1], [2], [1], [2]]
    assert (table.in_flight, channel.open) == (0, 0)


def test_an_error_concerns_an_output_that_has_given_a_part_and_none_that_is_complete_or_not_reached(table) -> None:
    channel = Channel(endings=False, by_output=True)
    token = table.begin([0], 1, channel)
    table.arrive(0, msg(1, token ^ 5))
    table.arrive(2, msg(1, token))
    table.arrive(0, msg(1, 7, data_flag=DataFlag.ERROR))
    *parts, failed = channel.outcomes
    assert len(parts) == 2 and failed.error is not None and failed.silent == (0,)


def test_an_error_says_which_outputs_lacked_something(table) -> None:
    channel = Channel(endings=False, by_output=True)
    token = table.begin([0, 1], 1, channel)
    table.arrive(1, msg(1, token))
    table.arrive(0, msg(1, token, ret_code=9900000, data_flag=DataFlag.ERROR))
    whole, failed = channel.outcomes
    assert whole.messages[1] is not None
    assert isinstance(failed.error, NodeError) and failed.silent == (0, 2)


def test_a_code_on_a_message_concerns_its_output_only(table) -> None:
    channel = Channel(endings=False, by_output=True)
    token = table.begin([0, 1], 1, channel)
    table.arrive(0, msg(1, token, ret_code=9900001))
    table.arrive(1, msg(1, token))
    table.arrive(2, msg(1, token))
    coded, first, second = channel.outcomes
    assert isinstance(coded.error, NodeError) and (coded.error.ret_code, coded.silent) == (9900001, (0,))
    assert first.messages[1] is not None and second.messages[2] is not None
    assert (table.in_flight, channel.open) == (0, 0)


def test_a_skipped_output_is_no_result(table) -> None:
    channel = Channel(endings=False, by_output=True)
    token = table.begin([0, 1], 1, channel)
    for output, flag in enumerate([DataFlag.NONE, DataFlag.SKIP, DataFlag.SKIP]):
        table.arrive(output, msg(1, token, data_flag=flag))
    assert outcomes(channel) == [[0]]
    assert (table.in_flight, table.counters.delivered) == (0, 1)


def test_an_output_needs_the_inputs_of_its_own_function_only() -> None:
    functions = (FuncSpec("a", (0,), (0,)), FuncSpec("b", (1,), (1,)))
    two = UdfModel(name="two", engine="UDF", functions=functions)
    join = UdfModel(name="join", engine="UDF")
    names = ("g:x", "g:y", "two:0", "two:1", "join:0")
    relation = ModelRelation(
        tuple(Endpoint(name) for name in names),
        {"two": ModelEndpoints("two", ("g:x", "g:y"), ("two:0", "two:1")),
         "join": ModelEndpoints("join", ("two:1", "g:x"), ("join:0",))},
        ModelEndpoints("g", ("g:x", "g:y"), ("two:0", "two:1", "join:0")),
    )
    model = FlowModel("g", {"two": two, "join": join}, relation)
    assert needed_inputs(model) == (frozenset({0}), frozenset({1}), frozenset({0, 1}))
