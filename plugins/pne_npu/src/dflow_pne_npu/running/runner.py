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
from dataclasses import dataclass, field

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
from dflow_pne_npu.running.resident import Pool, Resident, ResidentStore, smallest
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


@dataclass(frozen=True)
class Staying:
    """Which results stay on the device.

    Args:
        store: Where those of this process are found.
        outputs: For each output whether it may stay; () if none.
    """

    store: ResidentStore
    outputs: tuple[bool, ...] = ()


def make_runner(acl: Acl, context: Context, model: Model, timeout: float, stay: Staying) -> Runner:
    """The runner that suits a model; what it allocates is closed with the context.

    Raises:
        AclError: the device has not the memory.
    """
    outputs_known = all(size >= 0 for one in model.info.outputs for size in one.dims) and all(
        one.size > 0 for one in model.info.inputs
    )
    if model.info.kind == "range" or not outputs_known:
        return OpenRunner(acl, context, model, stay.store)
    return SlotRunner(acl, context, model, timeout, stay)


def fetch_from(resident: Resident, host: HostBuffer, size: int, own: Context) -> None:
    """Copy a neighbour's result to the host, and release it.

    Args:
        resident: The result, on any device.
        host: Where to copy it.
        size: Bytes of it.
        own: The context that is current afterwards.
    """
    try:
        resident.pool.context.make_current()
        resident.buffer.read(host, size)
    finally:
        own.make_current()
        resident.release()


def dtype_of(info: IoInfo) -> np.dtype[np.generic]:
    """numpy's type of an input or output."""
    return numpy_dtype_of(DataType(info.dtype))


@dataclass
class _Slot:
    """Memory and marks of one run.

    Args:
        borrowed: For each input the result of another model that it reads, or None.
        staying: For each output the memory in which it stays on the device, or None.
    """

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
    borrowed: list[Resident | None] = field(default_factory=list)
    staying: list[DeviceBuffer | None] = field(default_factory=list)


class SlotRunner(Runner):
    """Runs a model with fixed sizes or gears; two runs can be on their way."""

    depth = SLOTS

    def __init__(self, acl: Acl, context: Context, model: Model, timeout: float, stay: Staying) -> None:
        self._acl = acl
        self._context = context
        self._model = model
        self._info = model.info
        self._timeout = timeout
        self._store = stay.store
        self._out_types = [dtype_of(one) for one in self._info.outputs]
        self._pools = [
            Pool(acl, context, one.size) if stays and one.size >= smallest() else None
            for one, stays in zip(self._info.outputs, stay.outputs or (False,) * len(self._info.outputs))
        ]
        self._up, self._work = context.keep(Stream(acl, "copy in")), context.keep(Stream(acl, "execute"))
        self._known: dict[Shape, list[Shape]] = {(): [one.dims for one in model.info.outputs]}
        self._slots = [self._make_slot(acl, context) for _ in range(SLOTS)]
        self._next = 0

    def begin(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Flight:
        index = self._next
        slot = self._slots[index]
        gear = gear_of(self._info, [array.shape for array in inputs]) if self._info.gears else ()
        if gear and gear != slot.gear:
            self._model.choose(slot.inputs, gear)
            slot.gear = gear
            if gear not in self._known:
                self._known[gear] = self._model.output_shapes()
        try:
            self._bring(slot, inputs)
            self._place_outputs(slot)
            slot.copied.record(self._up)
            self._work.wait_for(slot.copied)
            self._model.execute_async(slot.inputs, slot.outputs, self._work)
            slot.executed.record(self._work)
            slot.down.wait_for(slot.executed)
            self._fetch(slot, self._known[gear])
        except BaseException:
            self._clear_errors()
            self._let_go(slot)
            raise
        self._next = (index + 1) % SLOTS
        return Flight(index, inputs, self._known[gear], alloc)

    def finish(self, flight: Flight) -> list[Array]:
        slot, results = self._slots[flight.slot], []
        try:
            slot.down.synchronize(self._timeout)
            for index, (shape, dtype) in enumerate(zip(flight.shapes, self._out_types)):
                target = flight.alloc(shape, dtype)
                buffer, pool = slot.staying[index], self._pools[index]
                if buffer is not None and pool is not None and target.nbytes >= smallest():
                    self._store.put(target, buffer, pool)
                    slot.staying[index] = None
                else:
                    np.copyto(target, slot.host_out[index].array[: target.nbytes].view(dtype).reshape(shape))
                results.append(target)
        except AclError:
            self._clear_errors()
            raise
        finally:
            self._let_go(slot)
        return results

    def settle(self) -> None:
        try:
            for stream in (self._up, self._work, *(slot.down for slot in self._slots)):
                stream.synchronize(self._timeout)
        finally:
            for slot in self._slots:
                self._let_go(slot)
            for pool in filter(None, self._pools):
                self._store.drop(pool)
                pool.close()

    def _bring(self, slot: _Slot, inputs: Sequence[Array]) -> None:
        """Let the inputs be on the device before the run: most are copied, results of a neighbour are there."""
        for index, array in enumerate(inputs):
            resident = self._store.find(array)
            if resident is not None and resident.buffer.device == self._context.device:
                slot.inputs.rebind(self._input_slot(index), resident.buffer)
                slot.borrowed[index] = resident
                continue
            host, size = slot.host_in[index], array.nbytes
            if resident is not None:
                fetch_from(resident, host, size, self._context)
            else:
                np.copyto(host.array[:size].view(array.dtype).reshape(array.shape), array)
            if size:
                slot.device_in[index].copy_from(host, size, self._up)

    def _place_outputs(self, slot: _Slot) -> None:
        for index, pool in enumerate(self._pools):
            buffer = None if pool is None else pool.take()
            slot.staying[index] = buffer
            if pool is not None:
                slot.outputs.rebind(index, buffer or slot.device_out[index])

    def _fetch(self, slot: _Slot, shapes: Sequence[Shape]) -> None:
        for index, (shape, dtype) in enumerate(zip(shapes, self._out_types)):
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            if size >= smallest() and slot.staying[index] is not None:
                continue
            if size:
                (slot.staying[index] or slot.device_out[index]).copy_to(slot.host_out[index], size, slot.down)

    def _let_go(self, slot: _Slot) -> None:
        """Give back what a run borrowed, and what it did not send."""
        for index, resident in enumerate(slot.borrowed):
            if resident is not None:
                slot.inputs.rebind(self._input_slot(index), slot.device_in[index])
                slot.borrowed[index] = None
                resident.release()
        for index, (buffer, pool) in enumerate(zip(slot.staying, self._pools)):
            if buffer is not None and pool is not None:
                slot.outputs.rebind(index, slot.device_out[index])
                slot.staying[index] = None
                pool.give_back(buffer)

    def _input_slot(self, index: int) -> int:
        """Place of an input among the model's, of which one may carry the gear."""
        return index + (0 <= self._info.gear_index <= index)

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
            borrowed=[None] * len(info.inputs), staying=[None] * len(info.outputs),
        )


class OpenRunner(Runner):
    """Runs a model with open sizes, one run at a time."""

    def __init__(self, acl: Acl, context: Context, model: Model, store: ResidentStore) -> None:
        self._acl = acl
        self._model = model
        self._info = model.info
        self._store = store
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
            resident = self._store.find(array)
            if resident is not None:
                with HostBuffer(self._acl, array.nbytes) as host:
                    fetch_from(resident, host, array.nbytes, self._context)
                    self._buffers[index].write(host.array[: array.nbytes])
            else:
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
