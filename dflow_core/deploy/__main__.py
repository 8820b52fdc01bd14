"""The program of an executor: `python -m dflow_core.deploy executor ...`; not meant to be run by hand."""

from __future__ import annotations

import sys

from dflow_core.deploy.children import child


def main() -> None:
    """Be an executor; the arguments after the first say how."""
    child.main(sys.argv[2:])


if __name__ == "__main__":
    main()
