"""Builds one function project, or finds that it is built already."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dflow_core.errors import CompileError
from dflow_pne_udf import sdk_dir
from dflow_pne_udf.building.content import file_digest, files_read, record, workspace_digest, workspace_files
from dflow_pne_udf.building.diagnostics import build_error
from dflow_pne_udf.building.plain_paths import PlainSource, plain_source, plain_tree
from dflow_pne_udf.building.probe import registered_functions
from dflow_pne_udf.building.process import run_tool
from dflow_pne_udf.building.release import Release, open_release, pack_release
from dflow_pne_udf.building.scratch import Scratch
from dflow_pne_udf.building.store import BuildStore
from dflow_pne_udf.building.tools import Compiler, Tools, find_cmake, find_make
from dflow_pne_udf.building.tree_state import TreeState
from dflow_pne_udf.config import FuncConfig
from dflow_pne_udf.config.func_config import check_sources
from dflow_pne_udf.progress import Progress

LIMIT = 600.0
_LARGEST_LOG = 1 << 20


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds projects.

    Args:
        store: Folder that built packages are kept in; "" keeps nothing.
        cmake: CMake to use; "" takes what is there.
        limit: Seconds a step may take.
        cancelled: Whether nobody wants the result any more.
        report: Takes a sentence worth telling.
        progress: Is told of builds that begin and end.
    """

    store: str = ""
    cmake: str = ""
    limit: float = LIMIT
    cancelled: Callable[[], bool] = _never
    report: Callable[[str], None] = lambda _text: None
    progress: Progress = field(default_factory=Progress)

    def package(self, config: FuncConfig) -> bytes:
        """The package of a project, built unless nothing has changed since.

        Raises:
            CompileError: sources or tools are missing, the build failed (the first error on top), or it did not give
                the library.
        """
        check_sources(config)
        tools = Tools.find(config.toolchains)
        base = _base_key(config, tools)
        with self._place() as store:
            kept = _whole(store.find(base))
            if kept is not None:
                return kept
            with store.tree(_tree_name(config, tools), self.limit, self.cancelled) as (tree, lock):
                # Whoever had the lock before may have built the same.
                kept = _whole(store.find(base))
                if kept is not None:
                    return kept
                with plain_tree(tree) as place:
                    return self._built(config, tools, base, store, place, lock)

    @contextlib.contextmanager
    def _place(self) -> Iterator[BuildStore]:
        if self.store:
            yield BuildStore(self.store)
            return
        scratch = Scratch()
        try:
            yield BuildStore(scratch.folder)
        finally:
            scratch.remove()

    def _built(self, config: FuncConfig, tools: Tools, base: str, store: BuildStore, tree: Path, lock: int) -> bytes:
        cmake, make = find_cmake(self.cmake), find_make()
        began = time.monotonic()
        source = plain_source(os.path.dirname(config.cmakelist), tree)
        with self.progress.building(config.target_bin), _remembered(config, tools, source, tree):
            folders = self._folders(config, tools, (source, tree), lock, (cmake, make))
            own = folders[sdk_dir.resource_type()]
            registered, problem = registered_functions(own / config.target_bin, self.limit)
            versions = {c.resource_type: c.version for c in tools.compilers if c.resource_type in folders}
            names = None if registered is None else tuple(registered)
            release = Release(config.target_bin, versions, names, problem, sdk_dir.fingerprint())
            package = pack_release(release, folders)
        took = time.monotonic() - began
        self.report(f"{config.target_bin} was built in {took:.1f} s with {tools.compilers[0].version}")
        self._keep(config, tools, base, store, (source, tree), package)
        return package

    def _keep(
        self, config: FuncConfig, tools: Tools, base: str, store: BuildStore, places: tuple[PlainSource, Path],
        package: bytes,
    ) -> None:
        if _base_key(config, tools) != base:
            self.report(f"{config.target_bin}: sources changed while they were compiled; the result is not kept")
            return
        source, tree = places
        read = [source.real(path) for path in files_read(tree, source.path)]
        outside = record(read, config.workspace, [str(tree), str(Path(__file__).parents[1] / "sdk" / "devlib")])
        try:
            store.keep(base, outside, package)
        except OSError as cause:
            self.report(f"the built package cannot be kept: {cause}")

    def _folders(
        self, config: FuncConfig, tools: Tools, places: tuple[PlainSource, Path], lock: int, programs: tuple[str, str]
    ) -> Mapping[str, Path]:
        """The release folder of each resource type that could be built; this machine's is among them."""
        found = {}
        for compiler in tools.compilers:
            try:
                found[compiler.resource_type] = self._build(config, compiler, places, lock, programs)
            except CompileError as error:
                if compiler.resource_type == sdk_dir.resource_type() or self.cancelled():
                    raise
                self.report(f"not built for {compiler.resource_type}: {error.message.splitlines()[0]}")
        return found

    def _build(
        self, config: FuncConfig, compiler: Compiler, places: tuple[PlainSource, Path], lock: int,
        programs: tuple[str, str],
    ) -> Path:
        (cmake, make), (source, tree) = programs, places
        build, release = tree / compiler.resource_type / "build", tree / compiler.resource_type / "release"
        # What an earlier build has put there must not pass for a result of this one.
        shutil.rmtree(release, ignore_errors=True)
        build.mkdir(parents=True, exist_ok=True)
        release.mkdir()
        library = release / config.target_bin
        configure = [
            cmake, "-S", source.path, "-B", str(build), "-G", "Unix Makefiles",
            f"-DCMAKE_MAKE_PROGRAM={make}", f"-DTOOLCHAIN={compiler.path}", f"-DUDF_TARGET_LIB={config.target}",
            "-DRELEASE_DIR=../release", f"-DRESOURCE_TYPE={compiler.resource_type}",
        ]
        self._run("configure", configure, config, build, lock, compiler)
        self._run("compile", [make, f"-j{os.cpu_count() or 1}"], config, build, lock, compiler)
        if not library.is_file():
            there = ", ".join(sorted(path.name for path in release.iterdir())) or "nothing"
            raise CompileError(
                f"{config.cmakelist}: the build did not give {config.target_bin}; the release folder holds {there}",
                hint="add_library(${UDF_TARGET_LIB} SHARED ...), and set CMAKE_LIBRARY_OUTPUT_DIRECTORY to "
                "${PROJECT_BINARY_DIR}/${RELEASE_DIR}",
            )
        return release

    def _run(
        self, step: str, command: list[str], config: FuncConfig, build: Path, lock: int, compiler: Compiler
    ) -> None:
        log = build / f"{step}.log"
        log.unlink(missing_ok=True)
        environment = sdk_dir.build_environment() | {"CXX": compiler.path}
        code = run_tool(
            command, folder=str(build), environment=environment, log=str(log), limit=self.limit,
            cancelled=self.cancelled, keep=[lock],
        )
        if code:
            text = log.read_bytes()[-_LARGEST_LOG:].decode("utf-8", "replace")
            raise build_error(step, config.target_bin, code, text)


