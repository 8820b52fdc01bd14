"""Arithmetic expressions as nodes of a dflow graph.

Modules: points (the process point, for people), engine (the only one that imports numexpr), plugin (registration).
"""

from acme_numexpr.points import ExprPoint

__all__ = ["ExprPoint"]
