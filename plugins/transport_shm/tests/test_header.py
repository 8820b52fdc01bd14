"""The C header of the core: this package carries a copy, so that it can be built alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dflow_core.spi import include_dir

SOURCES = Path(__file__).resolve().parent.parent / "src" / "c"


def test_copy_of_the_header_is_that_of_the_core() -> None:
    ours, theirs = SOURCES / "dflow" / "transport.h", include_dir() / "dflow" / "transport.h"
    assert ours.read_text(encoding="utf-8") == theirs.read_text(encoding="utf-8")


@pytest.mark.parametrize(("compiler", "standard"), [("cc", "c11"), ("cc", "c17"), ("c++", "c++17")])
def test_header_is_clean_for_both_languages(tmp_path: Path, compiler: str, standard: str) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    source = tmp_path / ("use.cpp" if "+" in standard else "use.c")
    source.write_text(
        "#include <dflow/transport.h>\n"
        "int has(const dflow_transport *t) { return DFLOW_TRANSPORT_HAS(t, wait) ? 1 : 0; }\n"
    )
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{include_dir()}", "-c"]
    subprocess.run([compiler, *flags, str(source), "-o", str(tmp_path / "use.o")], check=True, timeout=30)
