from __future__ import annotations

import errno
import logging
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflow_core.compiler import CompileCache, FlowModelBuilder
from dflow_core.compiler.cache import Kept, entry_key
from dflow_core.graph import CountBatch, FlowData, FlowGraph, FlowNode
from dflow_core.model import GraphModel, UdfModel, pack_submodel

MODEL = GraphModel(name="m", engine="CPU", framework="onnx", source=b"source" * 20, blob=b"blob")
KEY = b"k" * 32


@pytest.fixture
def cache(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path / "cache é'\"$x" / "deep")


def entry(cache: CompileCache, key: bytes = KEY) -> Path:
    return Path(cache.folder) / (key.hex() + ".model")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_what_is_stored_is_loaded(cache):
    assert cache.load(KEY) is None
    assert cache.store(KEY, MODEL, {"node": "n"})
    assert cache.load(KEY) == Kept(MODEL)
    assert cache.load(b"o" * 32) is None


def test_notes_are_kept_with_the_model(cache):
    cache.store(KEY, MODEL, {}, ["took the slow way", "é"])
    assert cache.load(KEY) == Kept(MODEL, ("took the slow way", "é"))


def test_a_hit_tells_what_the_engine_told_when_it_compiled(fakes, cache, model):
    """`dflow plan` says which runtime a model got and why, also the second time."""
    notes = []
    for _ in range(2):
        graph = FlowGraph([model("a", "this model")(FlowData("x"))])
        _, report = FlowModelBuilder(fakes.registry(), {}, cache).build_and_report(graph)
        notes.append((report.nodes[0].cache, report.nodes[0].notes))
    assert notes == [("miss", ("this model was easy",)), ("hit", ("this model was easy",))]


@pytest.mark.parametrize(("options", "label"), [({}, "g"), ({"graph_key": "mine"}, "mine")])
def test_entries_name_the_graph_or_its_key(fakes, cache, model, options, label):
    """BC-065: the option does what it says."""
    graph = FlowGraph([model("a")(FlowData("x"))], options, "g")
    FlowModelBuilder(fakes.registry(), {}, cache).build(graph)
    assert [entry.label["graph"] for entry in cache.entries()] == [label]


def test_the_folder_is_nobody_elses(cache):
    """Entries hold code that is run."""
    cache.store(KEY, MODEL, {})
    assert stat.S_IMODE(os.stat(cache.folder).st_mode) & 0o077 == 0


def test_entries_are_listed_with_labels_and_cleared(cache):
    cache.store(KEY, MODEL, {"node": "é", "graph": "g"})
    cache.store(b"o" * 32, MODEL, {"node": "other"})
    os.utime(entry(cache), (1, 1))
    (newer, older) = cache.entries()
    assert (newer.label["node"], older.label["node"], older.used) == ("other", "é", 1.0)
    assert cache.size() == newer.size + older.size == sum(f.stat().st_size for f in Path(cache.folder).iterdir())
    assert cache.load(KEY) == Kept(MODEL)
    assert cache.entries()[0].key == KEY.hex(), "reading counts as use"
    size = cache.size()
    assert cache.clear() == (2, size)
    assert cache.entries() == [] and cache.size() == 0


def test_a_cache_that_is_not_there_is_empty(cache):
    assert cache.entries() == [] and cache.clear() == (0, 0)


def test_what_killed_writers_left_is_cleared_when_it_is_old(cache):
    """BC-086: a writer that still works is not disturbed."""
    cache.store(KEY, MODEL, {})
    for name in (".tmp-1-old", ".tmp-2-new"):
        (Path(cache.folder) / name).write_bytes(b"half")
    os.utime(Path(cache.folder) / ".tmp-1-old", (1, 1))
    assert cache.clear()[0] == 1
    assert os.listdir(cache.folder) == [".tmp-2-new"]


def test_other_files_stay(cache):
    cache.store(KEY, MODEL, {})
    (Path(cache.folder) / "mine.txt").write_bytes(b"x")
    cache.clear()
    assert os.listdir(cache.folder) == ["mine.txt"]


def broken_entries(data: bytes) -> list[bytes]:
    flipped = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    return [data[:length] for length in range(0, len(data), 7)] + flipped + [data + b"\0"]


def test_a_broken_entry_is_deleted_with_one_warning_and_made_again(cache, caplog):
    """BC-086: half-written, cut off, or with any byte changed."""
    cache.store(KEY, MODEL, {"node": "n"})
    whole = entry(cache).read_bytes()
    for broken in broken_entries(whole):
        caplog.clear()
        entry(cache).write_bytes(broken)
        assert cache.load(KEY) is None
        assert len(warnings(caplog)) == 1 and str(entry(cache)) in warnings(caplog)[0]
        assert not entry(cache).exists()
    cache.store(KEY, MODEL, {"node": "n"})
    assert entry(cache).read_bytes() == whole


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_any_bytes_are_no_entry(cache, data):
    os.makedirs(cache.folder, exist_ok=True)
    entry(cache).write_bytes(data)
    assert len(cache.entries()) == 1
    assert cache.load(KEY) is None


