"""Errors of one machine as another one has them."""

from __future__ import annotations

from dflow_core import errors
from dflow_core.errors import DeployError, DflowError, StartupError
from dflow_core.model.control_serde import Failure

_CALL = ("remote_traceback", "output")


def failure_of(error: BaseException) -> Failure:
    """An error as it travels."""
    if not isinstance(error, DflowError):
        return Failure("DeployError", f"{type(error).__name__}: {errors.text_of(error)}")
    text = next((found for name in _CALL if (found := getattr(error, name, ""))), "")
    return Failure(
        type(error).__name__, error.message, text, error.node or "", error.instance or 0, error.hint or "",
        error.trans_id or 0, tuple(getattr(error, "input_shapes", ())),
    )


def error_from(failure: Failure, machine: str) -> DflowError:
    """The error that arrived from a machine, of the same class where that can be made from what travels.

    Args:
        failure: The error.
        machine: The machine in words.
    """
    found = getattr(errors, failure.kind, None)
    kind = found if isinstance(found, type) and issubclass(found, DflowError) else DeployError
    node = failure.node or None
    instance = failure.instance if failure.node else None
    text, hint = f"on {machine}: {failure.message}", failure.hint or None
    if kind is StartupError:
        return StartupError(text, node=node, instance=instance, hint=hint, output=failure.traceback)
    if failure.traceback:
        text += f"\n{failure.traceback.rstrip()}"
    try:
        return kind(text, node=node, instance=instance, hint=hint, trans_id=failure.trans_id or None)
    except TypeError:  # it is made from more than travels, such as a list of faults
        return DeployError(text, node=node, instance=instance, hint=hint, trans_id=failure.trans_id or None)
