from __future__ import annotations

import pytest

from dflow_core.deploy.planning.memory import estimate_memory, message_size
from dflow_core.deploy.planning.planner import plan_deployment
from dflow_core.deploy.planning.queue_plans import queue_name
from dflow_core.deploy.planning.resources import Resources
from dflow_core.errors import DeployError, GraphError, OptionError
from dflow_core.model import (
    DeployPlan,
    Endpoint,
    FlowModel,
    GraphModel,
    ModelEndpoints,
    ModelRelation,
    PneModel,
    QueuePlan,
    Route,
    UdfModel,
)
from dflow_core.options import Options
from dflow_core.types import DataType, FuncSpec, NodeOptions, TensorSpec

ENGINES = {"UDF": False, "CPU": True, "GPU": True}
OPTIONS = Options(queue_depth=8)
FLOATS = TensorSpec(DataType.FLOAT, (2, 10))


def udf(name: str, ins: int = 1, outs: int = 1, functions: tuple[FuncSpec, ...] = (), **options: object) -> UdfModel:
    unknown = TensorSpec(DataType.UNDEFINED)
    functions = functions or (FuncSpec("f", tuple(range(ins)), tuple(range(outs))),)
    return UdfModel(
        name=name, engine="UDF", inputs=(unknown,) * ins, outputs=(unknown,) * outs, functions=functions,
        options=NodeOptions(**options),
    )


def cpu(name: str, engine: str = "CPU", **options: object) -> GraphModel:
    return GraphModel(
        name=name, engine=engine, inputs=(FLOATS,), outputs=(FLOATS,), functions=(FuncSpec("", (0,), (0,)),),
        options=NodeOptions(**options), framework="onnx", source=bytes(100),
    )


def flow(
    wires: dict[str, list[str]], models: list[PneModel], outputs: list[str], inputs: tuple[str, ...] = ("x",),
    endpoints: tuple[Endpoint, ...] = (),
) -> FlowModel:
    """A graph `g`; `wires` gives the endpoints each model reads, `g:x` being input x."""
    roots = tuple(f"g:{name}" for name in inputs)
    sides = {
        m.name: ModelEndpoints(m.name, tuple(wires[m.name]), tuple(f"{m.name}:{i}" for i in range(len(m.outputs))))
        for m in models
    }
    known = {e.name: e for e in endpoints}
    names = [*roots, *(e for side in sides.values() for e in side.outputs)]
    relation = ModelRelation(
        tuple(known.get(n, Endpoint(n)) for n in names), sides, ModelEndpoints("g", roots, tuple(outputs)), inputs,
        tuple(outputs),
    )
    return FlowModel("g", {m.name: m for m in models}, relation)


def planned(model: FlowModel, cpus: int = 4) -> DeployPlan:
    return plan_deployment(model, Resources(cpus), ENGINES, OPTIONS, "shm")


def processes(result: DeployPlan) -> dict[str, list[str]]:
    return {p.name: [f"{i.model}#{i.index}" for i in p.instances] for p in result.processes}


def instance(result: DeployPlan, model: str, index: int = 0):
    return next(i for i in result.instances if (i.model, i.index) == (model, index))


def test_a_chain_has_one_queue_for_each_edge():
    result = planned(flow({"a": ["g:x"], "b": ["a:0"]}, [udf("a"), udf("b")], ["b:0"]))
    assert [q.name for q in result.queues] == ["g:x->a:0", "a:0->b:0", "b:0->fetch:0"]
    assert {q.depth for q in result.queues} == {8}
    assert result.feeds == ((Route(("g:x->a:0",)),),)
    assert result.fetches == ("b:0->fetch:0",)
    assert instance(result, "a").inputs == ("g:x->a:0",)
    assert instance(result, "a").outputs == ((Route(("a:0->b:0",)),),)
    assert instance(result, "b").outputs == ((Route(("b:0->fetch:0",)),),)
    assert processes(result) == {"a": ["a#0"], "b": ["b#0"]}
    assert (result.graph, result.transport, result.cpus) == ("g", "shm", 4)


