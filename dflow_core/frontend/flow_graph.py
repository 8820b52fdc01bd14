"""FlowGraph as users meet it: a graph that compiles itself, runs, and cleans up after itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from dflow_core import graph as data
from dflow_core.errors import ClosedError, DflowError, DroppedError, UsageError
from dflow_core.frontend.controls import Controls, Seconds
from dflow_core.frontend.default_session import DefaultSession
from dflow_core.frontend.handle import Transaction
from dflow_core.frontend.shortage import told_shortages
from dflow_core.frontend.values import bind_inputs, check_values, output_indexes, to_result, to_values, value_or_error
from dflow_core.message import FeedInfo, alloc_tensor
from dflow_core.options import resolve, seconds
from dflow_core.types import Array

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from dflow_core.executor import Channel, Counters, GraphStats
    from dflow_core.running_graph import RunningGraph
    from dflow_core.session import DFlowSession

_T = TypeVar("_T")
_ASYNC_THREADS = 64
MODES = ("process", "inline")


class FlowGraph(Controls, data.FlowGraph):
    """A graph of nodes that can be run.

    Use it as a context manager: entering compiles and starts it, leaving ends every process it started.

    Args:
        outputs: What the graph gives, in the order it is returned.
        options: Graph options (`dflow config show` lists them).
        name: Name of the graph.
        mode: `process` runs every node in a process of its own; `inline` runs all in the caller's thread.
        session: Session to run in; the default one if not given.
    """

    def __init__(
        self, outputs: Sequence[data.Outputs] | data.Outputs, options: Mapping[str, str] | None = None,
        name: str | None = None, *, mode: str = "process", session: DFlowSession | None = None,
    ) -> None:
        super().__init__(outputs, options, name)
        if mode not in MODES:
            raise UsageError(f"unknown mode {mode!r}", hint=f"use one of {', '.join(MODES)}")
        self.mode = mode
        self._session = session
        self._running: RunningGraph | None = None
        self._was_closed = False
        self._pool: ThreadPoolExecutor | None = None

    def __getstate__(self) -> dict[str, object]:
        """What a copy has: all but what runs."""
        return {**self.__dict__, "_running": None, "_pool": None, "_was_closed": False, "_session": None}

    def __enter__(self) -> FlowGraph:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Compile the graph and start its processes.

        Raises:
            GraphError: with every fault of the graph.
            CompileError, PluginError, StartupError: whatever stops it, with the cause.
        """
        if self._running is not None:
            raise UsageError(f"graph {self.name!r} is running already")
        deployer = resolve({}, self.options).deployer if self.mode == "process" else ""
        session = self._session or DefaultSession.get(deployer=deployer)
        with told_shortages(f"graph {self.name!r} cannot be started"):
            self._running = session.run(self, mode=self.mode)
        self._was_closed = False

    def in_session(self) -> DFlowSession:
        """The session it runs in."""
        return self._session or DefaultSession.get()

    def close(self) -> None:
        """End every process of the graph and free its memory. Idempotent."""
        running, self._running = self._running, None
        pool, self._pool = self._pool, None
        if running is not None:
            self._was_closed = True
            running.close()
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def set_inputs_align_attrs(
        self, max_cache_num: int, timeout: Seconds | None = None, drop: bool = False
    ) -> None:
        self._check_not_running("the limits of alignment")
        super().set_inputs_align_attrs(max_cache_num, timeout, drop)

    def set_exception_catch(self, enable: bool = False) -> None:
        self._check_not_running("the catching of exceptions")
        super().set_exception_catch(enable)

    def set_contains_n_mapping_node(self, contains_n_mapping: bool) -> None:
        self._check_not_running("n-mapping")
        super().set_contains_n_mapping_node(contains_n_mapping)

    @property
    def running(self) -> RunningGraph:
        """The running graph: its model, plan, status and counters.

        Raises:
            ClosedError: if the graph does not run.
        """
        if self._running is None:
            state = "was closed" if self._was_closed else "is not running"
            raise ClosedError(f"graph {self.name!r} {state}", hint="use it inside `with graph:`")
        return self._running

    @property
    def counters(self) -> Counters:
        """Totals: fed = delivered + failed + dropped + in flight."""
        return self.running.client.counters

    def stats(self) -> GraphStats:
        """Counters of transactions, nodes and queues of the running graph; `status` in it says what was lost.

        Raises:
            ClosedError: if the graph does not run.
        """
        return self.running.stats()

    def __call__(
        self, *args: object, timeout: Seconds | None = None, copy: bool = False, deadline: Seconds | None = None,
        **named: object,
    ) -> object:
        """Feed one transaction and wait for its result.

        Args:
            args: One value per input, in the order of `input_names`.
            timeout: Seconds or a timedelta; None is the option `fetch_timeout`.
            copy: Whether to give writable copies instead of read-only views of shared memory.
            deadline: Seconds (or a timedelta) after which the transaction ends, wherever it is; None is no limit.
            named: Values by input name instead.

        Returns:
            The value of the only output, or a tuple with one value per output; a list of those where nodes made
            several results of it.

        Raises:
            NodeError, InstanceLostError, ...: what ended the transaction.
            DroppedError: no node sent anything for it.
            WaitTimeoutError: nothing came within the limit.
            DeadlineError: the deadline passed.
        """
        return self._called(self._bind(args, named), None, timeout, copy, deadline)

    def _called(
        self, values: dict[int, object], channel: Channel | None, timeout: Seconds | None, copy: bool,
        deadline: Seconds | None,
    ) -> object:
        try:
            outcomes = self.running.client.call(
                values, timeout=self._fetch_limit(timeout), deadline=_limit(deadline), channel=channel
            )
        except DflowError as error:
            raise self._with_cause(error) from self._cause(error)
        results = [to_values(outcome, None, copy) for outcome in outcomes]
        return results[0] if len(results) == 1 else results

    def map(
        self, items: Iterable[object], *, ordered: bool = True, in_flight: int | None = None,
        progress: bool | Callable[[int], None] = False, timeout: Seconds | None = None, errors: str = "raise",
        copy: bool = False, with_info: bool = False, deadline: Seconds | None = None,
    ) -> Iterator[object]:
        """Stream items through the graph, with back-pressure.

        Args:
            items: One item per transaction: the value for a graph with one input, else a tuple or a mapping.
            ordered: Whether results come in the order of the items; else as they are ready.
            in_flight: Transactions under way at once.
            progress: True shows a progress bar; a function is called with the number of finished items.
            timeout: Seconds without any progress after which to give up.
            errors: `raise` raises a transaction's error at its turn; `return` yields the exception instead.
            copy: Whether to give writable copies.
            with_info: Whether to yield `(value, FeedInfo)`.
            deadline: Seconds after which an item ends with DeadlineError, from when it is taken; None is no limit.

        Yields:
            What calling the graph with the item would have returned; items dropped by the graph yield nothing.
        """
        from dflow_core.frontend.progress import counting

        if errors not in ("raise", "return"):
            raise UsageError(f"errors={errors!r}: use 'raise' or 'return'")
        running = self.running
        window = running.default_in_flight if in_flight is None else in_flight
        if not isinstance(window, int) or window < 1:
            raise UsageError(f"in_flight={in_flight!r}: expected a whole number of at least 1")
        need = running.batch_need
        if window < need.least:
            raise UsageError(
                f"in_flight={window}: node {need.node!r} of graph {self.name!r} waits for a batch of {need.least}",
                hint=f"allow {need.least} transactions or more, or give the batch a timeout",
            )
        with counting(items, progress, self.name) as (source, tick):
            bound = (self._bind_item(item) for item in source)
            outcomes = running.client.stream(
                bound, in_flight=window, ordered=ordered, timeout=self._fetch_limit(timeout), on_end=tick,
                deadline=_limit(deadline),
            )
            for outcome in outcomes:
                value, error = value_or_error(outcome, copy, with_info)
                if error is None or errors == "return":
                    yield value if error is None else error
                else:
                    raise self._with_cause(error) from self._cause(error)

    def feed(
        self, values: Mapping[data.FlowData | str, object] | None = None, *, info: FeedInfo | None = None,
        timeout: Seconds | None = None, partial: bool = False, deadline: Seconds | None = None,
    ) -> Transaction:
        """Feed one transaction without waiting for its result.

        Args:
            values: Values by input (FlowData or name). Empty or None with the EOS flag in `info` sends an end of
                sequence to every input.
            info: Times, flags, transaction id and user data to send along.
            timeout: Seconds to wait for room; None is the option `feed_timeout`.
            partial: Whether inputs may be left out; the parts meet by transaction id.
            deadline: Seconds (or a timedelta) from now after which it ends with DeadlineError; None is no limit.

        Returns:
            The transaction: a whole number, its id, with `cancel()`.

        Raises:
            QueueFullError: no room within the limit; nothing was fed.
        """
        if not values:
            if info is None or not info.flow_flags & 1:
                raise UsageError("nothing to feed", hint="an empty feed is an end of sequence: set Flag.EOS in info")
            bound: dict[int, object] = dict.fromkeys(range(len(self.inputs)))
        else:
            bound = bind_inputs(self, (), values, partial=partial)
            check_values(self, bound, self.running.input_specs)
        client = self.running.client
        fed = client.feed(bound, info=info, timeout=self._feed_limit(timeout), deadline=_limit(deadline))
        return Transaction.of(fed, client)

    def cancel(self, transaction: int) -> bool:
        """End a transaction now with CancelledError, wherever it is; a function that works on it is told.

        Args:
            transaction: What `feed` gave.

        Returns:
            Whether it was in flight; False if it has ended already.
        """
        return self.running.client.cancel(transaction)

    def fetch(
        self, outputs: Sequence[data.FlowOutput | str | int] | None = None, *, timeout: Seconds | None = None,
        copy: bool = False, with_info: bool = False,
    ) -> object:
        """The next result of what was fed with `feed`.

        Args:
            outputs: Outputs to return, in this order; None is all. A result is taken whole; the rest is let go.
            timeout: Seconds or a timedelta; None is the option `fetch_timeout`.
            copy: Whether to give writable copies.
            with_info: Whether to return `(value, FeedInfo)`.

        Raises:
            WaitTimeoutError: none came within the limit.
            NodeError, ...: what ended the transaction whose turn it is. One that ends without a result gives nothing.
        """
        chosen = output_indexes(self, outputs)
        outcome = self.running.client.fetch(self._fetch_limit(timeout))
        if outcome.error is not None:
            raise self._with_cause(outcome.error) from self._cause(outcome.error)
        return to_result(outcome, chosen, copy, with_info)

    async def acall(
        self, *args: object, timeout: Seconds | None = None, copy: bool = False, deadline: Seconds | None = None,
        **named: object,
    ) -> object:
        """`graph(...)` without blocking the event loop; the transaction is cancelled with the task that awaits it."""
        import asyncio

        from dflow_core.executor import Channel

        values, channel, client = self._bind(args, named), Channel(), self.running.client
        try:
            return await self._in_thread(lambda: self._called(values, channel, timeout, copy, deadline))
        except asyncio.CancelledError:
            client.cancel_all_of(channel)
            raise

    async def afeed(
        self, values: Mapping[data.FlowData | str, object] | None = None, *, info: FeedInfo | None = None,
        timeout: Seconds | None = None, partial: bool = False, deadline: Seconds | None = None,
    ) -> Transaction:
        """`feed` without blocking the event loop."""
        return await self._in_thread(
            lambda: self.feed(values, info=info, timeout=timeout, partial=partial, deadline=deadline)
        )

    async def afetch(
        self, outputs: Sequence[data.FlowOutput | str | int] | None = None, *, timeout: Seconds | None = None,
        copy: bool = False, with_info: bool = False,
    ) -> object:
        """`fetch` without blocking the event loop."""
        return await self._in_thread(lambda: self.fetch(outputs, timeout=timeout, copy=copy, with_info=with_info))

    async def amap(
        self, items: Iterable[object], *, ordered: bool = True, in_flight: int | None = None,
        timeout: Seconds | None = None, errors: str = "raise", copy: bool = False, with_info: bool = False,
        deadline: Seconds | None = None,
    ) -> AsyncIterator[object]:
        """`map` without blocking the event loop."""
        results = self.map(
            items, ordered=ordered, in_flight=in_flight, timeout=timeout, errors=errors, copy=copy,
            with_info=with_info, deadline=deadline,
        )
        nothing = object()
        try:
            while (result := await self._in_thread(lambda: next(results, nothing))) is not nothing:
                yield result
        finally:
            closer = getattr(results, "close", None)
            if closer is not None:
                await self._in_thread(closer)

    def alloc_tensor(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """An uninitialised array in the graph's shared memory: fill it, feed it, and it goes without a copy.

        It is handed over when fed, and read-only from then on.
        """
        return alloc_tensor(shape, np.dtype(dtype), self.running.alloc)

    def _check_not_running(self, what: str) -> None:
        if self._running is not None:
            raise UsageError(f"graph {self.name!r} is running: {what} must be set before", hint="set it before `with`")

    def _bind(self, args: Sequence[object], named: Mapping[str, object]) -> dict[int, object]:
        bound = bind_inputs(self, args, named)
        check_values(self, bound, self.running.input_specs)
        return bound

    def _bind_item(self, item: object) -> dict[int, object]:
        if len(self.inputs) == 1:
            return self._bind((item,), {})
        if isinstance(item, Mapping):
            return self._bind((), item)
        if isinstance(item, (tuple, list)):
            return self._bind(item, {})
        raise UsageError(
            f"graph {self.name!r} has {len(self.inputs)} inputs, so an item must be a tuple or a mapping, "
            f"not a {type(item).__name__}"
        )

    def _feed_limit(self, timeout: Seconds | None) -> float | None:
        return self.running.feed_timeout if timeout is None else seconds(timeout, "timeout")

    def _fetch_limit(self, timeout: Seconds | None) -> float | None:
        return self.running.fetch_timeout if timeout is None else seconds(timeout, "timeout")

    def _cause(self, error: DflowError) -> BaseException | None:
        """The user's own exception, where the node ran in this thread (inline mode)."""
        return self.running.local_cause(error.node) if error.node else error.__cause__

    def _with_cause(self, error: DflowError) -> DflowError:
        if isinstance(error, DroppedError) and error.hint is None:
            error.hint = "a node returned nothing for it (choice_output, an empty generator, or a batch took it)"
            if error.message.startswith("queue "):
                error.hint = "the queue is allowed to: see set_queue(overflow=...)"
        return error

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        if self._pool is None:
            self._pool = ThreadPoolExecutor(_ASYNC_THREADS, thread_name_prefix=f"dflow-{self.name}")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)


def _limit(deadline: Seconds | None) -> float | None:
    return None if deadline is None else seconds(deadline, "deadline")
