"""Commands that plugins bring."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

GOOD = """
import click

@click.command(help="Brew tea. And more.")
def COMMAND():
    click.echo("tea")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Installs a distribution that brings a command, by the text of its module."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name: str, source: str) -> None:
        info = tmp_path / f"kettle_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kettle-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[dflow.commands]\n{name} = kettle_{name}:COMMAND\n")
        (tmp_path / f"kettle_{name}.py").write_text(source)
        monkeypatch.delitem(sys.modules, f"kettle_{name}", raising=False)

    return make


def test_a_command_of_a_plugin_runs(cli, install) -> None:
    install("brew", GOOD)
    done = cli("brew")
    assert (done.code, done.out) == (0, "tea\n")


def test_it_is_listed_with_its_first_sentence(cli, install) -> None:
    install("brew", GOOD)
    assert "brew" in cli("--help").out and "Brew tea." in cli("--help").out


def test_a_broken_one_says_whose_it_is_and_leaves_the_others_alone(cli, install) -> None:
    install("spill", "raise OSError('no water')")
    done = cli("spill")
    assert done.code == 2 and "kettle-spill" in done.err and "no water" in done.err
    listing = cli("--help")
    assert listing.code == 0 and "no water" in listing.out and "plugins" in listing.out


def test_what_is_no_command_is_refused(cli, install) -> None:
    install("jug", "COMMAND = 7")
    done = cli("jug")
    assert done.code == 2 and "not a click.Command" in done.err


def test_a_plugin_cannot_replace_a_command(cli, install) -> None:
    install("plugins", "raise OSError('mine now')")
    assert cli("plugins").code == 0


def test_an_unknown_command_is_still_unknown(cli) -> None:
    done = cli("teapot")
    assert done.code == 2 and "teapot" in done.err