def test_an_entry_under_another_name_is_not_taken(cache, caplog):
    cache.store(KEY, MODEL, {})
    other = b"o" * 32
    entry(cache).rename(entry(cache, other))
    assert cache.load(other) is None
    assert "belongs to another key" in warnings(caplog)[0]


def test_a_right_checksum_over_a_broken_model_is_noticed(cache, monkeypatch):
    monkeypatch.setattr("dflow_core.compiler.cache.pack_submodel", lambda model: [pack_submodel(model)[0][:64]])
    cache.store(KEY, MODEL, {})
    assert cache.load(KEY) is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_folder_that_cannot_be_written_is_said_once(cache, caplog, monkeypatch, number):
    """BC-086: disk full, read-only: it goes on without."""
    def refuse(*_args: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("dflow_core.compiler.cache.write_atomically", refuse)
    assert [cache.store(bytes([i]) * 32, MODEL, {}) for i in range(3)] == [False] * 3
    (text,) = warnings(caplog)
    assert os.strerror(number) in text and cache.folder in text and "going on without" in text
    assert cache.load(KEY) is None


def test_a_folder_that_cannot_be_made_is_said_once(tmp_path, caplog):
    (tmp_path / "file").write_bytes(b"")
    cache = CompileCache(tmp_path / "file" / "cache")
    assert not cache.store(KEY, MODEL, {}) and not cache.store(KEY, MODEL, {})
    assert len(warnings(caplog)) == 1


def test_a_folder_that_cannot_be_read_is_said_once(cache, caplog):
    entry(cache).mkdir(parents=True)
    assert cache.load(KEY) is None and cache.load(KEY) is None
    assert len(warnings(caplog)) == 1
    assert cache.entries()[0].label == {}


def test_threads_that_write_and_read_one_entry_never_see_half_of_it(cache, caplog):
    """BC-086."""
    stop, seen = threading.Event(), []

    def write() -> None:
        while not stop.is_set():
            cache.store(KEY, MODEL, {})

    def read() -> None:
        for _ in range(100):
            seen.append(CompileCache(cache.folder).load(KEY))

    cache.store(KEY, MODEL, {})
    writers = [threading.Thread(target=write) for _ in range(2)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    for thread in writers:
        thread.join()
    assert seen == [Kept(MODEL)] * 200 and warnings(caplog) == []
    assert os.listdir(cache.folder) == [entry(cache).name]


PARTS = st.dictionaries(st.text(max_size=3), st.binary(max_size=3))


@given(PARTS, PARTS)
def test_keys_are_equal_exactly_for_equal_parts(first, second):
    assert (entry_key(first) == entry_key(second)) is (first == second)
    assert entry_key(first) == entry_key(dict(reversed(first.items())))


class Builds:
    """Builds graphs and says which nodes were compiled."""

    def __init__(self, fakes, folder: str) -> None:
        self.fakes, self.folder, self.options = fakes, folder, {}

    def __call__(self, *nodes: FlowNode) -> list[str]:
        self.fakes.forget()
        x = FlowData("x")
        graph = FlowGraph([node(x) for node in nodes], name="g")
        builder = FlowModelBuilder(self.fakes.registry(), self.options, CompileCache(self.folder))
        model, report = builder.build_and_report(graph)
        hits = {node.node for node in report.nodes if node.cache == "hit"}
        assert hits | set(self.fakes.compiled) == set(model.submodels)
        assert {node.node for node in report.nodes if node.cache == "miss"} == set(self.fakes.compiled)
        assert report.cache_hits == len(hits)
        return self.fakes.compiled


@pytest.fixture
def builds(fakes, cache) -> Builds:
    return Builds(fakes, cache.folder)


def test_without_a_change_nothing_is_compiled_again(builds, func, model):
    """BC-087: no change is a hit."""
    assert builds(func("a"), model("b")) == ["a", "b"]
    assert builds(func("a"), model("b")) == []


def test_what_comes_from_the_cache_is_what_was_compiled(fakes, cache, func, model):
    def build():
        graph = FlowGraph([func("a", code="1")(model("b").set_options(threads=2)(FlowData("x")))], name="g")
        return FlowModelBuilder(fakes.registry(), {}, cache).build(graph)

    assert build() == build()
    assert fakes.compiled == ["a", "b"]


def change_code(make: Callable[..., FlowNode], _builds: Builds) -> FlowNode:
    return make(code="changed")


def change_init_param(make: Callable[..., FlowNode], _builds: Builds) -> FlowNode:
    node = make()
    node.point.set_init_param("p", 1)
    return node


def change_engine_version(make: Callable[..., FlowNode], builds: Builds) -> FlowNode:
    builds.fakes.versions["UDF"] = "2"
    return make()


def change_ports(make: Callable[..., FlowNode], _builds: Builds) -> FlowNode:
    return make(outs=2)


@pytest.mark.parametrize("change", [change_code, change_init_param, change_engine_version, change_ports])
def test_a_change_of_a_function_rebuilds_that_function(builds, func, model, change):
    """BC-087."""
    builds(func("a"), model("b"))
    made = change(lambda **more: func("a", **more), builds)
    x = FlowData("x")
    outputs = made(x)
    graph = FlowGraph([*(outputs if isinstance(outputs, tuple) else (outputs,)), model("b")(x)], name="g")
    builds.fakes.forget()
    FlowModelBuilder(builds.fakes.registry(), {}, CompileCache(builds.folder)).build(graph)
    assert builds.fakes.compiled == ["a"]


@pytest.mark.parametrize("settings_", [{"content": "changed"}, {"precision": "bf16"}])
def test_a_change_of_a_model_rebuilds_that_model(builds, func, model, settings_):
    """BC-087: its bytes, its settings."""
    builds(func("a"), model("b"))
    assert builds(func("a"), model("b", **settings_)) == ["b"]
    assert builds(func("a"), model("b")) == [], "the old one is still there"


def test_a_change_of_an_option_an_engine_counts_rebuilds(builds, model):
    """BC-087: one that no engine looks at does not."""
    builds(model("b"))
    builds.options = {"queue_depth": "3"}
    assert builds(model("b")) == []
    builds.options = {"plugin.fake": "1"}
    assert builds(model("b")) == ["b"]


def test_a_change_of_dflow_rebuilds_everything(builds, func, model, monkeypatch):
    """BC-087."""
    builds(func("a"), model("b"))
    monkeypatch.setattr("dflow_core.compiler.builder._dflow_version", lambda: "99")
    assert builds(func("a"), model("b")) == ["a", "b"]


def test_a_change_of_the_plugin_interface_rebuilds_everything(builds, func, model, monkeypatch):
    """BC-087."""
    builds(func("a"), model("b"))
    monkeypatch.setattr("dflow_core.compiler.nodes.SPI_VERSION", 99)
    assert builds(func("a"), model("b")) == ["a", "b"]


def test_another_engine_does_not_get_the_first_ones_model(builds, model):
    """BC-087."""
    builds(model("b"))
    assert builds(model("b").set_options(engine="CPU2")) == ["b"]


def test_what_an_engine_does_not_see_rebuilds_nothing(builds, func, model):
    """Names, instances, queues, batching and the graph around are not compiled into a model."""
    builds(func("a"), model("b"))
    node = model("renamed").set_options(instances=3, depth=2)
    node.map_input(0, node.point, 0, [CountBatch(2)])
    assert builds(func("other"), node) == ["renamed__BuiltIn_CountBatch_0"]


def test_a_node_of_another_name_gets_its_own_name(fakes, cache, model):
    def build(name: str) -> str:
        graph = FlowGraph([model(name)(FlowData("x"))])
        return FlowModelBuilder(fakes.registry(), {}, cache).build(graph).submodels[name].name

    assert [build("a"), build("b")] == ["a", "b"]
    assert fakes.compiled == ["a"]


def test_what_is_cheaper_to_compile_is_neither_kept_nor_shared(builds, registry, func, monkeypatch):
    builds(func("warm up"))
    monkeypatch.setattr(builds.fakes.engines["UDF"], "cache_key", lambda point, context: b"")
    for _ in range(2):
        builds.fakes.forget()
        x = FlowData("x")
        graph = FlowGraph([func("a")(x), func("b")(x)])
        _, report = FlowModelBuilder(builds.fakes.registry(), {}, CompileCache(builds.folder)).build_and_report(graph)
        assert {node.node: node.cache for node in report.nodes} == {"a": "off", "b": "off"}
        assert builds.fakes.compiled == ["a", "b"]
    assert len(CompileCache(builds.folder).entries()) == 1


def test_a_failed_compilation_is_not_kept(builds, model):
    for _ in range(2):
        with pytest.raises(Exception, match="broken"):
            builds(model("a", "broken"))
        assert builds.fakes.compiled == ["a"]


def test_a_build_goes_on_when_the_cache_cannot_be_written(fakes, tmp_path, model, caplog):
    (tmp_path / "file").write_bytes(b"")
    cache = CompileCache(tmp_path / "file" / "x")
    x = FlowData("x")
    graph = FlowGraph([model("a", "1")(x), model("b", "2")(x)])
    assert set(FlowModelBuilder(fakes.registry(), {}, cache).build(graph).submodels) == {"a", "b"}
    assert len(warnings(caplog)) == 1


def test_a_model_of_another_engine_under_a_key_is_not_taken(fakes, cache, model, monkeypatch):
    monkeypatch.setattr(CompileCache, "load", lambda self, key: Kept(UdfModel(name="x", engine="UDF")))
    built = FlowModelBuilder(fakes.registry(), {}, cache).build(FlowGraph([model("a")(FlowData("x"))]))
    assert isinstance(built.submodels["a"], GraphModel)
