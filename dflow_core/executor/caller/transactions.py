"""What the caller knows of its transactions, without I/O: what was fed, what came back, how each one ended.

A transaction ends exactly once: with its results (one in a 1:1 graph, any number where a node multiplies), with an
error, or dropped (no node sent anything for it, or it went into the batch of another). The caller may cancel it, or
give it a deadline: then it ends with the error that says so. It is complete on an output when
the xor of its root token and of every token that arrived there is zero (`message/info.py`). An error on any output
ends the whole transaction at once; what still arrives of it is counted as late and let go.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dflow_core.errors import (
    DflowError,
    LateError,
    MissingError,
    RaisedError,
    UsageError,
)
from dflow_core.executor.caller.cancelling import Deadlines, Traces
from dflow_core.executor.cancel_board import CancelBoard, no_words
from dflow_core.executor.error_messages import error_of
from dflow_core.executor.outcomes import Channel, Counters, Outcome
from dflow_core.executor.pairing.aligner import REMEMBERED, RecentKeys
from dflow_core.message import Aux, DataFlag, FlowMsg, child_token, root_token

MAX_TRANS_ID = 2**64 - 2
_FIRST_ROUND = 1 << 32  # parts of a message have lower numbers
_SPECIAL = DataFlag.SKIP | DataFlag.END | DataFlag.ERROR


@dataclass(slots=True)
class Transaction:
    """What is known of one transaction in flight.

    Args:
        channel: Where its outcomes go.
        tokens: For each output, the xor of its tokens and of what has arrived.
        ports: How often each input was fed; empty where all were fed at once.
        rounds: How often it was fed: an id may be used again while the first use is under way.
        concerned: For each round the outputs that its inputs reach; empty where all were fed at once.
        seen: Messages that have arrived, by output and label; counted where there are several rounds.
        results, arrived: Sets of results by label, and the outputs that have spoken.
        delivered: Results given to the channel.
        reason: Why it has none.
    """

    channel: Channel
    tokens: list[int]
    ports: dict[int, int] = field(default_factory=dict)
    rounds: int = 1
    concerned: dict[int, set[int]] = field(default_factory=dict)
    seen: dict[tuple[int, int], int] = field(default_factory=dict)
    results: dict[int, list[FlowMsg | None]] = field(default_factory=dict)
    arrived: dict[int, set[int]] = field(default_factory=dict)
    delivered: int = 0
    reason: str = ""


class TransactionTable:
    """Transactions in flight.

    Args:
        inputs, outputs: Numbers of root inputs and outputs.
        last_id: Ids begin above this.
        traces: Takes those that were cancelled.
    """

    def __init__(self, inputs: int, outputs: int, last_id: int = 0, traces: Traces | None = None) -> None:
        self.counters = Counters()
        self.traces = Traces(CancelBoard(no_words())) if traces is None else traces
        self._inputs = inputs
        self._outputs = outputs
        self._last_ids = [last_id] * inputs
        self._last_id = last_id
        self._open: dict[int, Transaction] = {}
        self._deadlines = Deadlines()
        self._short: OrderedDict[int, set[int]] = OrderedDict()  # ended before these inputs were fed
        self._made: Callable[..., Outcome] = Outcome
        self._spent = RecentKeys()  # nodes drop what comes of them
        self._needs: Sequence[frozenset[int]] = [frozenset(range(inputs))] * outputs

    def learn_needs(self, needs: Sequence[frozenset[int]]) -> None:
        """Say which inputs each output needs: what is fed in pieces concerns only the outputs it reaches.

        Args:
            needs: Inputs by output.
        """
        self._needs = needs

    def mark(self, versions: Mapping[str, int]) -> None:
        """Have everything that transactions give from now on say which versions of the nodes made it; none is open.

        Args:
            versions: Versions of the nodes that were updated, by name.
        """
        self._made = functools.partial(Outcome, versions=versions)

    @property
    def in_flight(self) -> int:
        """Transactions that have not ended."""
        return len(self._open)

    @property
    def open_ids(self) -> list[int]:
        """Ids of the transactions in flight, oldest first."""
        return list(self._open)

    def oldest_of(self, channel: Channel) -> int | None:
        """The oldest transaction in flight of a channel, or None."""
        return next((trans_id for trans_id, one in self._open.items() if one.channel is channel), None)

    def next_id(self, ports: Sequence[int], wanted: int = 0) -> int:
        """The id that feeding these inputs now would get.

        Fed together, all inputs get one id above every id used before; fed apart, the n-th message of each input gets
        the same id. A wanted id must not be below the last one of any of these inputs.

        Raises:
            UsageError: if the wanted id cannot be used.
        """
        if not wanted and len(ports) == len(self._last_ids):
            return _counted(self._last_id + 1)
        last = max(self._last_ids[port] for port in ports)
        if wanted:
            if not 0 < wanted <= MAX_TRANS_ID:
                raise UsageError(f"transaction id {wanted} is out of range: 1 to 2**64 - 2")
            if wanted < last:
                raise UsageError(f"transaction id {wanted} is below {last}, which was fed before")
            if wanted in self._spent and not self._is_late(ports, wanted):
                raise UsageError(f"transaction id {wanted} was given up or ended with an exception; take a higher one")
            return wanted
        return _counted(last + 1)

    def begin(self, ports: Sequence[int], trans_id: int, channel: Channel, deadline: float | None = None) -> int:
        """Count a message on each of these inputs as fed for a transaction; gives its root token.

        What is fed later for one that has ended already belongs to nothing: the transaction is not opened again.

        Args:
            ports, trans_id: Where, and for which.
            channel: Where its outcomes go.
            deadline: When it has to end, on the monotonic clock; None for no limit.
        """
        last, token = self._last_ids, root_token(trans_id)
        self._last_id = max(self._last_id, trans_id)
        for port in ports:
            last[port] = max(last[port], trans_id)
        if trans_id not in self._open:
            if self._short and self._is_late(ports, trans_id):
                self._short[trans_id].difference_update(ports)
                self.counters.late += 1
                return token
            self._open[trans_id] = found = Transaction(channel, [token] * self._outputs)
            self.counters.fed += 1
            channel.open += 1
            if len(ports) < len(last):
                found.tokens = [0] * self._outputs
                found.ports.update(dict.fromkeys(ports, 1))
                self._concern(found, ports, 0, token)
        else:
            token = self._again(self._open[trans_id], ports, token)
        if deadline is not None:
            self._deadlines.add(trans_id, deadline, self._open, len(self._open))
        return token

    def _again(self, transaction: Transaction, ports: Sequence[int], token: int) -> int:
        """The token of what is fed for a transaction in flight: its root token, or for a further round one of its own.

        Args:
            transaction: The transaction.
            ports: Inputs that are fed.
            token: Its root token.
        """
        is_whole = not transaction.ports
        round_ = transaction.rounds if is_whole else max(transaction.ports.get(port, 0) for port in ports)
        own = child_token(token, _FIRST_ROUND + round_) if round_ else token
        transaction.rounds = max(transaction.rounds, round_ + 1)
        if is_whole:
            transaction.tokens = [one ^ own for one in transaction.tokens]
        else:
            transaction.ports.update(dict.fromkeys(ports, round_ + 1))
            self._concern(transaction, ports, round_, own)
        return own

    def _concern(self, transaction: Transaction, ports: Sequence[int], round_: int, token: int) -> None:
        """Wait for the outputs that inputs reach, if they are not waited for in this round."""
        reached = transaction.concerned.setdefault(round_, set())
        for output, needs in enumerate(self._needs):
            if output not in reached and not needs.isdisjoint(ports):
                reached.add(output)
                transaction.tokens[output] ^= token

    def is_open(self, trans_id: int) -> bool:
        """Whether a transaction is in flight."""
        return trans_id in self._open

    def open_in(self, channel: Channel) -> list[int]:
        """Transactions in flight whose outcomes go to a channel."""
        return [trans_id for trans_id, found in self._open.items() if found.channel is channel]

    def cancel(self, trans_id: int, error: DflowError, was_fed: bool = True) -> bool:
        """End a transaction before its time; what is under way of it is let go as it comes.

        Args:
            trans_id: Which.
            error: What its caller gets.
            was_fed: Whether anything of it is under way.

        Returns:
            Whether it was in flight.
        """
        transaction = self._open.get(trans_id)
        if transaction is None:
            return False
        self.counters.cancelled += 1
        if was_fed:
            self.traces.add(trans_id, transaction.tokens)
        self._finish(trans_id, transaction, self._made(trans_id, error=error, last=True))
        return True

    def next_deadline(self) -> float | None:
        """The next deadline of a transaction in flight (monotonic seconds), or None."""
        return self._deadlines.next(self._open)

    def due(self, now: float) -> list[int]:
        """Transactions in flight whose deadline has passed."""
        return self._deadlines.due(now, self._open)

    def arrive(self, output: int, msg: FlowMsg) -> None:
        """Take a message that arrived at a root output."""
        info = msg.info
        transaction = self._open.get(info.trans_id)
        if (
            transaction is not None and transaction.tokens == [info.token] and not info.data_flag & _SPECIAL
            and not info.ret_code and not transaction.delivered and not msg.aux and not transaction.ports
        ):  # the only message of a transaction with one output, as nearly always
            del self._open[info.trans_id]
            self.counters.delivered += 1
            transaction.channel.open -= 1
            transaction.channel.outcomes.append(self._made(info.trans_id, (msg,), last=True))
            return
        for member in msg.aux.members:
            if member.info.key != msg.info.key:
                flag = member.info.data_flag | (msg.info.data_flag & DataFlag.ERROR) | DataFlag.SKIP
                stand_in = replace(member.info, data_flag=flag)
                self._arrive_one(output, FlowMsg(stand_in, None, Aux(error=msg.aux.error)))
        self._arrive_one(output, msg)

    def fail(self, trans_id: int, error: DflowError) -> None:
        """End a transaction, if it has not ended yet."""
        transaction = self._open.get(trans_id)
        if transaction is not None:
            self._finish(trans_id, transaction, self._made(trans_id, error=error, last=True))

    def fail_all(self, error: DflowError) -> None:
        """End everything in flight, because the graph cannot go on."""
        for trans_id in list(self._open):
            self._finish(trans_id, self._open[trans_id], self._made(trans_id, error=error, last=True))

    def abandon(self, channel: Channel) -> None:
        """Nobody waits for this channel any more: its results are let go as they come."""
        channel.outcomes.clear()
        for transaction in self._open.values():
            if transaction.channel is channel:
                transaction.channel = Channel()

    def _arrive_one(self, output: int, msg: FlowMsg) -> None:
        trans_id = msg.info.trans_id
        transaction = self._open.get(trans_id)
        if transaction is None:
            if not self.traces.arrive(trans_id, output, msg.info.token) or msg.is_data:
                self.counters.late += 1
            return
        if msg.info.data_flag & DataFlag.ERROR or msg.info.ret_code:
            error = error_of(msg, self._unfed(transaction))
            if not transaction.channel.by_output or msg.info.data_flag & _SPECIAL or self._outputs == 1:
                self._finish(trans_id, transaction, self._made(trans_id, error=error, last=True))
                return
            # A code that a function has given one of its messages is a result of that output, and no more.
            transaction.delivered += 1
            transaction.arrived.setdefault(0, set()).add(output)
            transaction.channel.outcomes.append(self._made(trans_id, error=error, silent=(output,)))
            transaction.tokens[output] ^= msg.info.token
            if not any(transaction.tokens):
                self._complete(trans_id, transaction)
            return
        if msg.aux.error is not None:
            transaction.reason = msg.aux.error.message
        transaction.tokens[output] ^= msg.info.token
        if not msg.info.data_flag & DataFlag.END:
            self._collect(transaction, output, msg)
        if not any(transaction.tokens):
            self._complete(trans_id, transaction)

    def _is_late(self, ports: Sequence[int], trans_id: int) -> bool:
        """Whether these inputs are what a transaction lacked that has ended without them."""
        return self._short.get(trans_id, set()).issuperset(ports) and bool(ports)

    def _unfed(self, transaction: Transaction) -> tuple[int, ...]:
        """Inputs of the graph that were not fed for a transaction, and that outputs it reaches need."""
        if not transaction.ports:
            return ()
        reached = {output for outputs in transaction.concerned.values() for output in outputs}
        needed = {port for output in reached for port in self._needs[output]}
        return tuple(sorted(needed - transaction.ports.keys()))

    def _collect(self, transaction: Transaction, output: int, msg: FlowMsg) -> None:
        """Put a message beside those of the other outputs; deliver the set once each output has spoken."""
        if self._outputs == 1:
            if not msg.info.data_flag & DataFlag.SKIP:
                transaction.delivered += 1
                transaction.channel.outcomes.append(self._made(msg.info.trans_id, (msg,)))
            return
        if transaction.channel.by_output:
            self._pass_on(transaction, output, msg)
            return
        label, count = msg.info.data_label, 0
        if transaction.rounds > 1:
            count = transaction.seen[output, label] = transaction.seen.get((output, label), -1) + 1
            label |= count << 32
        row = transaction.results.setdefault(label, [None] * self._outputs)
        arrived = transaction.arrived.setdefault(label, set())
        arrived.add(output)
        if not msg.info.data_flag & DataFlag.SKIP:
            row[output] = msg
        if len(arrived) == (len(transaction.concerned.get(count, ())) or self._outputs):
            self._deliver(transaction, label)

    def _pass_on(self, transaction: Transaction, output: int, msg: FlowMsg) -> None:
        """Give a message as a result of its own."""
        transaction.arrived.setdefault(0, set()).add(output)
        if not msg.info.data_flag & DataFlag.SKIP:
            transaction.delivered += 1
            row = tuple(msg if port == output else None for port in range(self._outputs))
            transaction.channel.outcomes.append(self._made(msg.info.trans_id, row))

    def _deliver(self, transaction: Transaction, label: int) -> None:
        row = transaction.results.pop(label)
        transaction.arrived.pop(label)
        sent = [msg for msg in row if msg is not None]
        if sent:
            transaction.delivered += 1
            transaction.channel.outcomes.append(self._made(sent[0].info.trans_id, tuple(row)))

    def _complete(self, trans_id: int, transaction: Transaction) -> None:
        for label in sorted(transaction.results):
            self._deliver(transaction, label)
        dropped = transaction.delivered == 0
        reason = transaction.reason if dropped else ""
        self._finish(trans_id, transaction, self._made(trans_id, last=True, dropped=dropped, reason=reason))

    def _finish(self, trans_id: int, transaction: Transaction, outcome: Outcome) -> None:
        del self._open[trans_id]
        if outcome.error is not None and transaction.channel.by_output:
            outcome.silent = tuple(output for output, token in enumerate(transaction.tokens) if token)
        unfed = self._unfed(transaction)
        if unfed:
            self._short[trans_id] = set(unfed)
            if len(self._short) > REMEMBERED:
                self._short.popitem(last=False)
        if outcome.error is not None:
            self.counters.failed += 1
            if isinstance(outcome.error, (LateError, MissingError, RaisedError)):
                self._spent.add(trans_id)
        elif outcome.dropped:
            self.counters.dropped += 1
        else:
            self.counters.delivered += 1
        transaction.channel.end(outcome)


def _counted(trans_id: int) -> int:
    if trans_id > MAX_TRANS_ID:
        raise UsageError("there are no more transaction ids", hint="start the graph again, or feed lower ids")
    return trans_id

