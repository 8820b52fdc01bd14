"""How much memory a group may take when nobody says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_MOST = 64 << 30
_LEAST = 64 << 20


def default_memory_limit(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Half of what is available to this process, between 64 MiB and 64 GiB.

    Args:
        proc: Where the proc file system is.
        cgroups: Where the control groups are.
    """
    bounds = [available // 2 for available in (_available(proc), *_cgroup_limits(proc, cgroups)) if available]
    return max(_LEAST, min(_MOST, *bounds)) if bounds else _LEAST


def _available(proc: Path) -> int:
    try:
        for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


def _cgroup_limits(proc: Path, cgroups: Path) -> Iterator[int]:
    """The limits of this process's control group and those above it, of version 2 and 1."""
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers not in ("", "memory"):
            continue
        root = cgroups / controllers if controllers else cgroups
        file = "memory.limit_in_bytes" if controllers else "memory.max"
        folder = root / path.lstrip("/")
        for place in (folder, *folder.parents):
            if not place.is_relative_to(root):
                break
            yield _number(place / file)


def _number(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such group, or "max"
        return 0
