"""Moves messages between the queues of a machine and a link to another one; executors see nothing of it.

Modules, lowest first: words (what gateways tell each other), flow (credits and ends, without I/O), refused (messages
that fit nowhere), intake (what a link brings), arrival (from there into a queue), mover (all of one turn), gateway (the
thread).
"""

from dflow_core.executor.gateway.gateway import make_gateway

__all__ = ["make_gateway"]
