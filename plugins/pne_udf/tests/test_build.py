"""Builds: what goes into the key, what goes wrong, and that nothing half-made ever counts."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

from dflow_core.errors import CompileError
from dflow_pne_udf import sdk_dir
from dflow_pne_udf.building.builder import Builder
from dflow_pne_udf.building.content import workspace_digest
from dflow_pne_udf.building.diagnostics import first_errors
from dflow_pne_udf.building.release import open_release, unpack_release
from dflow_pne_udf.config import read_config
from dflow_pne_udf.progress import Progress

NOTHING = "cmake_minimum_required(VERSION 3.14)\nproject(UDF NONE)\n"
COPIES = NOTHING + """
set(LIBRARY ${RELEASE_DIR}/lib${UDF_TARGET_LIB}.so)
add_custom_target(copy ALL ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_LIST_DIR}/data ${LIBRARY})
message(STATUS "for ${RESOURCE_TYPE} with ${TOOLCHAIN}")
"""


def build(project, store="", **settings) -> bytes:
    return Builder(str(store), **settings).package(read_config(str(project.config)))


@pytest.fixture
def quick(project, built, store):
    """A project that needs no compiler: its library is a copy of another one."""
    project.write("CMakeLists.txt", COPIES)
    library = unpack_release(build(built, store), sdk_dir.resource_type(), str(store)) / "libscale.so"
    # No two are the same: builds of one test are not another's.
    (project.folder / "data").write_bytes(library.read_bytes() + os.urandom(8))
    return project


class Counted:
    """Says what builds reported."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def builds(self) -> int:
        return sum("was built" in line for line in self.lines)


# What comes out.


def test_a_project_in_a_folder_with_spaces_gives_its_library(built, store):
    package = build(built, store)
    release = open_release(package)
    assert release.target_bin == "libscale.so"
    assert release.registered is not None and {"multi add", "single scale"} <= set(release.registered)
    assert list(release.compilers) == [sdk_dir.resource_type()]
    folder = unpack_release(package, sdk_dir.resource_type(), str(store))
    assert (folder / "libscale.so").read_bytes().startswith(b"\x7fELF")
    assert unpack_release(package, sdk_dir.resource_type(), str(store)) == folder


def test_equal_content_gives_equal_packages(quick, tmp_path):
    assert build(quick, tmp_path / "a") == build(quick, tmp_path / "b")


def test_a_package_holds_everything_of_the_release_folder(quick, store):
    quick.write("CMakeLists.txt", COPIES + "file(WRITE ${PROJECT_BINARY_DIR}/${RELEASE_DIR}/deep/table.txt x)\n")
    folder = unpack_release(build(quick, store), sdk_dir.resource_type(), str(store))
    assert (folder / "deep" / "table.txt").read_text() == "x"


# What is built again.


def test_other_functions_of_the_same_library_are_no_reason_to_build(quick, store):
    told = Counted()
    build(quick, store, report=told.lines.append)
    quick.configure(func_list=[{"func_name": "add"}], input_num=2, running_resources_info=[{"type": "cpu", "num": 2}])
    build(quick, store, report=told.lines.append)
    assert told.builds() == 1


def test_nothing_is_built_twice(built, store):
    told = Counted()
    build(built, store, report=told.lines.append, cmake="/nowhere/cmake")
    assert told.builds() == 0


@pytest.mark.parametrize("name", ["data", "more.h", "CMakeLists.txt"])
def test_a_change_of_a_file_builds_again(quick, store, name):
    told = Counted()
    build(quick, store, report=told.lines.append)
    with (quick.folder / name).open("ab") as file:
        file.write(b"\n")
    build(quick, store, report=told.lines.append)
    assert told.builds() == 2


def test_file_that_is_older_than_what_was_made_of_another_version_builds_again(project, store):
    """BC-087: put back from a copy with its time, in the workspace and outside of it; make alone would not notice."""
    header = project.folder.parent / "shared folder" / "shift.h"
    header.parent.mkdir()
    header.write_text("#define SHIFT 1.0f\n")
    (project.folder / "shift.h").unlink()
    for name in ("scale.cpp", "multi.cpp"):
        (project.folder / name).unlink()
    text = '#include "shift.h"\nfloat shift() { return SHIFT + 1.0f; }\n'
    source = project.write("shift.cpp", text)
    project.write("CMakeLists.txt", MODERN)
    first = build(project, store)
    for path, other in ((source, text.replace("+", "-")), (header, "#define SHIFT 2.0f\n")):
        text, stat = path.read_text(), path.stat()
        path.write_text(other)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        changed = library_in(build(project, store))
        assert changed != library_in(first)
        path.write_text("broken(")
        with pytest.raises(CompileError):
            build(project, store)
        path.write_text(text)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        project.write("note.txt", f"so that the package before is not just taken again: {path}")
        assert library_in(build(project, store)) == library_in(first)


