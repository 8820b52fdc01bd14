"""Models, what they say about themselves, and datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dflow_core.types import Array
from dflow_pne_npu.bindings.calls import Acl
from dflow_pne_npu.bindings.declarations import CONSTANTS, GEAR_INPUT
from dflow_pne_npu.bindings.objects import DOWN, DeviceBuffer, Handle, Stream


@dataclass(frozen=True)
class IoInfo:
    """An input or an output of a model.

    Args:
        name: Its name.
        dtype: ACL's number of the element type.
        format: ACL's number of the layout.
        dims: Sizes; -1 where free.
        size: Bytes of the largest; 0 where there is no largest.
        ranges: Smallest and largest size of each dimension; the largest -1 where it is open.
    """

    name: str
    dtype: int
    format: int
    dims: tuple[int, ...]
    size: int
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class ModelInfo:
    """What a model takes and gives.

    Args:
        inputs, outputs: Its tensors; the input that carries a gear is left out.
        kind: `fixed`, `batch`, `image`, `dims` or `range`.
        gears: The choices of sizes: one batch size; height and width; or the sizes of all inputs, joined.
        gear_index: Slot of the input that carries the gear, or -1.
        gear_size: Bytes of that input.
    """

    inputs: tuple[IoInfo, ...]
    outputs: tuple[IoInfo, ...]
    kind: str
    gears: tuple[tuple[int, ...], ...] = ()
    gear_index: int = -1
    gear_size: int = 0


def describe_model(acl: Acl, data: bytes) -> ModelInfo:
    """What the bytes of a model say, without a device.

    Raises:
        AclError: they are no model, or one that this library does not take.
    """
    desc = acl.aclmdlCreateDesc()
    try:
        acl.aclmdlGetDescFromMem(desc, acl.ffi.from_buffer(data), len(data))
        return _read(acl, desc)
    finally:
        acl.aclmdlDestroyDesc(desc)


def model_sizes(acl: Acl, data: bytes) -> tuple[int, int]:
    """Bytes of device memory that a model's work and weights take."""
    work, weight = acl.ffi.new("size_t *"), acl.ffi.new("size_t *")
    acl.aclmdlQuerySizeFromMem(acl.ffi.from_buffer(data), len(data), work, weight)
    return int(work[0]), int(weight[0])


