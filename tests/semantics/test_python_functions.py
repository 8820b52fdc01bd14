"""What a Python function's results become: one, several, chosen ones, a stream of them, none, or an error.

Sections 10 and 13 of the notes on the Python interface, 11 and 13 of those on the run time. Every row runs in three
faces: `dflow_core` in one thread and in processes, and `dataflow`; in each of them all rows share one graph, and every
row feeds an input of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Optional, Tuple  # noqa: UP035  # what scripts write

import pytest

import dataflow
import dflow_core
from tests.semantics.rules import Rule, rules

LIMIT = 20000
FAILED = 564000


@dataclass(frozen=True)
class Case:
    """A function, the options it is decorated with, and what is fed, one value after the other."""

    func: Callable[..., object]
    options: dict[str, object]
    values: Sequence[object]


def case(*values: object, **options: object) -> Callable[[Callable[..., object]], Case]:
    return lambda func: Case(func, options, values)


@case(1, None, 2)
def one_result(x):
    return x


@case(3)
def a_tuple_is_one_result(x):
    return x, x


@case(3, num_returns=2)
def two_results(x):
    return x, -x


@case(3, 4, num_returns=2)
def two_results_one_of_them_nothing(x):
    return (x, None) if x == 3 else (None, None)


@case(3, 4, num_returns=2)
def a_list_is_no_tuple(x):
    return [x, x] if x == 3 else (x, x)


@case(1, 3, 2, num_returns=2)
def another_number_of_results(x):
    return (x,) * int(x)


@case(3, 4, num_returns=2)
def one_value_for_two(x):
    return x if x == 3 else (x, x)


@case(1, 2)
def an_exception(x):
    if x == 1:
        raise ValueError("one")
    return x


@case(3, 2)
def nothing_is_returned(x):
    if x == 2:
        return x


@case(0, 1, 3)
def a_generator(n):
    yield from range(10 * n, 10 * n + n)


@case(2, 1, num_returns=2)
def a_generator_of_pairs(n):
    for k in range(n):
        yield k, -k


@case(2, 5)
def a_generator_that_breaks(n):
    yield n
    if n == 2:
        raise ValueError("two")
    yield n + 1


@case(2, 1, num_returns=2)
def a_generator_of_wrong_tuples(n):
    yield (n,) * (2 if n == 1 else 3)
    yield n, n


@case(2)
def a_generator_yields_nothing_and_none(n):
    yield None
    yield n


@case(0, 3, choice_output=lambda item: item > 1)
def chosen(x):
    return x


@case(1, -1, 5, num_returns=2, choice_output=lambda item: item is not None)
def a_branch(x):
    return (x, None) if x > 0 else (None, x)


@case(0, 1, 2, choice_output=lambda item: item)
def chosen_by_truth(x):
    return ["", "yes", [0]][x]


@case(0, 1, 2, choice_output=lambda item: 1 // item)
def choosing_fails(x):
    return x


@case(4, choice_output=lambda item: item % 2)
def a_generator_and_a_choice(n):
    yield from range(n)


@case(None, 2, choice_output=lambda item: item is not None)
def nothing_is_not_chosen(x):
    return x


def maybe(x):
    return x, x


maybe.__annotations__ = {"return": Tuple[int, int]}  # noqa: UP006
annotated = Case(maybe, {}, (1,))


def either(x):
    return x, x


either.__annotations__ = {"return": Optional[int]}  # noqa: UP045
optional = Case(either, {}, (1,))

ROWS = (
    Rule("P10.4", "One output: whatever is returned; None is an empty message.", one_result, [[1, None, 2]]),
    Rule("P10.4", "One output: a tuple is one object.", a_tuple_is_one_result, [[(3, 3)]]),
    Rule("P10.4", "Several outputs: a tuple with one item for each.", two_results, [[3], [-3]]),
    Rule("P10.4", "None in a tuple is an empty message.", two_results_one_of_them_nothing, [[3, None], [None, None]]),
    Rule("P10.4", "Several outputs: a list is no tuple.", a_list_is_no_tuple, [[FAILED, 4], [FAILED, 4]]),
    Rule("P10.4", "A tuple of another length, too short or too long.", another_number_of_results,
         [[FAILED, FAILED, 2], [FAILED, FAILED, 2]]),
    Rule("P10.4", "Several outputs: one value is no tuple.", one_value_for_two, [[FAILED, 4], [FAILED, 4]]),
    Rule("P10.4", "An exception is 564000.", an_exception, [[FAILED, 2]],
         differs="an error in a function ends its process"),
    Rule("P10.4", "A function that returns nothing sends an empty message.", nothing_is_returned, [[None, 2]]),
    Rule("P10.4", "A generator: each value is a result; there may be none.", a_generator, [[10, 30, 31, 32]]),
    Rule("P10.4", "A generator with several outputs yields tuples.", a_generator_of_pairs, [[0, 1, 0], [0, -1, 0]]),
    Rule("P10.4", "A generator that raises: what it yielded before was sent.", a_generator_that_breaks,
         [[2, FAILED, 5, 6]]),
    Rule("P10.4", "A generator that yields a wrong tuple.", a_generator_of_wrong_tuples,
         [[FAILED, 1, 1], [FAILED, 1, 1]]),
    Rule("P10.4", "None that is yielded is an empty message.", a_generator_yields_nothing_and_none, [[None, 2]]),
    Rule("P10.1", "choice_output: what it refuses is not sent.", chosen, [[3]]),
    Rule("P10.1", "choice_output is asked for each output.", a_branch, [[1, 5], [-1]]),
    Rule("P10.1", "choice_output: anything that is true counts.", chosen_by_truth, [["yes", [0]]]),
    Rule("P10.4", "An exception of choice_output is one of the function.", choosing_fails, [[FAILED, 1]],
         here="[[564000, 1]]; a false answer sends nothing"),
    Rule("P10.1", "choice_output is asked for each value that is yielded.", a_generator_and_a_choice, [[1, 3]]),
    Rule("P10.1", "None is sent only if choice_output takes it.", nothing_is_not_chosen, [[2]]),
    Rule("P10.1", "The annotation counts outputs.", annotated, [[1], [1]]),
    Rule("P10.1", "Optional[int] counts two.", optional, [[1], [1]]),
)


IN_DATAFLOW_ONLY = (a_list_is_no_tuple, optional)
"""`dflow_core` takes lists for tuples, and counts Optional[int] as one."""


class Face:
    """A graph of all rows, with one input for each."""

    def run(self, name: str, case: Case) -> list[list[object]]:
        """What comes out of each output of a row's node."""
        raise NotImplementedError


