"""`dflow plugins`."""

from __future__ import annotations

import click

from dflow_core.cli.command import DONE, FAILED, command
from dflow_core.cli.output import Output
from dflow_core.cli.services import Services

_STYLES = {"loaded": "green", "failed": "red", "incompatible": "red"}


@command("plugins")
@click.option("--detail", is_flag=True, help="Show the traceback of each failure.")
def plugins(services: Services, output: Output, detail: bool) -> int:
    """What is installed: each plugin, whether it loaded or why not, and what it provides.

    The exit code is 1 if one that should have loaded did not.
    """
    report = services.registry().report
    output.table(
        ["plugin", "version", "state", "provides"],
        [
            (one.name, f"{one.distribution} {one.version}".strip(), one.state, ", ".join(one.provides) or "-")
            for one in report
        ],
    )
    for one in report:
        if one.error:
            output.line(f"\n{one.name}: {one.error}", style=_STYLES.get(one.state))
        if detail and one.detail:
            output.line(one.detail.rstrip())
    output.document({"plugins": report})
    return FAILED if any(one.state in ("failed", "incompatible") for one in report) else DONE


COMMAND = plugins
