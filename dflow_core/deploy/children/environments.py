"""Which interpreter a process gets, whether it fits, and how many threads its libraries may start."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from dflow_core.deploy.children.processes import absolute, probe_interpreter
from dflow_core.errors import StartupError
from dflow_core.model import NodePlacement, PneModel, ProcessPlan, UdfModel

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM", "TF_NUM_INTRAOP_THREADS", "RAYON_NUM_THREADS",
)
"""What OpenMP, the BLAS libraries, numexpr, OpenCV, TensorFlow and libraries in Rust read when they are loaded."""
VISIBLE_DEVICES = "ASCEND_RT_VISIBLE_DEVICES"
"""What the driver of NPUs reads to number the devices that a process may see."""
# What cloudpickle writes where it takes code along instead of the name it can be imported by.
_BY_VALUE = (b"_make_function", b"_make_skeleton_class", b"_builtin_type")


def thread_environment(threads: int) -> dict[str, str]:
    """Variables that hold numeric libraries to so many threads; those that the user has set go before them."""
    return dict.fromkeys(THREAD_VARIABLES, str(max(1, threads)))


def device_environment(plan: ProcessPlan, placements: Sequence[NodePlacement]) -> dict[str, str]:
    """The variable that hides all devices but those of a process, where the plan says so."""
    places = {one.node: one.places for one in placements}
    own = [places[i.model][i.index] for i in plan.instances if i.index < len(places.get(i.model, ()))]
    shown = sorted({place.visible for place in own if place.visible >= 0})
    return {VISIBLE_DEVICES: ",".join(map(str, shown))} if shown else {}


def check_interpreter(python: str, plan: ProcessPlan, models: Mapping[str, PneModel]) -> None:
    """Find out now whether another interpreter can run a process.

    Args:
        python: The interpreter.
        plan: The process.
        models: Submodels by name.

    Raises:
        StartupError: it lacks something (says what to install), or it has another version of Python or a very different
            cloudpickle, and the node's code travels by value.
    """
    entries = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    found = probe_interpreter(python, os.pathsep.join(absolute(entries)))
    theirs, ours = found["python"], list(sys.version_info[:2])
    why = _pickles(found)
    if theirs != ours:
        why = f"{python} is Python {_version(theirs)}, this is Python {_version(ours)}"
    if not why:
        return
    for instance in plan.instances:
        model = models[instance.model]
        if isinstance(model, UdfModel) and any(mark in model.package for mark in _BY_VALUE):
            raise StartupError(
                f"{why}, and the node's code travels by value, which needs the same versions",
                node=model.name, instance=instance.index,
                hint="put the function into a module that both can import, or use an environment of the same versions",
            )


def _pickles(found: Mapping[str, object]) -> str:
    """How the other cloudpickle differs from this one in what matters, or ""."""
    from importlib.metadata import version

    theirs, ours = str(found.get("cloudpickle", "")), version("cloudpickle")
    differs = theirs.partition(".")[0] != ours.partition(".")[0] and theirs not in ("", "?")
    return f"it has cloudpickle {theirs}, this environment has {ours}" if differs else ""


def _version(numbers: object) -> str:
    return ".".join(map(str, numbers)) if isinstance(numbers, list) else str(numbers)
