"""What is owed for the messages of a dead executor."""

from __future__ import annotations

from dataclasses import replace

from dflow_core.deploy.supervision.recovery import Cause, answers_for, merge_dead_parts
from dflow_core.message import Aux, DataFlag, ErrorInfo, Member, MsgInfo
from dflow_core.model import DeadPart, InstancePlan, InvokedPlan, ProcessPlan, Route, UdfModel
from dflow_core.spi import LostMessage
from dflow_core.types import FuncSpec

CAUSE = Cause("its process was ended by signal 9", "last words")


def lost(queue: str, trans_id: int, token: int = 5, label: int = 0, aux: Aux = Aux(), **fields: object) -> LostMessage:  # noqa: B008
    """A lost message."""
    info = MsgInfo(trans_id=trans_id, token=token, data_label=label, **fields)  # type: ignore[arg-type]
    packed = aux.pack()
    return LostMessage(bytes(info.pack(0, len(packed))), packed, queue)


def process(*functions: FuncSpec, inputs: int = 1, outputs: int = 1) -> tuple[ProcessPlan, dict[str, UdfModel]]:
    """A process with instance 1 of one node `n`; input queues `i0`, ..., output queues `o0`, ..."""
    routes = tuple((Route((f"o{k}",)),) for k in range(outputs))
    instance = InstancePlan("n", 1, 2, "p", "cpu:0", 1, tuple(f"i{k}" for k in range(inputs)), routes)
    functions = functions or (FuncSpec("", tuple(range(inputs)), tuple(range(outputs))),)
    return ProcessPlan("p", "UDF", "", (instance,)), {"n": UdfModel(name="n", engine="UDF", functions=functions)}


def answers(plan, *messages: LostMessage, cause: Cause = CAUSE):
    """Queues and messages of the answers."""
    found, _ = answers_for(*plan, messages, cause)
    return [(answer.queue, answer.message) for answer in found]


def test_a_lost_input_becomes_an_error_with_the_same_head():
    fields = {"start_time": 1, "end_time": 2, "flags": 1, "route_label": 3, "user_data": b"u" * 64, "step_id": 4}
    ((queue, message),) = answers(process(), lost("i0", 7, token=9, label=2, **fields))
    assert queue == "o0"
    assert message.info.data_flag == DataFlag.ERROR | DataFlag.INJECTED | DataFlag.NULL
    assert message.info.key == (7, 2) and message.info.token == 9 and message.info.ret_code != 0
    assert {name: getattr(message.info, name) for name in fields} == fields
    error = message.aux.error
    assert (error.kind, error.node, error.instance, error.traceback) == ("lost", "n", 1, "last words")
    assert error.message == "executor died: its process was ended by signal 9"


def test_a_custom_id_stays_one():
    ((_, message),) = answers(process(), lost("i0", 7, data_flag=DataFlag.CUSTOM_ID | DataFlag.SKIP))
    assert message.info.data_flag == DataFlag.CUSTOM_ID | DataFlag.ERROR | DataFlag.INJECTED | DataFlag.NULL


def test_an_error_that_was_lost_keeps_its_own_story():
    first = ErrorInfo("node", "bad pixel", "ValueError", "earlier")
    ((_, message),) = answers(process(), lost("i0", 7, aux=Aux(error=first), data_flag=DataFlag.ERROR, ret_code=42))
    assert message.aux.error == first
    assert message.info.ret_code == 42


def test_every_output_of_the_reading_function_hears_of_it():
    plan = process(FuncSpec("f", (0,), (0, 2)), FuncSpec("g", (1,), (1,)), inputs=2, outputs=3)
    assert [queue for queue, _ in answers(plan, lost("i0", 1))] == ["o0", "o2"]
    assert [queue for queue, _ in answers(plan, lost("i1", 1))] == ["o1"]


def test_fan_out_and_several_queues_are_served_as_the_executor_would():
    instance = InstancePlan("n", 0, 1, "p", "cpu:0", 1, ("i0",), ((Route(("a",)), Route(("b@0", "b@1", "b@2"))),))
    _, models = process()
    plan = ProcessPlan("p", "UDF", "", (instance,)), models
    assert [queue for queue, _ in answers(plan, lost("i0", 5))] == ["a", Route(("b@0", "b@1", "b@2")).pick(5)]


def test_an_output_nobody_reads_needs_no_answer():
    assert answers(process(outputs=0), lost("i0", 5)) == []


def test_parts_of_one_pair_get_one_answer():
    plan = process(inputs=2)
    assert len(answers(plan, lost("i1", 5), lost("i0", 5))) == 1
    assert len(answers(plan, lost("i1", 5), lost("i0", 6))) == 2


def test_the_head_of_the_first_input_counts():
    ((_, message),) = answers(process(inputs=2), lost("i1", 5, user_data=b"second"), lost("i0", 5, user_data=b"first"))
    assert message.info.user_data.rstrip(b"\0") == b"first"


def test_parts_of_a_transaction_are_answered_one_by_one():
    assert len(answers(process(), lost("i0", 5, token=1, label=1), lost("i0", 5, token=2, label=2))) == 2


def test_members_of_a_batch_stay_with_the_error():
    members = (Member(MsgInfo(trans_id=3), 2), Member(MsgInfo(trans_id=4), 1))
    ((_, message),) = answers(process(), lost("i0", 3, aux=Aux(members)))
    assert [member.info.trans_id for member in message.aux.members] == [3, 4]
    assert message.aux.error.kind == "lost"