def test_a_diamond_fans_out_and_joins():
    models = [udf("a"), udf("l"), udf("r"), udf("j", 2)]
    wires = {"a": ["g:x"], "l": ["a:0"], "r": ["a:0"], "j": ["l:0", "r:0"]}
    result = planned(flow(wires, models, ["j:0"]))
    assert instance(result, "a").outputs == ((Route(("a:0->l:0",)), Route(("a:0->r:0",))),)
    assert instance(result, "j").inputs == ("l:0->j:0", "r:0->j:1")


def test_an_input_with_several_readers_is_fed_to_all_of_them():
    result = planned(flow({"a": ["g:x"], "b": ["g:x", "g:x"]}, [udf("a"), udf("b", 2)], ["a:0", "b:0"]))
    assert result.feeds == ((Route(("g:x->a:0",)), Route(("g:x->b:0",)), Route(("g:x->b:1",))),)


def test_an_input_nobody_reads_has_no_route_and_a_note():
    result = planned(flow({"a": ["g:x"]}, [udf("a")], ["a:0"], inputs=("x", "idle")))
    assert result.feeds == ((Route(("g:x->a:0",)),), ())
    assert any("'idle' is read by no node" in note for note in result.notes)


def test_an_output_can_be_read_and_fetched_and_fetched_twice():
    result = planned(flow({"a": ["g:x"], "b": ["a:0"]}, [udf("a"), udf("b")], ["a:0", "b:0", "a:0"]))
    assert result.fetches == ("a:0->fetch:0", "b:0->fetch:1", "a:0->fetch:2")
    routes = [route.queues for route in instance(result, "a").outputs[0]]
    assert routes == [("a:0->b:0",), ("a:0->fetch:0",), ("a:0->fetch:2",)]


def test_an_output_nobody_reads_has_no_route():
    result = planned(flow({"a": ["g:x"]}, [udf("a", 1, 2)], ["a:1"]))
    assert instance(result, "a").outputs == ((), (Route(("a:1->fetch:0",)),))


def test_an_input_that_is_an_output_is_a_fault():
    with pytest.raises(GraphError, match="it is the input 'g:x' itself"):
        planned(flow({"a": ["g:x"]}, [udf("a")], ["a:0", "g:x"]))


def test_instances_with_one_input_share_a_queue():
    result = planned(flow({"a": ["g:x"], "b": ["a:0"]}, [udf("a"), udf("b", instances=3)], ["b:0"]))
    assert instance(result, "a").outputs == ((Route(("a:0->b:0",)),),)
    assert {instance(result, "b", i).inputs for i in range(3)} == {("a:0->b:0",)}
    assert {instance(result, "b", i).count for i in range(3)} == {3}
    assert processes(result) == {"a": ["a#0"], "b#0": ["b#0"], "b#1": ["b#1"], "b#2": ["b#2"]}


def test_instances_that_join_have_queues_of_their_own_picked_by_transaction():
    models = [udf("a", 1, 2), udf("j", 2, instances=2)]
    result = planned(flow({"a": ["g:x"], "j": ["a:0", "a:1"]}, models, ["j:0"]))
    left, right = instance(result, "a").outputs
    assert left == (Route(("a:0->j:0@0", "a:0->j:0@1")),)
    assert right == (Route(("a:1->j:1@0", "a:1->j:1@1")),)
    assert instance(result, "j", 1).inputs == ("a:0->j:0@1", "a:1->j:1@1")
    for trans_id in range(1, 5):
        assert left[0].pick(trans_id)[-1] == right[0].pick(trans_id)[-1] == str((trans_id - 1) % 2)


def test_a_function_that_gathers_meets_its_parts_in_one_instance():
    gather = udf("j", functions=(FuncSpec("f", (0,), (0,), gather=True),), instances=2)
    result = planned(flow({"j": ["g:x"]}, [gather], ["j:0"]))
    assert result.feeds == ((Route(("g:x->j:0@0", "g:x->j:0@1"), "transaction"),),)


