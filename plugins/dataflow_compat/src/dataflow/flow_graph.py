"""The graph: built of nodes, compiled and started by the first feed, fed and fetched from any thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dataflow import codes
from dataflow.feeding import bound_objects, bound_tensors
from dataflow.flow_info import FlowFlag, FlowInfo
from dataflow.nodes import FlowData, FlowNode, FlowOutput
from dataflow.results import Item
from dataflow.runner import GraphRunner, logged_code
from dataflow.runtime import Runtime, given_options
from dataflow.settings import cache_faults, is_compile_only, is_placed
from dataflow.tensor import Tensor
from dataflow.utils import log
from dataflow.utils.errors import DfException
from dataflow.utils.name_scope import name_scope
from dataflow.values import object_of, tensor_of
from dflow_core import graph as core
from dflow_core.errors import AlignmentError, DflowError, RaisedError
from dflow_core.message import FeedInfo, FlowMsg

__all__ = ["FlowGraph"]

_LONGEST_MS = 600_000


class FlowGraph:
    """A graph.

    Args:
        outputs: What is fetched, in this order.
        graph_options: Options of the graph.
        name: Its name.
        graphpp_builder_async: Whether model files are read in parallel; they are in any case.

    Raises:
        DfException: outputs that are no FlowOutput, options that are no texts, or `df.init` was not called (145001).
    """

    def __init__(
        self, outputs: list[FlowOutput], graph_options: dict[str, str] | None = None, name: str | None = None,
        graphpp_builder_async: bool = False,
    ) -> None:
        if not isinstance(outputs, list) or not all(isinstance(output, FlowOutput) for output in outputs):
            raise DfException("outputs must be a list of FlowOutput")
        options: dict[str, str] = {} if graph_options is None else graph_options
        if type(options) is not dict or not all(isinstance(t, str) for item in options.items() for t in item):
            raise DfException("graph_options must be a dict of texts")
        session = Runtime.session()
        with name_scope(name, "FlowGraph") as unique:
            self.name = unique
        self.graph_options = options
        self.graph_id = Runtime.graph_id()
        self._outputs = outputs
        self._output_idx_mapping = native_positions(outputs)
        unique_outputs = list(dict.fromkeys((output.node, output.index) for output in outputs))
        self._positions = [unique_outputs.index((output.node, output.index)) for output in outputs]
        self._nodes = _reachable(outputs)
        self._impl = core.FlowGraph(
            [core.FlowOutput(node._impl, index) for node, index in unique_outputs], given_options(options), self.name
        )
        self._inputs = _inputs_of(self._nodes)
        self._ports = {data: port for port, data in enumerate(self._inputs)}
        by_node = sorted(range(len(outputs)), key=self._output_idx_mapping.__getitem__)
        self._all = [self._positions[k] for k in by_node]
        of_session = Runtime.options or {}
        self._runner = GraphRunner(
            self._impl, session, is_compile_only(of_session, options), is_placed(of_session, options)
        )
        self._cache_faults = cache_faults(of_session, options)
        self._is_ready = False

    @property
    def core_graph(self) -> core.FlowGraph:
        """The graph as the core knows it."""
        return self._impl

    @property
    def was_fed(self) -> bool:
        """Whether its first feed was."""
        return self._runner.was_fed

    def set_contains_n_mapping_node(self, contains_n_mapping_node: bool) -> None:
        """Declare that some node gives more or fewer messages than it gets; transaction ids of the user then count.

        Raises:
            DfException: the graph was fed already.
        """
        self._check_not_fed()
        self._impl.set_contains_n_mapping_node(bool(contains_n_mapping_node))

    def set_inputs_align_attrs(
        self, align_max_cache_num: int, align_timeout: int, dropout_when_not_align: bool = False
    ) -> None:
        """Limit how long parts that belong together wait for each other, at nodes and at `fetch_data`.

        Args:
            align_max_cache_num: Incomplete sets kept at each place, 0 to 1024; 0 puts no limits in force.
            align_timeout: Milliseconds after which an incomplete set is given up, 1 to 600000; -1 is never.
            dropout_when_not_align: Whether what is given up is dropped; else functions get what there is, and
                `fetch_data` returns 345104.

        Raises:
            DfException: a value it cannot have, or the graph was fed already.
        """
        self._check_not_fed()
        if not isinstance(align_timeout, int) or (align_timeout != -1 and not 1 <= align_timeout <= _LONGEST_MS):
            raise DfException(f"align_timeout must be -1 or 1 to {_LONGEST_MS}, got {align_timeout}")
        try:
            self._impl.set_inputs_align_attrs(
                align_max_cache_num, None if align_timeout == -1 else align_timeout / 1000, dropout_when_not_align
            )
        except DflowError as error:
            raise DfException(error) from error

    def set_exception_catch(self, enable_exception_catch: bool = False) -> None:
        """Let functions raise exceptions, which every other function is told of and `fetch_data` returns as 345103.

        Raises:
            DfException: another type of argument, or the graph was fed already.
        """
        self._check_not_fed()
        try:
            self._impl.set_exception_catch(enable_exception_catch)
        except DflowError as error:
            raise DfException(error) from error

    def feed_data(
        self, feed_dict: Mapping[FlowData, object] | None, flow_info: FlowInfo | None = None, timeout: int = -1,
        partial_inputs: bool = False,
    ) -> int:
        """Feed tensors.

        Args:
            feed_dict: A value for each input: a Tensor, or anything an array can be made of. Empty with the EOS flag in
                `flow_info` tells every input that there is no more.
            flow_info: What goes with them.
            timeout: Milliseconds to wait for room; -1 has no limit.
            partial_inputs: Whether inputs may be left out.

        Returns:
            0, or the code of what went wrong; 207014 if there was no room in time.

        Raises:
            ValueError: elements that cannot be converted to what the input takes.
        """
        if not _is_info(flow_info):
            return codes.PARAM_INVALID
        if not self._is_ready and (code := self._start()):
            return code
        self._is_ready = True
        if not feed_dict:
            if flow_info is None or not flow_info.flow_flags & FlowFlag.DATA_FLOW_FLAG_EOS:
                return codes.PARAM_INVALID
            values: dict[int, object] = dict.fromkeys(range(len(self._inputs)))
        else:
            try:
                values = bound_tensors(self._inputs, feed_dict, partial_inputs)
            except DfException as error:
                log.error("feed_data of graph %s: %s", self.name, error)
                return error.error_code
        return self._runner.feed(values, self._info(flow_info), timeout)

    def feed(
        self, feed_dict: Mapping[FlowData, object] | None, timeout: int = -1, partial_inputs: bool = False
    ) -> int:
        """Feed objects: Tensors, None, objects of registered classes, and everything that can be pickled.

        Args:
            feed_dict: A value for each input.
            timeout: Milliseconds to wait for room; -1 has no limit.
            partial_inputs: Whether inputs may be left out.

        Returns:
            0, or the code of what went wrong.
        """
        if not self._is_ready and (code := self._start()):
            return code
        self._is_ready = True
        try:
            values = bound_objects(self._inputs, feed_dict or {}, partial_inputs)
        except DfException as error:
            log.error("feed of graph %s: %s", self.name, error)
            return error.error_code
        return self._runner.feed(values, None, timeout)

    def fetch_data(
        self, indexes: Sequence[int] | None = None, timeout: int = -1
    ) -> tuple[list[Tensor], FlowInfo, int]:
        """Tensors of the outputs.

        Args:
            indexes: Which outputs, by their position in the graph; None is all.
            timeout: Milliseconds to wait; -1 has no limit, 0 looks once.

        Returns:
            The tensors, what went with the first one, and 0; or no tensors and the code of what went wrong. An empty
            message, such as an end of sequence, adds no tensor.
        """
        items, code = self._take(indexes, timeout)
        if code:
            return [], FlowInfo(), code
        messages = [item for item in items if isinstance(item, FlowMsg)]
        code = logged_code(self.name, items)
        info = FlowInfo.of(messages[0].info) if messages else raised_info(items)
        if code:
            return [], info, code
        return [tensor_of(msg) for msg in messages if msg.body is not None and not msg.is_null], info, 0

    def fetch(self, indexes: Sequence[int] | None = None, timeout: int = -1) -> tuple[list[object], int]:
        """Objects of the outputs.

        Args:
            indexes: Which outputs, by their position in the graph; None is all.
            timeout: Milliseconds to wait; -1 has no limit, 0 looks once.

        Returns:
            The objects (a Tensor for a tensor, None for an empty message) and 0; or the code of what went wrong.
        """
        items, code = self._take(indexes, timeout)
        if code:
            return [], code
        objects: list[object] = []
        for item in items:
            if not isinstance(item, FlowMsg):
                logged_code(self.name, [item])
                return [], codes.PARAM_INVALID
            try:
                objects.append(object_of(item))
            except DfException as error:
                log.error("graph %s: %s", self.name, error)
                return [], codes.PARAM_INVALID
        return objects, codes.SUCCESS

    def _start(self) -> int:
        """Compile and start the graph, at the first feed; the code of what went wrong, or 0."""
        of_nodes = [f"node {node.name}: {fault}" for node in self._nodes for fault in node.faults]
        return self._runner.start([*self._cache_faults, *of_nodes])

    def _info(self, flow_info: FlowInfo | None) -> FeedInfo | None:
        if flow_info is None:
            return None
        maps_freely = self._impl.contains_n_mapping_node
        if flow_info.transaction_id and not maps_freely:
            log.warning("graph %s has no n-mapping node: transaction id %d is not used", self.name,
                        flow_info.transaction_id)
        return flow_info.to_core(keep_id=maps_freely)

    def _take(self, indexes: Sequence[int] | None, timeout: int) -> tuple[list[Item], int]:
        wanted = self._positions if indexes is None else self._wanted(indexes)
        if wanted is None:
            return [], codes.PARAM_INVALID
        if Runtime.context is None:
            raise AttributeError("df.finalize was called: there is no graph to fetch from")
        if indexes and len({index % len(self._positions) for index in indexes}) != len(indexes):
            return [], codes.FAILED
        once = list(dict.fromkeys(wanted))
        if len(once) == len(wanted):
            return self._runner.take(wanted, timeout)
        items, code = self._runner.take(once, timeout)  # an output that stands twice among the graph's
        return [items[once.index(position)] for position in wanted] if items else [], code

    def _wanted(self, indexes: Sequence[int]) -> list[int] | None:
        """Positions in the core's graph, or None if there is no such output."""
        if not indexes:
            return self._all
        if not all(isinstance(index, int) for index in indexes):
            raise TypeError(f"indexes must be ints, got {indexes!r}")
        count = len(self._positions)
        if any(not -count <= index < count for index in indexes):
            return None
        return [self._positions[index] for index in indexes]

    def _check_not_fed(self) -> None:
        if self._runner.was_fed:
            raise DfException(f"graph {self.name} was fed already")


