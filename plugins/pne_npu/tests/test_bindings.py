"""The binding: declarations against the compiled header, errors, objects, the search for the library."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dflow_acl_emulator import home
from dflow_core.errors import ClosedError, PluginError
from dflow_pne_npu.bindings import Acl, AclError, Context, DeviceBuffer, Event, HostBuffer, LibrarySearch, Stream
from dflow_pne_npu.bindings.codes import NAMES, code_name
from dflow_pne_npu.bindings.declarations import CONSTANTS, CORE, GEAR_INPUT, OPTIONAL
from dflow_pne_npu.bindings.library import function_names, make_ffi
from dflow_pne_npu.installation import Installation

STRUCTS = {
    "aclmdlIODims": ("name", "dimCount", "dims"), "aclmdlIODimsRange": ("rangeCount", "range"),
    "aclmdlBatch": ("batchCount", "batch"), "aclmdlHW": ("hwCount", "hw"),
}


@pytest.fixture
def acl(emulated) -> Acl:
    return Acl()


@pytest.fixture
def context(acl: Acl, emulator):
    with Context(acl, 0) as made:
        yield made


def test_declarations_are_those_of_the_compiled_header(tmp_path: Path) -> None:
    """A C program prints what its compiler knows; the numbers are compared with cffi's."""
    ffi = make_ffi()
    wanted: dict[str, int] = {}
    for name, fields in STRUCTS.items():
        wanted[f"sizeof({name})"] = ffi.sizeof(name)
        wanted |= {f"offsetof({name}, {field})": ffi.offsetof(name, field) for field in fields}
    wanted |= dict(CONSTANTS.items())
    lines = "".join(f'printf("%lld\\n", (long long)({one}));\n' for one in wanted)
    gear = f'printf("%d\\n", !strcmp(ACL_DYNAMIC_TENSOR_NAME, "{GEAR_INPUT}"));'
    source = tmp_path / "numbers.c"
    head = '#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n#include "acl/acl.h"\n'
    source.write_text(f"{head}int main(void) {{\n{lines}{gear}\nreturn 0; }}\n")
    compiler = shutil.which("cc") or "cc"
    subprocess.run([compiler, f"-I{home() / 'include'}", str(source), "-o", str(tmp_path / "numbers")], check=True)
    printed = subprocess.run([str(tmp_path / "numbers")], capture_output=True, text=True, check=True).stdout.split()
    assert [int(text) for text in printed] == [*wanted.values(), 1]


def test_prototypes_are_those_of_the_header() -> None:
    """Word by word, with enums as the ints they are."""
    headers = " ".join(path.read_text() for path in sorted((home() / "include/acl").glob("*.h")))
    enums = set(re.findall(r"\}\s*(acl\w+);", headers)) - {*STRUCTS}

    def plain(text: str) -> list[str]:
        names = re.sub(r"\b(\w+)\b", lambda m: "int" if m[1] in enums else m[1], text)
        types = re.sub(r"(\w+)(?=[,)])", "", names.split("(", 1)[1].replace("[2]", "")) if "(" in names else ""
        return re.findall(r"\w+|\*", names.split("(")[0]) + re.findall(r"\w+|\*", types)

    known = {one.split("(")[0].split()[-1].lstrip("*"): one for one in
             (" ".join(m.split()) for m in re.findall(r"ACL_FUNC_VISIBILITY\s+([^;]+\))", headers))}
    for line in filter(None, (CORE + OPTIONAL).splitlines()):
        (name,) = function_names(line)
        assert plain(line.rstrip(";")) == plain(known[name]), name


def test_names_of_codes_are_those_of_the_header() -> None:
    text = (home() / "include/acl/acl_error_codes.h").read_text()
    found = {int(number): name for name, number in re.findall(r"#define (ACL_ERROR_\w+) (\d+)", text) if int(number)}
    assert {code: name for code, name in NAMES.items() if code} == found
    assert (code_name(507015), code_name(1)) == ("ACL_ERROR_RT_AICORE_EXCEPTION", "unknown code")


def test_an_error_says_everything(acl: Acl, context: Context) -> None:
    with pytest.raises(AclError) as caught:
        DeviceBuffer(acl, 1 << 60)
    error = caught.value
    assert (error.code, error.name) == (207001, "ACL_ERROR_RT_MEMORY_ALLOCATION")
    assert (error.call, error.device) == ("aclrtMalloc", 0)
    assert "cannot give" in error.text and "PID" in error.text
    assert error.message.startswith(f"aclrtMalloc gave 207001 ({error.name}) on npu:0: device 0 cannot")
    assert not error.is_fatal and error.hint


def test_objects_are_closed_once_and_not_used_afterwards(acl: Acl, context: Context) -> None:
    for made in (Stream(acl), Event(acl), DeviceBuffer(acl, 64), HostBuffer(acl, 64)):
        with made:
            assert made.handle
        made.close()
        with pytest.raises(ClosedError, match=f"this {type(made).__name__} has been closed"):
            assert made.handle


def test_a_context_closes_what_it_keeps_last_first(acl: Acl, emulator) -> None:
    closed: list[str] = []

    class Noted(Event):
        def __init__(self, name: str) -> None:
            super().__init__(acl)
            self.name = name

        def close(self) -> None:
            closed.append(self.name)
            super().close()

    with Context(acl, 0) as context:
        for name in "abc":
            context.keep(Noted(name))
        context.drop(context._inside[1])
    assert closed == ["b", "c", "a"]


def test_copies_go_through_a_stream(acl: Acl, context: Context) -> None:
    up, down = context.keep(HostBuffer(acl, 256)), context.keep(HostBuffer(acl, 256))
    device, stream = context.keep(DeviceBuffer(acl, 256)), context.keep(Stream(acl, "both ways"))
    up.array[:] = np.arange(256, dtype=np.uint8)
    device.copy_from(up, 256, stream)
    device.copy_to(down, 256, stream)
    stream.synchronize(30)
    assert np.array_equal(down.array, up.array)


def test_a_device_that_is_not_there(acl: Acl, emulator) -> None:
    with pytest.raises(AclError, match="107001"):
        Context(acl, 5)
    assert acl.device_count() == 1


def test_no_library_names_where_it_was_looked_for(tmp_path: Path) -> None:
    """In a process of its own: here, the loader would find the emulator by its name, because it is loaded."""
    (tmp_path / "lib64").mkdir()
    text = "from dflow_pne_npu.bindings import Acl; Acl()"
    environment = {"ASCEND_HOME_PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, timeout=50)
    assert "libascendcl.so was not found or cannot be loaded" in done.stderr
    assert f"looked in {tmp_path / 'lib64'}" in done.stderr and "set_env.sh" in done.stderr


def test_an_environment_that_is_half_set(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(PluginError, match=f"ASCEND_HOME_PATH={gone} is no folder: the CANN environment is half set"):
        Acl(LibrarySearch({"ASCEND_HOME_PATH": str(gone)}))
    assert Installation.of({"ASCEND_TOOLKIT_HOME": str(tmp_path)}).fault == ""


def test_a_library_that_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "lib64").mkdir()
    compiler = shutil.which("cc") or "cc"
    target = tmp_path / "lib64/libascendcl.so"
    (tmp_path / "stub.c").write_text("int aclInit(const char *path) { return path != 0; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", str(tmp_path / "stub.c"), "-o", str(target)], check=True)
    with pytest.raises(PluginError, match="has no aclFinalize, .*: it is of a CANN version that is too old"):
        Acl(LibrarySearch({"ASCEND_HOME_PATH": str(tmp_path)}))
