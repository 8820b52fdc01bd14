"""The order of copies and executions.

Models whose sizes are known before a run use slots: pinned host memory and device memory for one run each, allocated
once. Copies in, executions and copies out go through a stream each and wait for each other by events, so that the
copies of one run overlap the execution of another. Models with open sizes run one at a time, and the library allocates
what comes out.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dflow_core.spi import OutputAlloc
from dflow_core.types import Array, DataType, numpy_dtype_of
from dflow_pne_npu.bindings import (
    Acl,
    AclError,
    Context,
    Dataset,
    DeviceBuffer,
    Event,
    HostBuffer,
    IoInfo,
    Model,
    Stream,
)
from dflow_pne_npu.running.shapes import Shape, gear_of, misfit

SLOTS = 2


@dataclass
class Flight:
    """A run on its way.

    Args:
        slot: Which slot it uses.
        inputs: Arrays as they came; they must live until the run has read them.
        shapes: Shapes of the outputs.
        alloc: Gives arrays for results.
        results: The results, if they are there already.
    """

    slot: int
    inputs: Sequence[Array]
    shapes: Sequence[Shape]
    alloc: OutputAlloc
    results: list[Array] | None = None


class Runner(abc.ABC):
    """Runs a model of which everything is allocated."""

    depth: int = 1

    @abc.abstractmethod
    def begin(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Flight:
        """Start a run; at most `depth - 1` others are on their way."""

    @abc.abstractmethod
    def finish(self, flight: Flight) -> list[Array]:
        """Wait for the oldest run."""

    @abc.abstractmethod
    def settle(self) -> None:
        """Wait until nothing is on its way, whatever became of it."""


def make_runner(acl: Acl, context: Context, model: Model, timeout: float) -> Runner:
    """The runner that suits a model; what it allocates is closed with the context.

    Raises:
        AclError: the device has not the memory.
    """
    outputs_known = all(size >= 0 for one in model.info.outputs for size in one.dims) and all(
        one.size > 0 for one in model.info.inputs
    )
    if model.info.kind == "range" or not outputs_known:
        return OpenRunner(acl, context, model)
    return SlotRunner(acl, context, model, timeout)


def dtype_of(info: IoInfo) -> np.dtype[np.generic]:
    """numpy's type of an input or output."""
    return numpy_dtype_of(DataType(info.dtype))


@dataclass
class _Slot:
    """Memory and marks of one run."""

    host_in: list[HostBuffer]
    device_in: list[DeviceBuffer]
    device_out: list[DeviceBuffer]
    host_out: list[HostBuffer]
    inputs: Dataset
    outputs: Dataset
    copied: Event
    executed: Event
    down: Stream
    gear: Shape = ()


