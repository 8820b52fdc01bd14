"""What documents show runs and prints what they say.

In every page the ```python blocks are one program, run from top to bottom; a ```text block right behind one is what it
prints (`...` stands for anything). A ```console block holds `$ dflow ...` and `$ pip install ./folder` lines with what
they print. A ```python block marked `file=path` is written to that file; one marked `no-run` is not run.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(?P<kind>\w+)(?P<marks>[^\n]*)\n(?P<body>.*?)^```\n?(?P<gap>\s*)", re.M | re.S)
MARK = "-- end of block {} --"
NEEDED = ("tests", "examples")
INSTALLED = "installed"


@dataclass
class Block:
    """A fenced block, with what it should print; None where the page does not say."""

    kind: str
    body: str
    line: int
    prints: str | None = None
    file: str = ""


def blocks_of(text: str) -> list[Block]:
    """Blocks that run, in order."""
    found: list[Block] = []
    before: Block | None = None
    for match in BLOCK.finditer(text):
        kind, body = match["kind"], match["body"]
        line = text.count("\n", 0, match.start()) + 1
        if kind == "text" and before is not None:
            before.prints = body
        named = re.search(r"file=(\S+)", match["marks"])
        wanted = (kind in ("python", "console") or named) and "no-run" not in match["marks"]
        block = Block(kind, body, line, file=named[1] if named else "") if wanted else None
        found += [block] if block else []
        directly = text[match.end() :].startswith("```")
        before = block if directly else None
    return found


def pages() -> list[Path]:
    found = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    return [page for page in found if blocks_of(page.read_text(encoding="utf-8"))]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(folder / INSTALLED), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONUNBUFFERED": "1", "DFLOW_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": path}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL
    )


def program(blocks: list[Block]) -> str:
    """One program of all python blocks; tracebacks show the lines of the page."""
    lines: list[str] = []
    for number, block in enumerate(blocks):
        lines += [""] * (block.line - len(lines))
        lines += block.body.rstrip("\n").split("\n")
        lines.append(f"print({MARK.format(number)!r}, flush=True)")
    return "\n".join(lines) + "\n"


def same(expected: str, got: str) -> bool:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(expected, got, flags)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like the repository to the examples."""
    for name in NEEDED:
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.timeout(120)
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_of_a_page_runs_and_prints_what_it_says(page, folder):
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    for block in blocks:
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.body, encoding="utf-8")
        if block.kind == "console":
            check_console(block, folder)
    python = [block for block in blocks if block.kind == "python" and not block.file]
    if python:
        script = folder / f"{page.stem.replace('-', '_').lower()}_examples.py"
        script.write_text(program(python), encoding="utf-8")
        done = run([sys.executable, str(script)], folder)
        assert done.returncode == 0, done.stdout + done.stderr
        rest = done.stdout
        for number, block in enumerate(python):
            printed, _, rest = rest.partition(MARK.format(number) + "\n")
            if block.prints is not None:
                assert same(block.prints, printed), f"line {block.line} prints:\n{printed}"


def check_console(block: Block, folder: Path) -> None:
    for part in re.split(r"^\$ ", block.body, flags=re.M)[1:]:
        command, _, expected = part.partition("\n")
        words = command.split()
        if words[:2] == ["pip", "install"]:
            how = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", INSTALLED]
            start = [sys.executable, "-m", "pip", "install", *how, *words[2:]]
        else:
            assert words[0] == "dflow", f"line {block.line}: only dflow and pip install run in examples"
            start = [sys.executable, "-m", "dflow_core.cli.main", *words[1:]]
        done = run(start, folder)
        assert done.returncode == 0, f"line {block.line}: $ {command}\n{done.stdout}{done.stderr}"
        assert not expected.strip() or same(expected, done.stdout + done.stderr), (
            f"line {block.line}: $ {command}\n{done.stdout}{done.stderr}"
        )


def test_the_reference_is_up_to_date():
    import importlib.util

    spec = importlib.util.spec_from_file_location("build_reference", ROOT / "docs" / "build_reference.py")
    assert spec is not None and spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    stale = [
        name
        for name, text in builder.pages().items()
        if not (builder.FOLDER / name).exists() or (builder.FOLDER / name).read_text(encoding="utf-8") != text
    ]
    assert not stale, f"run `make docs`: {', '.join(stale)}"


def test_blocks_are_found_with_what_they_print():
    text = "# A\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python no-run\nx\n```\n\n```text\nfree\n```\n"
    (block,) = blocks_of(text)
    assert (block.body, block.prints, block.line) == ("print(1)\n", "1\n", 3)
