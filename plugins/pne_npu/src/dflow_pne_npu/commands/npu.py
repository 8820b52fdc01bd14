"""`dflow npu`: devices, a self-test, and programs on the emulator."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable

import click

from dflow_core.errors import PluginError
from dflow_pne_npu.bindings import Acl, Context
from dflow_pne_npu.selftest import SelfTest


@click.group("npu", help="Ascend NPUs: devices, a self-test, programs on the emulator.")
def COMMAND() -> None:
    """Commands about NPUs."""


@COMMAND.command("devices", help="Which NPUs are visible, and their memory.")
def devices() -> None:
    """List the devices."""
    try:
        acl = Acl()
    except PluginError as error:
        raise click.ClickException(str(error)) from None
    count = acl.device_count()
    for number in range(count):
        with Context(acl, number):
            free, total = acl.memory()
        click.echo(f"npu:{number}  {acl.soc_name()}  {free >> 20} of {total >> 20} MiB free")
    if count == 0:
        raise click.ClickException("no NPU is visible; `npu-smi info` lists them, ASCEND_RT_VISIBLE_DEVICES hides them")


@COMMAND.command("selftest", help="Try binding, atc, load, execute and copies; print a report to paste.")
@click.option("--device", default=0, show_default=True, help="Number of the device.")
@click.option("--soc", default="", help="Chip to compile for; that of the device if not given.")
@click.pass_context
def selftest(ctx: click.Context, device: int, soc: str) -> None:
    """Run the self-test."""
    failed = False
    for step in SelfTest(device, soc).run():
        click.echo(f"{'ok    ' if step.ok else 'FAILED'}  {step.name:12} {step.text}")
        failed = failed or not step.ok
    ctx.exit(1 if failed else 0)


@COMMAND.command("emulate", context_settings={"ignore_unknown_options": True},
                 help="Run a program with the emulator in place of CANN: dflow npu emulate -- COMMAND ...")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def emulate(command: tuple[str, ...]) -> None:
    """Become the program."""
    environment = _emulator()()
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        raise click.ClickException(f"there is no program {command[0]!r}")
    os.execve(program, list(command), environment)


def _emulator() -> Callable[[], dict[str, str]]:
    """What gives the emulator's environment; a distribution of its own, which need not be installed."""
    try:
        emulator = importlib.import_module("dflow_acl_emulator")
    except ModuleNotFoundError:
        raise click.ClickException("the emulator is not installed: pip install dflow-acl-emulator") from None

    def environment() -> dict[str, str]:
        try:
            return dict(emulator.emulated_environment())
        except RuntimeError as error:  # its library was not built, or OpenVINO is missing; it says which
            raise click.ClickException(str(error)) from None

    return environment
