"""What this process may use of its machine: CPUs and memory, as affinity, control groups and the kernel say.

The readings are plain functions over the texts of files, so that every machine can be tested on any.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

Read: TypeAlias = Callable[[str], str]
"""Gives the text of a file; "" where there is none or it cannot be read."""

_CGROUP = "/sys/fs/cgroup"
_V1_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class Resources:
    """What a graph may use.

    Args:
        cpus: CPUs, at least 1.
        memory: Bytes of memory that can still be taken; 0 where that is unknown.
        notes: Where a limit comes from, one sentence each.
    """

    cpus: int
    memory: int = 0
    notes: tuple[str, ...] = ()


def machine_resources(read: Read | None = None) -> Resources:
    """What this process may use now.

    Args:
        read: Gives the text of a file; this machine's if not given.
    """
    read = read or read_text
    return resources(len(os.sched_getaffinity(0)), read)


def resources(affinity: int, read: Read) -> Resources:
    """What a process may use.

    Args:
        affinity: CPUs it may be scheduled on.
        read: Gives the text of a file.
    """
    folders = cgroup_folders(read("/proc/self/cgroup"))
    quotas = [quota for folder in folders if (quota := cpu_quota(folder, read)) is not None]
    quota = min(quotas, default=float(affinity))
    # Half a CPU is worth a thread; a third is not.
    cpus = max(1, min(affinity, int(quota + 0.5)))
    notes = []
    if cpus < affinity:
        notes.append(f"{cpus} of {affinity} CPUs are used, because the control group allows {quota:g}")
    free = mem_available(read("/proc/meminfo"))
    left = [room for folder in folders if (room := memory_left(folder, read)) is not None]
    limit = min(left, default=None)
    if limit is not None and (free is None or limit < free):
        notes.append(f"the control group leaves {limit >> 20} MiB of memory")
        free = limit
    return Resources(cpus, free or 0, tuple(notes))


def cgroup_folders(membership: str) -> list[str]:
    """Folders whose files limit this process, innermost first.

    Args:
        membership: Text of /proc/self/cgroup.
    """
    folders: list[str] = []
    for line in membership.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            folders += _upwards(_CGROUP, path)
        else:
            wanted = [name for name in controllers.split(",") if name in ("cpu", "memory")]
            mounts = [f"{_CGROUP}/{controllers}", *(f"{_CGROUP}/{name}" for name in wanted)] if wanted else []
            for mount in dict.fromkeys(mounts):
                folders += _upwards(mount, path)
    return folders or [_CGROUP]


def _upwards(mount: str, path: str) -> Iterable[str]:
    """The group and all above it; inside a container only the last of them may exist."""
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["/".join([mount, *parts[:end]]) for end in range(len(parts), -1, -1)]


def cpu_quota(folder: str, read: Read) -> float | None:
    """CPUs a control group allows (version 2 or 1), or None without a limit."""
    fields = read(f"{folder}/cpu.max").split()
    if not fields:
        fields = [*read(f"{folder}/cpu.cfs_quota_us").split(), *read(f"{folder}/cpu.cfs_period_us").split()]
    if len(fields) != 2:
        return None
    quota, period = _number(fields[0]), _number(fields[1])
    return quota / period if quota is not None and period else None


def memory_left(folder: str, read: Read) -> int | None:
    """Bytes a control group still allows (version 2 or 1), or None without a limit.

    Files the kernel keeps in memory count as used there, but it gives them up when memory is wanted.
    """
    for limit_file, used_file, cache_key in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit = _number(read(f"{folder}/{limit_file}").strip())
        if limit is not None and limit < _V1_NO_LIMIT:
            used = _number(read(f"{folder}/{used_file}").strip()) or 0
            found = re.search(rf"^{cache_key} (\d+)$", read(f"{folder}/memory.stat"), re.MULTILINE)
            return max(0, limit - used + (int(found[1]) if found else 0))
    return None


def mem_available(meminfo: str) -> int | None:
    """Bytes the whole machine has left.

    Args:
        meminfo: Text of /proc/meminfo.
    """
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def read_text(path: str) -> str:
    """The text of a file; "" where there is none or it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    """A whole number from 0 up; None for `max`, -1 and anything else."""
    return int(text) if text.isascii() and text.isdigit() else None
