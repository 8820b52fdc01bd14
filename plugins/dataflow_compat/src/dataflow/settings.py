"""Option keys of scripts as options of the core. What has no meaning on this machine is listed once and left out."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import ClassVar

from dataflow.utils import log
from dflow_core.errors import OptionError
from dflow_core.options import find

__all__ = [
    "MEANINGLESS",
    "cache_faults",
    "is_compile_only",
    "is_placed",
    "session_options",
    "tell_ignored",
    "translated",
]

QUEUE_DEPTH = 128
"""Messages a queue has room for, where nobody says otherwise."""

_CACHE = ("ge.graph_key", "ge.graph_compiler_cache_dir")
_KEY = re.compile(r"[A-Za-z0-9_\-]{1,128}")
_RUN_FLAG = "ge.runFlag"
_DEPLOY_INFO = ("ge.experiment.data_flow_deploy_info_path", "deploy_info")

MEANINGLESS: Mapping[str, str] = {
    "ge.graphRunMode": "graphs are run for inference only",
    "ge.exec.deviceId": "devices are chosen by the deploy plan",
    "ge.exec.logicalDeviceClusterDeployMode": "there is one way to deploy",
    "ge.externalWeight": "weights always stay in the compiled file",
    "ge.externalWeightDir": "weights always stay in the compiled file",
    "ge.socVersion": "the engine knows its device",
    "ge.inputShape": "give it in the compile config of the model",
    "ge.outputMaxSize": "outputs are as large as they are",
    "ge.exec.precision_mode": "give it in the compile config of the model",
    "ge.exec.enableFusion": "inputs of a model travel one by one",
    "ge.exec.graphExecTimeout": "feed and fetch have limits of their own",
    "ge.exec.placement": "the deploy plan places executors",
    "ge.exec.float_overflow_mode": "CPUs follow IEEE 754",
    "ge.experiment.memory_pool_threshold": "there is one pool",
    "ge.exec.static_model_addr_fixed": "models have no fixed address",
    "ge.exec.isVarInitGraph": "graphs have no variables",
    "ge.exec.enableDump": "see `dflow run --record`",
    "ge.exec.dumpPath": "see `dflow run --record`",
    "ge.exec.dumpStep": "see `dflow run --record`",
    "ge.exec.dumpMode": "see `dflow run --record`",
    "ge.exec.profilingMode": "see the option trace",
    "ge.exec.profilingOptions": "see the option trace",
}
"""Options of CANN that are accepted and do nothing, with the reason."""


class _Told:
    """Keys that were listed as ignored already; once for each process."""

    keys: ClassVar[set[str]] = set()


def translated(options: Mapping[str, str], scope: str) -> dict[str, str]:
    """The options the core understands.

    Args:
        options: Options by CANN's keys; the core's own names are taken too.
        scope: Where they are given: `session` or `graph`.
    """
    known: dict[str, str] = {}
    ignored: dict[str, str] = {}
    for key, value in options.items():
        try:
            info = find(key)
        except OptionError:
            if key in MEANINGLESS:
                ignored[key] = MEANINGLESS[key]
            else:
                log.warning("option %s is unknown and has no effect", key)
            continue
        if info.key == "run":
            continue  # looked at where graphs are started
        if scope not in info.scopes:
            ignored[key] = f"it belongs to a {info.scopes[0]}"
            continue
        known[key] = value
    tell_ignored(ignored)
    return known


def tell_ignored(ignored: Mapping[str, str]) -> None:
    """List options without effect in the log, each once for the process.

    Args:
        ignored: The reason by option.
    """
    new = {key: reason for key, reason in ignored.items() if key not in _Told.keys}
    if new:
        _Told.keys |= set(new)
        log.warning("options without effect here: %s", "; ".join(f"{key} ({why})" for key, why in new.items()))


def session_options(given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Options of the session as the core takes them, with queues as deep as scripts expect.

    Args:
        given: Options of `df.init`.
        environ: Environment, which may set another depth.
    """
    depth = {} if environ.get("DFLOW_QUEUE_DEPTH") else {"queue_depth": str(QUEUE_DEPTH)}
    return {**depth, **translated(given, "session")}


def cache_faults(session: Mapping[str, str], graph: Mapping[str, str]) -> list[str]:
    """Why a graph cannot be kept in a cache; nothing where it is not to be."""
    key, folder = (graph.get(name, session.get(name, "")) for name in _CACHE)
    if not key or not folder:
        return []
    faults = [] if os.path.isdir(folder) else [f"{_CACHE[1]}: there is no folder {folder}"]
    if not _KEY.fullmatch(key):
        faults.append(f"{_CACHE[0]}: expected 1 to 128 letters, digits, _ and -, got {key!r}")
    return faults


def is_compile_only(session: Mapping[str, str], graph: Mapping[str, str]) -> bool:
    """Whether `ge.runFlag` asks for compiling without running."""
    return graph.get(_RUN_FLAG, session.get(_RUN_FLAG, "1")) == "0"


def is_placed(session: Mapping[str, str], graph: Mapping[str, str]) -> bool:
    """Whether a deploy file is named."""
    return any(options.get(key) for options in (session, graph) for key in _DEPLOY_INFO)