def test_functions_with_an_input_each_do_not_join():
    functions = (FuncSpec("f", (0,), (0,)), FuncSpec("g", (1,), (1,)))
    result = planned(flow({"a": ["g:x", "g:x"]}, [udf("a", 2, 2, functions, instances=2)], ["a:0"]))
    assert [len(route.queues) for route in result.feeds[0]] == [1, 1]


def test_a_model_without_functions_joins_if_it_has_several_inputs():
    model = UdfModel(name="a", engine="UDF", inputs=(FLOATS,) * 2, outputs=(FLOATS,), options=NodeOptions(instances=2))
    result = planned(flow({"a": ["g:x", "g:x"]}, [model], ["a:0"]))
    assert [len(route.queues) for route in result.feeds[0]] == [2, 2]


def test_depth_and_overflow_come_from_the_endpoint():
    ends = (Endpoint("a:0", 3, "max_age", max_age=0.5),)
    model = flow({"a": ["g:x"], "b": ["a:0"]}, [udf("a"), udf("b")], ["a:0", "b:0"], endpoints=ends)
    result = planned(model)
    assert result.queues == (
        QueuePlan("g:x->a:0", 8),
        QueuePlan("a:0->b:0", 3, "max_age", 0.5, "dropped: a:0->b:0"), QueuePlan("dropped: a:0->b:0", 64),
        QueuePlan("a:0->fetch:0", 3, "max_age", 0.5, "dropped: a:0->fetch:0"), QueuePlan("dropped: a:0->fetch:0", 64),
        QueuePlan("b:0->fetch:1", 8),
    )


def test_who_reads_or_writes_a_queue_that_drops_knows_where_that_is_told():
    ends = (Endpoint("g:x", 0, "keep_latest"), Endpoint("a:0", 3, "drop_oldest"))
    model = flow({"a": ["g:x"], "b": ["a:0"], "c": ["b:0"]}, [udf("a"), udf("b"), udf("c")], ["c:0"], endpoints=ends)
    result = planned(model)
    told = {"g:x->a:0": "dropped: g:x->a:0", "a:0->b:0": "dropped: a:0->b:0"}
    assert result.notices == told
    assert {i.model: set(i.notices) for i in result.instances} == {"a": set(told), "b": {"a:0->b:0"}, "c": set()}
    assert next(q for q in result.queues if q.name == "g:x->a:0").depth == 1


def test_models_of_the_cpu_engine_share_a_process_for_each_instance_number():
    models = [cpu("a", instances=2), cpu("b"), cpu("c", engine="GPU"), udf("f")]
    result = planned(flow({"a": ["g:x"], "b": ["a:0"], "c": ["b:0"], "f": ["c:0"]}, models, ["f:0"]))
    assert processes(result) == {
        "CPU@cpu:0": ["a#0", "b#0"], "CPU@cpu:1": ["a#1"], "GPU@cpu:0": ["c#0"], "f": ["f#0"],
    }
    assert [i.device for i in result.instances] == ["cpu:0", "cpu:0", "cpu:1", "cpu:0", "cpu:0"]


def test_another_interpreter_is_another_process():
    models = [cpu("a"), cpu("b", env="/other"), cpu("c", env="/other"), udf("f", env="/other")]
    result = planned(flow({"a": ["g:x"], "b": ["a:0"], "c": ["b:0"], "f": ["c:0"]}, models, ["f:0"]))
    assert processes(result) == {"CPU@cpu:0": ["a#0"], "CPU@cpu:0[/other]": ["b#0", "c#0"], "f": ["f#0"]}
    assert {p.name: p.env for p in result.processes} == {
        "CPU@cpu:0": "", "CPU@cpu:0[/other]": "/other", "f": "/other",
    }


def test_functions_can_be_put_into_one_process():
    models = [udf("a", process="p"), udf("b", process="p", instances=2), udf("c", process="a"), udf("d")]
    result = planned(flow({"a": ["g:x"], "b": ["a:0"], "c": ["b:0"], "d": ["c:0"]}, models, ["d:0"]))
    assert processes(result) == {"p": ["a#0", "b#0"], "p#1": ["b#1"], "a": ["c#0"], "d": ["d#0"]}


