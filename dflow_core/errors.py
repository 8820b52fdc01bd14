"""Every exception dflow raises: one tree, ordered by whose fault it is.

    DflowError                     never raised itself
      UsageError                   you: the call or the graph is wrong (also a ValueError)
        GraphError                 the graph has faults; all of them, in `.faults`
        TensorError                an array cannot be what it has to be
        OptionError                an unknown option or attribute, or a value it cannot have
        PackagingError             user code that cannot travel to another process
        ClosedError                used after close
          AbortError               a function with queues waits, and no message will come
      PluginError                  a plugin: missing, broken, or two that claim one id
      CompileError                 an engine could not build a model
        ModelFormatError           a file is not the model, or the recording, it should be; says where
      DeployError                  the processes could not be started
        PlacementError             a deploy file or resource file has faults; all of them, in `.faults`
        StartupError               a node's executor did not come up; holds the child's text
      RunError                     a transaction ended without a result
        NodeError                  user code or a model raised; holds the remote traceback
        AlignmentError             parts that belong together cannot meet
          LateError                a part had not come within the limits of the alignment
          MissingError             a part cannot come: its input was not fed
        RaisedError                a function raised an exception for this transaction
        DroppedError               a node chose to send nothing for this transaction
        CancelledError             the caller cancelled it
          DeadlineError            its deadline passed before it ended (also a TimeoutError)
        WaitTimeoutError           nothing happened within the limit (also a TimeoutError)
          QueueFullError           a bounded queue stayed full
          PoolExhaustedError       no shared memory left; says who holds it
      PeerGoneError                another process went away
        LinkLostError              another machine went away, with what ran there
        InstanceLostError          an executor died and held this transaction

Errors about a running graph carry `node`, `instance`, `trans_id`; `hint` says what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class DflowError(Exception):
    """Base of all dflow errors.

    Args:
        message: What went wrong, one sentence.
        node: Name of the node it happened in, if any.
        instance: Number of the node's instance, from 0.
        trans_id: Transaction it ended.
        hint: What the reader can do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        instance: int | None = None,
        trans_id: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.node = node
        self.instance = instance
        self.trans_id = trans_id
        self.hint = hint

    def __str__(self) -> str:
        where = []
        if self.node is not None:
            where.append(f"node {self.node!r}" + (f"#{self.instance}" if self.instance is not None else ""))
        if self.trans_id is not None:
            where.append(f"transaction {self.trans_id}")
        text = f"{', '.join(where)}: {self.message}" if where else self.message
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        # The default would call cls(message) and lose the keyword-only parts.
        return (_rebuild, (type(self), self.args, self.__dict__))


def text_of(error: BaseException, most: int = 16384) -> str:
    """What an exception of any origin says, without the places a `DflowError` names.

    Args:
        error: The exception; one whose own `__str__` raises is described instead.
        most: Characters; the middle of a longer text is left out.
    """
    try:
        if isinstance(error, SystemExit):
            text = f"user code called sys.exit({error.code!r})"
        else:
            text = str(error.message) if isinstance(error, DflowError) else str(error)
    except (Exception, SystemExit) as broken:
        return f"(no text: {type(broken).__name__} in __str__ of {type(error).__name__})"
    return shortened(text, most)


