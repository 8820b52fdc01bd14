"""`dflow udf new`."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import click

from dflow_core.cli.command import DONE, Refused, command
from dflow_core.cli.output import Output
from dflow_core.cli.services import Services

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@command("new")
@click.argument("name")
@click.option("--language", type=click.Choice(["cpp", "python"]), default="cpp", show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=Path(), help="Where its folder is made.")
def new(services: Services, output: Output, name: str, language: str, folder: Path) -> int:
    """Write a small complete project: a function, its build, a test and a README."""
    if not _NAME.fullmatch(name):
        raise Refused(f"{name!r} cannot name a function", "letters, digits and _, a letter first")
    place = folder / name
    if place.exists():
        raise Refused(f"{place} is there already", "choose another name, or --folder")
    files = write_project(name, language, place)
    for file in files:
        output.line(f"{place / file}")
    step = f"dflow udf build {place}" if language == "cpp" else f"python {place / 'tests' / f'test_{name}.py'}"
    output.line(f"\nnext: {step}")
    output.document({"folder": place, "files": files})
    return DONE


def write_project(name: str, language: str, place: Path) -> list[str]:
    """Write the files of a new project; all of them or none.

    Args:
        name: Name of the function.
        language: `cpp` or `python`.
        place: Its folder; must not be there.

    Returns:
        The files, relative to the folder.

    Raises:
        Refused: the folder cannot be written.
    """
    words = {"@NAME@": name, "@CLASS@": "".join(part[:1].upper() + part[1:] for part in name.split("_"))}
    # Their names end in .in, so that no tool takes them for code of this package.
    sources = sorted((TEMPLATES / language).rglob("*.in"))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".dflow-new-", dir=place.parent))
    except OSError as cause:
        raise Refused(f"{place.parent} cannot be written: {cause.strerror or cause}") from cause
    try:
        files = [_write(path, TEMPLATES / language, beside, words) for path in sources]
        beside.chmod(0o777 & ~_umask())
        beside.rename(place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return files


def _write(source: Path, root: Path, folder: Path, words: dict[str, str]) -> str:
    name, text = source.relative_to(root).as_posix().removesuffix(".in"), source.read_text("utf-8")
    for word, value in words.items():
        name, text = name.replace(word, value), text.replace(word, value)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return name


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current


NEW = new
