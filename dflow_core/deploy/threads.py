"""How the CPUs are shared out over the instances of a graph."""

from __future__ import annotations

from collections.abc import Mapping

from dflow_core.model import FlowModel


def share_threads(
    model: FlowModel, cpus: int, shares_process: Mapping[str, bool], notes: list[str]
) -> dict[str, int]:
    """Threads of each instance, by model.

    Instances of engines that share a process (models on the CPU) get equal shares of the CPUs, at least one each; the
    first models get what does not divide. Instances of other engines (Python functions) get one thread. What a node
    asks for it gets.

    Args:
        model: The graph.
        cpus: CPUs that may be used.
        shares_process: For each engine id, whether its models share a process.
        notes: Takes one sentence for each decision.
    """
    threads: dict[str, int] = {}
    waiting: list[tuple[str, int]] = []
    left = cpus
    for name, sub in model.submodels.items():
        count = sub.options.instances
        if sub.options.threads:
            threads[name] = sub.options.threads
            left -= sub.options.threads * count if shares_process[sub.engine] else 0
            notes.append(f"{name}: {_times(count)}{sub.options.threads} threads, as the node asks")
        elif shares_process[sub.engine]:
            waiting.append((name, count))
        else:
            threads[name] = 1
    instances = sum(count for _, count in waiting)
    share, rest = divmod(max(left, 0), instances) if instances else (0, 0)
    for name, count in waiting:
        extra = share > 0 and rest >= count
        rest -= count if extra else 0
        threads[name] = max(1, share + extra)
        text = f"{threads[name]} thread" + "s" * (threads[name] > 1)
        notes.append(f"{name}: {_times(count)}{text}, a share of {cpus} CPUs for {instances} model instances")
    _note_oversubscription(model, cpus, shares_process, threads, notes)
    return threads


def _times(count: int) -> str:
    return f"{count} x " if count > 1 else ""


def _note_oversubscription(
    model: FlowModel, cpus: int, shares_process: Mapping[str, bool], threads: Mapping[str, int], notes: list[str]
) -> None:
    wanted = {name: threads[name] * sub.options.instances for name, sub in model.submodels.items()}
    models = sum(count for name, count in wanted.items() if shares_process[model.submodels[name].engine])
    others = sum(wanted.values()) - models
    if models > cpus:
        notes.append(f"models have {models} threads on {cpus} CPUs: more than can run at once")
    if others:
        notes.append(f"{others} function instances have a thread each besides the models' {models}")
