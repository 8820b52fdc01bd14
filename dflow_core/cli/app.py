"""The list of commands; a command's module is imported when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

import click

from dflow_core.cli.command import INTERRUPTED

COMMANDS = {
    "plugins": "What is installed: loaded, or failed and why.",
    "doctor": "What this machine lacks, and the exact fix.",
    "check": "All faults of a graph, without compiling it.",
    "plan": "Processes, devices, queues and memory of a graph.",
    "compile": "Compile a graph into one .om file.",
    "inspect": "What is in an .om file.",
    "run": "Run a graph over files or made-up data.",
    "draw": "Draw a graph as text, Mermaid or DOT.",
    "demo": "The OCR of page images by three models.",
    "cache": "List or clear the cache of compiled models.",
    "config": "Every option, its value, and where that comes from.",
}


class Commands(click.Group):
    """A group whose commands are modules of `dflow_core.cli.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found = importlib.import_module(f"dflow_core.cli.commands.{cmd_name}").COMMAND
        return found if isinstance(found, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


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