def test_ordinary_edit_compiles_the_changed_file_only(project, store):
    build(project, store)
    (tree,) = [tree for tree in store.glob("trees/*") if str(project.folder) in (_cache_of(tree).read_text())]
    before = {path.name: path.stat().st_mtime_ns for path in tree.rglob("*.o")}
    with (project.folder / "scale.cpp").open("a") as file:
        file.write("\n")
    build(project, store)
    after = {path.name: path.stat().st_mtime_ns for path in tree.rglob("*.o")}
    assert {name for name in before if after[name] != before[name]} == {"scale.cpp.o"}


def _cache_of(tree: Path) -> Path:
    return next(tree.rglob("CMakeCache.txt"))


def library_in(package: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        (name,) = [name for name in archive.getnames() if name.endswith("libscale.so")]
        file = archive.extractfile(name)
        assert file is not None
        return file.read()


def test_folders_of_builds_are_no_sources(quick):
    before = workspace_digest(str(quick.folder), "")
    quick.write("by_hand/CMakeCache.txt", "")
    quick.write("by_hand/object.o", "")
    quick.write("build/_scale/X86/build/object.o", "")
    quick.write(".git/index", "")
    assert workspace_digest(str(quick.folder), "") == before
    quick.write("build/more.cpp", "")
    assert workspace_digest(str(quick.folder), "") != before


MODERN = """
cmake_minimum_required(VERSION 3.20)
project(UDF CXX)
find_package(dflow_flow_func REQUIRED)
add_library(${UDF_TARGET_LIB} SHARED shift.cpp)
target_include_directories(${UDF_TARGET_LIB} PRIVATE "${CMAKE_CURRENT_LIST_DIR}/../shared folder")
target_link_libraries(${UDF_TARGET_LIB} PRIVATE dflow::flow_func)
set_target_properties(${UDF_TARGET_LIB} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${RELEASE_DIR}")
"""


def test_a_modern_project_counts_a_header_outside_of_its_workspace(project, store):
    header = project.folder.parent / "shared folder" / "shift.h"
    header.parent.mkdir()
    header.write_text("#define SHIFT 1.0f\n")
    (project.folder / "shift.h").unlink()
    project.write("shift.cpp", '#include "flow_func/flow_msg.h"\n#include "shift.h"\nfloat shift() { return SHIFT; }\n')
    project.write("CMakeLists.txt", MODERN)
    first = build(project, store)
    assert open_release(first).problem == "" and build(project, store) == first
    header.write_text("#define SHIFT 5.0f\n")
    assert build(project, store) != first


def test_a_copy_elsewhere_is_the_same_project(quick, store, tmp_path):
    told = Counted()
    build(quick, store, report=told.lines.append)
    quick.folder.rename(tmp_path / "moved")
    Builder(str(store), report=told.lines.append).package(read_config(str(tmp_path / "moved" / "func.json")))
    assert told.builds() == 1


# Where it is built.


def test_a_source_tree_that_cannot_be_written_is_left_alone(quick, store):
    before = sorted(quick.folder.rglob("*"))
    for path in [*before, quick.folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        build(quick, store)
        assert sorted(quick.folder.rglob("*")) == before
    finally:
        quick.folder.chmod(0o755)


def test_without_a_store_nothing_is_left(quick, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    build(quick)
    assert not list((tmp_path / "tmp").iterdir())


def test_processes_that_build_the_same_do_it_once(quick, store, tmp_path):
    code = (
        "import sys; from dflow_pne_udf.building.builder import Builder; from dflow_pne_udf.config import read_config;"
        "print(len(Builder(sys.argv[1], report=print).package(read_config(sys.argv[2]))))"
    )
    run = [sys.executable, "-c", code, str(store), str(quick.config)]
    children = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = [child.communicate(timeout=50)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0]
    assert len({text.splitlines()[-1] for text in printed}) == 1


# Resource types.


def test_other_resource_types_are_built_where_a_toolchain_file_says(quick, store):
    quick.write("tools.json", '{"compiler": [{"resource_type": "Ascend", "toolchain": "/bin/false"}]}')
    quick.configure(compiler="tools.json")
    with pytest.raises(CompileError, match=r"compiler for Ascend, /bin/false, does not answer"):
        build(quick, store)
    quick.write("tools.json", f'{{"compiler": [{{"resource_type": "Ascend", "toolchain": "{_gxx()}"}}]}}')
    assert set(open_release(build(quick, store)).compilers) == {"Ascend", sdk_dir.resource_type()}


def test_a_project_may_refuse_another_resource_type(quick, store):
    refuses = 'if ("x${RESOURCE_TYPE}" STREQUAL "xAscend")\nmessage(FATAL_ERROR "not for devices")\nendif ()\n'
    quick.write("CMakeLists.txt", COPIES + refuses)
    quick.write("tools.json", f'{{"compiler": [{{"resource_type": "Ascend", "toolchain": "{_gxx()}"}}]}}')
    quick.configure(compiler="tools.json")
    told = Counted()
    assert set(open_release(build(quick, store, report=told.lines.append)).compilers) == {sdk_dir.resource_type()}
    assert any("not built for Ascend" in line and "not for devices" in line for line in told.lines)


def _gxx() -> str:
    import shutil

    return str(shutil.which("g++"))


# What goes wrong.


def test_a_compiler_error_is_on_top_with_file_and_line(project, store):
    project.write("scale.cpp", '#include "shift.h"\nint f() { return missing; }\nint g() { return absent; }\n')
    with pytest.raises(CompileError) as caught:
        build(project, store)
    top = caught.value.message.splitlines()[0]
    assert "scale.cpp:2:" in top and "missing" in top and "(and 1 more)" in top


def test_a_cmake_error_is_on_top(quick, store):
    quick.write("CMakeLists.txt", NOTHING + 'message(FATAL_ERROR "no such thing here")\n')
    with pytest.raises(CompileError, match=r"cannot configure: CMakeLists.txt:3: no such thing here"):
        build(quick, store)


def test_a_library_that_does_not_come_out(quick, store):
    quick.write("CMakeLists.txt", COPIES.replace("lib${UDF_TARGET_LIB}.so", "other.so"))
    with pytest.raises(CompileError, match=r"did not give libscale.so; the release folder holds other.so") as caught:
        build(quick, store)
    assert "CMAKE_LIBRARY_OUTPUT_DIRECTORY" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("settings", "changes", "text"),
    [
        ({"cmake": "/nowhere/cmake"}, {}, "/nowhere/cmake is not there; C\\+\\+ functions are built with CMake"),
        ({"cmake": "/bin/true"}, {}, "/bin/true is true .*; expected cmake 3.20 or newer"),
        ({}, {"compiler": "tools.json"}, "the C\\+\\+ compiler for .*, /nowhere/g\\+\\+, is not there"),
    ],
)
def test_missing_tools(quick, tmp_path, settings, changes, text):
    own = sdk_dir.resource_type()
    quick.write("tools.json", f'{{"compiler": [{{"resource_type": "{own}", "toolchain": "/nowhere/g++"}}]}}')
    quick.configure(**changes)
    with pytest.raises(CompileError, match=text):
        build(quick, tmp_path / "store", **settings)


HANGS = NOTHING + "execute_process(COMMAND sleep 1000)\n"


def test_a_build_that_takes_too_long_is_ended_with_all_its_processes(quick, tmp_path):
    quick.write("CMakeLists.txt", HANGS.replace("1000", "1001"))
    with pytest.raises(CompileError, match=r"cmake took more than 0.5 s and was ended") as caught:
        build(quick, tmp_path / "store", limit=0.5)
    assert "build_timeout" in str(caught.value.hint)
    _until(lambda: not _running("1001"))
    assert not list((tmp_path / "store").glob("kept/*"))


def test_a_build_nobody_waits_for_is_ended(quick, tmp_path):
    quick.write("CMakeLists.txt", HANGS.replace("1000", "1002"))
    given_up = threading.Event()
    threading.Timer(0.3, given_up.set).start()
    with pytest.raises(CompileError, match="given up"):
        build(quick, tmp_path / "store", cancelled=given_up.is_set)
    _until(lambda: not _running("1002"))


def test_what_a_killed_process_was_building_ends_and_does_not_count(quick, tmp_path):
    code = (
        "import sys; from dflow_pne_udf.building.builder import Builder; from dflow_pne_udf.config import read_config;"
        "Builder(sys.argv[1]).package(read_config(sys.argv[2]))"
    )
    quick.write("CMakeLists.txt", HANGS.replace("1000", "1003"))
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "store"), str(quick.config)])
    _until(lambda: _running("1003"))
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    _until(lambda: not _running("1003"))
    quick.write("CMakeLists.txt", COPIES)
    assert open_release(build(quick, tmp_path / "store")).target_bin == "libscale.so"


