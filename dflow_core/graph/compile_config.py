"""The graph compile JSON that a `GraphProcessPoint` may name, as engines read it (config-and-options.md)."""

from __future__ import annotations

import json
from pathlib import Path

from dflow_core.errors import OptionError


def read_compile_config(path: str) -> dict[str, object]:
    """The top level of a graph compile JSON, `build_option` spelt as `build_options`.

    Args:
        path: The file; empty gives an empty config.

    Raises:
        OptionError: the file cannot be read, or holds no JSON object.
    """
    if not path:
        return {}
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as cause:
        raise OptionError(f"compile config {path} cannot be read: {cause.strerror}") from cause
    except ValueError as cause:
        raise OptionError(f"compile config {path} is no JSON: {cause}") from cause
    if not isinstance(config, dict):
        raise OptionError(f"compile config {path} must be a JSON object")
    if "build_option" in config:  # upstream's documents spell it this way once
        config.setdefault("build_options", config.pop("build_option"))
    return config