class SlotRunner(Runner):
    """Runs a model with fixed sizes or gears; two runs can be on their way."""

    depth = SLOTS

    def __init__(self, acl: Acl, context: Context, model: Model, timeout: float) -> None:
        self._model = model
        self._info = model.info
        self._timeout = timeout
        self._up, self._work = context.keep(Stream(acl, "copy in")), context.keep(Stream(acl, "execute"))
        self._known: dict[Shape, list[Shape]] = {(): [one.dims for one in model.info.outputs]}
        self._slots = [self._make_slot(acl, context) for _ in range(SLOTS)]
        self._next = 0
        self._in_types = [dtype_of(one) for one in self._info.inputs]
        self._out_types = [dtype_of(one) for one in self._info.outputs]

    def begin(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Flight:
        index = self._next
        slot = self._slots[index]
        gear = gear_of(self._info, [array.shape for array in inputs]) if self._info.gears else ()
        for host, device, array in zip(slot.host_in, slot.device_in, inputs):
            size = array.nbytes
            np.copyto(host.array[:size].view(array.dtype).reshape(array.shape), array)
            if size:
                device.copy_from(host, size, self._up)
        if gear and gear != slot.gear:
            self._model.choose(slot.inputs, gear)
            slot.gear = gear
            if gear not in self._known:
                self._known[gear] = self._model.output_shapes()
        slot.copied.record(self._up)
        self._work.wait_for(slot.copied)
        self._model.execute_async(slot.inputs, slot.outputs, self._work)
        slot.executed.record(self._work)
        slot.down.wait_for(slot.executed)
        shapes = self._known[gear]
        for device, host, shape, dtype in zip(slot.device_out, slot.host_out, shapes, self._out_types):
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            if size:
                device.copy_to(host, size, slot.down)
        self._next = (index + 1) % SLOTS
        return Flight(index, inputs, shapes, alloc)

    def finish(self, flight: Flight) -> list[Array]:
        slot, results = self._slots[flight.slot], []
        try:
            slot.down.synchronize(self._timeout)
        except AclError:
            self._clear_errors()
            raise
        for host, shape, dtype in zip(slot.host_out, flight.shapes, self._out_types):
            target = flight.alloc(shape, dtype)
            np.copyto(target, host.array[: target.nbytes].view(dtype).reshape(shape))
            results.append(target)
        return results

    def settle(self) -> None:
        for stream in (self._up, self._work, *(slot.down for slot in self._slots)):
            stream.synchronize(self._timeout)

    def _clear_errors(self) -> None:
        """Take what was told of a failed run out of the streams that all runs share; runs behind it end first."""
        for stream in (self._up, self._work):
            with contextlib.suppress(AclError):
                stream.synchronize(self._timeout)

    def _make_slot(self, acl: Acl, context: Context) -> _Slot:
        info, keep = self._info, context.keep
        device_in = [keep(DeviceBuffer(acl, one.size)) for one in info.inputs]
        device_out = [keep(DeviceBuffer(acl, one.size)) for one in info.outputs]
        slots: list[DeviceBuffer | None] = list(device_in)
        if info.gear_index >= 0:
            slots.insert(info.gear_index, keep(DeviceBuffer(acl, info.gear_size)))
        return _Slot(
            [keep(HostBuffer(acl, one.size)) for one in info.inputs], device_in, device_out,
            [keep(HostBuffer(acl, one.size)) for one in info.outputs], keep(Dataset(acl, slots)),
            keep(Dataset(acl, device_out)), keep(Event(acl)), keep(Event(acl)), keep(Stream(acl, "copy out")),
        )


class OpenRunner(Runner):
    """Runs a model with open sizes, one run at a time."""

    def __init__(self, acl: Acl, context: Context, model: Model) -> None:
        self._acl = acl
        self._model = model
        self._info = model.info
        self._buffers = [context.keep(DeviceBuffer(acl, max(one.size, 64))) for one in self._info.inputs]
        self._context = context
        self._inputs = context.keep(Dataset(acl, self._buffers))
        self._outputs = context.keep(Dataset(acl, [None] * len(self._info.outputs)))

    def begin(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Flight:
        for index, array in enumerate(inputs):
            fault = misfit(self._info, index, array.shape)
            if fault:
                raise ValueError(f"input {index} ({self._info.inputs[index].name!r}) does not fit: {fault}")
            self._grow(index, array.nbytes)
            self._buffers[index].write(array)
            self._inputs.describe(index, self._info.inputs[index], array.shape)
        self._model.execute(self._inputs, self._outputs)
        results = []
        for index, one in enumerate(self._info.outputs):
            target = alloc(self._outputs.shape(index), dtype_of(one))
            self._outputs.take(index, target)
            results.append(target)
        return Flight(0, inputs, [], alloc, results)

    def finish(self, flight: Flight) -> list[Array]:
        assert flight.results is not None
        return flight.results

    def settle(self) -> None:
        return

    def _grow(self, index: int, size: int) -> None:
        """Let the buffer of an input hold so many bytes."""
        if size <= self._buffers[index].size:
            return
        larger = self._context.keep(DeviceBuffer(self._acl, size * 2))
        self._inputs.rebind(index, larger)
        self._context.drop(self._buffers[index])
        self._buffers[index] = larger
