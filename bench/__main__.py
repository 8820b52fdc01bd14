"""`python -m bench`: every measurement, one after the other; `python -m bench hop soak` only those."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SUBJECTS = (
    "hop", "nodes", "instances", "startup", "models", "udf_build", "udf_pass", "translation", "update", "ocr",
    "offline", "npu",
)
BY_NAME_ONLY = ("soak",)


def main() -> int:
    """Run the subjects named on the command line, or all; returns how many failed."""
    wanted = [name for name in sys.argv[1:] if not name.startswith("-")] or list(SUBJECTS)
    options = [arg for arg in sys.argv[1:] if arg.startswith("-")]
    known = SUBJECTS + BY_NAME_ONLY
    unknown = set(wanted) - set(known)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = 0
    for name in wanted:
        print(f"\n== {name}", flush=True)
        failed += subprocess.run([sys.executable, str(HERE / name / "run.py"), *options]).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
