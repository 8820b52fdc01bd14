"""Writes docs/reference/acl-emulator.md from the headers and the library's symbol table; a test compares them."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE / "src/dflow_acl_emulator/home"
PAGE = HERE.parents[2] / "docs/reference/acl-emulator.md"
HEADERS = {"acl_base.h": "System, data buffers, tensor descriptors", "acl_rt.h": "Runtime", "acl_mdl.h": "Models",
           "acl_tdt_queue.h": "Queues and buffers", "acl_tdt.h": "Tensor channels"}
INTRO = """\
# Scope of the ACL emulator

<!-- Written by plugins/pne_npu/emulator/scope_page.py from the headers and the symbol table. -->

The functions of the emulator's headers, by header. Those of the first list of each do what the vendor's documents say;
those of the second are there, so that programs link and start, and give the code that stands with them. Functions of
other headers (single operators, image processing, profiling, dumps, graph capture) are not there at all.

A model file is what the emulator's own `atc` made: the header of an OM file (256 bytes), a description, weights and an
OpenVINO graph (`dflow_acl_emulator/om_file.py` says how). Vendors' files are refused with 545001. Models compute in
float32, whatever the precision mode; with `ACL_EMULATOR_HALF=1` at compile time their inputs and results are rounded to
float16, unless the precision mode keeps the types of the model (`must_keep_origin_dtype`, `origin`).

| variable | meaning, and what it is if not set |
|---|---|
| `ACL_EMULATOR_MODE` | `report`: misuse is told on stderr with the caller's stack, and given the code of hardware. \
`strict`: the process ends there. `lenient`: nothing is told, and what drivers let pass is let pass. `report` |
| `ACL_EMULATOR_DEVICES` | number of devices; 1 |
| `ACL_EMULATOR_SOC` | name of the chip; `Ascend310P3` |
| `ACL_EMULATOR_MEMORY` | bytes of each device; 16 GiB |
| `ACL_EMULATOR_SHARED` | file in which processes that name it count what they took of the devices' memory together; \
none: each process has all of it |
| `ACL_EMULATOR_RUN_MODE` | `host`, or `device`: host and device memory are one; `host` |
| `ACL_EMULATOR_ORDER` | `eager`; `lazy`: nothing runs until somebody waits; `random`: delays; `eager` |
| `ACL_EMULATOR_FAULTS` | rules `WHERE[#N[+]] ACTION`, divided by `;`, or `@FILE`. WHERE is a function, or `task:` \
and execute, memcpy, memset, record, wait or callback; N its N-th use, `+` and later ones. ACTION is `code=NUMBER`, \
`slow=MILLISECONDS`, `hang` or `lost` (the device); none |
| `ACL_EMULATOR_WATCHDOG_MS` | how long a task may hang; 10000 |
| `ACL_EMULATOR_STACKS` | `1`: whole stacks of where things were made; in mode `strict` always |
| `ACL_EMULATOR_LOG` | file for what is told; stderr |
| `ACL_EMULATOR_TRACE` | file for a timeline, written by `aclFinalize`; open it with Perfetto; none |
| `ACL_EMULATOR_STATS` | file for counts of bytes and runs, written by `aclFinalize`; none |
| `ACL_EMULATOR_THREADS` | threads of a model; 1 |
| `ACL_EMULATOR_OPENVINO` | path of OpenVINO's C library |

`%p` in a file name is the number of the process.
"""


def functions(header: str) -> list[str]:
    """Names of the functions that a header declares."""
    text = (HOME / "include/acl" / header).read_text(encoding="utf-8")
    return re.findall(r"ACL_FUNC_VISIBILITY[^;]*?\b(acl\w+)\(", text)


def refusals() -> dict[str, str]:
    """Functions that are refused, and what they give."""
    text = (HERE / "cpp/refused.cc").read_text(encoding="utf-8")
    numbers = dict(re.findall(r"constexpr int (k\w+) = (\d+);", text))
    found = {}
    for macro, name, _, code in re.findall(r"^(REFUSED\w*|NO_\w+)\((\w+)(, (k\w+))?\)", text, re.MULTILINE):
        found[name] = {"NO_NUMBER": "0xFFFFFFFF", "NO_COUNT": "0", "REFUSED_POINTER": "NULL"}.get(macro, "")
        found[name] = found[name] or numbers[code]
    return found


def page() -> str:
    """The page.

    Raises:
        AttributeError: the library lacks a function of its headers.
    """
    return "\n".join([INTRO, *_sections()])


def _sections() -> Iterator[str]:
    library = ctypes.CDLL(str(HOME / "lib64/libascendcl.so"))
    refused = refusals()
    for header, title in HEADERS.items():
        names = functions(header)
        for name in names:
            getattr(library, name)
        there = [f"`{name}`" for name in names if name not in refused]
        yield f"## {title} (`acl/{header}`)\n"
        yield f"{len(there)} functions: {', '.join(there)}.\n" if there else "None of them is offered.\n"
        rest = [f"`{name}` {refused[name]}" for name in names if name in refused]
        if rest:
            yield f"Refused, {len(rest)}: {', '.join(rest)}.\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.exit(0)
