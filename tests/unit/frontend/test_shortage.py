"""A start that fails because nothing can be opened any more says so."""

from __future__ import annotations

import errno
import resource

import pytest

import dflow_core as df


class Exhausted:
    """A session in which everything fails alike."""

    def __init__(self, error: OSError) -> None:
        self.error = error

    def run(self, graph: df.FlowGraph, mode: str) -> None:
        raise self.error


def start(error: OSError) -> None:
    point = df.FuncProcessPoint(builtin="f")
    graph = df.FlowGraph([point.fnode(1, 1)(df.FlowData("x"))], name="full", session=Exhausted(error))  # type: ignore[arg-type]
    graph.start()


@pytest.mark.parametrize(("number", "said"), [
    (errno.EMFILE, f"graph 'full' cannot be started: this process .* {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}"),
    (errno.ENFILE, "graph 'full' cannot be started: this machine may have no more files open"),
])
def test_no_file_can_be_opened_any_more(number: int, said: str) -> None:
    with pytest.raises(df.DeployError, match=said) as caught:
        start(OSError(number, "Too many open files", "somewhere"))
    assert caught.value.hint and isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("error", [OSError(errno.ENOENT, "No such file"), df.WaitTimeoutError("late")])
def test_other_errors_stay_what_they_are(error: OSError) -> None:
    with pytest.raises(type(error)) as caught:
        start(error)
    assert caught.value is error
