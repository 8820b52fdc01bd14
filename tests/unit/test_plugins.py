"""Plugins are found, loaded one by one, and answer for what they give."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from dflow_core.errors import PluginError
from dflow_core.graph import ProcessPoint
from dflow_core.plugins import PluginRegistry, PluginReport, load_plugins, loading
from dflow_core.spi import (
    SPI_VERSION,
    Engine,
    EngineEntry,
    LinkEntry,
    LinkTransport,
    Transport,
    TransportEntry,
    UdfEntry,
    WorkerLoader,
    hookimpl,
)

INSTALLED = {source.report for source in loading._discover()}


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the plugins of this environment; those a test installs are found."""
    discover = loading._discover
    monkeypatch.setattr(loading, "_discover", lambda: [s for s in discover() if s.report not in INSTALLED])


class OddPoint(ProcessPoint):
    """A kind of process point for these tests."""

    kind = "odd"


def _never(*_args: object) -> Engine:
    raise AssertionError("listing plugins must not make engines")


def _no_worker() -> WorkerLoader:
    raise AssertionError("listing plugins must not load workers")


def _no_transport() -> Transport:
    raise AssertionError("listing plugins must not make transports")


def _no_link() -> LinkTransport:
    raise AssertionError("listing plugins must not make links")


def engine(engine_id: str, priority: int = 0, accepts: Callable[[ProcessPoint], bool] = lambda _p: True) -> EngineEntry:
    return EngineEntry(engine_id, accepts, _never, _no_worker, priority=priority)


def plugin(
    name: str, engines: Sequence[EngineEntry] = (), transports: Sequence[TransportEntry] = (),
    udfs: Sequence[UdfEntry] = (), version: int | None = None, links: Sequence[LinkEntry] = (),
) -> ModuleType:
    """A plugin module made in memory."""
    module = ModuleType(name)

    @hookimpl
    def dflow_register_engines() -> Sequence[EngineEntry]:
        return engines

    @hookimpl
    def dflow_register_transports() -> Sequence[TransportEntry]:
        return transports

    @hookimpl
    def dflow_register_udfs() -> Sequence[UdfEntry]:
        return udfs

    @hookimpl
    def dflow_register_links() -> Sequence[LinkEntry]:
        return links

    for hook in (dflow_register_engines, dflow_register_transports, dflow_register_links, dflow_register_udfs):
        setattr(module, hook.__name__, hook)
    if version is not None:
        module.DFLOW_SPI_VERSION = version  # type: ignore[attr-defined]
    return module


def registry(*modules: ModuleType) -> PluginRegistry:
    return load_plugins(builtin=modules, allow=())


def local(scheme: str, priority: int = 0, cross_process: bool = True) -> TransportEntry:
    return TransportEntry(scheme, _no_transport, cross_process, priority)


class Site:
    """A folder of installed distributions, as pip leaves them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def install(self, name: str, source: str, *, version: str = "1.0", distribution: str = "") -> None:
        """Install a one-module plugin."""
        (self.path / f"{name}.py").write_text(textwrap.dedent(source))
        distribution = distribution or name.replace("_", "-")
        info = self.path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[dflow.plugins]\n{name} = {name}\n")

    def report(self, found: PluginRegistry) -> dict[str, PluginReport]:
        """What became of the plugins of this folder."""
        names = {path.stem for path in self.path.glob("*.py")}
        return {report.name: report for report in found.report if report.name in names}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield Site(tmp_path)
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


ENGINE_PLUGIN = """
    from dflow_core.spi import EngineEntry, hookimpl

    @hookimpl
    def dflow_register_engines():
        return [EngineEntry("{id}", lambda point: True, lambda: None, lambda: None)]