def test_an_unsent_output_is_covered_by_its_input():
    assert [queue for queue, _ in answers(process(outputs=2), lost("i0", 5), lost("", 5))] == ["o0", "o1"]


def test_an_unsent_batch_stands_for_itself_when_its_inputs_were_let_go():
    members = (Member(MsgInfo(trans_id=3)), Member(MsgInfo(trans_id=4)))
    ((queue, message),) = answers(process(), lost("", 3, aux=Aux(members)))
    assert queue == "o0" and len(message.aux.members) == 2


def test_what_was_made_for_a_graph_that_it_calls_is_covered_by_the_input_it_worked_on():
    plan, models = process()
    invoked = (InvokedPlan("k", ((Route(("feed",)),),), ("fetch",)),)
    plan = replace(plan, instances=(replace(plan.instances[0], invoked=invoked),))
    found = answers((plan, models), lost("i0", 5), lost("", 5, label=77, step_id=77), lost("fetch", 5, label=77))
    assert [(queue, message.info.key) for queue, message in found] == [("o0", (5, 0))]


def test_blocks_that_were_never_written_are_no_messages():
    garbage = LostMessage(b"\xff" * 256, b"\xff" * 7, "i0")
    assert answers(process(), lost("", 0), LostMessage(bytes(256), b"", ""), garbage, LostMessage(b"", b"", "i0")) == []


def test_messages_of_foreign_queues_are_left_alone():
    assert answers(process(), lost("elsewhere", 5)) == []


def test_unsent_messages_of_a_shared_process_cannot_be_placed():
    plan, models = process()
    assert answers((ProcessPlan("p", "CPU", "", plan.instances * 2), models), lost("", 5)) == []


def test_a_join_is_told_which_ports_had_arrived():
    plan, models = process(inputs=3)
    _, dead = answers_for(plan, models, [lost("i2", 5), lost("i0", 5), lost("i0", 6, label=1)], CAUSE)
    assert dead == [DeadPart("n", 1, 5, 0, (0, 2)), DeadPart("n", 1, 6, 1, (0,))]


def test_functions_of_one_input_have_no_dead_parts():
    plan, models = process(FuncSpec("f", (0,), (0,)), FuncSpec("g", (1, 2), (0,)), inputs=3)
    _, dead = answers_for(plan, models, [lost("i0", 5), lost("i1", 5)], CAUSE)
    assert dead == [DeadPart("n", 1, 5, 0, (1,))]


def test_models_without_functions_count_as_one():
    plan, models = process(inputs=2)
    models = {"n": UdfModel(name="n", engine="X")}
    found, dead = answers_for(plan, models, [lost("i0", 5)], CAUSE)
    assert len(found) == 1 and len(dead) == 1


def test_dead_parts_add_up_over_lives():
    first, second = DeadPart("n", 0, 5, 0, (0,)), DeadPart("n", 0, 5, 0, (2,))
    other = DeadPart("n", 1, 5, 0, (0,))
    assert merge_dead_parts([first, other], [second]) == [other, DeadPart("n", 0, 5, 0, (0, 2))]


def test_dead_parts_do_not_grow_for_ever():
    many = [DeadPart("n", 0, number, 0, (0,)) for number in range(20_000)]
    kept = merge_dead_parts(many[:10_000], many[10_000:])
    assert kept == many[10_000:]


def lossy() -> tuple[ProcessPlan, dict[str, UdfModel]]:
    """The process with queues that may drop messages on both sides."""
    plan, models = process()
    instance = replace(plan.instances[0], notices={"i0": "told i0", "o0": "told o0"})
    return replace(plan, instances=(instance,)), models


def test_queue_that_may_drop_answers_hears_of_them_beside_it():
    ((queue, message),) = answers(lossy(), lost("i0", 7))
    assert (queue, message.info.key) == ("told o0", (7, 0))


def test_notice_that_was_lost_is_answered_like_the_message_it_stood_for():
    ((queue, message),) = answers(lossy(), lost("told i0", 7, data_flag=DataFlag.SKIP))
    assert queue == "told o0" and message.info.data_flag & DataFlag.ERROR


def test_message_that_was_displaced_and_not_told_yet_goes_to_its_reader():
    """BC-026: also when several instances share the process, because the queue says whose it is."""
    plan, models = lossy()
    both = replace(plan, instances=(*plan.instances, replace(plan.instances[0], model="m", notices={})))
    known = models | {"m": replace(models["n"], name="m")}
    reason = Aux(error=ErrorInfo("dropped", "queue 'o0' dropped a message of it", node="o0"))
    for message in (lost("o0", 7), lost("", 7, aux=reason, data_flag=DataFlag.SKIP)):
        ((queue, answer),) = answers((both, known), message)
        assert (queue, answer.info.key, answer.info.token) == ("told o0", (7, 0), 5)
    assert answers((both, known), lost("", 0, aux=reason)) == []


def test_notice_that_a_dead_join_had_taken_apart_is_known_by_its_queue():
    """It lay in the join and waited for the other part; what comes of that part must wait for nothing."""
    plan, models = process(inputs=2)
    plan = replace(plan, instances=(replace(plan.instances[0], notices={"i0": "told i0"}),))
    reason = Aux(error=ErrorInfo("dropped", "queue 'i0' dropped a message of it", node="i0"))
    message = lost("", 7, aux=reason, data_flag=DataFlag.SKIP)
    ((queue, answer),) = answers((plan, models), message)
    assert queue == "o0" and answer.info.key == (7, 0)
    assert answers_for(plan, models, [message], CAUSE)[1] == [DeadPart("n", 1, 7, 0, (0,))]
