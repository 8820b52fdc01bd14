"""Limits and choices of a local deployment, read from the graph's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dflow_core.options import from_texts

_OWN = ("transport", "memory_limit", "spin_us", "start_timeout", "stop_timeout")


@dataclass(frozen=True, slots=True)
class DeploySettings:
    """How a deployment is run. Times are seconds.

    Args:
        transport: Scheme of the local transport; "" is the best there is.
        memory_limit: Most bytes of messages that may exist at once; 0 lets the transport choose.
        spin_us: Microseconds a waiting thread looks again before it sleeps.
        start_timeout: How long an executor may take to load; 0 is no limit.
        stop_timeout: How long closing may take before what still runs is killed.
        output: Where executors' output goes: `stderr`, `logging`, `none`, or `dir:PATH`.
    """

    transport: str = ""
    memory_limit: int = 0
    spin_us: int = 5
    start_timeout: float = 120.0
    stop_timeout: float = 10.0
    output: str = "stderr"

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> DeploySettings:
        """From options by these names; others are somebody else's.

        Raises:
            OptionError: if a value cannot be what its option has to be.
        """
        known = from_texts({name: options[name] for name in _OWN if name in options})
        return cls(
            known.transport, known.memory_limit, known.spin_us, known.start_timeout, known.stop_timeout,
            options.get("output", "stderr"),
        )


def allowed_plugins(options: Mapping[str, str]) -> tuple[str, ...] | None:
    """Plugins that may be loaded, from the option `plugins`; None where it says nothing."""
    names = tuple(filter(None, (name.strip() for name in options.get("plugins", "").split(","))))
    return names or None
