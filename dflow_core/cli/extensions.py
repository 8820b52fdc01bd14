"""Commands that plugins bring: entry points of the group `dflow.commands`, each a `click.Command`."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import click

from dflow_core.cli.command import Refused

COMMAND_GROUP = "dflow.commands"


def installed_commands() -> dict[str, EntryPoint]:
    """Where each installed command is, by its name; nothing is imported."""
    return {point.name: point for point in sorted(entry_points(group=COMMAND_GROUP), key=lambda point: point.name)}


def load_command(point: EntryPoint) -> click.Command:
    """The command of an entry point.

    Raises:
        Refused: its plugin is broken; says which, and why.
    """
    owner = point.dist.name if point.dist is not None else point.module
    try:
        found = point.load()
    except Exception as cause:  # whatever the module of a plugin does when it is imported
        text = str(cause).splitlines()[0] if str(cause) else ""
        raise Refused(f"command {point.name!r} of {owner} cannot be loaded: {type(cause).__name__}: {text}",
                      f"pip install --upgrade {owner}, or pip uninstall {owner}") from cause
    if not isinstance(found, click.Command):
        raise Refused(f"command {point.name!r} of {owner} is a {type(found).__name__}, not a click.Command")
    return found


def summary_of(point: EntryPoint) -> str:
    """What stands behind it in the list of commands: the first sentence of its help, or why it does not work."""
    try:
        return load_command(point).get_short_help_str(limit=90)
    except Refused as cause:
        return cause.message
