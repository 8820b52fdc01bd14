"""Acme's gain: a C++ function for dflow graphs."""

from acme_gain.nodes import gain

__all__ = ["gain"]
