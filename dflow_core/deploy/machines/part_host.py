"""The part of a graph that a daemon runs: deploys it, answers for it, and ends it with its link."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dflow_core.deploy.local import LocalDeployer
from dflow_core.deploy.local_deployment import LocalDeployment
from dflow_core.deploy.machines.conversation import Conversation
from dflow_core.deploy.machines.faults import failure_of
from dflow_core.deploy.machines.joint_deployment import gateway_events, gateway_plan
from dflow_core.deploy.machines.switch import Switch
from dflow_core.deploy.machines.talk import Answer, Broken, Deploy, Note, Question, Raised, Request
from dflow_core.errors import ClosedError, DflowError, LinkLostError, UsageError
from dflow_core.model import read_om
from dflow_core.spi import Deployment, Gateway, InstanceStatus, Link, MakeGateway

_DISCARD_LIMIT = 5.0


@dataclass(frozen=True, slots=True)
class Means:
    """What parts are run with.

    Args:
        deployer: Starts them.
        make_gateway: Makes what moves messages over a link.
        counted: State of the instances of a deployment, with what they count.
    """

    deployer: LocalDeployer
    make_gateway: MakeGateway
    counted: Callable[[Deployment], Sequence[InstanceStatus]]


class PartHost:
    """Serves one link. Thread-safe.

    Args:
        link: The link; it ends with this.
        means: What parts are run with.
        gone: Called once when nothing is left of it.
    """

    def __init__(self, link: Link, means: Means, gone: Callable[[PartHost], None]) -> None:
        self.link, self._means, self._gone = link, means, gone
        self._lock = threading.Lock()
        self._deployment: LocalDeployment | None = None
        self._gateway: Gateway | None = None
        self._begun = self._over = False
        self._conversation = Conversation(link, self._serve, self._hear)
        self._switch = Switch(self._conversation.take, self._ended)

    def begin(self) -> None:
        """Listen to the link."""
        self.link.begin(self._switch)

    def close(self, timeout: float) -> None:
        """Tell the application, end the part, within a limit (seconds), and the link. Idempotent."""
        self._conversation.tell(Broken(failure_of(LinkLostError("the daemon was told to end"))))
        self._end_part(timeout)
        self.link.close(timeout)

    def _serve(self, request: Request) -> Answer:
        if isinstance(request, Deploy):
            return self._deploy(request)
        deployment = self._deployment
        if deployment is None:
            raise ClosedError("there is no part of a graph here")
        question, limit = request.question, request.timeout
        if question is Question.STATUS:
            return Answer(statuses=tuple(self._means.counted(deployment)))
        if question is Question.STACKS:
            return Answer(stacks=deployment.stacks())
        if question is Question.QUEUES:
            notices = set(deployment.plan.notices.values())
            return Answer(queues=tuple(q for q in deployment.group.stats().queues if q.name not in notices))
        if question is Question.SUSPEND:
            return Answer(verdict=deployment.suspend(limit))
        if question is Question.DISCARD:
            return Answer(verdict=self._discard(deployment, limit))
        if question is Question.RESUME:
            deployment.resume()
        else:
            self._end_part(limit)
        return Answer()

    def _deploy(self, request: Deploy) -> Answer:
        with self._lock:
            if self._begun or self._over:
                raise UsageError("a part of a graph was deployed over this link before")
            self._begun = True
        plan, deployer = request.plan, self._means.deployer
        deployment = deployer.deploy(read_om(request.model), plan, request.options, made=self._take)
        with self._lock:
            if self._over:
                raise ClosedError("the part was ended while it was being started")
            deployment.watch_exceptions(lambda note: self._conversation.tell(Raised(note)))
            deployment.watch_failure(lambda error: self._conversation.tell(Broken(failure_of(error))))
            self._gateway = gateway = self._means.make_gateway(
                deployment.group, self.link, gateway_plan(plan, ""), gateway_events(deployment, "")
            )
            deployment.users.append(gateway.close)
            gateway.begin()
            self._switch.join(gateway)
        failure = deployment.failure()
        if failure is not None:
            raise failure
        return Answer()

    def _take(self, deployment: LocalDeployment) -> None:
        """The part that is about to start: whatever ends this ends it, also before it is ready."""
        with self._lock:
            self._deployment, over = deployment, self._over
        if over:
            deployment.close(0.0)

    def _discard(self, deployment: LocalDeployment, limit: float) -> bool | None:
        found = deployment.discard(limit)
        quiet = self._gateway is None or self._gateway.discard()
        return None if found is None else found and quiet

    def _end_part(self, timeout: float) -> None:
        with self._lock:
            self._over = True
            deployment = self._deployment
        if deployment is not None:
            deployment.close(timeout)

    def _hear(self, note: Note) -> None:
        if isinstance(note, Raised) and self._deployment is not None:
            self._deployment.tell_exception(note.note)

    def _ended(self, error: DflowError | None) -> None:
        """The application has gone: nobody waits for what is still in here."""
        self._conversation.end(error or ClosedError(f"{self.link.peer} has ended"))
        threading.Thread(target=self._leave, name="dflow-part-end", daemon=True).start()

    def _leave(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._gone, self)
            stack.callback(self.link.close)
            self._end_part(0.0)
