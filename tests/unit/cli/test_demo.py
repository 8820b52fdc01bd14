"""`dflow demo`."""

from __future__ import annotations

import sys

import pytest

from dflow_core.cli.commands import demo


@pytest.fixture(autouse=True)
def own_arguments(monkeypatch):
    monkeypatch.setattr(sys, "argv", list(sys.argv))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A demo that ends as its first argument says."""
    (tmp_path / "fake_demo").mkdir()
    (tmp_path / "fake_demo/__init__.py").write_text("")
    (tmp_path / "fake_demo/__main__.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(eval(sys.argv[1]))\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(demo, "PACKAGE", "fake_demo")
    yield
    for name in [name for name in sys.modules if name.startswith("fake_demo")]:
        del sys.modules[name]


def test_a_missing_demo_says_how_to_get_it(cli, monkeypatch):
    monkeypatch.setattr(demo, "PACKAGE", "no_such_package")
    result = cli("demo")
    assert result.code == 2 and "make demo" in result.err


@pytest.mark.parametrize(("ends", "code"), [("0", 0), ("3", 3), ("None", 0), ("'broken'", 1)])
def test_the_demo_gives_its_own_exit_code(cli, package, ends, code):
    assert cli("demo", "--", ends).code == code


def test_arguments_reach_the_demo(cli, package):
    assert "['0', '--pages', 'folder', '--json']" in cli("demo", "--json", "--", "0", "--pages", "folder").out
    assert "['0', '--pages', 'folder']" in cli("demo", "0", "--pages", "folder").out
