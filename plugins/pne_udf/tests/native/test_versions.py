"""Libraries built with other versions of the SDK, and with either layout of the standard library's strings."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dflow_pne_udf import sdk_dir

FAILED = 5
SOURCE = """
#include "flow_func/meta_flow_func.h"
namespace {
class Same : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override { return 0; }
    int32_t Proc(const std::vector<std::shared_ptr<FlowFunc::FlowMsg>> &inputs) override
    {
        USES;
        return context_->SetOutput(0, inputs[0]);
    }
};
REGISTER_FLOW_FUNC("same_of_VERSION", Same);
}
"""
HEADER = "include/flow_func/flow_func_version.h"
NEWER = "namespace FlowFunc { FLOW_FUNC_VISIBILITY void OfTheFuture(); }\n"


def own_version() -> tuple[int, int]:
    text = (sdk_dir.root() / HEADER).read_text()
    major, minor = (int(re.search(rf"#define DFLOW_FLOW_FUNC_{part} (\d+)", text)[1]) for part in ("MAJOR", "MINOR"))
    return major, minor


def build(folder: Path, version: tuple[int, int], *flags: str, uses: str = "") -> Path:
    """A library of one function, built against a copy of the SDK that has another version."""
    name = "_".join(map(str, version))
    sdk = folder / f"sdk_{name}"
    shutil.copytree(sdk_dir.root() / "include", sdk / "include")
    header = sdk / HEADER
    text = header.read_text()
    for part, number in zip(("MAJOR", "MINOR"), version, strict=True):
        text = re.sub(rf"(#define DFLOW_FLOW_FUNC_{part}) \d+", rf"\1 {number}", text)
    header.write_text(text)
    if uses:
        changed = sdk / "include/flow_func/meta_flow_func.h"
        changed.write_text(changed.read_text() + NEWER)
    source, target = folder / f"same_{name}.cc", folder / f"libsame_{name}.so"
    source.write_text(SOURCE.replace("VERSION", name).replace("USES", uses))
    made = ["-shared", "-fPIC", *flags, "-I", str(sdk / "include"), str(source), "-o", str(target)]
    subprocess.run(["g++", "-std=c++11", *made], check=True)
    return target


def load(rig: object) -> str:
    """Open a rig; why it cannot start, or ""."""
    assert rig.open() == 0, rig.error()
    if rig.wait(0, 20.0) != FAILED:
        return ""
    return rig.failure().message.decode()


MAJOR, MINOR = own_version()
MISSES = "undefined symbol.*built with version {0}.*has version {1}: install"
REFUSED = "was built with version {0} of the flow_func SDK.*has version {1}: build it again"
VERSIONS = [
    # built with, flags, what it uses; what is said
    ((MAJOR, MINOR), (), "", ""),
    ((MAJOR, 0), (), "", ""),
    ((MAJOR, MINOR + 8), (), "", ""),
    ((MAJOR, MINOR), ("-fvisibility=hidden", "-s"), "", ""),
    ((MAJOR, MINOR + 8), (), "FlowFunc::OfTheFuture()", MISSES),
    ((MAJOR + 1, 0), (), "", REFUSED),
    ((MAJOR + 1, 3), ("-s", "-O2"), "", REFUSED),
    ((MAJOR - 1, 9), (), "", REFUSED),
]


@pytest.mark.parametrize(("version", "flags", "uses", "said"), VERSIONS)
def test_a_library_of_another_version_loads_or_is_refused_in_one_sentence(
    make_rig: Callable, tmp_path: Path, version: tuple[int, int], flags: tuple[str, ...], uses: str, said: str
) -> None:
    library = build(tmp_path, version, *flags, uses=uses)
    rig = make_rig("same_of_" + "_".join(map(str, version)), options={"library": str(library).encode()})
    found = load(rig)
    if not said:
        assert not found
        return
    words = [re.escape(f"{major}.{minor}") for major, minor in (version, (MAJOR, MINOR))]
    assert re.search(said.format(*words), found), found
    assert str(library) in found and "\n" not in found


def test_a_library_that_says_nothing_of_its_version_loads(make_rig: Callable, tmp_path: Path) -> None:
    """As those do that were built with the headers of CANN."""
    library = build(tmp_path, (MAJOR, MINOR))
    subprocess.run(["objcopy", "--remove-section=.dflow_sdk", str(library)], check=True)
    rig = make_rig(f"same_of_{MAJOR}_{MINOR}", options={"library": str(library).encode()})
    assert load(rig) == ""


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + b"\xff" * 200, b"no library"])
def test_what_is_no_library_is_the_loaders_to_explain(make_rig: Callable, tmp_path: Path, content: bytes) -> None:
    library = tmp_path / "libbroken.so"
    library.write_bytes(content)
    assert "does not load" in load(make_rig("same", options={"library": str(library).encode()}))


def test_cmake_finds_the_version_that_the_headers_have() -> None:
    text = next(sdk_dir.root().glob("lib/cmake/*/*ConfigVersion.cmake")).read_text()
    assert f"set(PACKAGE_VERSION {MAJOR}.{MINOR}.0)" in text


EVERY_CALL = """
import sys
sys.path.insert(0, {here!r})
import conftest, test_api
from pathlib import Path
runtime = conftest.seam.runtime(conftest.LIBRARY)
for name in {names!r}:
    rig = conftest.Rig(
        runtime, conftest.Heap(Path({heap!r})), [conftest.FuncSetup(name, (0,), (0, 1))], outputs=2,
        options={{"library": {library!r}.encode(), "flags": test_api.SCATTER}}, attrs=test_api.ATTRS,
    )
    test_api.feed(rig.start())
    line = int(rig.get().get_tensor())
    assert line == 0, (name, line)
    rig.end()
print("every call is good")
"""
NAMES = ["attributes", "parameters", "head", "tensors", "allocators", "outputs", "strings", "registration"]


@pytest.mark.parametrize("standard", ["c++11", "c++17"])
@pytest.mark.parametrize("abi", [0, 1])
def test_either_layout_of_strings_will_do(
    heap_library: Path, build_udfs: Callable[..., Path], tmp_path: Path, abi: int, standard: str
) -> None:
    """In a process of its own: libraries of one process share the names of their functions."""
    flags = f"-std={standard}", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"
    library = build_udfs(tmp_path / "libudfs.so", *flags, sources="every_call.cc")
    here = str(Path(__file__).resolve().parent)
    program = EVERY_CALL.format(here=here, names=NAMES, heap=str(heap_library), library=str(library))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "every call is good\n", done.stderr
