"""What this CPU can do, in words short enough for a tag."""

from __future__ import annotations

import functools
import hashlib
import platform
from pathlib import Path

_ISA = ("sse4", "avx", "f16c", "fma", "amx", "sve", "asimd", "neon", "bf16", "i8mm", "fphp", "vnni")
_IDENTITY = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")


@functools.lru_cache(maxsize=1)
def cpu_tag() -> str:
    """Architecture, processor model and instruction sets: compiled models fit machines with the same tag."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return tag_of(platform.machine(), text)


def tag_of(architecture: str, cpuinfo: str) -> str:
    """The tag of a machine.

    Args:
        architecture: Such as `x86_64`.
        cpuinfo: Text of its /proc/cpuinfo; "" where there is none.
    """
    first = cpuinfo.split("\n\n", 1)[0]
    pairs = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    identity = "-".join(pairs[key] for key in _IDENTITY if key in pairs)
    flags = (pairs.get("flags") or pairs.get("Features") or "").split()
    isa = " ".join(sorted(flag for flag in set(flags) if flag.startswith(_ISA)))
    digest = hashlib.sha256(isa.encode()).hexdigest()[:12]
    return f"{architecture}/{identity or 'unknown'}/{digest}"
