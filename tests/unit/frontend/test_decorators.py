"""Decorated functions and classes work as before, and make nodes."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

from dflow_core.errors import GraphError, OptionError, PackagingError, UsageError
from dflow_core.frontend.decorators import builtin_node, init_wrapper, method, proc_wrapper, pyflow
from dflow_core.graph import FlowData, FlowGraph, FlowNode, FuncProcessPoint, serialize_graph
from dflow_core.types import FuncSpec
from dflow_core.udf import PythonFunc, unpack


@pyflow
def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


@pyflow
class Counter:
    """Counts."""

    def __init__(self, start: int, step: int = 1) -> None:
        self.value = start
        self.step = step

    @method(num_returns=2)
    def sub(self, a):
        return a - self.step, self.value

    @method
    def add(self, a, b):
        return a + b + self.value

    def helper(self):
        return self.value


def content(node: FlowNode) -> PythonFunc:
    found = unpack(node.point.package)
    assert isinstance(found, PythonFunc)
    return found


# ---------------------------------------------------------------------------------------------------------- functions


def test_a_decorated_function_is_called_as_before():
    assert add(2) == 3
    assert add(a=2, b=3) == 5
    assert (add.__name__, add.__doc__, add.__wrapped__(1)) == ("add", "Adds.", 2)
    assert "add" in repr(add)


def test_its_node_has_one_input_for_each_parameter_also_those_with_a_default():
    node = add.fnode()
    assert (node.name, node.input_num, node.output_num) == ("add", 2, 1)
    assert node.point.functions == (FuncSpec("add", (0, 1), (0,)),)
    packed = content(node)
    assert (packed.kind, packed.target(1, 2), packed.methods[0].name) == ("function", 3, "add")


def test_nodes_take_a_name_and_options_that_win_over_the_decorators():
    @pyflow(instances=3, threads=2, name="twice", call_timeout=1)
    def double(x):
        return 2 * x

    node = double.fnode("mine", instances=5)
    assert (node.name, node.options.instances, node.options.threads) == ("mine", 5, 2)
    assert double.fnode().name == "twice"
    x = FlowData("x")
    graph = FlowGraph([double.fnode()(x), double.fnode()(x)])
    assert graph.output_names == ("twice", "twice_1")
    assert graph.faults() == ()


def test_lambdas_partials_closures_and_callable_objects_can_be_nodes():
    offset = 10

    class Adder:
        def __call__(self, a, b):
            return a + b

    cases = [
        (pyflow(lambda a: a + offset), 1, (1,), 11), (pyflow(functools.partial(add, 5)), 1, (1,), 6),
        (pyflow(functools.partial(lambda a, b: (a, b), b=2), num_inputs=1), 1, (1,), (1, 2)),
        (pyflow(Adder()), 2, (1, 2), 3), (pyflow(max, num_inputs=3), 3, (1, 5, 2), 5),
        (pyflow(np.add, num_inputs=2), 2, (1, 2), 3),
    ]
    for function, inputs, arguments, result in cases:
        node = function.fnode()
        assert node.input_num == inputs
        assert content(node).target(*arguments) == function(*arguments) == result
    assert [f.fnode().name for f, *_ in cases[:4]] == ["lambda", "add", "lambda", "Adder"]


def test_star_args_need_a_number_of_inputs():
    with pytest.raises(OptionError, match=r"\*args.*\n.*num_inputs"):
        pyflow(lambda *xs: sum(xs))
    assert pyflow(lambda *xs: sum(xs), num_inputs=3).fnode().input_num == 3


def test_parameters_at_the_end_can_be_left_out():
    assert pyflow(add.__wrapped__, num_inputs=1).fnode().input_num == 1
    with pytest.raises(OptionError, match="takes 1 to 2 inputs, got 3"):
        pyflow(add.__wrapped__, num_inputs=3)
    with pytest.raises(OptionError, match="takes 1 to 2 inputs, got 0"):
        pyflow(add.__wrapped__, num_inputs=0)
    with pytest.raises(OptionError, match="expected a whole number"):
        pyflow(add.__wrapped__, num_inputs=True)


def test_functions_no_input_can_fill_are_refused():
    with pytest.raises(UsageError, match="'key' can only be given by name"):
        pyflow(lambda a, *, key: a)
    assert pyflow(lambda a, *, key=1: a).fnode().input_num == 1

    class Unreadable:
        __signature__ = 3

        def __call__(self, a): ...

    with pytest.raises(OptionError, match="cannot be read\n.*num_inputs"):
        pyflow(Unreadable())
    assert pyflow(Unreadable(), num_inputs=1).fnode().input_num == 1


def test_outputs_are_counted_from_the_annotation_or_said():
    @pyflow
    def pair(x) -> tuple[int, int]:
        return x, x

    assert pair.fnode().output_num == 2
    assert pyflow(lambda x: (x, x, x), num_returns=3).fnode().output_num == 3
    with pytest.raises(OptionError, match="annotation"):
        pyflow(pair.__wrapped__, num_returns=3)


def test_generator_functions_are_streams():
    @pyflow
    def rows(x) -> Iterator[tuple[int, int]]:
        yield x, 0

    spec = rows.fnode().point.functions[0]
    assert (spec.generator, spec.n_mapping, spec.outputs) == (True, True, (0, 1))
    assert content(rows.fnode()).methods[0].generator
    made = pyflow(lambda x: iter(x), stream=True).fnode().point.functions[0]
    assert made.generator
    with pytest.raises(OptionError, match="stream=False"):
        pyflow(rows.__wrapped__, stream=False)


def test_async_functions_are_refused_with_a_way_out():
    async def func(x): ...

    async def gen(x):
        yield x

    for bad in (func, gen):
        with pytest.raises(UsageError, match="async"):
            pyflow(bad)


def test_choosing_functions_travel_with_their_choice():
    node = pyflow(lambda x: x, choice_output=lambda item: item is not None).fnode()
    spec, packed = node.point.functions[0], content(node).methods[0]
    assert (spec.n_mapping, spec.generator) == (True, False)
    assert (packed.choice_output(0), packed.choice_output(None)) == (True, False)


def test_gathering_functions_take_one_list():
    assert pyflow(lambda parts: sum(parts), gather=True).fnode().point.functions[0].gather
    with pytest.raises(OptionError, match="exactly one parameter, got 2"):
        pyflow(lambda a, b: a, gather=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"instance": 2}, "unknown option 'instance'\n.*'instances'"), ({"num_return": 2}, "'num_returns'"),
        ({"gather": 1}, "gather: expected True or False"), ({"stream": "yes"}, "stream: expected"),
        ({"choice_output": 3}, "choice_output: expected a function"), ({"name": 3}, "name: expected a text"),
        ({"stream_input": "List"}, "expected \"Queue\""), ({"resources": 3}, "resources: expected a dict"),
        ({"resources": {"cpu": 1}}, "unknown key 'cpu'\n.*num_cpus"), ({"resources": {"num_cpus": -1}}, "at least 0"),
        ({"resources": {"num_npus": 1}}, "have no NPUs"),
    ],
)
def test_options_are_checked_when_the_decorator_is_written(options, words):
    with pytest.raises(OptionError, match=words):
        pyflow(**options)


def test_resources_give_threads_unless_they_are_given():
    assert pyflow(lambda: 0, resources={"num_cpus": 1.5, "memory": 100}).fnode().options.threads == 2
    assert pyflow(lambda: 0, resources={"num_cpus": 4}, threads=1).fnode().options.threads == 1
    assert pyflow(lambda: 0, resources={"memory": 100}).fnode().point.attrs["memory_mb"] == "100"


@pytest.mark.parametrize("bad", [3, "text", []])
def test_what_cannot_be_called_is_refused(bad):
    with pytest.raises(UsageError, match="expected a function or class"):
        pyflow(bad)


def test_what_cannot_travel_is_named_when_the_node_is_made():
    import threading

    lock = threading.Lock()
    with pytest.raises(PackagingError, match=r"lambda>\.lock is of type _thread.lock"):
        pyflow(lambda x: (lock, x)).fnode()


def test_an_edited_function_is_another_one_at_the_next_node():
    """BC-077: edits take effect at next build."""
    space: dict[str, object] = {"pyflow": pyflow}
    exec("@pyflow\ndef f(x): return x + 1", space)
    first = space["f"].fnode()
    exec("@pyflow\ndef f(x): return x + 2", space)
    second = space["f"].fnode()
    assert (content(first).target(1), content(second).target(1)) == (2, 3)
    assert first.point.attrs["fingerprint"] != second.point.attrs["fingerprint"]


def test_decorated_functions_can_call_each_other_and_themselves_when_they_travel():
    space: dict[str, object] = {"pyflow": pyflow, "__name__": "__main__"}
    exec(
        "@pyflow\ndef fact(n): return 1 if n < 2 else n * fact(n - 1)\n"
        "@pyflow\ndef more(n): return fact(n) + 1", space,
    )
    assert content(space["fact"].fnode()).target(5) == 120
    assert content(space["more"].fnode()).target(5) == 121


def test_decorated_functions_can_be_pickled_inside_other_things():
    function = pyflow(lambda x: x)
    assert content(pyflow(lambda x: function(x) + 1).fnode()).target(1) == 2


# ---------------------------------------------------------------------------------------------------------- classes


def test_a_decorated_class_is_used_as_before():
    counter = Counter(5)
    assert (counter.add(1, 2), counter.helper(), Counter.__name__) == (8, 5, "Counter")
    assert isinstance(counter, Counter)


def test_methods_take_their_ports_in_alphabetical_order():
    node = Counter.fnode(5, step=2)
    assert (node.name, node.input_num, node.output_num) == ("Counter", 3, 3)
    assert [(f.name, f.inputs, f.outputs) for f in node.point.functions] == [
        ("add", (0, 1), (0,)), ("sub", (2,), (1, 2)),
    ]
    packed = content(node)
    assert (packed.kind, packed.init_args, packed.init_kwargs) == ("class", (5,), {"step": 2})
    assert packed.target(*packed.init_args).add(1, 1) == 7


def test_methods_are_wired_one_by_one_or_all_at_once():
    x = FlowData("x")
    node = Counter.fnode(5)
    a = node.add(x, x)
    b, c = node.sub(x)
    assert [o.index for o in (a, b, c)] == [0, 1, 2]
    assert FlowGraph([a, b, c]).faults() == ()
    assert len(Counter.fnode(5)(x, x, x)) == 3
    with pytest.raises(GraphError, match="expected 2 inputs, got 1"):
        node.add(x)


def test_a_method_that_is_not_wired_is_a_fault():
    node = Counter.fnode(5)
    faults = FlowGraph([node.add(FlowData(), FlowData())]).faults()
    assert [(f.kind, f.port) for f in faults] == [("unconnected", "input 2")]


def test_an_unknown_method_of_a_node_names_those_there_are():
    with pytest.raises(AttributeError, match="no method 'helper'; it has add, sub"):
        Counter.fnode(1).helper()
    assert not hasattr(Counter.fnode(1), "other")


def test_wrong_arguments_of_the_class_are_found_at_once():
    with pytest.raises(UsageError, match=r"Counter\.fnode: missing a required argument: 'start'"):
        Counter.fnode()
    with pytest.raises(UsageError, match="unexpected keyword argument 'stop'"):
        Counter.fnode(1, stop=2)


def test_the_class_is_not_made_in_this_process():
    @pyflow
    class Loud:
        def __init__(self) -> None:
            raise RuntimeError("made")

        @method
        def call(self, x):
            return x

    assert Loud.fnode().input_num == 1


def test_options_of_the_class_are_options_of_its_nodes():
    @pyflow(instances=2, name="pool")
    class Work:
        @method()
        def go(self, x): ...

    node = Work.fnode()
    assert (node.name, node.options.instances) == ("pool", 2)
    assert Work.fnode().set_name("mine").name == "mine"


def test_static_class_and_inherited_methods_are_functions_too():
    class Base:
        @method
        def inherited(self, a, b): ...

    @pyflow
    class Derived(Base):
        @method
        @staticmethod
        def fixed(a):
            return a + 1

        @classmethod
        @method
        def made(cls, a):
            return a + 2

    node = Derived.fnode()
    assert [(f.name, len(f.inputs)) for f in node.point.functions] == [("fixed", 1), ("inherited", 2), ("made", 1)]
    made = content(node).target()
    assert (made.fixed(1), made.made(1)) == (2, 3)


def test_a_class_with_a_call_operator_needs_no_methods():
    @pyflow(num_returns=2)
    class Both:
        def __call__(self, x):
            return x, x

    node = Both.fnode()
    assert (node.input_num, node.output_num, node.point.functions[0].name) == (1, 2, "__call__")
    assert len(node(FlowData())) == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "no method a node could call"), ({"fnode": 1, "f": method(lambda self: 0)}, "member called fnode"),
        ({"options": method(lambda self: 0)}, "nodes have a member of that name"),
    ],
)
def test_classes_that_cannot_be_nodes_are_refused(body, words):
    with pytest.raises(UsageError, match=words):
        pyflow(type("Cls", (), body))


def test_options_of_methods_do_not_belong_on_the_class():
    with pytest.raises(UsageError, match="belong to methods"):
        pyflow(num_returns=2)(type("Cls", (), {"f": method(lambda self: 0)}))


def test_options_of_methods_are_checked():
    with pytest.raises(OptionError, match="@method: unknown option 'instances'"):
        method(instances=2)
    with pytest.raises(UsageError, match="expected a method"):
        method()(3)


def test_a_class_by_py_func_is_a_point_without_init_arguments():
    point = FuncProcessPoint(py_func=pyflow(type("Simple", (), {"f": method(lambda self, x: x)})))
    assert (point.name, [f.name for f in point.functions]) == ("Simple", ["f"])


# ------------------------------------------------------------------------------------------------- low-level classes


class Low:
    @init_wrapper()
    def init_flow_func(self, meta_params):
        return 0

    @proc_wrapper("i0,o1")
    def second(self, run_context, inputs):
        return 0

    @proc_wrapper("i1, i2 ,o0")
    def first(self, run_context, inputs):
        return 0


def test_hand_written_classes_say_which_ports_each_method_owns():
    point = FuncProcessPoint(py_func=Low)
    assert [(f.name, f.inputs, f.outputs, f.n_mapping) for f in point.functions] == [
        ("first", (1, 2), (0,), True), ("second", (0,), (1,), True),
    ]
    packed = unpack(point.package)
    assert (packed.kind, packed.target.__name__, [m.name for m in packed.methods]) == (
        "flow_func", "Low", ["first", "second"],
    )
    node = point.fnode(3, 2)
    assert node.name == "Low"
    assert FlowGraph(node(*[FlowData() for _ in range(3)])).faults() == ()
    assert Low().first(None, []) == 0


@pytest.mark.parametrize("ports", ["", "i0;o0", "x1", "o0,stream_input", "stream_input,i0", "i", "i99999", None, 3])
def test_ports_that_are_none_are_refused(ports):
    with pytest.raises(UsageError, match="ports|stream_input"):
        proc_wrapper(ports)


@pytest.mark.parametrize(
    ("ports", "words"),
    [(["i0,o0", "i0,o1"], "inputs"), (["i0,o0", "i1,o2"], "outputs"), (["i1,o0"], "inputs")],
)
def test_ports_must_be_owned_once(ports, words):
    body = {f"f{i}": proc_wrapper(text)(lambda self, c, m: 0) for i, text in enumerate(ports)}
    with pytest.raises(UsageError, match=f"Bad: {words}: expected each port"):
        FuncProcessPoint(py_func=type("Bad", (), body))


def test_marked_functions_without_their_class_are_refused():
    with pytest.raises(UsageError, match="the class around"):
        FuncProcessPoint(py_func=Low.first)
    with pytest.raises(UsageError, match="init_flow_func"):
        init_wrapper()(lambda self, params: 0)


# ------------------------------------------------------------------------------------------------------- ready-made


def test_ready_made_functions_are_nodes_by_name():
    node = builtin_node("_BuiltIn_CountBatch", 2, 2, batch_size=3, padding=True)
    assert (node.name, node.input_num, node.output_num) == ("_BuiltIn_CountBatch", 2, 2)
    assert (node.point.builtin, node.point.init_params) == ("_BuiltIn_CountBatch", {"batch_size": 3, "padding": True})
    assert builtin_node("x", name="y").name == "y"
    with pytest.raises(OptionError, match="init parameter 'a'"):
        builtin_node("x", a=object())


def test_graphs_of_decorated_things_can_be_saved():
    x = FlowData("x")
    graph = FlowGraph([add.fnode()(x, x), Counter.fnode(1).add(x, x)])
    assert len(serialize_graph(graph)) > 100
    assert pickle.loads(pickle.dumps(add)) is add
