"""Error messages on their way into queues that may be full."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from dflow_core.deploy.supervision.recovery import Answer
from dflow_core.errors import ClosedError, UsageError, WaitTimeoutError
from dflow_core.message import seal
from dflow_core.spi import MemoryGroup


class AnswerBox:
    """Sends answers without ever waiting; what finds no room waits here, queue by queue.

    Args:
        group: Memory group of the queues.
    """

    def __init__(self, group: MemoryGroup) -> None:
        self._group = group
        self._waiting: dict[str, deque[Answer]] = {}

    @property
    def pending(self) -> bool:
        """Whether something waits for room."""
        return bool(self._waiting)

    def send(self, answers: Iterable[Answer]) -> None:
        """Send what there is room for; keep the rest."""
        for answer in answers:
            self._waiting.setdefault(answer.queue, deque()).append(answer)
        self.retry()

    def retry(self) -> None:
        """Send what there is room for now."""
        for queue in list(self._waiting):
            waiting = self._waiting[queue]
            while waiting and self._put(waiting[0]):
                waiting.popleft()
            if not waiting:
                del self._waiting[queue]

    def drop(self) -> None:
        """Forget what waits: nobody will take it any more."""
        self._waiting.clear()

    def _put(self, answer: Answer) -> bool:
        """Whether it is out of our hands."""
        try:
            block = seal(answer.message, lambda size: self._group.alloc(size, 0.0)).block
            assert block is not None
        except WaitTimeoutError:
            return False
        try:
            self._group.queue(answer.queue).put(block, 0.0)
        except WaitTimeoutError:
            block.release()
            return False
        except (ClosedError, UsageError):
            block.release()  # the graph is ending
        return True
