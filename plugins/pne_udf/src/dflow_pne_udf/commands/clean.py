"""`dflow udf clean`."""

from __future__ import annotations

from dflow_core.cli.command import DONE, Refused, command, settings
from dflow_core.cli.output import Output, counted, size
from dflow_core.cli.services import Services
from dflow_core.options import resolve
from dflow_pne_udf.building.store import BuildStore
from dflow_pne_udf.engine import store_folder


@command("clean")
@settings
def clean(services: Services, output: Output, options: dict[str, str]) -> int:
    """Delete what was built, and the folders it was built in; running graphs may miss files beside their libraries."""
    folder = store_folder({"cache_dir": resolve(session=options).cache_dir})
    if not folder:
        raise Refused("no folder for built functions can be written here", "set DFLOW_CACHE_DIR to one that can")
    count, freed = BuildStore(folder).clear()
    output.line(f"{folder}: {counted(count, 'package')} deleted, {size(freed)} freed")
    output.document({"folder": folder, "deleted": count, "freed": freed})
    return DONE


CLEAN = clean