"""


def test_installed_plugin_is_found_by_entry_point(site: Site) -> None:
    site.install("t_good", ENGINE_PLUGIN.format(id="T-GOOD"), version="2.5")
    found = load_plugins(allow={"t_good"})
    assert found.engine("T-GOOD").id == "T-GOOD"
    report = site.report(found)["t_good"]
    assert (report.state, report.distribution, report.version) == ("loaded", "t-good", "2.5")
    assert report.provides == ("engine T-GOOD",)
    assert report.error == ""


def test_plugin_whose_import_raises_leaves_the_others_alone(site: Site) -> None:
    site.install("t_good", ENGINE_PLUGIN.format(id="T-GOOD"))
    site.install("t_bad", "raise OSError('libdriver.so: cannot open shared object file')")
    found = load_plugins(allow={"t_good", "t_bad"})
    assert found.engine("T-GOOD")
    report = site.report(found)["t_bad"]
    assert report.state == "failed"
    assert report.error == "OSError: libdriver.so: cannot open shared object file"
    assert "t_bad.py" in report.detail


def test_error_of_a_failed_plugin_is_raised_when_its_engine_is_asked_for(site: Site) -> None:
    """BC-079: the caller hears engine, plugin, cause and near names; nothing else is taken instead."""
    site.install("t_good", ENGINE_PLUGIN.format(id="NPU-Y"))
    site.install("t_npu", "raise OSError('no device')", version="0.3")
    found = load_plugins(allow={"t_good", "t_npu"})
    with pytest.raises(PluginError) as caught:
        found.engine("NPU-X")
    text = str(caught.value)
    assert "no plugin gives engine 'NPU-X'" in text
    assert "'t_npu' (t-npu 0.3)" in text
    assert "OSError: no device" in text
    assert "did you mean 'NPU-Y'?" in text
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("source", ["import sys; sys.exit(3)", "def oops(:", "import module_that_is_not_there"])
def test_anything_a_plugin_does_at_import_is_caught(site: Site, source: str) -> None:
    site.install("t_bad", source)
    assert site.report(load_plugins(allow={"t_bad"}))["t_bad"].state == "failed"


def test_interrupt_during_loading_is_not_swallowed(site: Site) -> None:
    site.install("t_bad", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_plugins(allow={"t_bad"})


def test_typo_in_an_engine_name_gets_near_names() -> None:
    """BC-079."""
    with pytest.raises(PluginError, match="did you mean 'ACME'"):
        registry(plugin("a", [engine("ACME")])).engine("acmee")


def test_unknown_name_without_near_names_lists_what_is_there() -> None:
    with pytest.raises(PluginError, match="known: A1, B2"):
        registry(plugin("a", [engine("A1"), engine("B2")])).engine("something-else")


@pytest.mark.parametrize(
    ("ask", "hint"),
    [
        (lambda r: r.engine("CPU"), "pip install dflow-pne-cpu"),
        (lambda r: r.engine("UDF"), "pip install dflow-pne-udf"),
        (lambda r: r.engine("NPU"), "pip install dflow-pne-npu"),
        (lambda r: r.transport("shm"), "pip install dflow-transport-shm"),
        (lambda r: r.local_transport(), "pip install dflow-transport-shm"),
        (lambda r: r.udf("_BuiltIn_TimeBatch"), "pip install dflow-builtin-udf"),
        (lambda r: r.udf("_BuiltIn_CountBatch"), "pip install dflow-builtin-udf"),
    ],
)
def test_missing_plugin_of_ours_says_what_to_install(ask: Callable[[PluginRegistry], object], hint: str) -> None:
    with pytest.raises(PluginError) as caught:
        ask(registry())
    assert hint in str(caught.value.hint)


def test_blocked_plugin_is_named_when_its_id_is_missing(site: Site) -> None:
    site.install("t_good", ENGINE_PLUGIN.format(id="T-GOOD"))
    found = load_plugins(allow={"something"})
    assert site.report(found)["t_good"].state == "blocked"
    assert "t_good" not in sys.modules
    with pytest.raises(PluginError, match="the allow list keeps out .*'t_good'.*DFLOW_PLUGINS"):
        found.engine("T-GOOD")


def test_allow_list_comes_from_the_environment(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.install("t_one", ENGINE_PLUGIN.format(id="ONE"))
    site.install("t_two", ENGINE_PLUGIN.format(id="TWO"))
    monkeypatch.setenv("DFLOW_PLUGINS", " t_one , t_three,")
    states = {name: report.state for name, report in site.report(load_plugins()).items()}
    assert states == {"t_one": "loaded", "t_two": "blocked"}


def test_allow_list_takes_distribution_names_too(site: Site) -> None:
    site.install("t_one", ENGINE_PLUGIN.format(id="ONE"), distribution="acme-one")
    assert load_plugins(allow={"acme-one"}).engine("ONE")


def test_empty_environment_variable_loads_all(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.install("t_one", ENGINE_PLUGIN.format(id="T-ONE"))
    monkeypatch.setenv("DFLOW_PLUGINS", "")
    assert site.report(load_plugins())["t_one"].state == "loaded"


def test_equal_ids_are_an_error_that_names_both_plugins() -> None:
    found = registry(plugin("first", [engine("X"), engine("OK")]), plugin("second", [engine("X")]))
    with pytest.raises(PluginError, match="engine 'X' is given by plugins 'first' .* and 'second'"):
        found.engine("X")
    assert found.engine("OK")
    assert "X" not in found.engines
    assert all("engine 'X' is given by" in report.error for report in found.report)
    assert {report.state for report in found.report} == {"loaded"}


def test_equal_ids_within_one_plugin_fail_that_plugin() -> None:
    report = registry(plugin("first", [engine("X"), engine("X")])).report[0]
    assert report.state == "failed"
    assert "gives 'X' twice" in report.error


def test_plugin_for_another_spi_version_is_incompatible() -> None:
    found = registry(plugin("old", [engine("OLD")], version=SPI_VERSION + 1))
    assert found.report[0].state == "incompatible"
    with pytest.raises(PluginError, match=f"written for SPI version {SPI_VERSION + 1}, this dflow has"):
        found.engine("OLD")


def test_misspelt_hook_is_noticed_at_registration() -> None:
    module = plugin("typo", [engine("X")])

    @hookimpl
    def dflow_register_engine() -> Sequence[EngineEntry]:
        return []

    module.dflow_register_engine = dflow_register_engine  # type: ignore[attr-defined]
    report = registry(module).report[0]
    assert report.state == "failed"
    assert "no hook 'dflow_register_engine'; did you mean 'dflow_register_engines'?" in report.error


def test_hook_with_wrong_arguments_is_noticed_at_registration() -> None:
    module = ModuleType("wrong")

    @hookimpl
    def dflow_register_engines(session: object) -> Sequence[EngineEntry]:
        return []

    module.dflow_register_engines = dflow_register_engines  # type: ignore[attr-defined]
    report = registry(module).report[0]
    assert report.state == "failed"
    assert "session" in report.error


def test_hook_without_marker_is_noticed() -> None:
    module = ModuleType("bare")
    module.dflow_register_engines = lambda: [engine("X")]  # type: ignore[attr-defined]
    assert "decorate" in registry(module).report[0].error


@pytest.mark.parametrize("returned", [None, "CPU", 3, engine("X"), [1], [local("x")]])
def test_hook_that_returns_something_else_fails_that_plugin(returned: object) -> None:
    module = plugin("odd", returned)  # type: ignore[arg-type]
    found = registry(module, plugin("good", [engine("G")]))
    assert [report.state for report in found.report] == ["failed", "loaded"]
    assert "dflow_register_engines" in found.report[0].error


def test_hook_that_raises_fails_that_plugin() -> None:
    module = ModuleType("raises")

    @hookimpl
    def dflow_register_engines() -> Sequence[EngineEntry]:
        raise RuntimeError("driver says no")

    module.dflow_register_engines = dflow_register_engines  # type: ignore[attr-defined]
    found = registry(module, plugin("good", [engine("G")]))
    assert found.report[0].error == "RuntimeError: driver says no"
    assert found.engine("G")


def test_engine_of_highest_priority_that_accepts_is_chosen() -> None:
    found = registry(plugin("a", [engine("LOW"), engine("HIGH", 5), engine("TOP", 9, lambda _p: False)]))
    assert found.engine_for(OddPoint(name="p")).id == "HIGH"


def test_engine_the_user_names_is_taken_whatever_its_priority() -> None:
    found = registry(plugin("a", [engine("LOW"), engine("HIGH", 5)]))
    assert found.engine_for(OddPoint(name="p"), "LOW").id == "LOW"


@pytest.mark.parametrize(("wanted", "asked", "found_id"), [
    ("CARD", "host", "HOST"), ("CARD", "", "CARD"), ("", "host", "HOST"), ("HOST", "", "HOST"),
])
def test_engine_may_name_the_one_that_takes_over(wanted: str, asked: str, found_id: str) -> None:
    card = dataclasses.replace(
        engine("CARD", -1), instead=lambda _point, options: "HOST" if options.get("place") == "host" else ""
    )
    found = registry(plugin("a", [card, engine("HOST")]))
    assert found.engine_for(OddPoint(name="p"), wanted, {"place": asked}).id == found_id


def test_engine_that_takes_over_must_be_there_and_take_the_point() -> None:
    card = dataclasses.replace(engine("CARD"), instead=lambda *_: "HOST")
    with pytest.raises(PluginError, match="HOST"):
        registry(plugin("a", [card])).engine_for(OddPoint(name="p"), "CARD")
    with pytest.raises(PluginError, match="engine 'HOST' does not take process points of kind 'odd'"):
        registry(plugin("a", [card, engine("HOST", 0, lambda _p: False)])).engine_for(OddPoint(name="p"), "CARD")


def test_engine_of_negative_priority_is_for_those_who_name_it() -> None:
    found = registry(plugin("a", [engine("SHY", -1)]))
    assert found.engine_for(OddPoint(name="p"), "SHY").id == "SHY"
    with pytest.raises(PluginError, match="no engine takes process points of kind 'odd'"):
        found.engine_for(OddPoint(name="p"))


def test_wanted_engine_that_refuses_the_point_is_an_error() -> None:
    found = registry(plugin("a", [engine("PICKY", 0, lambda _p: False), engine("ANY")]))
    with pytest.raises(PluginError, match="'PICKY' does not take process points of kind 'odd'") as caught:
        found.engine_for(OddPoint(name="p"), "PICKY")
    assert "ANY" in str(caught.value.hint)


def test_two_engines_of_equal_priority_are_an_error() -> None:
    found = registry(plugin("a", [engine("A")]), plugin("b", [engine("B")]))
    with pytest.raises(PluginError, match="'A' of plugin 'a'.*and 'B' of plugin 'b'.*equal priority"):
        found.engine_for(OddPoint(name="p"))


def test_no_engine_for_a_point_names_failed_plugins() -> None:
    module = ModuleType("broken")
    with pytest.raises(PluginError, match="no engine takes process points of kind 'odd'\n.*'broken'"):
        registry(module).engine_for(OddPoint(name="p"))


def test_accepts_that_raises_counts_only_where_it_would_have_been_chosen() -> None:
    def broken(_point: ProcessPoint) -> bool:
        raise ValueError("oops")

    found = registry(plugin("a", [engine("GOOD", 5), engine("BAD", 1, broken)]))
    assert found.engine_for(OddPoint(name="p")).id == "GOOD"
    with pytest.raises(PluginError, match="plugin 'a'.*engine 'BAD' failed.*ValueError: oops"):
        registry(plugin("a", [engine("GOOD", 1), engine("BAD", 5, broken)])).engine_for(OddPoint(name="p"))


def test_default_local_transport_crosses_processes() -> None:
    found = registry(plugin("a", transports=[local("inproc", 99, cross_process=False), local("slow"), local("shm", 3)]))
    assert found.local_transport().scheme == "shm"
    assert found.local_transport("inproc").scheme == "inproc"


def test_what_joins_machines_is_no_transport_within_one() -> None:
    links = [LinkEntry("wire", _no_link), LinkEntry("best", _no_link, 3)]
    found = registry(plugin("a", transports=[local("shm")], links=links))
    assert (found.link().scheme, found.link("wire").scheme, list(found.links)) == ("best", "wire", ["wire", "best"])
    with pytest.raises(PluginError, match="no plugin gives transport 'wire'"):
        found.local_transport("wire")


def test_links_that_are_missing_or_equally_good_are_errors() -> None:
    with pytest.raises(PluginError, match="nothing that joins machines is installed\n.*pip install dflow-transport"):
        registry(plugin("a", transports=[local("shm")])).link()
    with pytest.raises(PluginError, match="links one and two have equal priority"):
        registry(plugin("a", links=[LinkEntry("one", _no_link), LinkEntry("two", _no_link)])).link()


def test_two_local_transports_of_equal_priority_are_an_error() -> None:
    with pytest.raises(PluginError, match="shm1 and shm2 have equal priority"):
        registry(plugin("a", transports=[local("shm1"), local("shm2")])).local_transport()


def test_needed_ids_stop_the_search(site: Site) -> None:
    site.install("t_one", ENGINE_PLUGIN.format(id="ONE"))
    site.install("t_two", ENGINE_PLUGIN.format(id="TWO"))
    found = load_plugins(allow={"t_one", "t_two"}, need={"ONE"})
    assert found.engine("ONE")
    assert site.report(found)["t_two"].state == "unneeded"
    assert "t_two" not in sys.modules


def test_likely_giver_of_a_needed_id_is_loaded_first(site: Site) -> None:
    site.install("t_one", ENGINE_PLUGIN.format(id="ONE"))
    site.install("t_zz", ENGINE_PLUGIN.format(id="CPU"), distribution="dflow-pne-cpu")
    found = load_plugins(allow={"t_one", "t_zz"}, need={"CPU"})
    assert site.report(found)["t_one"].state == "unneeded"


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("METADATA", "Metadata-Version: 2.1\nName: t-named\nVersion: 3.1\n\nName: in the text\n", ("t-named", "3.1")),
        ("METADATA", "Metadata-Version: 2.1\r\nName: t-named\r\nVersion: 3.1\r\n", ("t-named", "3.1")),
        ("METADATA", "Name: t-named\nVersion: 3.1\nSummary: with: colons\n", ("t-named", "3.1")),
        ("PKG-INFO", "Metadata-Version: 2.1\nName: t-named\nVersion: 3.1\n", ("t-named", "3.1")),
    ],
    ids=["with a text", "other line ends", "colons", "egg-info"],
)
def test_name_and_version_are_those_of_the_distribution(
    site: Site, file: str, text: str, expected: tuple[str, str]
) -> None:
    site.install("t_named", ENGINE_PLUGIN.format(id="T-NAMED"))
    (info,) = site.path.glob("*.dist-info")
    (info / "METADATA").unlink()
    (info / file).write_bytes(text.encode())
    report = site.report(load_plugins(allow={"t_named"}))["t_named"]
    assert (report.distribution, report.version) == expected


def test_torn_metadata_of_another_distribution_does_not_matter(site: Site) -> None:
    site.install("t_good", ENGINE_PLUGIN.format(id="T-GOOD"))
    torn = site.path / "torn-1.0.dist-info"
    torn.mkdir()
    (torn / "entry_points.txt").write_text("[dflow.plugins]\nthis line is not an entry point\n")
    assert load_plugins(allow={"t_good"}).engine("T-GOOD")
