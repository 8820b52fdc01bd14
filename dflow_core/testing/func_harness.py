"""Drives a FlowFunc without a graph, a process or a queue, with the executor's own rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np

from dflow_core.executor import NodeRunner
from dflow_core.message import (
    Alloc,
    Aux,
    DataFlag,
    ErrorInfo,
    FlowMsg,
    HeapBlock,
    Member,
    MsgInfo,
    decode,
    encode,
    root_token,
)
from dflow_core.model import UdfModel
from dflow_core.spi import FlowFunc, FuncParams, UdfEntry
from dflow_core.testing.clock import FakeClock
from dflow_core.types import Array, FuncSpec

Kind = Literal["data", "null", "skip", "end", "error"]

_NO_ATTRS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sent:
    """One message a function sent.

    Args:
        output: Which output.
        msg: The message.
        at: When, on the harness's clock.
    """

    output: int
    msg: FlowMsg
    at: float

    @property
    def kind(self) -> Kind:
        """What the message says."""
        flag = self.msg.info.data_flag
        if flag & DataFlag.ERROR:
            return "error"
        if flag & DataFlag.END:
            return "end"
        if flag & DataFlag.SKIP:
            return "skip"
        return "null" if flag & DataFlag.NULL else "data"

    @property
    def value(self) -> object:
        """The value it carries, or None."""
        return decode(self.msg)

    @property
    def array(self) -> Array:
        """The array it carries."""
        value = self.value
        assert isinstance(value, np.ndarray), f"no array: {type(value).__name__}"
        return value

    @property
    def info(self) -> MsgInfo:
        """Its head."""
        return self.msg.info

    @property
    def members(self) -> tuple[Member, ...]:
        """What is in it, if it is a batch."""
        return self.msg.aux.members

    @property
    def error(self) -> ErrorInfo:
        """What failed, for an error."""
        assert self.msg.aux.error is not None, f"not an error: {self.kind}"
        return self.msg.aux.error


class FuncHarness:
    """A FlowFunc with everything around it that a test needs.

    Feed it values, move the clock, and look at what it sent; `check` says whether every transaction ended once.

    Args:
        func: The function; `init` is called here.
        params: What it is initialised with; numbers of ports are taken from here.
        holds_inputs, gather, n_mapping: As in its FuncSpec or UdfEntry.
        alloc: Gives blocks.
        clock: Its clock.
    """

    def __init__(
        self, func: FlowFunc, params: FuncParams | None = None, *, holds_inputs: bool = False, gather: bool = False,
        n_mapping: bool = False, alloc: Alloc = HeapBlock, clock: FakeClock | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.sent: list[Sent] = []
        params = params or FuncParams("func")
        self.inputs, self.outputs = params.input_num, params.output_num
        self._last = 0
        self._fed: dict[int, int] = {}
        spec = FuncSpec(
            "proc", tuple(range(self.inputs)), tuple(range(self.outputs)), gather, holds_inputs, False, n_mapping
        )
        model = UdfModel(name=params.name, engine="UDF", functions=(spec,))
        func.init(params)
        self._runner = NodeRunner(
            model, [func], instance=params.instance, sink=self._take, alloc=alloc, clock=self.clock
        )

    @classmethod
    def of(
        cls, entry: UdfEntry, attrs: Mapping[str, object] = _NO_ATTRS, inputs: int = 1, outputs: int = 1,
        clock: FakeClock | None = None,
    ) -> FuncHarness:
        """A harness around a registered UDF.

        Args:
            entry: The UDF.
            attrs: Its init parameters.
            inputs, outputs: Ports of its node.
            clock: Its clock.
        """
        params = FuncParams(entry.name, input_num=inputs, output_num=outputs, attrs=attrs)
        return cls(
            entry.factory(), params, holds_inputs=entry.holds_inputs, n_mapping=entry.n_mapping, clock=clock
        )

    @property
    def last_id(self) -> int:
        """Transaction id of what was fed last."""
        return self._last

    def feed(self, *values: object, members: Iterable[Member] = (), **head: int | bytes) -> list[Sent]:
        """Feed one value to each input, as one transaction.

        Args:
            values: Arrays, objects, or None for a null message.
            members: What they are batches of.
            head: Fields of `MsgInfo`; the transaction id counts up unless given.

        Returns:
            What the function sent because of it.
        """
        if len(values) != self.inputs:
            raise ValueError(f"expected {self.inputs} values, got {len(values)}")
        trans_id = int(head.pop("trans_id", self._last + 1))
        info = replace(MsgInfo(trans_id, token=root_token(trans_id)), **head)  # type: ignore[arg-type]
        aux = Aux(tuple(members))
        return self.feed_messages(*(encode(value, info, HeapBlock, aux) for value in values))

    def feed_messages(self, *msgs: FlowMsg) -> list[Sent]:
        """Feed one message to each input."""
        before = len(self.sent)
        for info in dict.fromkeys((m.trans_id, m.token) for msg in msgs[:1] for m in _infos(msg)):
            self._fed[info[0]] = self._fed.get(info[0], 0) ^ info[1]
        self._last = max(self._last, msgs[0].info.trans_id)
        for port, msg in enumerate(msgs):
            self._runner.accept(port, msg)
        return self.sent[before:]

    def advance(self, seconds: float) -> list[Sent]:
        """Let time pass; timers go off on the way, each at its deadline."""
        before, end = len(self.sent), round(self.clock.now + seconds, 9)
        while (deadline := self._runner.deadline()) is not None and deadline <= end:
            self.clock.now = max(self.clock.now, deadline)
            self._runner.tick()
            again = self._runner.deadline()
            assert again is None or again > self.clock.now, "on_timer left a deadline that has passed: it would spin"
        self.clock.now = end
        return self.sent[before:]

    def stop(self) -> list[Sent]:
        """Tell the function that no more will come."""
        before = len(self.sent)
        self._runner.finish()
        return self.sent[before:]

    def close(self) -> None:
        """Close the function."""
        self._runner.close()

    def data(self, output: int = 0) -> list[Sent]:
        """Messages with data on one output."""
        return [sent for sent in self.sent if sent.output == output and sent.kind == "data"]

    def check(self) -> None:
        """Fail unless every transaction fed has ended exactly once on every output."""
        for output in range(self.outputs):
            self._check_output(output)

    def _check_output(self, output: int) -> None:
        left = dict(self._fed)
        errors: defaultdict[int, int] = defaultdict(int)
        for sent in self.sent:
            if sent.output != output:
                continue
            for info in _infos(sent.msg):
                where = f"output {output}, transaction {info.trans_id}"
                assert info.trans_id in left, f"{where}: sent {sent.kind}, but it had ended or was never fed"
                if sent.kind == "error":
                    errors[info.trans_id] += 1
                    assert errors[info.trans_id] == 1, f"{where}: failed twice"
                    del left[info.trans_id]
                    continue
                left[info.trans_id] ^= info.token
                if left[info.trans_id] == 0:
                    del left[info.trans_id]
        assert not left, f"output {output}: transactions {sorted(left)} have not ended"

    def _take(self, output: int, msg: FlowMsg) -> None:
        self.sent.append(Sent(output, msg, self.clock.now))


def _infos(msg: FlowMsg) -> list[MsgInfo]:
    """Heads of everything a message stands for."""
    return [msg.info, *(m.info for m in msg.aux.members if m.info.key != msg.info.key)]
