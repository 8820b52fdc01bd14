"""Which paths tools can take, and how they reach the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dflow_core.errors import CompileError
from dflow_pne_udf.building.plain_paths import is_plain, plain_source, plain_tree


@pytest.mark.parametrize("letter", '"\';#\\$%:=*?()[]{}<>|&!~`\n\t')
def test_letters_that_mean_something_are_not_plain(letter):
    assert is_plain("/a b/模型-é_1.0+x@y") and not is_plain(f"/a{letter}b")


def test_link_stands_for_the_last_odd_folder_so_that_parents_are_reached(tmp_path):
    source = tmp_path / "o;dd" / "plain" / "project"
    source.mkdir(parents=True)
    (source.parent / "shared.h").touch()
    tree = tmp_path / "tree"
    tree.mkdir()
    place = plain_source(str(source), tree)
    assert is_plain(place.path) and os.path.samefile(place.path, source)
    beside = os.path.normpath(os.path.join(place.path, "..", "shared.h"))
    assert place.real(beside) == str(source.parent / "shared.h")
    assert place.real("/usr/include/stdio.h") == "/usr/include/stdio.h"
    assert plain_source(str(source), tree) == place, "an old link is replaced"
    plain = tmp_path / "plain"
    assert plain_source(str(plain), tree).path == str(plain) and not (tree / "source").is_symlink()


def test_builds_are_elsewhere_where_their_folder_is_odd(tmp_path, monkeypatch):
    with plain_tree(tmp_path / "trees") as place:
        assert place == tmp_path / "trees"
    with plain_tree(tmp_path / "tr#ees") as place:
        assert is_plain(str(place)) and place.is_dir()
    assert not place.exists()
    odd = tmp_path / "tm;p"
    odd.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    told = "CMake can build neither in .*tr#ees nor in .*tm;p"
    with pytest.raises(CompileError, match=told), plain_tree(Path("/tr#ees")):
        pass
    assert not list(odd.iterdir())
