"""The page of the C++ interface, written from the comments of the headers in `plugins/pne_udf`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

HEADERS = Path(__file__).resolve().parent.parent / "plugins/pne_udf/src/dflow_pne_udf/sdk/include"
ORDER = (
    "meta_flow_func.h", "meta_multi_func.h", "meta_params.h", "meta_run_context.h", "meta_context.h", "flow_msg.h",
    "flow_msg_queue.h", "out_options.h", "balance_config.h", "dflow_attr_value.h", "flow_func_ascend_string.h",
    "tensor_data_type.h", "flow_func_defines.h", "flow_func_log.h", "flow_func_version.h",
)
OWN = ("dflow/transaction.h",)
_COMMENT = re.compile(r"^\s*/// ?")
_TYPE = re.compile(r"^(template <typename T>\s*)?(class|struct|enum class)\b.*\{")
_HIDDEN = re.compile(r"\b(FLOW_FUNC_VISIBILITY|FLOW_FUNC_[A-Z_]+_\()\s*")


def page(made: str) -> str:
    """The page.

    Args:
        made: The comment that says where it comes from.
    """
    parts = [
        "# C++ interface\n", made,
        "`#include \"flow_func/<header>\"`, namespace `FlowFunc`. The names, numbers and orders are those of CANN's "
        "flow_func;\n"
        "how to write a function is in [a how-to](../how-to/write-a-cpp-udf.md). What is dflow's own is in headers of\n"
        "`dflow/`, namespace `dflow`.\n",
    ]
    for name in (*(f"flow_func/{name}" for name in ORDER), *OWN):
        lines = (HEADERS / name).read_text(encoding="utf-8").splitlines()
        parts.append(f"## `{name.removeprefix('flow_func/')}`\n\n{_text(list(_leading(lines)))}\n")
        parts += [_entry(comment, code) for comment, code in _declarations(lines)]
    return "\n".join(parts).rstrip() + "\n"


def _leading(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if not _COMMENT.match(line):
            return
        yield _COMMENT.sub("", line)


def _declarations(lines: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Comments of what stands outside of classes, each with the code behind it up to its end."""
    at = len(list(_leading(lines)))
    while at < len(lines):
        comment: list[str] = []
        while at < len(lines) and lines[at].startswith("///"):
            comment.append(_COMMENT.sub("", lines[at]))
            at += 1
        if not comment:
            at += 1
            continue
        code: list[str] = []
        while at < len(lines):
            code.append(lines[at])
            at += 1
            if _is_end(code):
                break
        yield comment, code


def _is_end(code: Sequence[str]) -> bool:
    last = code[-1]
    if code[0].startswith("#define"):
        return True
    if any(_TYPE.match(line) for line in code):
        return last.startswith("};") or (len(code) == 1 and last.endswith("};"))
    return last.endswith(";")


def _entry(comment: Sequence[str], code: Sequence[str]) -> str:
    return f"{_text(comment)}\n\n```cpp\n{chr(10).join(_public(code))}\n```\n"


def _public(code: Sequence[str]) -> Iterator[str]:
    """Declarations without bodies, private members and what only the compiler needs."""
    depth, is_private = 0, False
    for line in code:
        if line.strip() in ("public:", "protected:", "private:"):
            is_private = line.strip() == "private:"
        opens, closes = line.count("{"), line.count("}")
        in_body = depth >= 2 or (depth == 1 and line.strip() == "{")
        depth += opens - closes
        if (is_private and not line.startswith("}")) or in_body or (depth == 1 and line.strip() == "}"):
            continue
        shown = line.partition(" \\")[0] if line.startswith("#define") else _HIDDEN.sub("", line).rstrip(" \\")
        yield shown.rstrip()


def _text(comment: Sequence[str]) -> str:
    return "\n".join(line if line.startswith("    ") else line.strip() for line in comment)