class Script(Face):
    def __init__(self) -> None:
        self.inputs: dict[str, dataflow.FlowData] = {}
        outputs: list[dataflow.FlowOutput] = []
        self.ports: dict[str, list[int]] = {}
        for rule in ROWS:
            one = rule.given
            assert isinstance(one, Case)
            name = one.func.__name__
            self.inputs[name] = dataflow.FlowData(name=name)
            made = dataflow.pyflow(**one.options)(one.func).fnode()(self.inputs[name])
            made = made if isinstance(made, tuple) else (made,)
            self.ports[name] = list(range(len(outputs), len(outputs) + len(made)))
            outputs += made
        self.graph = dataflow.FlowGraph(outputs)

    def run(self, name: str, case: Case) -> list[list[object]]:
        for value in case.values:
            assert self.graph.feed({self.inputs[name]: value}, partial_inputs=True) == 0
        found: list[list[object]] = []
        for port in self.ports[name]:
            found.append([])
            for _ in EXPECTED[name][len(found) - 1]:
                items, code = self.graph.fetch([port], LIMIT)
                # fetch has one code for all errors; fetch_data tells which
                found[-1].append(items[0] if code == 0 else FAILED if code == 145000 else code)
            assert self.graph.fetch([port], 0)[1] == 207013
        return found


class Core(Face):
    def __init__(self, mode: str) -> None:
        outputs: list[object] = []
        self.ports: dict[str, list[int]] = {}
        for rule in ROWS:
            one = rule.given
            assert isinstance(one, Case)
            name = one.func.__name__
            if one in IN_DATAFLOW_ONLY:
                continue
            made = dflow_core.pyflow(**one.options)(one.func).fnode(name)(dflow_core.FlowData(name))
            made = made if isinstance(made, tuple) else (made,)
            self.ports[name] = list(range(len(outputs), len(outputs) + len(made)))
            outputs += made
        self.graph = dflow_core.FlowGraph(outputs, mode=mode)

    def run(self, name: str, case: Case) -> list[list[object]]:
        """As messages come together here, what is empty and what was not sent look the same."""
        found: list[list[object]] = [[] for _ in self.ports[name]]
        for value in case.values:
            self.graph.feed({name: value}, partial=True)
            while self.take(name, found):
                pass
        return found

    def take(self, name: str, found: list[list[object]]) -> bool:
        """Take the next result; False if there is none any more."""
        try:
            result = self.graph.fetch(timeout=0.01)
        except dflow_core.NodeError:
            for line in found:
                line.append(FAILED)
            return True
        except dflow_core.WaitTimeoutError:
            return self.graph.running.client.in_flight > 0
        assert isinstance(result, tuple)
        for line, port in zip(found, self.ports[name]):
            if result[port] is not None:
                line.append(result[port])
        return True


EXPECTED: dict[str, list[list[object]]] = {rule.given.func.__name__: rule.expected for rule in ROWS}  # type: ignore[attr-defined, misc]


@pytest.fixture(scope="module", params=["dataflow", "inline", "process"])
def face(request: pytest.FixtureRequest, started: object) -> Iterator[Face]:
    if request.param == "dataflow":
        yield Script()
        return
    made = Core(request.param)
    with made.graph:
        yield made


@rules(*ROWS)
def test_results_of_functions(face: Face, rule: Rule) -> None:
    case = rule.given
    assert isinstance(case, Case)
    expected = rule.expected
    if isinstance(face, Core):
        if case in IN_DATAFLOW_ONLY:
            return
        expected = [[item for item in line if item is not None] for line in expected]  # type: ignore[attr-defined]
    assert face.run(case.func.__name__, case) == expected
