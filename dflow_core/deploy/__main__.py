"""Programs the deployer starts: `python -m dflow_core.deploy executor|template ...`; not meant to be run by hand."""

from __future__ import annotations

import sys

from dflow_core.deploy import child, forkserver


def main() -> None:
    """Run the program named by the first argument."""
    program, *argv = sys.argv[1:]
    if program == "executor":
        child.main(argv)
    forkserver.main(argv)


if __name__ == "__main__":
    main()
