"""`dflow ps`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import click

from dflow_core.cli.command import DONE, FAILED, command
from dflow_core.cli.output import Output, seconds, size
from dflow_core.cli.services import Services

Answer: TypeAlias = Mapping[str, object]
_PATIENCE = 2.0
_NODES = ("node", "version#", "pid#", "state", "calls#", "failed#", "busy#", "blocked#", "waiting#", "in work")
_EDGES = ("queue", "level#", "sent#", "delivered#", "dropped#", "failed#", "oldest#", "blocked#", "waiting#")


@command("ps")
@click.option("--watch", type=click.FloatRange(0.1), metavar="SECONDS", help="Look again and again; shows rates.")
@click.option("-n", "--count", type=click.IntRange(1), help="How often to look with --watch; for ever if not given.")
def ps(services: Services, output: Output, watch: float | None, count: int | None) -> int:
    """Graphs of this user that run, with the counters of their nodes and queues.

    Of nodes, `busy`, `blocked` (waits for room behind it) and `waiting` (for input) are shares of its time since it was
    started; of queues, `blocked` is the time producers have waited for room and `waiting` the time readers have
    waited for messages. With --watch they are of the last interval, and rates per second stand in brackets. The exit
    code is 1 if an application does not answer.
    """
    before: dict[object, tuple[float, Answer]] = {}
    rounds = 1 if watch is None else count
    while True:
        answers = services.ask(services.addresses(), "ps", _PATIENCE)
        now = time.monotonic()
        for address, answer in answers:
            if "error" in answer:
                output.error(str(answer["error"]))
                continue
            then, earlier = before.get(address, (now, {}))
            _print(output, answer, earlier, now - then)
            before[address] = now, answer
        if not answers:
            output.line("no graph runs")
        output.document({"graphs": [answer for _, answer in answers]})
        rounds = rounds - 1 if rounds is not None else None
        if rounds == 0:
            return FAILED if any("error" in answer for _, answer in answers) else DONE
        time.sleep(watch or 0.0)


def _print(output: Output, answer: Answer, earlier: Answer, span: float) -> None:
    total = _mapping(answer.get("transactions"))
    words = ", ".join(f"{total.get(name, 0)} {name}" for name in ("fed", "delivered", "failed", "dropped"))
    output.line(f"graph {answer.get('graph')} of process {answer.get('pid')}: {words}, "
                f"{answer.get('in_flight')} in flight, {size(_number(answer, 'bytes_in_use'))}", style="bold")
    output.line(f"  {answer.get('status')}", style=None if answer.get("status") == "complete" else "yellow")
    notes = answer.get("notes")
    for note in notes if isinstance(notes, list) else ():
        output.line(f"  {note}", style="yellow")
    old_nodes = {(node.get("node"), node.get("instance")): node for node in _list(earlier.get("nodes"))}
    output.table(_NODES, [_node(n, old_nodes.get((n.get("node"), n.get("instance"))), span)
                          for n in _list(answer.get("nodes"))])
    old_edges = {edge.get("name"): edge for edge in _list(earlier.get("edges"))}
    output.table(_EDGES, [_edge(e, old_edges.get(e.get("name")), span) for e in _list(answer.get("edges"))])
    output.line()


def _node(node: Answer, old: Answer | None, span: float) -> Sequence[object]:
    times = [_number(node, name) - _number(old, name) for name in ("busy", "blocked", "waiting")]
    whole = sum(times) or 1.0
    current = node.get("current")
    work = f"transaction {current[0]} for {seconds(current[1])}" if isinstance(current, list) else "-"
    place = f" on {node['machine']}" if node.get("machine") else ""
    return (
        f"{node.get('node')}#{node.get('instance')}{place}", node.get("version", 1), node.get("pid") or "-",
        node.get("state"), _rated(node, old, "calls", span), node.get("failed"),
        *(f"{100 * part / whole:.0f}%" for part in times), work,
    )


def _edge(edge: Answer, old: Answer | None, span: float) -> Sequence[object]:
    return (
        edge.get("name"), f"{edge.get('level')} of {edge.get('depth')}", _rated(edge, old, "sent", span),
        edge.get("delivered"), edge.get("dropped"), edge.get("failed"),
        seconds(_number(edge, "oldest_age")) if edge.get("oldest_age") else "-",
        *(seconds(_number(edge, name) - _number(old, name)) for name in ("blocked", "waiting")),
    )


def _rated(now: Answer, old: Answer | None, name: str, span: float) -> str:
    text = str(now.get(name))
    return text if old is None or not span else f"{text} ({(_number(now, name) - _number(old, name)) / span:.1f}/s)"


def _number(answer: Answer | None, name: str) -> float:
    value = (answer or {}).get(name, 0)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _mapping(value: object) -> Answer:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Answer]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


COMMAND = ps
