"""`dflow udf env`."""

from __future__ import annotations

import shlex

from dflow_core.cli.command import DONE, command
from dflow_core.cli.output import Output
from dflow_core.cli.services import Services
from dflow_pne_udf import sdk_dir


@command("env")
def env(services: Services, output: Output) -> int:
    """The variables that a CMakeLists of C++ functions needs: `eval "$(dflow udf env)"`."""
    found = sdk_dir.variables()
    for name, value in found.items():
        output.line(f"export {name}={shlex.quote(value)}")
    output.document(found)
    return DONE


ENV = env