def shortened(text: str, most: int) -> str:
    """A text with its middle left out if it has more characters than that."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n... ({len(text) - most} characters left out) ...\n{text[-(most // 2) :]}"


def _rebuild(cls: type[DflowError], args: tuple[object, ...], state: dict[str, object]) -> DflowError:
    error = cls.__new__(cls)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


class UsageError(DflowError, ValueError):
    """The caller did something that cannot work."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a graph.

    Args:
        kind: Short stable word: `unconnected`, `cycle`, `duplicate-name`, `arity`, `attribute`, `dtype`, `shape`, ...
        node: Node (or input) the fault is at.
        port: Port in words, such as `input 1`, or `""` if the node as a whole.
        message: What is wrong, with expected and got.
        hint: What to do.
    """

    kind: str
    node: str
    port: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.node} {self.port}".strip()
        return f"[{self.kind}] {place}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class GraphError(UsageError):
    """A graph with faults; `faults` holds all of them."""

    def __init__(self, graph: str, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        lines = "\n".join(f"  {i}. {fault}" for i, fault in enumerate(self.faults, 1))
        count = len(self.faults)
        super().__init__(f"graph {graph!r} has {count} fault{'s' * (count != 1)}:\n{lines}")


class TensorError(UsageError):
    """An array has a dtype, shape or layout it cannot have here."""


class OptionError(UsageError):
    """An option or attribute nobody knows, or a value it cannot have."""


class PackagingError(UsageError):
    """User code or data that cannot travel to another process."""


class ClosedError(UsageError):
    """Something was used after it had been closed."""


class AbortError(ClosedError):
    """A function with queues waited for a message, and none will come: its input has ended, or the graph ends.

    A function that lets it pass has ended in good order.
    """


class PluginError(DflowError):
    """A plugin is missing, broken, or claims an id that another one has."""


class CompileError(DflowError):
    """An engine could not turn a process point into a model."""


class ModelFormatError(CompileError):
    """A model file or a recording is missing, broken or of another kind than it says.

    Args:
        message: What is wrong.
        path: The file, if there is one.
        offset: Byte offset of the fault, if known.
    """

    def __init__(
        self, message: str, *, path: str | None = None, offset: int | None = None, node: str | None = None
    ) -> None:
        self.path = path
        self.offset = offset
        place = f"{path}: " if path else ""
        at = f" (at byte {offset})" if offset is not None else ""
        super().__init__(f"{place}{message}{at}", node=node)


class DeployError(DflowError):
    """The processes of a graph could not be started or kept running."""


class PlacementError(DeployError):
    """Nodes cannot be placed on devices as a deploy file or resource file says; `faults` holds all that is wrong.

    Of each fault, `node` is the file, and `port` the line and the key.
    """

    def __init__(self, faults: Sequence[Fault], *, hint: str | None = None) -> None:
        self.faults = tuple(faults)
        lines = "\n".join(f"  {i}. {fault}" for i, fault in enumerate(self.faults, 1))
        count = len(self.faults)
        super().__init__(f"{count} fault{'s' * (count != 1)} in where nodes are to run:\n{lines}", hint=hint)


class StartupError(DeployError):
    """An executor did not come up; `output` holds what it printed."""

    def __init__(
        self, message: str, *, node: str | None = None, instance: int | None = None, output: str = "",
        hint: str | None = None,
    ) -> None:
        self.output = output
        tail = f"\n--- output of the process ---\n{output.rstrip()}" if output.strip() else ""
        super().__init__(message + tail, node=node, instance=instance, hint=hint)


class RunError(DflowError):
    """A transaction ended without a result."""


class NodeError(RunError):
    """User code or a model raised while it worked on a transaction.

    Args:
        message: Text of the remote exception; `reason` holds it alone.
        error_type: Its type name, such as `ValueError`.
        remote_traceback: Formatted traceback of the user's code in the executor.
        input_shapes: What the function was called with, in words, such as `float32[3, 4]`.
        ret_code: Status code that travelled in the message header.
    """

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        instance: int | None = None,
        trans_id: int | None = None,
        error_type: str = "",
        remote_traceback: str = "",
        input_shapes: Sequence[str] = (),
        ret_code: int = 0,
        hint: str | None = None,
    ) -> None:
        self.reason = message
        self.error_type = error_type
        self.remote_traceback = remote_traceback
        self.input_shapes = tuple(input_shapes)
        self.ret_code = ret_code
        text = f"{error_type}: {message}" if error_type else message
        if self.input_shapes:
            text += f"\n  inputs: {', '.join(self.input_shapes)}"
        if remote_traceback:
            text += f"\n--- traceback in the executor ---\n{remote_traceback.rstrip()}"
        super().__init__(text, node=node, instance=instance, trans_id=trans_id, hint=hint)


class AlignmentError(RunError):
    """Parts that belong together cannot meet, or did not.

    `outputs` holds what had come, one value per output of the graph, where it was the results that were aligned and
    what is incomplete is not dropped; empty otherwise.
    """

    outputs: tuple[object, ...] = ()


class LateError(AlignmentError):
    """A part had not come within the limits of the alignment; should it come later, it is dropped."""


class MissingError(AlignmentError):
    """A part will not come.

    Not all inputs of the graph were fed within the limits of the alignment; or, in a function that takes from several
    queues, the transaction that it has another part of was cancelled or failed.
    """


class RaisedError(RunError):
    """A function raised an exception for this transaction, with `raise_exception` or `RaiseException`.

    Args:
        message: What happened.
        code: Code the function gave.
        user_context_id: Number the function gave along.
        start_time, end_time, flow_flags, user_data: Of the message it was working on.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int,
        user_context_id: int = 0,
        node: str | None = None,
        instance: int | None = None,
        trans_id: int | None = None,
        start_time: int = 0,
        end_time: int = 0,
        flow_flags: int = 0,
        user_data: bytes = b"",
    ) -> None:
        self.code, self.user_context_id = code, user_context_id
        self.start_time, self.end_time, self.flow_flags, self.user_data = start_time, end_time, flow_flags, user_data
        super().__init__(message, node=node, instance=instance, trans_id=trans_id)


class DroppedError(RunError):
    """A node chose to send nothing for this transaction, so it has no result of its own."""


class CancelledError(RunError):
    """The caller cancelled this transaction, or the graph let go of it."""


class DeadlineError(CancelledError, TimeoutError):
    """The deadline of this transaction passed before it ended; it was cancelled then."""


class WaitTimeoutError(RunError, TimeoutError):
    """Nothing happened within the limit the caller set."""


class QueueFullError(WaitTimeoutError):
    """A bounded queue stayed full for the whole limit."""


class PoolExhaustedError(WaitTimeoutError):
    """No shared memory was free for the whole limit; the text says who holds it.

    `never_fits` is set where waiting is of no use: the message is larger than all the memory there may be.
    """

    never_fits: bool = False


class PeerGoneError(DflowError):
    """Another process went away."""


class LinkLostError(PeerGoneError):
    """The machine at the other end of a link went away, or did not answer within the lease."""


class InstanceLostError(PeerGoneError, RunError):
    """An executor died while it held this transaction; `output` holds the last lines it printed."""

    def __init__(
        self, message: str, *, node: str | None = None, instance: int | None = None, trans_id: int | None = None,
        output: str = "", hint: str | None = None,
    ) -> None:
        self.output = output
        tail = f"\n--- last output of the process ---\n{output.rstrip()}" if output.strip() else ""
        super().__init__(message + tail, node=node, instance=instance, trans_id=trans_id, hint=hint)
