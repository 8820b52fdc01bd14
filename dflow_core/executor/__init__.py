"""Data in, data out: transactions, pairing, running nodes, and the executor process.

Folders, each above those below it: `process` (an executor: instances around their queues), `inline` (the caller's
thread) and `gateway` (queues with an end on another machine), `streams` (functions that take from queues), `node` (one
node and its calls), `caller` (transactions, feeding, fetching, watching), `pairing` (what belongs together). Beside
them, for all: queues that drop, counters, exceptions.

Names are looked up when they are first used: executor processes need nothing of the caller's side.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflow_core.executor.backend import Backend
    from dflow_core.executor.caller.client import GraphClient
    from dflow_core.executor.caller.control import GraphControl
    from dflow_core.executor.caller.monitor import StallMonitor
    from dflow_core.executor.caller.ordered_client import OrderedClient
    from dflow_core.executor.caller.reach import needed_inputs
    from dflow_core.executor.caller.stats import GraphStats, counted_status, graph_stats, own_stacks
    from dflow_core.executor.error_messages import error_of
    from dflow_core.executor.failed_calls import with_failed_calls
    from dflow_core.executor.gateway import make_gateway
    from dflow_core.executor.inline.backend import InlineBackend
    from dflow_core.executor.inline.lone_node import LoneCall, repeat_alone
    from dflow_core.executor.meter import NodeStats
    from dflow_core.executor.node.node_runner import NodeRunner
    from dflow_core.executor.outcomes import Channel, Counters, Outcome
    from dflow_core.executor.process.instance import InstanceRunner
    from dflow_core.executor.process.queue_backend import QueueBackend
    from dflow_core.executor.trace import note_updates, read_calls, write_timeline

__all__ = [
    "Backend",
    "Channel",
    "Counters",
    "GraphClient",
    "GraphControl",
    "GraphStats",
    "InlineBackend",
    "InstanceRunner",
    "LoneCall",
    "NodeRunner",
    "NodeStats",
    "OrderedClient",
    "Outcome",
    "QueueBackend",
    "StallMonitor",
    "counted_status",
    "error_of",
    "graph_stats",
    "make_gateway",
    "needed_inputs",
    "note_updates",
    "own_stacks",
    "read_calls",
    "repeat_alone",
    "with_failed_calls",
    "write_timeline",
]

_HOMES = {
    "Backend": "backend",
    "GraphClient": "caller.client",
    "GraphControl": "caller.control",
    "with_failed_calls": "failed_calls",
    "InlineBackend": "inline.backend",
    "make_gateway": "gateway",
    "InstanceRunner": "process.instance",
    "LoneCall": "inline.lone_node",
    "repeat_alone": "inline.lone_node",
    "NodeStats": "meter",
    "StallMonitor": "caller.monitor",
    "NodeRunner": "node.node_runner",
    "OrderedClient": "caller.ordered_client",
    "QueueBackend": "process.queue_backend",
    "needed_inputs": "caller.reach",
    "GraphStats": "caller.stats",
    "counted_status": "caller.stats",
    "graph_stats": "caller.stats",
    "own_stacks": "caller.stats",
    "note_updates": "trace",
    "read_calls": "trace",
    "write_timeline": "trace",
    "Channel": "outcomes",
    "Counters": "outcomes",
    "error_of": "error_messages",
    "Outcome": "outcomes",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found
