from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dflow_core.deploy.planning.resources import (
    cgroup_folders,
    cpu_quota,
    machine_resources,
    mem_available,
    memory_left,
    read_text,
    resources,
)

GIB = 1 << 30
V2 = "0::/user.slice/job\n"
V1 = "11:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n"



def reader(texts: dict[str, str]) -> Callable[[str], str]:
    return lambda path: texts.get(path, "")


def test_without_limits_affinity_counts():
    found = resources(6, reader({"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   2048 kB\n"}))
    assert (found.cpus, found.memory, found.notes) == (6, 2048 * 1024, ())


def test_a_quota_of_version_2_counts():
    texts = {"/proc/self/cgroup": V2, "/sys/fs/cgroup/user.slice/job/cpu.max": "150000 100000\n"}
    found = resources(8, reader(texts))
    assert found.cpus == 2
    assert found.notes == ("2 of 8 CPUs are used, because the control group allows 1.5",)


def test_the_smallest_quota_on_the_way_up_counts():
    texts = {
        "/proc/self/cgroup": V2, "/sys/fs/cgroup/user.slice/job/cpu.max": "max 100000",
        "/sys/fs/cgroup/user.slice/cpu.max": "300000 100000", "/sys/fs/cgroup/cpu.max": "400000 100000",
    }
    assert resources(8, reader(texts)).cpus == 3


def test_a_container_that_sees_its_own_group_as_root_is_limited():
    assert resources(8, reader({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "200000 100000"})).cpus == 2
    assert resources(8, reader({"/sys/fs/cgroup/cpu.max": "200000 100000"})).cpus == 2


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize("path", ["/docker/abc", ""])
def test_a_quota_of_version_1_counts(mount: str, path: str):
    folder = f"/sys/fs/cgroup/{mount}{path}"
    texts = {
        "/proc/self/cgroup": V1, f"{folder}/cpu.cfs_quota_us": "200000\n", f"{folder}/cpu.cfs_period_us": "100000\n",
    }
    assert resources(8, reader(texts)).cpus == 2


def test_no_quota_of_version_1_is_minus_one():
    texts = {"/c/cpu.cfs_quota_us": "-1\n", "/c/cpu.cfs_period_us": "100000\n"}
    assert cpu_quota("/c", reader(texts)) is None


@pytest.mark.parametrize(("quota", "cpus"), [("10000 100000", 1), ("149000 100000", 1), ("250000 100000", 3)])
def test_a_fraction_of_a_cpu_is_rounded_and_never_zero(quota: str, cpus: int):
    assert resources(8, reader({"/sys/fs/cgroup/cpu.max": quota})).cpus == cpus


def test_a_quota_above_affinity_changes_nothing():
    assert resources(2, reader({"/sys/fs/cgroup/cpu.max": "800000 100000"})) == resources(2, reader({}))


def test_memory_of_version_2_counts_what_the_kernel_can_give_up():
    texts = {
        "/c/memory.max": str(4 * GIB), "/c/memory.current": str(3 * GIB),
        "/c/memory.stat": f"anon 1\ninactive_file {GIB}\nactive_file 7\n",
    }
    assert memory_left("/c", reader(texts)) == 2 * GIB


def test_memory_of_version_1_counts():
    texts = {
        "/c/memory.limit_in_bytes": str(GIB), "/c/memory.usage_in_bytes": str(2 * GIB),
        "/c/memory.stat": "inactive_file 5\ntotal_inactive_file 0\n",
    }
    assert memory_left("/c", reader(texts)) == 0


@pytest.mark.parametrize("limit", ["max", "9223372036854771712", ""])
def test_no_limit_of_memory_is_none(limit: str):
    for name in ("memory.max", "memory.limit_in_bytes"):
        assert memory_left("/c", reader({f"/c/{name}": limit})) is None


def test_the_smaller_of_group_and_machine_counts():
    texts = {
        "/proc/meminfo": f"MemAvailable: {2 * GIB // 1024} kB", "/sys/fs/cgroup/memory.max": str(GIB),
        "/sys/fs/cgroup/memory.current": "0",
    }
    found = resources(1, reader(texts))
    assert (found.memory, found.notes) == (GIB, ("the control group leaves 1024 MiB of memory",))
    texts["/sys/fs/cgroup/memory.max"] = str(8 * GIB)
    assert resources(1, reader(texts)).memory == 2 * GIB


def test_nothing_readable_is_unknown_and_not_an_error():
    found = resources(3, reader({}))
    assert (found.cpus, found.memory) == (3, 0)
    assert mem_available("garbage") is None
    assert cpu_quota("/c", reader({"/c/cpu.max": "what is this"})) is None
    assert cpu_quota("/c", reader({"/c/cpu.max": "5 0"})) is None


def test_groups_are_listed_innermost_first():
    assert cgroup_folders(V2) == [
        "/sys/fs/cgroup/user.slice/job", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup",
    ]
    assert cgroup_folders("0::/../..\n") == ["/sys/fs/cgroup"]
    assert cgroup_folders("broken") == ["/sys/fs/cgroup"]
    assert "/sys/fs/cgroup/memory/docker/abc" in cgroup_folders(V1)


def test_this_machine_can_be_read():
    found = machine_resources()
    assert found.cpus >= 1 and found.memory > 0


def test_a_file_that_is_not_there_reads_as_nothing(tmp_path: Path):
    assert read_text(str(tmp_path / "no")) == ""
    (tmp_path / "yes").write_bytes(b"7\xff\n")
    assert read_text(str(tmp_path / "yes")).startswith("7")
