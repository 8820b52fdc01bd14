"""What the kernel says of a process's threads: where those are that give no Python stack, as far as one may read it."""

from __future__ import annotations

from pathlib import Path

_MOST_THREADS = 64
_MOST_FRAMES = 4
_STATES = {"R": "running", "S": "sleeping", "D": "in the kernel", "T": "stopped", "t": "traced", "Z": "ended"}


def kernel_view(pid: int) -> str:
    """A line for each thread: number, name, state, what it waits for in the kernel, system call; kernel frames below.

    What may not be read says so; empty if there is no such process.
    """
    lines: list[str] = []
    try:
        threads = sorted((int(task.name), task) for task in Path(f"/proc/{pid}/task").iterdir())
    except (OSError, ValueError):
        return ""
    for number, task in threads[:_MOST_THREADS]:
        name, state = _state(task)
        if not state:
            continue  # it has just ended
        wchan = _read(task / "wchan") or "?"
        call = _read(task / "syscall").split(" ")[0]
        where = "" if wchan == "0" else f", waits in {wchan}" if wchan != "?" else ", what it waits in is not readable"
        number_of_call = f", system call {call}" if call.lstrip("-").isdigit() else ""
        lines.append(f"  thread {number} {name}: {_STATES.get(state, state)}{where}{number_of_call}")
        lines += [f"    {frame}" for frame in _read(task / "stack").splitlines()[:_MOST_FRAMES]]
    if len(threads) > _MOST_THREADS:
        lines.append(f"  and {len(threads) - _MOST_THREADS} more threads")
    if lines and not _may_read(threads[0][1] / "stack"):
        lines.append("  (kernel stacks are for root to read, and stacks of C code need a debugger)")
    return "\n".join(lines)


def _state(task: Path) -> tuple[str, str]:
    """Name and state letter of a thread."""
    head, _, rest = _read(task / "stat").rpartition(")")
    return head.partition("(")[2], rest.strip()[:1]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _may_read(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True
