"""Finds plugins, loads each on its own, and answers who gives what.

A plugin that breaks never stops the rest: its error is kept in the report, and raised only when something asks for
what that plugin would have given. There is no global registry: whoever loads one passes it on.

Modules, lowest first: contribution (what one plugin gave), registry (the answers), loading (the only one that knows
entry points and pluggy).
"""

from dflow_core.plugins.contribution import ALLOW_VARIABLE, Contribution, PluginReport
from dflow_core.plugins.loading import load_plugins
from dflow_core.plugins.registry import PluginRegistry

__all__ = ["ALLOW_VARIABLE", "Contribution", "PluginRegistry", "PluginReport", "load_plugins"]