def check_registered(config_functions: tuple[str, ...], release: Release, place: str) -> None:
    """Whether a library registers the functions its config names.

    Raises:
        CompileError: it does not; lists those it registers.
    """
    if release.registered is None:
        return
    kinds: dict[str, set[str]] = {}
    for line in release.registered:
        kind, _, name = line.partition(" ")
        kinds.setdefault(name, set()).add(kind)
    missing = [name for name in config_functions if name not in kinds]
    if missing:
        there = ", ".join(sorted(kinds)) or "none"
        raise CompileError(
            f"{place}: {release.target_bin} does not register {', '.join(map(repr, missing))}; it registers: {there}",
            hint="func_name is the name given to REGISTER_FLOW_FUNC or RegProcFunc",
        )


@contextlib.contextmanager
def _remembered(config: FuncConfig, tools: Tools, source: PlainSource, tree: Path) -> Iterator[None]:
    """Around a build: without the objects of former ones, if make could take them for those of changed sources."""
    state, sources = TreeState(tree), workspace_files(config.workspace)
    if not state.is_sound(sources):
        for compiler in tools.compilers:
            shutil.rmtree(tree / compiler.resource_type / "build", ignore_errors=True)
    state.begin(sources)
    try:
        yield
    finally:
        state.end(source.real(path) for path in files_read(tree, source.path))


def _whole(package: bytes | None) -> bytes | None:
    """A kept package, unless its library could not be asked what it registers: the reason may be gone."""
    return None if package is None or open_release(package).problem else package


def _base_key(config: FuncConfig, tools: Tools) -> str:
    """Everything that is known to go into a build before it runs."""
    parts = {
        "library": config.target_bin,
        "cmakelist": os.path.relpath(config.cmakelist, config.workspace),
        "cmakelist content": file_digest(config.cmakelist),
        # What the config says of functions and ports is nothing the build knows of.
        "workspace": workspace_digest(config.workspace, config.path),
        "compilers": [[c.resource_type, c.path, c.version] for c in tools.compilers],
        "flags": dict(tools.flags),
        "sdk": sdk_dir.fingerprint(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def _tree_name(config: FuncConfig, tools: Tools) -> str:
    """A build folder is for one project in one place with the same tools: CMake cannot change those."""
    parts = [config.workspace, config.cmakelist, config.target_bin, str(sdk_dir.root()), dict(tools.flags)]
    parts += [[c.resource_type, c.path, c.version] for c in tools.compilers]
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
