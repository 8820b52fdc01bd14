"""The functions of the scope, from C: one program an area."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

Done: TypeAlias = "subprocess.CompletedProcess[str]"
RunProgram: TypeAlias = Callable[..., Done]

AREAS = {
    "devices": {"devices": 2},
    "streams": {"faults": "task:memset#1 slow=100"},
    "callbacks": {},
    "memory": {"memory": 1 << 20},
    "tensors": {},
    "others": {},
    "queues": {},
    "buffers": {"run_mode": "device"},
}


def passed(done: Done) -> None:
    """A program says what failed in its last lines."""
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("area", AREAS)
def test_an_area_keeps_codes_and_order(run_program: RunProgram, area: str) -> None:
    done = run_program(area, **AREAS[area])
    passed(done)
    assert "leak" not in done.stderr


@pytest.mark.parametrize("order", ["eager", "lazy", "random"])
def test_models_are_loaded_described_and_run(
    run_program: RunProgram, om: Callable[..., Path], models: Path, order: str
) -> None:
    done = run_program("model", om(models / "add_float.onnx"), order=order)
    passed(done)
    assert "leak" not in done.stderr


def test_gears_and_open_sizes(run_program: RunProgram, om: Callable[..., Path], add_model: Path) -> None:
    geared = om(add_model, input_shape="a:-1,4;b:-1,4", dynamic_batch_size="1,2,4")
    passed(run_program("gears", geared, om(add_model)))


@pytest.mark.parametrize("mode", ["host", "device"])
def test_a_model_is_driven_by_queues(run_program: RunProgram, om: Callable[..., Path], models: Path, mode: str) -> None:
    done = run_program("queue_model", om(models / "add_float.onnx"), run_mode=mode)
    passed(done)
    assert "leak" not in done.stderr


MISUSES = {
    "double-free": 107000, "foreign-free": 107000, "interior-free": 107000, "wrong-free": 107000,
    "host-pointer": 107000, "use-after-free": 107000, "out-of-bounds": 107000, "use-after-destroy": 107017,
    "wrong-context": 107003,
    "freed-in-use": 507053, "changed-in-flight": 507053, "destroyed-in-flight": 0, "pageable-async": 0, "overrun": 0,
    "leak": 0, "host-in-dataset": 145000, "use-after-unload": 145003, "destroyed-buffer": 100000,
}
KINDS = {"host-in-dataset": "host-pointer", "destroyed-buffer": "use-after-destroy"}
SLOW = "task:memset#1 slow=60"


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_told_with_the_code_of_hardware(
    run_program: RunProgram, om: Callable[..., Path], models: Path, name: str
) -> None:
    done = run_program("misuse", name, om(models / "add_float.onnx"), faults=SLOW, mode="report")
    passed(done)
    assert done.stdout.split() == [str(MISUSES[name])]
    assert f" {KINDS.get(name, name)}: " in done.stderr
    assert "misuse(main)" in done.stderr or "misuse+" in done.stderr or name == "leak"


MORE = {
    "context-twice": (107002, "destroyed-twice"), "context-after-destroy": (107000, "use-after-destroy"),
    "default-context": (107002, ""), "default-stream": (107000, ""), "foreign-handle": (107017, ""),
    "stream-twice": (107017, "use-after-destroy"), "wrong-device": (107000, ""), "wrong-direction": (0, ""),
    "unaligned-async": (0, ""), "no-context": (107002, "-"), "sync-in-callback": (507000, ""),
    "no-poller": (507046, ""), "destroyed-subscribed": (0, ""), "concurrent-execute": (500001, ""),
    "unloaded-in-flight": (0, ""), "foreign-dataset": (145000, ""), "device-pointer": (145007, ""),
    "dataset-after-destroy": (100000, "use-after-destroy"), "stale-desc": (0, "use-after-destroy"),
    "borrowed-destroyed": (0, ""), "text-kept": (0, "-"),
}
"""Code, and the word it is told by where that is not the name; `-` if nothing is told."""


@pytest.mark.parametrize("name", MORE)
def test_more_misuses_are_told(
    run_program: RunProgram, om: Callable[..., Path], models: Path, add_model: Path, name: str
) -> None:
    batches = om(add_model, input_shape="a:-1,4;b:-1,4", dynamic_batch_size="1,2")
    settings = {"devices": 2, "watchdog_ms": 20, "faults": "task:execute#1 slow=300", "mode": "report"}
    done = run_program("misuse_more", name, om(models / "add_float.onnx"), batches, **settings)
    passed(done)
    code, kind = MORE[name]
    assert done.stdout.split() == [str(code)]
    assert kind == "-" or f" {kind or name}: " in done.stderr


def test_every_kind_of_misuse_is_tried() -> None:
    """What the library can tell of, by the words in its source, is what the tables here and `buffers.c` do."""
    sources = Path(__file__).resolve().parents[1] / "cpp"
    text = "".join(path.read_text(encoding="utf-8") for path in sources.glob("*.cc"))
    told = set(re.findall(r'\b(?:misuse\(|caution\()[^"]*"([a-z]+(?:-[a-z]+)+)"', text))
    told |= {word for pair in re.findall(r'was \? "([a-z-]+)" : "([a-z-]+)"', text) for word in pair}
    tried = {KINDS.get(name, name) for name in MISUSES} | {kind or name for name, (_, kind) in MORE.items()}
    assert told - tried == {"member-free", "member-enqueue"}


def test_processes_share_a_device_and_what_a_dead_one_took_is_free(
    program: Callable[[str], Path], environment: Mapping[str, str], tmp_path: Path
) -> None:
    shared = {**environment, "ACL_EMULATOR_SHARED": str(tmp_path / "devices"), "ACL_EMULATOR_MEMORY": "1000000"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}

    def start(size: int) -> subprocess.Popen[str]:
        return subprocess.Popen([program("neighbour"), str(size)], env=shared, text=True, **pipes)

    with start(700_000) as first, start(700_000) as second:
        assert first.stdout is not None and second.stdout is not None
        told = [first.stdout.readline().split(), second.stdout.readline().split()]
        assert sorted(code for code, _ in told) == ["0", "207001"], "one of them has it"
        assert all(int(free) <= 1_000_000 for _, free in told)
        holder = first if told[0][0] == "0" else second
        holder.kill()
        holder.wait()
        with start(700_000) as third:
            assert third.stdout is not None
            assert third.stdout.readline().split()[0] == "0"


@pytest.mark.parametrize("name", sorted({*MISUSES} - {"leak"}))
def test_strict_mode_ends_the_program_there(
    run_program: RunProgram, om: Callable[..., Path], models: Path, name: str
) -> None:
    done = run_program("misuse", name, om(models / "add_float.onnx"), faults=SLOW, mode="strict")
    assert done.returncode == -6, done.stdout + done.stderr
    assert f"misuse {KINDS.get(name, name)}: " in done.stderr


def test_lenient_mode_lets_pass_what_drivers_do(run_program: RunProgram, om: Callable[..., Path], models: Path) -> None:
    done = run_program("misuse", "host-pointer", om(models / "add_float.onnx"), mode="lenient")
    assert (done.stdout.split(), done.stderr) == (["0"], "")


def test_the_host_cannot_read_device_memory(run_program: RunProgram, om: Callable[..., Path], models: Path) -> None:
    done = run_program("misuse", "host-access", om(models / "add_float.onnx"))
    assert done.returncode == -11
    assert "misuse host-access: " in done.stderr


def test_where_host_and_device_are_one_it_can(run_program: RunProgram, om: Callable[..., Path], models: Path) -> None:
    done = run_program("misuse", "host-access", om(models / "add_float.onnx"), run_mode="device")
    passed(done)


def test_results_read_too_early_are_poison(run_program: RunProgram, om: Callable[..., Path], models: Path) -> None:
    done = run_program("misuse", "read-too-early", om(models / "add_float.onnx"), order="lazy")
    passed(done)
    assert int(done.stdout) not in (7, 9)


@pytest.mark.parametrize(
    ("rule", "call", "code"),
    [
        ("aclrtMalloc#1 code=207001", "aclrtMalloc", 207001),
        ("aclmdlLoadFromFile#1 lost", "aclmdlLoadFromFile", 507010),
        ("task:execute#1 code=507015", "aclmdlExecute", 507015),
        ("aclrtCreateStream hang", "aclrtCreateStream", 107020),
    ],
)
def test_the_fault_script_makes_calls_fail(
    run_program: RunProgram, om: Callable[..., Path], models: Path, rule: str, call: str, code: int
) -> None:
    done = run_program("model", om(models / "add_float.onnx"), faults=rule, watchdog_ms=30)
    assert done.returncode == 1
    assert f"{call}(" in done.stdout and f"gave {code}, not" in done.stdout


def test_bytes_and_runs_are_counted_and_drawn(
    run_program: RunProgram, om: Callable[..., Path], models: Path, tmp_path: Path
) -> None:
    stats, trace = tmp_path / "stats.json", tmp_path / "trace.json"
    passed(run_program("model", om(models / "add_float.onnx"), stats=stats, trace=trace))
    counted = json.loads(stats.read_text())
    assert (counted["host_to_device"], counted["device_to_host"], counted["executes"]) == (12, 36, 5)
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["name"] for event in events} >= {"D2H"}
    assert all(event["dur"] >= 0 for event in events)