@pytest.mark.parametrize("other", [cpu("b", process="p"), udf("b", process="p", env="/e")])
def test_a_process_cannot_be_shared_across_engines_or_interpreters(other):
    with pytest.raises(OptionError, match="node 'b': it cannot share process 'p' with 'a'"):
        planned(flow({"a": ["g:x"], "b": ["a:0"]}, [udf("a", process="p"), other], ["b:0"]))


def threads(cpus: int, *models: PneModel) -> dict[str, int]:
    result = planned(flow({m.name: ["g:x"] for m in models}, list(models), [f"{models[0].name}:0"]), cpus)
    return {i.model: i.threads for i in result.instances}


def test_cpus_are_shared_out_over_the_instances_of_models():
    assert threads(4, cpu("a"), cpu("b")) == {"a": 2, "b": 2}
    assert threads(4, cpu("a", instances=2), cpu("b", instances=2)) == {"a": 1, "b": 1}
    assert threads(8, cpu("a", instances=3), cpu("b")) == {"a": 2, "b": 2}
    assert threads(3, cpu("a"), cpu("b")) == {"a": 2, "b": 1}
    assert threads(5, cpu("a", instances=3), cpu("b")) == {"a": 1, "b": 2}


def test_functions_have_one_thread_and_take_no_share():
    assert threads(4, cpu("a"), udf("f", instances=2)) == {"a": 4, "f": 1}


def test_what_a_node_asks_for_it_gets_and_the_rest_share_the_rest():
    assert threads(4, cpu("a", threads=3), cpu("b")) == {"a": 3, "b": 1}
    assert threads(4, cpu("a", threads=9), cpu("b"), udf("f", threads=2)) == {"a": 9, "b": 1, "f": 2}


def test_more_instances_than_cpus_get_a_thread_each_and_a_note():
    models = [cpu("a"), cpu("b", instances=2), udf("f")]
    result = planned(flow({"a": ["g:x"], "b": ["a:0"], "f": ["b:0"]}, models, ["f:0"]), cpus=2)
    assert {i.threads for i in result.instances} == {1}
    assert "models have 3 threads on 2 CPUs: more than can run at once" in result.notes
    assert "b: 2 x 1 thread, a share of 2 CPUs for 3 model instances" in result.notes
    assert "1 function instances have a thread each besides the models' 3" in result.notes


def test_limits_of_the_machine_are_among_the_notes():
    model = flow({"a": ["g:x"]}, [udf("a")], ["a:0"])
    assert "because" in plan_deployment(model, Resources(1, 0, ("1 CPU, because",)), ENGINES, OPTIONS).notes[0]


def test_an_engine_that_is_not_there_is_named():
    with pytest.raises(DeployError, match="node 'a': engine 'NPU' is not installed here"):
        planned(flow({"a": ["g:x"]}, [cpu("a", engine="NPU")], ["a:0"]))


def test_nodes_without_inputs_or_outputs_are_planned():
    result = planned(flow({"a": [], "b": ["a:0"]}, [udf("a", 0, 1), udf("b", 1, 0)], [], inputs=()))
    assert (instance(result, "a").inputs, instance(result, "b").outputs) == ((), ())
    assert (result.feeds, result.fetches) == ((), ())


def test_long_names_are_cut_and_stay_different():
    """BC-092: names of 300 letters."""
    first, second = queue_name("é" * 300 + "1"), queue_name("é" * 300 + "2")
    assert first != second
    assert len(first.encode()) <= 255 and first.startswith("é" * 100)
    assert queue_name("short") == "short"


