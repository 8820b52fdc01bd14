"""Feed and fetch as scripts call them: what each call returns, in codes and milliseconds.

Sections 1, 5 and 7 of the notes on the run time, and section 8 of those on the Python interface. All rows share one
deployed graph; whatever a row does, the next transaction is not disturbed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import dataflow as df
from tests.semantics.rules import Rule, rules, shows

FAILED = 0xFFFFFFFF
LIMIT = 20000
EOS = df.FlowInfo(flow_flags=df.FlowFlag.DATA_FLOW_FLAG_EOS)
SEG = df.FlowInfo(flow_flags=df.FlowFlag.DATA_FLOW_FLAG_SEG)


@df.pyflow
def double(x):
    return None if x is None else df.Tensor(x.numpy() * 2)


@df.pyflow
def echo(x):
    return x


@dataclass
class Script:
    """A graph with the inputs a (two floats) and b (anything); its outputs are echo(b), double(a), echo(b)."""

    graph: df.FlowGraph
    a: df.FlowData
    b: df.FlowData

    def feed_one(self, value: float = 1.0) -> None:
        assert self.graph.feed_data({self.a: [value, value], self.b: value}, timeout=LIMIT) == 0

    def check_next(self) -> None:
        """The next transaction comes as if nothing had been."""
        self.feed_one(7.0)
        tensors, _info, code = self.graph.fetch_data(None, LIMIT)
        assert ([t.numpy().tolist() for t in tensors], code) == ([7.0, [14.0, 14.0], 7.0], 0)
        assert self.graph.fetch_data(None, 0)[2] == 207013


@pytest.fixture(scope="module")
def script(started) -> Iterator[Script]:
    a, b = df.FlowData(schema=df.TensorDesc(df.DT_FLOAT, [2]), name="a"), df.FlowData(name="b")
    one, two = echo.fnode()(b), double.fnode()(a)
    made = Script(df.FlowGraph([one, two, one]), a, b)
    assert made.graph.fetch_data(timeout=0) [2] == FAILED  # before any feed: no model
    assert made.graph.fetch(timeout=0) == ([], FAILED)
    yield made


@rules(
    Rule("P8.3", "flow_info that is no FlowInfo.", lambda s: s.graph.feed_data({s.a: [1, 2], s.b: 1}, 5), 145000),
    Rule("P8.3", "An empty feed_dict.", lambda s: s.graph.feed_data({}), 145000),
    Rule("P8.3", "No feed_dict.", lambda s: s.graph.feed_data(None), 145000),
    Rule("P8.3", "No feed_dict, whatever partial_inputs says.",
         lambda s: s.graph.feed_data({}, partial_inputs=True), 145000),
    Rule("7.2", "An empty feed_dict with SEG but not EOS.", lambda s: s.graph.feed_data({}, SEG), 145000),
    Rule("P8.3", "feed knows no empty form.", lambda s: s.graph.feed({}), 145000),
    Rule("P8.3", "feed knows no empty form.", lambda s: s.graph.feed(None), 145000, "145000 for None too"),
    Rule("P8.3", "An input is missing.", lambda s: s.graph.feed_data({s.a: [1, 2]}), 145000),
    Rule("P8.3", "An input of feed is missing.", lambda s: s.graph.feed({s.a: df.Tensor([1.0, 2.0])}), 145000),
    Rule("P8.3", "Only keys that are no inputs, with partial_inputs.",
         lambda s: s.graph.feed_data({df.FlowData(): 1}, partial_inputs=True), 145000),
    Rule("P8.3", "A value of another shape than the schema.",
         lambda s: s.graph.feed_data({s.a: [1.0], s.b: 1}), 145021),
    Rule("P8.3", "A scalar where the schema has a dimension.", lambda s: s.graph.feed_data({s.a: 1.0, s.b: 1}), 145021),
    Rule("P6.2", "An integer beyond 64 bits.", lambda s: s.graph.feed_data({s.a: [1, 2], s.b: [2**70]}), 145022),
    Rule("P6.2", "A dict is no tensor.", lambda s: s.graph.feed_data({s.a: [1, 2], s.b: {"1": 1}}), 145022),
    Rule("P6.2", "None is no tensor.", lambda s: s.graph.feed_data({s.a: [1, 2], s.b: None}), 145022),
    Rule("P8.3", "A Tensor given to feed that differs from the schema is not converted.",
         lambda s: s.graph.feed({s.a: df.Tensor([1, 2]), s.b: 1}), 145000),
    Rule("7.1", "A timeout below -1, feed_data.",
         lambda s: s.graph.feed_data({s.a: [1, 2], s.b: 1}, timeout=-2), FAILED, "4294967295"),
    Rule("7.1", "A timeout below -1, feed.",
         lambda s: s.graph.feed({s.a: df.alloc_tensor([2], df.DT_FLOAT), s.b: 1}, timeout=-2), FAILED, "4294967295"),
    Rule("7.1", "A timeout below -1, fetch_data.", lambda s: s.graph.fetch_data(None, -2)[2], FAILED, "4294967295"),
    Rule("7.1", "A timeout below -1, fetch.", lambda s: s.graph.fetch(None, -2), ([], FAILED), "([], 4294967295)"),
    Rule("5", "Fetch with timeout 0 and nothing there.", lambda s: s.graph.fetch_data(None, 0)[2], 207013),
    Rule("5", "fetch with timeout 0 and nothing there.", lambda s: s.graph.fetch(None, 0), ([], 207013)),
    Rule("5", "Fetch timed out with another timeout than 0.", lambda s: s.graph.fetch_data(None, 1)[2], 545601),
    Rule("5", "fetch timed out with another timeout than 0.", lambda s: s.graph.fetch([1], 1), ([], 545601)),
    Rule("P8.4", "An index above the last output, fetch_data.", lambda s: s.graph.fetch_data([3], 0)[2], 145000),
    Rule("P8.4", "An index above the last output, fetch.", lambda s: s.graph.fetch([0, 3], 0), ([], 145000)),
    Rule("P8.4", "A negative index beyond the first output.", lambda s: s.graph.fetch([-4], 0), ([], 145000)),
    Rule("7.3", "Indexes twice.", lambda s: s.graph.fetch_data([0, 0], 0)[2], FAILED, "4294967295"),
    Rule("7.3", "Indexes twice, once counted from the end.", lambda s: s.graph.fetch_data([0, -3], 0)[2], FAILED,
         "4294967295"),
    Rule("7.3", "Indexes twice, fetch.", lambda s: s.graph.fetch([1, 1], 0), ([], FAILED), "([], 4294967295)"),
)
def test_codes_of_calls_that_are_refused(script: Script, rule: Rule) -> None:
    assert rule.given(script) == rule.expected  # type: ignore[operator]
    script.check_next()


@rules(
    Rule("P8.4", "An index that is no int.", lambda s: s.graph.fetch_data(["a"]), TypeError),
    Rule("P8.3", "Elements that cannot be cast.", lambda s: s.graph.feed_data({s.a: ["x", "y"], s.b: 1}), ValueError),
    Rule("P8.2", "n-mapping is set before the first feed only.", lambda s: s.graph.set_contains_n_mapping_node(True),
         df.DfException),
    Rule("P8.2", "Alignment is set before the first feed only.", lambda s: s.graph.set_inputs_align_attrs(1, 1),
         df.DfException),
    Rule("P8.2", "Catching exceptions is set before the first feed only.", lambda s: s.graph.set_exception_catch(True),
         df.DfException),
    Rule("P7.7", "A graph that was fed is no process point any more.", lambda s: df.FlowGraphProcessPoint(s.graph),
         TypeError),
)
def test_calls_that_raise(script: Script, rule: Rule) -> None:
    with pytest.raises(rule.expected):  # type: ignore[call-overload]
        rule.given(script)  # type: ignore[operator]
    script.check_next()


def plain(objects: object) -> object:
    """Tensors as lists."""
    if isinstance(objects, list):
        return [plain(one) for one in objects]
    return objects.numpy().tolist() if isinstance(objects, df.Tensor) else objects


@rules(
    Rule("P8.4", "None is all, in the order of the script.", None, [3.0, [6.0, 6.0], 3.0]),
    Rule("P8.4", "[] is all, in the order of the nodes.", [], [3.0, 3.0, [6.0, 6.0]]),
    Rule("P8.4", "Indexes are positions among the outputs.", [1, 2, 0], [[6.0, 6.0], 3.0, 3.0]),
    Rule("P8.4", "Negative indexes count from the end.", [-2, -1, -3], [[6.0, 6.0], 3.0, 3.0]),
    Rule("P8.4", "A tuple is as good as a list.", (0, 1, 2), [3.0, [6.0, 6.0], 3.0]),
)
@pytest.mark.parametrize("how", ["fetch_data", "fetch"])
def test_outputs_come_in_the_order_that_was_asked_for(script: Script, rule: Rule, how: str) -> None:
    script.feed_one(3.0)
    found = getattr(script.graph, how)(rule.given, LIMIT)
    assert (plain(found[0]), found[-1]) == (rule.expected, 0)
    script.check_next()


@shows(Rule("7.3", "Outputs are taken one by one; what is not asked for stays in line.",
            here="each output has its own line"))
def test_each_output_has_a_line_of_its_own(script: Script) -> None:
    for value in (1.0, 2.0):
        script.feed_one(value)
    assert [plain(script.graph.fetch([1], LIMIT)[0]) for _ in range(2)] == [[[2.0, 2.0]], [[4.0, 4.0]]]
    assert [plain(script.graph.fetch_data([0], LIMIT)[0]) for _ in range(2)] == [[1.0], [2.0]]
    script.check_next()


@rules(
    Rule("P8.3", "A Tensor whose description is that of the schema.",
         df.Tensor(np.array([1, 2], np.float32)), [2.0, 4.0]),
    Rule("P8.3", "A Tensor of another type is converted to the schema.", df.Tensor([1, 2]), [2.0, 4.0]),
    Rule("P8.3", "An array of another type is converted to the schema.", np.array([1, 2], np.int8), [2.0, 4.0]),
    Rule("P8.3", "Lists become tensors.", [1, 2], [2.0, 4.0]),
    Rule("P8.3", "Tuples become tensors.", (1.5, 2), [3.0, 4.0]),
    Rule("P8.3", "Bools are numbers for the schema.", [True, False], [2.0, 0.0]),
    Rule("P6.2", "Texts that hold numbers are cast.", ["1", "2.5"], [2.0, 5.0]),
)
def test_values_become_what_the_schema_says(script: Script, rule: Rule) -> None:
    assert script.graph.feed_data({script.a: rule.given, script.b: 0, df.FlowData(): "no input of it"}) == 0
    tensors, _info, code = script.graph.fetch_data([0, 1, 2], LIMIT)
    assert (plain(tensors[1]), code) == (rule.expected, 0)
    assert tensors[1].numpy().dtype == np.float32


@rules(
    Rule("P8.3", "None is an empty message; fetch gives None at its place.", None, None),
    Rule("P8.3", "An array that is no Tensor is an object, and comes as the array it was.", np.arange(2), [0, 1]),
    Rule("P8.3", "A number of numpy is an object.", np.int8(5), np.int8(5)),
    Rule("P8.3", "Anything else is pickled.", {"a": [1, (2, "x")]}, {"a": [1, (2, "x")]}),
    Rule("P8.3", "A text is pickled.", "ä\0", "ä\0"),
    Rule("P8.3", "An empty text is not an empty message.", "", ""),
    Rule("P8.3", "An empty list is not an empty message.", [], []),
    Rule("P8.3", "A Tensor without elements is not an empty message.", df.Tensor(np.zeros((0, 2))), []),
    Rule("P8.3", "A Tensor without dimensions stays one.", df.Tensor(3), 3),
)
def test_objects_come_back_as_they_were_fed(script: Script, rule: Rule) -> None:
    assert script.graph.feed({script.a: df.Tensor([1.0, 2.0], tensor_desc=script.a._schema), script.b: rule.given}) == 0
    found, code = script.graph.fetch([0, 1, 2], LIMIT)
    first = found[0].tolist() if isinstance(found[0], np.ndarray) else plain(found[0])
    assert (first, type(found[0]), code) == (rule.expected, type(rule.given), 0)
    script.check_next()


@shows(
    Rule("7.2", "An empty feed with EOS puts a null message on every input.", here="0, and functions get None"),
    Rule("13", "fetch_data drops null data, and tells the flags.", here="([], info with EOS, 0)"),
    Rule("P18", "Feeds after an EOS feed go on.", here="0"),
)
def test_the_end_of_a_sequence_goes_through(script: Script) -> None:
    for _ in range(2):
        assert script.graph.feed_data({}, EOS) == 0
    tensors, info, code = script.graph.fetch_data(None, LIMIT)
    assert (tensors, info.flow_flags, code) == ([], 1, 0)
    assert script.graph.fetch(None, LIMIT) == ([None, None, None], 0)
    script.check_next()


@shows(Rule("P8.3", "Inputs fed apart have the same id for their k-th message.", here="the parts meet"))
def test_partial_inputs_meet_by_their_number(script: Script) -> None:
    graph, a, b = script.graph, script.a, script.b
    for value in (1.0, 2.0):
        assert graph.feed_data({b: value}, partial_inputs=True) == 0
        assert graph.feed_data({a: [value, value]}, partial_inputs=True) == 0
    for value in (1.0, 2.0):
        assert plain(graph.fetch_data([0, 1, 2], LIMIT)[0]) == [value, [2 * value] * 2, value]
    script.check_next()


@rules(
    Rule("P7.2", "Times and flags travel.", df.FlowInfo(5, 6, 2), (5, 6, 2)),
    Rule("P7.2", "Times may be as large as 64 bits.", df.FlowInfo(2**64 - 1, 2**64 - 1), (2**64 - 1, 2**64 - 1, 0)),
    Rule("P7.2", "Flags may use 32 bits.", df.FlowInfo(flow_flags=2**32 - 1), (0, 0, 2**32 - 1)),
)
def test_heads_travel(script: Script, rule: Rule) -> None:
    info = rule.given
    assert isinstance(info, df.FlowInfo)
    info.set_user_data(bytes(range(1, 33)), 32)
    assert script.graph.feed_data({script.a: [1, 2], script.b: 1}, info) == 0
    _tensors, got, code = script.graph.fetch_data(None, LIMIT)
    assert code == 0 and (got.start_time, got.end_time, got.flow_flags) == rule.expected
    assert bytes(got.user_data) == bytes(32) + bytes(range(1, 33)) and got.data_size == 0


@rules(
    Rule("P7.2", "A time below 0.", lambda: df.FlowInfo(-1), TypeError),
    Rule("P7.2", "A time above 64 bits.", lambda: df.FlowInfo(0, 2**64), TypeError),
    Rule("P7.2", "Flags above 32 bits.", lambda: df.FlowInfo(flow_flags=2**32), TypeError),
    Rule("P7.2", "A time that is no whole number.", lambda: df.FlowInfo("now"), TypeError),
    Rule("P7.2", "An id with a fraction.", lambda: df.FlowInfo(transaction_id=1.5), TypeError),
    Rule("P7.2", "What cannot be given cannot be set.", lambda: setattr(df.FlowInfo(), "end_time", -1), TypeError),
)
def test_heads_that_cannot_be_are_refused(rule: Rule) -> None:
    with pytest.raises(TypeError):
        rule.given()  # type: ignore[operator]