def raised_info(items: Sequence[Item]) -> FlowInfo:
    """What went with the message that a function was working on when it raised an exception; else the transaction."""
    error = next((item for item in items if isinstance(item, RaisedError)), None)
    if error is None:
        incomplete = next((item for item in items if isinstance(item, AlignmentError)), None)
        return FlowInfo() if incomplete is None else FlowInfo(transaction_id=incomplete.trans_id or 0)
    info = FlowInfo(error.start_time, error.end_time, error.flow_flags, error.trans_id or 0)
    info.user_data[: len(error.user_data)] = error.user_data
    return info


def _is_info(flow_info: object) -> bool:
    return flow_info is None or isinstance(flow_info, FlowInfo)


def native_positions(outputs: Sequence[FlowOutput]) -> list[int]:
    """Where each output stands when outputs are grouped by node, in the order of the nodes, then by index."""
    groups: dict[str, list[tuple[int, int]]] = {}
    for position, output in enumerate(outputs):
        groups.setdefault(output.node.name, []).append((output.index, position))
    order = [position for group in groups.values() for _, position in sorted(group)]
    mapping = [0] * len(order)
    for native, position in enumerate(order):
        mapping[position] = native
    return mapping


def _reachable(outputs: Sequence[FlowOutput]) -> list[FlowNode]:
    found: dict[FlowNode, None] = {}
    pending = [output.node for output in outputs]
    while pending:
        node = pending.pop()
        if node in found:
            continue
        found[node] = None
        for source in node._input_anchors:
            if source is None:
                raise AttributeError(f"an input of node {node.name} is not connected")
            if isinstance(source, FlowOutput):
                pending.append(source.node)
    return list(found)


def _inputs_of(nodes: Sequence[FlowNode]) -> list[FlowData]:
    found = {source for node in nodes for source in node._input_anchors if isinstance(source, FlowData)}
    return sorted(found, key=lambda data: data.name)
