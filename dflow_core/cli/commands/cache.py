"""`dflow cache`."""

from __future__ import annotations

import time

import click

from dflow_core.cli.command import DONE, Refused, command, settings
from dflow_core.cli.output import Output, counted, size
from dflow_core.cli.services import Services
from dflow_core.compiler import CompileCache
from dflow_core.options import resolve

LABELS = ("node", "engine", "graph")


@click.group("cache")
def cache() -> None:
    """List or clear the cache of compiled models."""


@command("list")
@settings
def list_(services: Services, output: Output, options: dict[str, str]) -> int:
    """Every compiled model that is kept, the one used last first."""
    kept = _open(options)
    entries = kept.entries()
    output.table(
        ["key", "size#", "last used", *LABELS],
        [
            (one.key[:12], size(one.size), _when(one.used), *(one.label.get(name, "-") for name in LABELS))
            for one in entries
        ],
    )
    total = sum(one.size for one in entries)
    output.line(f"{kept.folder}: {counted(len(entries), 'model')}, {size(total)}")
    output.document({"folder": kept.folder, "size": total, "entries": entries})
    return DONE


@command("clear")
@settings
def clear(services: Services, output: Output, options: dict[str, str]) -> int:
    """Delete every compiled model that is kept; running graphs do not notice."""
    kept = _open(options)
    count, freed = kept.clear()
    output.line(f"{kept.folder}: {counted(count, 'model')} deleted, {size(freed)} freed")
    output.document({"folder": kept.folder, "deleted": count, "freed": freed})
    return DONE


def _open(options: dict[str, str]) -> CompileCache:
    folder = resolve(session=options).cache_dir
    if not folder:
        raise Refused("no folder for the cache can be written here", "set DFLOW_CACHE_DIR to one that can")
    return CompileCache(folder)


def _when(used: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(used))


cache.add_command(list_)
cache.add_command(clear)

COMMAND = cache