def test_queues_stay_apart_whatever_nodes_are_called():
    """BC-092: `a:0` to `b->c:0` and `a:0->b` to `c` would have one name."""
    models = [udf("fetch"), udf("b->c:0"), udf("c"), udf("a:0->b")]
    wires = {"fetch": ["g:x"], "b->c:0": ["g:x"], "c": ["g:x->b"], "a:0->b": ["g:x"]}
    relation = flow({**wires, "c": ["g:x"]}, models, ["fetch:0"], inputs=("x", "x->b"))
    result = planned(relation)
    assert len({q.name for q in result.queues}) == len(result.queues) == 5
    twins = flow({"b->c": ["g:x"], "c": ["g:x->b"]}, [udf("b->c"), udf("c")], [], inputs=("x", "x->b"))
    assert [q.name for q in planned(twins).queues] == ["g:x->b->c:0", "g:x->b->c:0'"]


def test_a_plan_is_the_same_each_time():
    model = flow({"a": ["g:x"], "b": ["a:0"]}, [cpu("a", instances=2), udf("b")], ["b:0"])
    assert planned(model) == planned(model)


def test_memory_is_estimated_where_shapes_are_known():
    models = [cpu("a", instances=2), udf("f"), cpu("b")]
    model = flow({"a": ["g:x"], "f": ["a:0"], "b": ["a:0"]}, models, ["a:0", "f:0"])
    estimate = estimate_memory(model, planned(model))
    assert estimate.models == 300
    assert estimate.queues == 8 * (1280 + 80)
    assert estimate.unknown == ("f:0",)


def test_free_dimensions_count_as_asked():
    spec = TensorSpec(DataType.INT8, (-1, 7))
    assert [message_size(spec), message_size(spec, 4)] == [1287, 1308]
    assert message_size(TensorSpec(DataType.STRING, (1,))) is message_size(TensorSpec(DataType.INT8)) is None


def test_a_join_of_streams_that_were_batched_apart_works_in_its_first_instance():
    """Batches of two batchers need not have the same members; one batch cannot be in two instances."""
    holds = FuncSpec("f", (0,), (0,), holds_inputs=True)
    models = [udf("l", functions=(holds,)), udf("r", functions=(holds,)), udf("j", 2, instances=2)]
    result = planned(flow({"l": ["g:x"], "r": ["g:x"], "j": ["l:0", "r:0"]}, models, ["j:0"]))
    assert instance(result, "l").outputs == ((Route(("l:0->j:0@0",)),),)
    assert instance(result, "j", 1).inputs == ("l:0->j:0@1", "r:0->j:1@1")
    assert any("j: 2 instances, all goes to the first one, because it joins streams" in note for note in result.notes)
    half = [models[0], udf("r"), models[2]]
    result = planned(flow({"l": ["g:x"], "r": ["g:x"], "j": ["l:0", "r:0"]}, half, ["j:0"]))
    assert result.placements[2].dispatch == "first"


def test_branches_of_one_batch_meet_by_transaction():
    holds = FuncSpec("f", (0,), (0,), holds_inputs=True)
    models = [udf("b", functions=(holds,)), udf("l"), udf("r"), udf("j", 2, instances=2)]
    wires = {"b": ["g:x"], "l": ["b:0"], "r": ["b:0"], "j": ["l:0", "r:0"]}
    result = planned(flow(wires, models, ["j:0"]))
    assert result.placements[3].dispatch == "transaction"


def test_calls_that_run_at_once_in_a_cpp_function_have_a_thread_each():
    several = UdfModel(
        name="cpp", engine="UDF", inputs=(FLOATS,), outputs=(FLOATS,), params={"__cpu_num": 3},
        functions=(FuncSpec("f", (0,), (0,)),), options=NodeOptions(instances=2),
    )
    result = planned(flow({"cpp": ["g:x"]}, [several], ["cpp:0"]))
    assert [(share.threads, share.calls, share.instances) for share in result.budget] == [(3, 3, 2)]
    assert instance(result, "cpp").threads == 1, "libraries in each call have one thread"
    assert "2 function instances have 6 threads besides the models' 0" in result.notes
    asked = UdfModel(name="cpp", engine="UDF", inputs=(FLOATS,), outputs=(FLOATS,), options=NodeOptions(threads=4))
    assert instance(planned(flow({"cpp": ["g:x"]}, [asked], ["cpp:0"])), "cpp").threads == 4
