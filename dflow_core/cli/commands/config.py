"""`dflow config`."""

from __future__ import annotations

import click

from dflow_core.cli.command import DONE, command, settings
from dflow_core.cli.output import Output
from dflow_core.cli.services import Services
from dflow_core.options import effective


@command("show")
@settings
def show(services: Services, output: Output, options: dict[str, str]) -> int:
    """Every option, the value in force, and where it comes from: an -O here, the environment, or its default."""
    found = effective(session=options)
    output.table(
        ["option", "value", "from", "meaning"],
        [(one.info.key, _shown(one.value), one.origin, _meaning(one.info.meaning, one.info.unit)) for one in found],
    )
    output.document({
        one.info.key: {
            "value": one.value,
            "origin": one.origin,
            "default": one.info.default,
            "unit": one.info.unit,
            "scopes": one.info.scopes,
            "environment": one.info.env,
        }
        for one in found
    })
    return DONE


def _shown(value: object) -> str:
    return "-" if value == "" else str(value).lower() if isinstance(value, bool) else str(value)


def _meaning(text: str, unit: str) -> str:
    return f"{text} ({unit})" if unit else text


@click.group("config")
def config() -> None:
    """Every option, its value, and where that comes from."""


config.add_command(show)

COMMAND = config
