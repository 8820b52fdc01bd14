"""What a user says about models and about the whole."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TypeAlias

from dflow_core.errors import OptionError
from dflow_core.graph import ProcessPoint

WORKERS = ("thread", "process")

ModelSource: TypeAlias = "str | os.PathLike[str] | ProcessPoint"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model and how it is run.

    Args:
        model: A model file (`.onnx`, `.pb`), a compiled `.om` file of one model, or a process point.
        engine: Engine that compiles and runs it; "" takes the one that accepts it.
        instances: Workers it has. One never runs twice at once; each has a copy of the weights.
        threads: Threads of each worker; 0 shares out the CPUs.
        batch: Rows (along the first dimension) that may share one call.
        batch_wait: Seconds a request waits for others to share a call with.
        buckets: For inputs by name, one number for each dimension, to whose multiples it is filled up with zeros so
            that requests of different shapes can share a call; 1 leaves a dimension as it is.
        devices: Devices that the workers are spread over.
        settings: What the engine is told about a model file, such as `{"precision": "bf16"}`.
        options: Options of the graph of this one model, such as `{"plugin.cpu.runtime": "onnxruntime"}`.
        call_timeout: Seconds a call may take before its process is ended (`workers="process"` only); 0 is no limit.

    Raises:
        OptionError: a value it cannot have.
    """

    model: ModelSource
    engine: str = ""
    instances: int = 1
    threads: int = 0
    batch: int = 1
    batch_wait: float = 0.002
    buckets: Mapping[str, Sequence[int]] = field(default_factory=dict)
    devices: Sequence[str] = ("cpu:0",)
    settings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    call_timeout: float = 0.0

    def __post_init__(self) -> None:
        least = {"instances": 1, "threads": 0, "batch": 1, "batch_wait": 0, "call_timeout": 0}
        _check_numbers(self, least)
        if not self.devices:
            raise OptionError("devices: name at least one, such as 'cpu:0'")


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for all models.

    Args:
        workers: `thread` runs workers in threads of this process, `process` each in an executor process.
        max_waiting: Requests that may wait at once; more are blocked or refused.
        ageing: Seconds of waiting that are worth one level of priority.
        scan_interval: Longest time, in seconds, until something that was overlooked is seen.
        memory: Bytes that models and requests may take, by device; the machine's free memory for `cpu:` devices that
            are not named.

    Raises:
        OptionError: a value it cannot have.
    """

    workers: str = "thread"
    max_waiting: int = 10_000
    ageing: float = 10.0
    scan_interval: float = 0.5
    memory: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for device, size in self.memory.items():
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise OptionError(f"memory of {device!r} is {size!r}: expected a whole number of bytes, at least 1")
        if self.workers not in WORKERS:
            raise OptionError(f"workers={self.workers!r}: use one of {', '.join(map(repr, WORKERS))}")
        _check_numbers(self, {"max_waiting": 1, "ageing": 0, "scan_interval": 0.001})


def _check_numbers(config: ModelConfig | Settings, least: Mapping[str, float]) -> None:
    for one in fields(config):
        if one.name not in least:
            continue
        value, bound, whole = getattr(config, one.name), least[one.name], isinstance(one.default, int)
        fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if not fits or not bound <= value < math.inf:
            raise OptionError(f"{one.name}={value!r}: expected {'a whole' if whole else 'a'} number of at least "
                              f"{bound:g}")
