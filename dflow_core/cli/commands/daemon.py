"""`dflow daemon`."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from dflow_core.cli.command import DONE, Refused, command
from dflow_core.cli.output import Output
from dflow_core.cli.services import Services

_ENDS = (signal.SIGINT, signal.SIGTERM)
_HERE = ("127.", "localhost:", "[::1]:")


@command("daemon")
@click.option("--listen", metavar="HOST:PORT", help="Where to listen; port 0 is any free one.")
@click.option("--resource", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
              help="Resource file whose server that is this machine says where to listen.")
@click.option("--key-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
              help="File with the key that applications must have too.")
@click.option("--insecure", is_flag=True, help="Listen to other machines without a key.")
@click.option("--lease", type=click.FloatRange(0.1), default=30.0, show_default=True, metavar="SECONDS",
              help="How long an application may be silent before its part is ended.")
def daemon(
    services: Services, output: Output, listen: str | None, resource: str | None, key_file: str | None, insecure: bool,
    lease: float,
) -> int:
    """Run parts of graphs that applications on other machines place here, until it is interrupted.

    It runs the code it is sent, with your rights: give it a key, in the variable DFLOW_LINK_KEY or with --key-file. The
    key is checked and never travels; what follows is not encrypted. Without --listen the resource file of --resource
    or of the variable RESOURCE_CONFIG_PATH says where to listen, else it is 127.0.0.1 and any free port.
    """
    address = listen or services.own_address(resource) or "127.0.0.1:0"
    key = Path(key_file).read_bytes().strip() if key_file else os.environ.get("DFLOW_LINK_KEY", "").encode()
    if not key and not insecure and not address.startswith(_HERE):
        raise Refused(
            f"other machines could run anything here through {address}",
            "give it a key (DFLOW_LINK_KEY or --key-file), or say --insecure in a network you trust",
        )
    running = services.daemon(address, lease, key)
    try:
        with _interrupts() as wait:
            output.line(f"listening at {running.address}, process {os.getpid()}")
            output.document({"address": running.address, "pid": os.getpid()})
            wait()
    finally:
        running.close()
    return DONE


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], object]]:
    """Gives a function that waits until somebody asks this process to end."""
    heard, alarm = os.pipe()
    before = {number: signal.signal(number, lambda *_: os.write(alarm, b"x")) for number in _ENDS}
    try:
        yield lambda: os.read(heard, 1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(heard)
        os.close(alarm)


COMMAND = daemon
