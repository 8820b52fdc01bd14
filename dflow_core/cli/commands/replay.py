"""`dflow replay`."""

from __future__ import annotations

import datetime
import faulthandler
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dflow_core.cli.command import DONE, FAILED, Refused, command, describe, settings
from dflow_core.cli.output import Output, counted, seconds
from dflow_core.cli.results import as_data, summary
from dflow_core.cli.services import Services
from dflow_core.errors import UsageError
from dflow_core.message import FlowMsg, decode
from dflow_core.message import describe as in_words
from dflow_core.recording import LOST, RecordedTransaction, Recording, Update, read_recording

if TYPE_CHECKING:
    from dflow_core.replay import Replay


@command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--list", "only_list", is_flag=True, help="Tell what is recorded, and run nothing.")
@click.option("-t", "--transaction", "trans_id", type=int, help="Which one; the first that failed if not given.")
@click.option(
    "--node", metavar="[NODE]", is_flag=False, flag_value="",
    help="Only the call that failed, of the node that ended the transaction or of this one, with the messages it had.",
)
@click.option("--mode", type=click.Choice(["inline", "process"]), help="Inline where it can be, unless a process died.")
@click.option("--pdb", "debug_it", is_flag=True, help="A debugger where it fails; before the call, if a process died.")
@click.option("--step", is_flag=True, help="A debugger at the first line of the function of the node that failed.")
@click.option("--timeout", type=click.FloatRange(0.0), default=60.0, show_default=True, help="Longest wait, seconds.")
@settings
def replay(
    services: Services, output: Output, file: Path, only_list: bool, trans_id: int | None, node: str | None,
    mode: str | None, debug_it: bool, step: bool, timeout: float, options: dict[str, str],
) -> int:
    """Run a transaction of FILE again, which `dflow run --record` or the option `record` has written.

    It runs in this process, whatever the recording holds: replay only files of people whose programs you would run.
    The exit code is 1 if the transaction ends with an error.
    """
    recording = read_recording(file)
    if only_list:
        _list(output, recording)
        return DONE
    chosen = _choose(recording, trans_id, node)
    has_debugger = debug_it or step
    if has_debugger and (output.as_json or mode == "process"):
        raise Refused("a debugger needs this terminal and this process", "leave out --json, and --mode process")
    steps = step or (debug_it and chosen.end.how == LOST)
    how = mode or ("inline" if has_debugger or node is not None else "")
    if how == "inline" and chosen.end.how == LOST and not faulthandler.is_enabled() and sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)  # this process may end as the other one did
    done = _run(services, options, recording, chosen, (node, how, timeout), steps)
    _tell(output, recording, done)
    if debug_it and not steps and done.cause is not None:
        from dflow_core.cli.debugging import post_mortem

        post_mortem(services.debugger(), done.cause)
    return DONE if done.error is None else FAILED


def _choose(recording: Recording, trans_id: int | None, node: str | None) -> RecordedTransaction:
    try:
        chosen = recording.transaction(trans_id)
        if node is not None:
            recording.failed_call(chosen, node)
    except UsageError as error:
        raise Refused(error.message, error.hint or "") from error
    return chosen


def _run(
    services: Services, options: Mapping[str, str], recording: Recording, chosen: RecordedTransaction,
    how: tuple[str | None, str, float], steps: bool,
) -> Replay:
    from dflow_core.replay import replay_call, replay_transaction

    node, mode, timeout = how
    wrap = None
    if steps:
        from dflow_core.cli.debugging import stopping_at

        named = node or chosen.end.error.get("node")
        wrap = stopping_at(str(named) if named else None, services.debugger())
    with services.session(options) as session:
        if node is not None:
            return replay_call(session, recording, chosen, node=node, timeout=timeout, wrap=wrap)
        return replay_transaction(session, recording, chosen, mode=mode, timeout=timeout, wrap=wrap)


