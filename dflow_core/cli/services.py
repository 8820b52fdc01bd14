"""What commands use of the rest of dflow, given to them as functions so that tests can give others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pdb

    from dflow_core.deploy import Address, Daemon
    from dflow_core.plugins import PluginRegistry
    from dflow_core.session import DFlowSession


def load_registry() -> PluginRegistry:
    """Every plugin of this Python environment."""
    from dflow_core import builtin
    from dflow_core.plugins import load_plugins

    return load_plugins(builtin=(builtin,))


def open_session(options: Mapping[str, str]) -> DFlowSession:
    """A session with these options; close it."""
    from dflow_core.session import DFlowSession

    return DFlowSession(options)


def run_trial() -> None:
    """Run a graph of one Python function in a process of its own, cold."""
    from dflow_core.frontend import FlowGraph, pyflow
    from dflow_core.graph import FlowData

    @pyflow
    def negate(value: int) -> int:
        return -value

    node = negate.fnode()
    node(FlowData("x"))
    with FlowGraph(node.outputs, {"cache": "0"}, name="doctor") as graph:
        if graph(1) != -1:
            raise RuntimeError("the graph gave a wrong result")


def running_graphs() -> list[Address]:
    """Where graphs of this user that run can be asked."""
    from dflow_core.deploy import addresses

    return addresses()


def ask_graphs(
    found: list[Address], question: str, patience: float
) -> list[tuple[Address, Mapping[str, object]]]:
    """What running graphs say to a question."""
    from dflow_core.deploy import ask_all

    return ask_all(found, question, patience)


def start_daemon(address: str, lease: float, key: bytes) -> Daemon:
    """A daemon that listens; close it."""
    from dflow_core.session import link_config, open_daemon

    return open_daemon(load_registry(), address, link_config(lease, key))


def address_of_server(resource: str | None) -> str:
    """Where the server of a resource file that is this machine listens; "" without a file."""
    from dflow_core.deploy import own_address

    return own_address(resource or "", os.environ)


def open_debugger() -> pdb.Pdb:
    """A debugger at this terminal."""
    from dflow_core.cli.debugging import make_debugger

    return make_debugger()


@dataclass(frozen=True, slots=True)
class Services:
    """What commands use of the rest of dflow.

    Args:
        registry: Gives the plugins.
        session: Gives a session for options.
        trial: Runs a small graph in a process, to see whether that works here.
        addresses: Where running graphs can be asked.
        ask: Asks them, with a limit in seconds.
        debugger: Gives a debugger.
        daemon: Starts a daemon at an address, with a lease in seconds and a key.
        own_address: Where the daemon of this machine listens, by a resource file.
    """

    registry: Callable[[], PluginRegistry] = load_registry
    session: Callable[[Mapping[str, str]], DFlowSession] = open_session
    trial: Callable[[], None] = run_trial
    addresses: Callable[[], list[Address]] = running_graphs
    ask: Callable[[list[Address], str, float], list[tuple[Address, Mapping[str, object]]]] = ask_graphs
    debugger: Callable[[], pdb.Pdb] = open_debugger
    daemon: Callable[[str, float, bytes], Daemon] = start_daemon
    own_address: Callable[[str | None], str] = address_of_server
