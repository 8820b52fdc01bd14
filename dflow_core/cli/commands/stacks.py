"""`dflow stacks`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from dflow_core.cli.command import DONE, FAILED, Refused, command
from dflow_core.cli.output import Output
from dflow_core.cli.services import Services

_PATIENCE = 30.0


@command("stacks")
@click.argument("pid", type=int, required=False)
def stacks(services: Services, output: Output, pid: int | None) -> int:
    """Python stacks of the running graphs of application PID (`dflow ps` lists them), or of all, and what the kernel
    says of each thread.

    The exit code is 1 if one does not answer.
    """
    found = [address for address in services.addresses() if pid in (None, address.pid)]
    if pid is not None and not found:
        raise Refused(f"process {pid} runs no graph of this user", "`dflow ps` lists who does")
    answers = services.ask(found, "stacks", _PATIENCE)
    for address, answer in answers:
        if "error" in answer:
            output.error(str(answer["error"]))
            continue
        output.line(f"graph {answer.get('graph')} of process {address.pid}", style="bold")
        texts = answer.get("stacks")
        for name, text in texts.items() if isinstance(texts, Mapping) else ():
            output.line(f"--- {name} ---\n{str(text).rstrip()}")
    if not answers:
        output.line("no graph runs")
    output.document({"graphs": [answer for _, answer in answers]})
    return FAILED if any("error" in answer for _, answer in answers) else DONE


COMMAND = stacks