def _running(seconds: str) -> bool:
    return any(_words(pid) == ["sleep", seconds] for pid in os.listdir("/proc") if pid.isdigit())


def _words(pid: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:2]
    except OSError:
        return []


def _until(condition, limit: float = 30.0) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_builds_under_way_are_one_line_on_a_terminal(monkeypatch):
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    progress = Progress()
    with progress.building("liba.so"), progress.building("libb.so"):
        pass
    lines = [line.removeprefix("\x1b[K[dflow] building C++ functions: ") for line in shown.getvalue().split("\r")[1:]]
    assert lines == [
        "0 done, 1 under way (liba.so)", "0 done, 2 under way (liba.so, libb.so)", "1 done, 1 under way (liba.so)",
        "2 done\n",
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/a b/x.cpp:3:5: error: expected ';'", "/a b/x.cpp:3:5: expected ';'"),
        ("x.cpp:1:10: fatal error: no.h: No such file or directory", "x.cpp:1:10: no.h: No such file or directory"),
        ("/usr/bin/ld: x.o:/a/x.cpp:7: undefined reference to `f()'", "x.o:/a/x.cpp:7: undefined reference to `f()'"),
        ("/usr/bin/ld: cannot find -lnone: No such file or directory", "cannot find -lnone: No such file or directory"),
        ("CMake Error: CMAKE_CXX_COMPILER not set", "CMAKE_CXX_COMPILER not set"),
        ("x.cpp:3:5: warning: unused", None),
    ],
)
def test_errors_are_found_in_what_tools_print(line, found):
    assert first_errors(["before", line, "after"]) == ([found] if found else [])
