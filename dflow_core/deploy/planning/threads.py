"""The thread budget: how the CPUs are shared out over everything that computes in a graph.

An instance may use so many threads for its model and for OpenMP, BLAS and OpenCV inside it together: its process is
told so through the environment (`environments.thread_environment`), numpy's BLAS directly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dflow_core.model import FlowModel, PneModel, ThreadShare, UdfModel

_CPU_NUM = "__cpu_num"
"""Init parameter in which a compiled C++ function says how many calls it runs at once (runtime-semantics.md 9.1)."""


def share_threads(
    model: FlowModel, cpus: int, shares_process: Mapping[str, bool], instances: Mapping[str, int], machine: str = ""
) -> list[ThreadShare]:
    """Threads of each instance on one machine, by model.

    Instances of engines that share a process (models on the CPU) get equal shares of the CPUs, at least one each; the
    first models get what does not divide. Instances of other engines (functions) get one thread, or one for each call a
    C++ function runs at once. What a node asks for it gets.

    Args:
        model: The graph.
        cpus: CPUs that may be used.
        shares_process: For each engine id, whether its models share a process.
        instances: Instances of each model that is on the machine.
        machine: Its name.
    """
    threads: dict[str, int] = {}
    reasons: dict[str, str] = {}
    waiting: list[tuple[str, int]] = []
    left = cpus
    own = {name: sub for name, sub in model.submodels.items() if instances.get(name)}
    for name, sub in own.items():
        count, wanted = instances[name], _wanted(sub)
        if sub.options.threads:
            threads[name] = sub.options.threads
            left -= sub.options.threads * count if shares_process[sub.engine] else 0
            reasons[name] = "as the node asks"
        elif shares_process[sub.engine]:
            waiting.append((name, count))
        else:
            threads[name] = wanted or 1
            reasons[name] = "as its compile config says" if wanted else "a function works on one CPU at a time"
    total = sum(count for _, count in waiting)
    share, rest = divmod(max(left, 0), total) if total else (0, 0)
    for name, count in waiting:
        extra = share > 0 and rest >= count
        rest -= count if extra else 0
        threads[name] = max(1, share + extra)
        reasons[name] = f"a share of {cpus} CPUs for {total} model instances"
    calls = {name: 1 if sub.options.threads else _wanted(sub) or 1 for name, sub in own.items()}
    return [ThreadShare(name, instances[name], threads[name], reasons[name], calls[name], machine) for name in own]


def budget_notes(budget: Sequence[ThreadShare], cpus: int, models: Mapping[str, bool]) -> list[str]:
    """What is to be said of a budget: threads that models have, and whether there are more than can run at once.

    Args:
        budget: Threads of each model.
        cpus: CPUs that may be used.
        models: Whether each is a model whose engine shares a process.
    """
    notes = [
        f"{one.node}: {_times(one.instances)}{one.threads} thread{'s' * (one.threads > 1)}, {one.reason}"
        for one in budget
        if models[one.node] or one.threads > 1
    ]
    of_models = sum(one.threads * one.instances for one in budget if models[one.node])
    others = [one for one in budget if not models[one.node]]
    count, threads = sum(one.instances for one in others), sum(one.threads * one.instances for one in others)
    if of_models > cpus:
        notes.append(f"models have {of_models} threads on {cpus} CPUs: more than can run at once")
    if others:
        each = "a thread each" if threads == count else f"{threads} threads"
        notes.append(f"{count} function instances have {each} besides the models' {of_models}")
    return notes


def _wanted(sub: PneModel) -> int:
    """Calls a C++ function runs at once, by its compile config; 0 where it does not say."""
    found = sub.params.get(_CPU_NUM, 0) if isinstance(sub, UdfModel) else 0
    return found if isinstance(found, int) and found > 0 else 0


def _times(count: int) -> str:
    return f"{count} x " if count > 1 else ""