class Model(Handle):
    """A model loaded in the current context.

    Args:
        acl: The library.
        data: The bytes of an OM file; needed during the call only.
    """

    def __init__(self, acl: Acl, data: bytes) -> None:
        made = acl.ffi.new("uint32_t *")
        acl.aclmdlLoadFromMem(acl.ffi.from_buffer(data), len(data), made)
        super().__init__(acl, int(made[0]))
        self._desc = acl.aclmdlCreateDesc()
        try:
            acl.aclmdlGetDesc(self._desc, self.handle)
            self.info = _read(acl, self._desc)
        except BaseException:
            self.close()
            raise

    def output_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the outputs in the gear chosen last."""
        dims, found = self.acl.ffi.new("aclmdlIODims *"), []
        for index in range(len(self.info.outputs)):
            self.acl.aclmdlGetCurOutputDims(self._desc, index, dims)
            found.append(_sizes(dims))
        return found

    def execute(self, inputs: Dataset, outputs: Dataset) -> None:
        """Run it and wait."""
        self.acl.aclmdlExecute(self.handle, inputs.handle, outputs.handle)

    def execute_async(self, inputs: Dataset, outputs: Dataset, stream: Stream) -> None:
        """Put a run behind what a stream has to do."""
        self.acl.aclmdlExecuteAsync(self.handle, inputs.handle, outputs.handle, stream.handle)

    def choose(self, inputs: Dataset, gear: Sequence[int]) -> None:
        """Choose the sizes of the next runs with a dataset.

        Args:
            inputs: The dataset.
            gear: One of `info.gears`.
        """
        slot = self.info.gear_index
        if self.info.kind == "batch":
            self.acl.aclmdlSetDynamicBatchSize(self.handle, inputs.handle, slot, gear[0])
        elif self.info.kind == "image":
            self.acl.aclmdlSetDynamicHWSize(self.handle, inputs.handle, slot, gear[0], gear[1])
        else:
            dims = self.acl.ffi.new("aclmdlIODims *")
            dims.dimCount = len(gear)
            for index, size in enumerate(gear):
                dims.dims[index] = size
            self.acl.aclmdlSetInputDynamicDims(self.handle, inputs.handle, slot, dims)

    def _release(self, handle: Any) -> None:
        try:
            self.acl.aclmdlUnload(handle)
        finally:
            self.acl.aclmdlDestroyDesc(self._desc)


class Dataset(Handle):
    """The memory of a model's inputs or outputs, in order; it does not own the memory.

    Args:
        acl: The library.
        buffers: A buffer for each slot; None lets the library allocate for an output in a run that is waited for.
    """

    def __init__(self, acl: Acl, buffers: Sequence[DeviceBuffer | None]) -> None:
        super().__init__(acl, acl.aclmdlCreateDataset())
        self._slots: list[Any] = []
        for buffer in buffers:
            address, size = (acl.ffi.NULL, 0) if buffer is None else (buffer.handle, buffer.size)
            slot = acl.aclCreateDataBuffer(address, size)
            self._slots.append(slot)
            acl.aclmdlAddDatasetBuffer(self.handle, slot)

    def rebind(self, index: int, buffer: DeviceBuffer) -> None:
        """Let a slot refer to other memory."""
        self.acl.aclUpdateDataBuffer(self._slots[index], buffer.handle, buffer.size)

    def describe(self, index: int, info: IoInfo, shape: Sequence[int]) -> None:
        """Tell the shape of an input with free dimensions."""
        dims = self.acl.ffi.new("int64_t[]", list(shape) or [0])
        desc = self.acl.aclCreateTensorDesc(info.dtype, len(shape), dims, CONSTANTS["ACL_FORMAT_ND"])
        try:
            self.acl.aclmdlSetDatasetTensorDesc(self.handle, desc, index)
        finally:
            self.acl.aclDestroyTensorDesc(desc)

    def shape(self, index: int) -> tuple[int, ...]:
        """Shape of an output after a run of a model with free dimensions."""
        desc = self.acl.aclmdlGetDatasetTensorDesc(self.handle, index)
        size = self.acl.ffi.new("int64_t *")
        found = []
        for axis in range(self.acl.aclGetTensorDescNumDims(desc)):
            self.acl.aclGetTensorDescDimV2(desc, axis, size)
            found.append(int(size[0]))
        return tuple(found)

    def take(self, index: int, target: Array) -> None:
        """Copy what the library allocated for an output into an array, and free it."""
        address = self.acl.aclGetDataBufferAddr(self._slots[index])
        if address == self.acl.ffi.NULL:
            return
        try:
            if target.nbytes:
                raw = target.reshape(-1).view(np.uint8)
                self.acl.aclrtMemcpy(self.acl.ffi.from_buffer(raw), raw.nbytes, address, raw.nbytes, DOWN)
        finally:
            self.acl.aclUpdateDataBuffer(self._slots[index], self.acl.ffi.NULL, 0)
            self.acl.aclrtFree(address)

    def _release(self, handle: Any) -> None:
        for slot in self._slots:
            self.acl.aclDestroyDataBuffer(slot)
        self.acl.aclmdlDestroyDataset(handle)


def _read(acl: Acl, desc: Any) -> ModelInfo:
    count = int(acl.aclmdlGetNumInputs(desc))
    names = [_text(acl, acl.aclmdlGetInputNameByIndex(desc, i)) for i in range(count)]
    gear_index = names.index(GEAR_INPUT) if GEAR_INPUT in names else -1
    gear_size = int(acl.aclmdlGetInputSizeByIndex(desc, gear_index)) if gear_index >= 0 else 0
    inputs = tuple(_input(acl, desc, i, name) for i, name in enumerate(names) if i != gear_index)
    outputs = tuple(_output(acl, desc, i) for i in range(int(acl.aclmdlGetNumOutputs(desc))))
    kind, gears = _gears(acl, desc) if gear_index >= 0 else ("", ())
    free = any(size < 0 for one in inputs for size in one.dims) or any(size < 0 for one in outputs for size in one.dims)
    return ModelInfo(inputs, outputs, kind or ("range" if free else "fixed"), gears, gear_index, gear_size)


def _input(acl: Acl, desc: Any, index: int, name: str) -> IoInfo:
    dims = acl.ffi.new("aclmdlIODims *")
    acl.aclmdlGetInputDims(desc, index, dims)
    ranges: tuple[tuple[int, int], ...] = ()
    if acl.has("aclmdlGetInputDimsRange"):
        found = acl.ffi.new("aclmdlIODimsRange *")
        acl.aclmdlGetInputDimsRange(desc, index, found)
        ranges = tuple((int(found.range[i][0]), int(found.range[i][1])) for i in range(found.rangeCount))
    return IoInfo(name, int(acl.aclmdlGetInputDataType(desc, index)), int(acl.aclmdlGetInputFormat(desc, index)),
                  _sizes(dims), int(acl.aclmdlGetInputSizeByIndex(desc, index)), ranges)


def _output(acl: Acl, desc: Any, index: int) -> IoInfo:
    dims = acl.ffi.new("aclmdlIODims *")
    acl.aclmdlGetOutputDims(desc, index, dims)
    name = _text(acl, acl.aclmdlGetOutputNameByIndex(desc, index))
    return IoInfo(name, int(acl.aclmdlGetOutputDataType(desc, index)), int(acl.aclmdlGetOutputFormat(desc, index)),
                  _sizes(dims), int(acl.aclmdlGetOutputSizeByIndex(desc, index)))


def _gears(acl: Acl, desc: Any) -> tuple[str, tuple[tuple[int, ...], ...]]:
    batch, image = acl.ffi.new("aclmdlBatch *"), acl.ffi.new("aclmdlHW *")
    acl.aclmdlGetDynamicBatch(desc, batch)
    if batch.batchCount:
        return "batch", tuple((int(batch.batch[i]),) for i in range(batch.batchCount))
    acl.aclmdlGetDynamicHW(desc, 0, image)
    if image.hwCount:
        return "image", tuple((int(image.hw[i][0]), int(image.hw[i][1])) for i in range(image.hwCount))
    count, every = acl.ffi.new("size_t *"), acl.ffi.cast("size_t", -1)
    acl.aclmdlGetInputDynamicGearCount(desc, every, count)
    dims = acl.ffi.new("aclmdlIODims[]", max(1, int(count[0])))
    acl.aclmdlGetInputDynamicDims(desc, every, dims, count[0])
    return "dims", tuple(_sizes(dims[i]) for i in range(int(count[0])))


def _sizes(dims: Any) -> tuple[int, ...]:
    return tuple(int(dims.dims[i]) for i in range(dims.dimCount))


def _text(acl: Acl, pointer: Any) -> str:
    return str(acl.ffi.string(pointer).decode("utf-8", "replace"))
