"""`dflow udf inspect`."""

from __future__ import annotations

from pathlib import Path

from dflow_core.cli.command import DONE, FAILED, command
from dflow_core.cli.output import Output
from dflow_core.cli.services import Services
from dflow_pne_udf.building.probe import needed_libraries, sdk_versions
from dflow_pne_udf.commands.target import find, target

KINDS = {"single": "single function", "multi": "multi function", "queue": "multi function with queues"}


@command("inspect")
@target
def inspect(services: Services, output: Output, target: Path, cmake: str, limit: float) -> int:
    """What a library registers, what it was built with, what it needs, and what of that is missing here.

    The exit code is 1 if it does not load.
    """
    found = find(target, output, cmake, limit)
    functions = [line.partition(" ")[::2] for line in found.registered or ()]
    lines = needed_libraries(found.library)
    missing = [line for line in lines if "not found" in line or "undefined symbol" in line]
    built_with, here = sdk_versions(found.library)
    versions = dict(found.release.compilers) if found.release is not None else {}
    output.line(str(found.library))
    output.table(["function", "kind"], [(name, KINDS.get(kind, kind)) for kind, name in functions])
    output.table(["built for", "with"], list(versions.items()))
    sdk = f"version {' to '.join(built_with)}" if built_with else "a version that it does not say"
    output.line(f"SDK: built with {sdk}, version {here} is here")
    output.line("needs:", style="bold")
    for line in lines:
        output.line(f"  {line}", style="red" if line in missing else None)
    if found.problem:
        output.line(f"it does not load: {found.problem}", style="red")
    output.document({
        "library": found.library, "functions": [{"name": name, "kind": kind} for kind, name in functions],
        "compilers": versions, "sdk": {"built_with": built_with, "here": here}, "needs": lines, "missing": missing,
        "problem": found.problem,
    })
    return FAILED if found.problem else DONE


INSPECT = inspect
