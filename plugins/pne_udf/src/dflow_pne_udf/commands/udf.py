"""`dflow udf`: the group."""

from __future__ import annotations

import click

from dflow_pne_udf.commands.build import BUILD
from dflow_pne_udf.commands.clean import CLEAN
from dflow_pne_udf.commands.env import ENV
from dflow_pne_udf.commands.inspect import INSPECT
from dflow_pne_udf.commands.new import NEW
from dflow_pne_udf.commands.trial import TEST


@click.group("udf")
def udf() -> None:
    """Write, build, try and look into user functions in C++ and Python."""


for _command in (NEW, BUILD, TEST, INSPECT, ENV, CLEAN):
    udf.add_command(_command)

COMMAND = udf
