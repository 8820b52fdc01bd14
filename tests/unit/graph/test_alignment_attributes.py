"""Limits of alignment, catching of exceptions and n-mapping as graphs carry them (python-api.md section 8.2)."""

from __future__ import annotations

from datetime import timedelta

import pytest

import dflow_core as df
from dflow_core.errors import OptionError, UsageError
from dflow_core.types import AlignLimits, NodeOptions
from dflow_core.types_serde import deserialize_options, serialize_options


@df.pyflow
def same(x):
    return x


@df.pyflow
def parts(x):
    yield x


class Queues:
    @df.proc_wrapper("i0,o0")
    def proc(self, context, messages):
        return 0


def graph(node: df.FlowNode | None = None, **more: object) -> df.FlowGraph:
    node = node or same.fnode("same")
    return df.FlowGraph([node(df.FlowData("x"))], **more)  # type: ignore[arg-type]


def test_limits_are_options_of_the_graph() -> None:
    g = graph()
    g.set_inputs_align_attrs(64, timedelta(milliseconds=200), True)
    assert g.options == {"align_max_cache": "64", "align_timeout": "0.2", "align_drop": "1"}
    g.set_inputs_align_attrs(1024)
    assert g.options == {"align_max_cache": "1024", "align_timeout": "0.0", "align_drop": "0"}


@pytest.mark.parametrize(
    "values", [(-1, 1.0), (1025, 1.0), (True, 1.0), (1.5, 1.0), (1, 0), (1, -1), (1, 600.1), (1, "1"), (1, 1.0, 1)]
)
def test_other_limits_are_refused(values: tuple[object, ...]) -> None:
    with pytest.raises(OptionError):
        graph().set_inputs_align_attrs(*values)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1, "yes", None])
def test_flags_are_bools(value: object) -> None:
    with pytest.raises(OptionError):
        graph().set_exception_catch(value)  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        graph().set_contains_n_mapping_node(value)  # type: ignore[arg-type]


def test_a_running_graph_cannot_be_changed() -> None:
    g = graph(mode="inline")
    with g:
        for change in (
            lambda: g.set_inputs_align_attrs(1), lambda: g.set_exception_catch(True),
            lambda: g.set_contains_n_mapping_node(True),
        ):
            with pytest.raises(UsageError, match="is running"):
                change()
    g.set_inputs_align_attrs(1)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: graph(), False),
        (lambda: graph(parts.fnode("parts")), True),
        (lambda: graph(df.FuncProcessPoint(py_func=Queues).fnode(1, 1)), True),
        (lambda: declared(True), True),
        (lambda: declared(False), False),
        (lambda: catching(), True),
        (lambda: batching(), True),
        (lambda: nested(), True),
    ],
)
def test_n_mapping_is_declared_or_implied(make, expected: bool) -> None:
    assert make().contains_n_mapping_node is expected


def declared(flag: bool) -> df.FlowGraph:
    g = graph()
    g.set_contains_n_mapping_node(flag)
    return g


def catching() -> df.FlowGraph:
    g = graph()
    g.set_exception_catch(True)
    return g


def batching() -> df.FlowGraph:
    node = same.fnode("same")
    node.map_input(0, node.point, 0, [df.CountBatch(2)])
    return graph(node)


def nested() -> df.FlowGraph:
    return graph(df.FlowGraphProcessPoint(graph(parts.fnode("parts"))).fnode(1, 1))


def test_catching_exceptions_needs_limits_of_alignment() -> None:
    with pytest.raises(df.GraphError, match=r"\[exceptions\].*needs limits of alignment"), catching():
        pass


def test_catching_exceptions_does_not_go_with_batches() -> None:
    g = batching()
    g.set_inputs_align_attrs(8)
    g.set_exception_catch(True)
    with pytest.raises(df.GraphError, match=r"\[exceptions\] same input 0: a batch mixes transactions"), g:
        pass


# ------------------------------------------------------------------------------------------- limits of one node's own


def test_a_node_may_have_limits_of_its_own_each_of_them_or_some() -> None:
    own = same.fnode("same").set_options(align_max_cache=4, align_timeout=timedelta(seconds=2), align_drop=True).options
    assert (own.align_max_cache, own.align_timeout, own.align_drop) == (4, 2.0, True)
    limits = AlignLimits(8, 0.5, False)
    assert limits.with_own(own) == AlignLimits(4, 2.0, True)
    assert limits.with_own(NodeOptions()) == limits
    assert limits.with_own(NodeOptions(align_timeout=0.0)) == AlignLimits(8, 0.0, False)
    assert not limits.with_own(NodeOptions(align_max_cache=0))
    for options in (own, NodeOptions(), NodeOptions(align_drop=False)):
        assert deserialize_options(serialize_options(options)) == options
    assert same.fnode("again", align_drop=True).set_options(align_drop=None).options == NodeOptions()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("align_max_cache", 1025, "at most 1024"), ("align_max_cache", -1, "at least 0"), ("align_max_cache", "x", "x"),
        ("align_timeout", 600.1, "at most 600"), ("align_timeout", -1, "0 seconds or more"),
        ("align_drop", "perhaps", "perhaps"),
        ("align_timeouts", 1, "align_timeout"),
    ],
)
def test_other_limits_of_a_node_are_refused(name: str, value: object, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        same.fnode("same").set_options(**{name: value})


def test_limits_of_a_node_that_nothing_puts_in_force_are_a_fault() -> None:
    idle = graph(same.fnode("idle").set_options(align_timeout=1.0))
    with pytest.raises(df.GraphError, match=r"idle.*align_max_cache"):
        idle.start()
    idle.set_inputs_align_attrs(8)
    idle.start()
    idle.close()
