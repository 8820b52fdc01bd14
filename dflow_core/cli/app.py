"""The list of commands; a command's module is imported when it is used. Plugins may bring more (`extensions`)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

import click

from dflow_core.cli.command import INTERRUPTED
from dflow_core.cli.extensions import installed_commands, load_command, summary_of

COMMANDS = {
    "plugins": "What is installed: loaded, or failed and why.",
    "doctor": "What this machine lacks, and the exact fix.",
    "check": "All faults of a graph, without compiling it.",
    "plan": "Processes, devices, queues and memory of a graph.",
    "compile": "Compile a graph into one .om file.",
    "inspect": "What is in an .om file.",
    "run": "Run a graph over files or made-up data.",
    "replay": "Run a recorded transaction again, under a debugger if you like.",
    "ps": "Graphs that run: nodes, queues and their counters.",
    "daemon": "Run parts of graphs that applications on other machines place here.",
    "stacks": "What every process of a running graph is doing.",
    "draw": "Draw a graph as text, Mermaid or DOT.",
    "demo": "The OCR of page images by three models.",
    "cache": "List or clear the cache of compiled models.",
    "config": "Every option, its value, and where that comes from.",
}


class Commands(click.Group):
    """A group whose commands are modules of `dflow_core.cli.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *(name for name in installed_commands() if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            point = installed_commands().get(cmd_name)
            return None if point is None else load_command(point)
        found = importlib.import_module(f"dflow_core.cli.commands.{cmd_name}").COMMAND
        return found if isinstance(found, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            more = [(name, summary_of(point)) for name, point in installed_commands().items() if name not in COMMANDS]
            formatter.write_dl([*COMMANDS.items(), *more])


def _version() -> str:
    try:
        return version("dflow-core")
    except PackageNotFoundError:
        return "unknown (not installed)"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(_version(), prog_name="dflow")
def app() -> None:
    """Pipelines of models and functions: check, plan, compile and run them."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        code = app.main(list(arguments), prog_name="dflow", standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return code if isinstance(code, int) else 0
