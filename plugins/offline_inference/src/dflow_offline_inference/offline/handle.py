"""What a caller has of a request."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dflow_core.errors import UsageError, WaitTimeoutError
from dflow_offline_inference.offline.desk import Desk
from dflow_offline_inference.requests import Request, Result, State

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True, slots=True)
class Status:
    """Where a request is.

    Args:
        request_id: The request.
        model: Its model.
        state: Its state.
        slot, memory, dependencies: While it waits: whether each of them allows it to run now; True afterwards.
        text: In words, such as `waiting for memory on device cpu:0`.
    """

    request_id: int
    model: str
    state: State
    slot: bool
    memory: bool
    dependencies: bool
    text: str


class Handle:
    """A request on its way, and its result when there is one. Thread-safe; forgetting it harms nothing.

    Args:
        request: The request.
        desk: Who ends it.
    """

    __slots__ = ("_desk", "_request")

    def __init__(self, request: Request, desk: Desk) -> None:
        self._request = request
        self._desk = desk

    @property
    def id(self) -> int:
        """Number of the request, which every error, event, log line and result carries."""
        return self._request.id

    def request_for(self, desk: Desk) -> Request:
        """The request, for those it belongs to.

        Raises:
            UsageError: it belongs to another OfflineInference.
        """
        if desk is not self._desk:
            raise UsageError(f"request {self.id} belongs to another OfflineInference",
                             hint="wait for its result before you ask here")
        return self._request

    @property
    def size(self) -> int:
        """Bytes of its inputs, and of its outputs as far as they were known before."""
        return self._request.memory

    @property
    def model(self) -> str:
        """Name of its model."""
        return self._desk.names[self._request.model]

    @property
    def context(self) -> object:
        """What was given along with it."""
        return self._request.context

    @property
    def state(self) -> State:
        """Where it is."""
        return self._request.state

    def done(self) -> bool:
        """Whether it has ended, however that was."""
        return self._request.ended

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Raises:
            RequestError: what ended it: it failed, was cancelled, missed its deadline, depended on one that did.
            WaitTimeoutError: it has not ended within the limit.
            ClosedError: it belongs to the process that this one is a fork of.
        """
        outcome = self.outcome(timeout)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def outcome(self, timeout: float | None = None) -> Result | Exception:
        """Wait for the end; the result, or what ended it.

        Raises:
            WaitTimeoutError: it has not ended within the limit.
        """
        request = self._request
        if request.state.following:
            self._wait(timeout)
        if self._desk.watched:
            self._desk.tell(request, "result")
        if request.error is not None:
            return request.error
        assert request.result is not None
        return request.result

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait for the end; what ended it, or None if there is a result.

        Raises:
            WaitTimeoutError: it has not ended within the limit.
        """
        self._wait(timeout)
        return self._request.error

    def cancel(self) -> bool:
        """End it without a result; False if it had ended. A call under way is finished, its result let go."""
        return self._desk.cancel(self._request)

    def add_done_callback(self, callback: Callable[[Handle], object]) -> None:
        """Have a function called with this handle when it has ended, in the thread that ends it, or now if it has.

        It must be quick, and must not wait for other requests. What it raises is logged.
        """
        bound = functools.partial(callback, self)
        if not self._request.when_ended(bound):  # type: ignore[arg-type]  # its result is of no interest
            self._desk.call(self._request, bound)  # type: ignore[arg-type]

    def status(self) -> Status:
        """Where it is, and what it waits for."""
        request = self._request
        answers = self._desk.answers(request)
        text = answers.text or request.state.value
        if request.error is not None:
            text = str(request.error)
        return Status(request.id, self.model, request.state, answers.slot, answers.memory, answers.dependencies, text)

    def history(self) -> str:
        """Its states so far, with times."""
        return self._request.story()

    def __await__(self) -> Generator[object, None, Result]:
        """Wait for the result without blocking the event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        self.add_done_callback(lambda _: _wake(loop, ended))
        yield from ended
        return self.result(0)

    def __repr__(self) -> str:
        return f"<Handle of request {self.id}, model {self.model!r}, {self.state.value}>"

    def _wait(self, timeout: float | None) -> None:
        request = self._request
        if request.ended:
            return
        self._desk.check_process()
        if self._desk.engine.in_lane():
            raise UsageError(f"a callback waits for request {request.id}, which could never end then",
                             hint="use its add_done_callback, or wait in a thread of your own")
        if not request.wait(timeout):
            raise WaitTimeoutError(f"request {request.id} has not ended within {timeout:g} s: {self.status().text}")


def _wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    def settle() -> None:
        if not future.done():
            future.set_result(None)

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)
