"""`dflow demo`."""

from __future__ import annotations

import importlib.util
import runpy
import sys

import click

from dflow_core.cli.command import Refused, command
from dflow_core.cli.output import Output
from dflow_core.cli.services import Services

PACKAGE = "dflow_ocr"


@command("demo", passes_on=True)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(services: Services, output: Output, arguments: tuple[str, ...]) -> int:
    """The OCR of page images by three models, in processes; results go to out/.

    ARGUMENTS go to the demo, such as `--pages FOLDER` for your own images; `dflow demo -- --help` lists them.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise Refused("the demo is not installed", "make demo, in a clone; or pip install ./examples/ocr")
    sys.argv = ["dflow demo", *arguments, *(["--json"] if output.as_json else [])]
    try:
        runpy.run_module(PACKAGE, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


COMMAND = demo
