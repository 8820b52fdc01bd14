"""One process of the plan through all its lives, and what is said of it when it fails."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from dflow_core.deploy.children.executor_process import ExecutorProcess
from dflow_core.deploy.children.model_files import ModelFiles
from dflow_core.deploy.children.output import ProcessLog
from dflow_core.deploy.supervision.lifecycle import GiveUp, Lifecycle
from dflow_core.errors import DflowError, InstanceLostError, NodeError, StartupError
from dflow_core.model import DeadPart, InstancePlan, ProcessPlan
from dflow_core.model.control_serde import InstanceState


@dataclass(slots=True, eq=False)
class Heir:
    """What makes a member an heir; any thread may wait for `settled`.

    Args:
        files: The models it loads.
        settled: Set when it has loaded, or has failed.
        failure: Why it has failed.
    """

    files: ModelFiles
    settled: threading.Event
    failure: DflowError | None = None


@dataclass(slots=True, eq=False)
class Member:
    """One process of the plan.

    Args:
        plan: What runs in it.
        life: Where it stands.
        log: What it has printed.
        process: The process, while there is one.
        dead_parts: What earlier lives have lost.
        states: Last word about each instance.
        heir: What makes it an heir of another member, until it takes its place.
        retired: Whether its heir takes its place, so that its end closes no queue.
        held: Whether this life of it waits to be told to go.
        done: Instances of this life that have worked off everything.
    """

    plan: ProcessPlan
    life: Lifecycle
    log: ProcessLog
    process: ExecutorProcess | None = None
    dead_parts: list[DeadPart] = field(default_factory=list)
    states: dict[tuple[str, int], InstanceState] = field(default_factory=dict)
    heir: Heir | None = None
    retired: bool = False
    held: bool = False
    done: set[tuple[str, int]] = field(default_factory=set)

    @property
    def finished(self) -> bool:
        """Whether every instance has worked off everything."""
        return self.done == {(i.model, i.index) for i in self.plan.instances}

    @property
    def only(self) -> InstancePlan | None:
        """Its instance, if it is the only one."""
        return self.plan.instances[0] if len(self.plan.instances) == 1 else None


def label_of(plan: ProcessPlan) -> str:
    """What lines of a process are marked with: its node and instance, or its name where it has several."""
    if len(plan.instances) == 1:
        return f"{plan.instances[0].model}#{plan.instances[0].index}"
    return plan.name


def error_of(member: Member, instruction: GiveUp) -> DflowError:
    """The error for callers of a graph that cannot go on without a process."""
    failure, only = instruction.failure, member.only
    node = failure.node or (only.model if only else member.plan.name)
    instance = failure.instance if failure.node or only is None else only.index
    hint = failure.hint or None
    output = member.log.tail()
    if not instruction.started:
        what = "its executor did not come up: "
        what += failure.message if failure.kind == "lost" else f"{failure.kind}: {failure.message}"
        if failure.traceback:
            what += f"\n--- traceback in the executor ---\n{failure.traceback.rstrip()}"
        return StartupError(what, node=node, instance=instance, output=output, hint=hint)
    if failure.traceback or failure.trans_id:  # of a call; functions in C++ have no traceback
        return NodeError(
            failure.message, node=node, instance=instance, error_type=failure.kind,
            remote_traceback=failure.traceback, hint=hint, trans_id=failure.trans_id or None,
            input_shapes=failure.input_shapes,
        )
    return InstanceLostError(
        f"executor died: {failure.message}", node=node, instance=instance, output=output, hint=hint
    )
