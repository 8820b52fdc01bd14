"""Requests and answers over the control lane of a link, and notes in both directions."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable

from dflow_core.deploy.machines.faults import error_from, failure_of
from dflow_core.deploy.machines.serde import deserialize_message, serialize_message
from dflow_core.deploy.machines.talk import Answer, Ask, Content, Deploy, MachineMessage, Note, Request
from dflow_core.errors import DflowError, WaitTimeoutError
from dflow_core.spi import CONTROL_LANE, Link


class Conversation:
    """One end of what is said over a link. Thread-safe.

    Args:
        link: The link; what its control lane brings is given to `take`.
        serve: Answers a request, in a thread of its own; what it raises is the answer then.
        hear: Takes a note; the link's thread calls it, and it must not wait.
    """

    def __init__(self, link: Link, serve: Callable[[Request], Answer], hear: Callable[[Note], None]) -> None:
        self._link, self._serve, self._hear = link, serve, hear
        self._numbers = itertools.count(1)
        self._lock = threading.Condition()
        self._waiting: set[int] = set()
        self._answers: dict[int, Answer] = {}
        self._end: DflowError | None = None

    def ask(self, request: Request, timeout: float) -> Answer:
        """Ask, and wait for the answer.

        Args:
            request: What is asked.
            timeout: Seconds to wait.

        Raises:
            WaitTimeoutError: no answer came within the limit.
            LinkLostError: the other machine is lost.
            DflowError: what the other machine says.
        """
        number = next(self._numbers)
        with self._lock:
            if self._end is not None:
                raise self._end
            self._waiting.add(number)
        try:
            self._send(number, request)
            end = time.monotonic() + timeout
            with self._lock:
                while number not in self._answers:
                    if self._end is not None:
                        raise self._end
                    if not self._lock.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                        raise WaitTimeoutError(f"{self._link.peer} did not answer within {timeout:g} s")
                answer = self._answers[number]
        finally:
            with self._lock:
                self._waiting.discard(number)
                self._answers.pop(number, None)
        if answer.failure is not None:
            raise error_from(answer.failure, self._link.peer)
        return answer

    def tell(self, note: Note) -> None:
        """Send a note; where the other machine is lost nobody hears it."""
        with contextlib.suppress(DflowError):
            self._send(0, note)

    def take(self, data: memoryview) -> None:
        """What the control lane has brought; the link's thread calls it."""
        message = deserialize_message(data)
        content = message.content
        if isinstance(content, Answer):
            with self._lock:
                if message.number in self._waiting:
                    self._answers[message.number] = content
                    self._lock.notify_all()
        elif isinstance(content, Deploy | Ask):
            arguments = (message.number, content)
            threading.Thread(target=self._do, args=arguments, name="dflow-machines", daemon=True).start()
        else:
            self._hear(content)

    def end(self, error: DflowError) -> None:
        """Nothing comes any more: whoever waits gets this error."""
        with self._lock:
            self._end = self._end or error
            self._lock.notify_all()

    def _do(self, number: int, request: Request) -> None:
        try:
            answer = self._serve(request)
        except BaseException as error:
            answer = Answer(failure_of(error))
        with contextlib.suppress(DflowError):  # nobody waits for it any more
            self._send(number, answer)

    def _send(self, number: int, content: Content) -> None:
        self._link.send(CONTROL_LANE, b"", memoryview(serialize_message(MachineMessage(number, content))))
