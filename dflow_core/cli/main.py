"""Entry point of the `dflow` command: says what to install where its libraries are missing."""

from __future__ import annotations

import importlib.util
import sys

NEEDED = ("click", "rich")


def main() -> int:
    """Run the command line.

    Returns:
        Exit code: 0 done, 1 faults or a failed run, 2 wrong usage, 130 interrupted.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"dflow: the command line needs {' and '.join(missing)}: pip install 'dflow-core[cli]'", file=sys.stderr)
        return 2
    from dflow_core.cli.app import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
