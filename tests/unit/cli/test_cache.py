"""`dflow cache`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflow_core.compiler import CompileCache
from dflow_core.model import UdfModel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cache = CompileCache(tmp_path / "kept")
    for number in range(2):
        model = UdfModel(name="f", engine="UDF", builtin="f")
        cache.store(bytes([number]) * 32, model, {"node": f"node{number}", "engine": "UDF", "graph": "g"})
    return tmp_path / "kept"


def test_kept_models_are_listed(cli, folder):
    result = cli("cache", "list", "-O", f"cache_dir={folder}")
    assert result.code == 0
    assert "node0" in result.out and "node1" in result.out and f"{folder}: 2 models" in result.out


def test_the_document_lists_them_too(cli, folder):
    found = cli("cache", "list", "--json", env={"DFLOW_CACHE_DIR": str(folder)}).json
    assert {one["label"]["node"] for one in found["entries"]} == {"node0", "node1"}
    assert found["size"] == sum(one["size"] for one in found["entries"]) > 0


def test_clearing_deletes_them(cli, folder):
    result = cli("cache", "clear", "--json", "-O", f"cache_dir={folder}")
    assert result.code == 0 and result.json["deleted"] == 2 and result.json["freed"] > 0
    assert list(folder.iterdir()) == []


def test_a_broken_entry_is_listed_without_a_label(cli, folder):
    (folder / ("ab" * 32 + ".model")).write_bytes(b"rubbish")
    assert "abababababab" in cli("cache", "list", "-O", f"cache_dir={folder}").out


def test_an_empty_cache_is_no_error(cli, tmp_path):
    result = cli("cache", "list", "-O", f"cache_dir={tmp_path}/none")
    assert result.code == 0 and "0 models" in result.out


def test_without_a_folder_the_fix_is_named(cli):
    result = cli("cache", "list", env={"HOME": "", "XDG_CACHE_HOME": ""})
    assert result.code == 2 and "DFLOW_CACHE_DIR" in result.err