def _list(output: Output, recording: Recording) -> None:
    ones = list(recording.transactions.values())
    output.line(f"{recording.path}: graph {recording.graph}, {recording.about.get('began', '')}")
    has_versions = bool(recording.updates)
    rows = [
        (
            one.trans_id, *((_versions(recording, one),) if has_versions else ()), _time(one.at), one.end.how,
            seconds(one.end.seconds), _place(one), _fed_in_words(recording, one),
        )
        for one in ones
    ]
    columns = ("transaction#", *(("versions",) if has_versions else ()), "fed", "end", "took#", "error", "inputs")
    output.table(columns, rows)
    output.line(f"\n{counted(len(ones), 'transaction')}, {len(recording.failed)} failed")
    for note in _notes(recording):
        output.line(note, style="yellow")
    output.document(
        {
            "file": recording.path, "graph": recording.graph, "about": recording.about, "torn": recording.torn,
            "left_out": recording.left_out, "updates": [_update(one) for one in recording.updates],
            "transactions": [_as_data(recording, one) for one in ones],
        }
    )


def _notes(recording: Recording) -> list[str]:
    notes = [
        f"from transaction {one.first} on, {_time(one.at)}: "
        + ", ".join(f"{name} is version {version}" for name, version in one.nodes.items())
        for one in recording.updates
    ]
    if recording.torn:
        notes.append(f"the last {recording.torn} bytes are no whole record: whoever wrote it was stopped in the middle")
    elif recording.left_out is None:
        notes.append("the application ended before it had closed the graph")
    if recording.left_out:
        notes.append(f"{counted(recording.left_out, 'transaction')} found no room: raise record_limit")
    return notes


def _tell(output: Output, recording: Recording, done: Replay) -> None:
    one = done.transaction
    what = f"the call of node {done.node}" if done.node else "the graph"
    output.line(f"transaction {one.trans_id} of {recording.graph}, recorded: {one.end.how} {_place(one)}".rstrip())
    for name, msg in _inputs(recording, one, done.node):
        output.line(f"  {name} = {_shown(msg)}")
    rows = [(name, _shown(msg)) for name, msg in done.outputs]
    if rows:
        output.table(["output", "value"], rows)
    if done.error is not None:
        output.line(str(done.error), style="red")
    output.line(f"\n{what} ran again{' in processes' if done.mode == 'process' else ''}: {done.verdict}")
    error = {"error": describe(done.error)} if done.error is not None else {}
    output.document(
        {
            "file": recording.path, "graph": recording.graph, "node": done.node, "mode": done.mode,
            "verdict": done.verdict,
            "recorded": _as_data(recording, one), **error,
            "outputs": [{"output": name, **_data(msg)} for name, msg in done.outputs],
        }
    )


def _inputs(recording: Recording, one: RecordedTransaction, node: str | None = None) -> list[tuple[str, FlowMsg]]:
    if node is not None:
        call = recording.failed_call(one, node)
        ports = call.ports or range(len(call.inputs))
        return [(f"{call.node} input {number}", msg) for number, msg in zip(ports, call.inputs)]
    return [(recording.inputs[port], msg) for fed in recording.fed(one) for port, msg in sorted(fed.items())]


def _as_data(recording: Recording, one: RecordedTransaction) -> dict[str, object]:
    return {
        "trans_id": one.trans_id, "versions": recording.versions_of(one), "end": one.end.how, "fed_at": one.at,
        "seconds": one.end.seconds,
        "error": one.end.error or None, "together": one.end.together, "failed_calls": len(one.calls),
        "inputs": {name: in_words(msg) for name, msg in _inputs(recording, one)},
        "results": [{"output": recording.outputs[r.output], "is": r.text} for r in one.end.results],
    }


def _update(one: Update) -> dict[str, object]:
    return {"first": one.first, "at": one.at, "nodes": one.nodes}


def _versions(recording: Recording, one: RecordedTransaction) -> str:
    return ", ".join(f"{name} {version}" for name, version in recording.versions_of(one).items())


def _fed_in_words(recording: Recording, one: RecordedTransaction) -> str:
    return ", ".join(f"{name} {in_words(msg)}" for name, msg in _inputs(recording, one))


def _place(one: RecordedTransaction) -> str:
    error = one.end.error
    if not error:
        return ""
    node = f"{error['node']}: " if error.get("node") else ""
    return node + str(error.get("message", "")).partition("\n")[0]


def _time(at: float) -> str:
    return datetime.datetime.fromtimestamp(at).isoformat(sep=" ", timespec="milliseconds")


def _shown(msg: FlowMsg) -> str:
    return summary(decode(msg)) if not msg.is_null else "null"


def _data(msg: FlowMsg) -> Mapping[str, object]:
    found = as_data(decode(msg))
    return found if isinstance(found, dict) else {"value": found}


COMMAND = replay
