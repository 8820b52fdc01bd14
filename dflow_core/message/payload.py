"""Values in and out of message bodies: arrays, strings, objects.

Arrays travel as a RuntimeTensorDesc and their bytes. Strings (`DataType.STRING`) keep numpy's fixed-width layout
byte for byte where the array has one, and are packed as lengths and bytes where it is an object array; the
descriptor's `sub_format` tells which. Everything else is pickled by value (cloudpickle, protocol 5); arrays inside
such an object lie out of band behind the pickle and are not copied on the way out.
"""

from __future__ import annotations

import io
import math
import pickle
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dflow_core.errors import PackagingError, PoolExhaustedError, TensorError, text_of
from dflow_core.message.aux import NO_AUX, Aux
from dflow_core.message.block import Block, HeapBlock, block_of
from dflow_core.message.flow_msg import FlowMsg
from dflow_core.message.info import HEAD_SIZE, Bytes, DataFlag, MsgInfo, MsgType
from dflow_core.message.pickler import pickler_class
from dflow_core.message.tensor_desc import DATA_OFFSET, DESC_SIZE, TensorDesc, packed_desc
from dflow_core.message.tensors import pack_strings, read_tensor
from dflow_core.message.type_register import TypeCodec, msg_types
from dflow_core.types import Array, DataType, Tensor, data_type_of, is_plain_array

Alloc = Callable[[int], Block]

_ALIGN = 64
_SIMPLE = frozenset({bool, int, float, complex, str, bytes})


def alloc_tensor(shape: Sequence[int], dtype: np.dtype[np.generic], alloc: Alloc, spare: int = 0) -> Array:
    """An uninitialised array that lies in a fresh block, ready to be sent without a copy.

    Args:
        shape: Dimensions.
        dtype: Any dtype a tensor can have, strings excepted.
        alloc: Gives a block of that many bytes.
        spare: Bytes to keep free behind it for an aux section.
    """
    return TensorBlock.make(shape, dtype, alloc, spare).array


@dataclass(slots=True)
class TensorBlock:
    """A tensor being filled in the block it will be sent in.

    Args:
        array: What the owner fills.
        block: The block.
        data: The whole block.
        body_size: Bytes of descriptor and data.
    """

    array: Array
    block: Block
    data: Bytes
    body_size: int

    @classmethod
    def make(
        cls, shape: Sequence[int], dtype: np.dtype[np.generic], alloc: Alloc, spare: int
    ) -> TensorBlock:
        """A fresh one, uninitialised but for its descriptor; arguments as for `alloc_tensor`."""
        data_type, shape = data_type_of(dtype), tuple(shape)
        if data_type is DataType.STRING:
            raise TensorError("string tensors cannot be filled in place; send the array itself")
        size = math.prod(shape) * dtype.itemsize
        block = alloc(DATA_OFFSET + size + spare)
        data = block.array(writable=True)
        data[HEAD_SIZE:DATA_OFFSET] = packed_desc(data_type, shape, size)
        array: Array = np.ndarray(shape, dtype, data, DATA_OFFSET)
        return cls(array, block, data, DESC_SIZE + size)

    def seal(self, info: MsgInfo, aux: Aux) -> FlowMsg | None:
        """The message, sent as it lies; the array is read-only from here on. None if the aux section has no room."""
        extra = aux.pack() if aux is not NO_AUX else b""
        end = HEAD_SIZE + self.body_size
        if end + len(extra) > self.data.nbytes:
            return None
        info = _retype(info, MsgType.TENSOR)
        self.array.flags.writeable = False
        info.pack_into(self.data, self.body_size, len(extra))
        if extra:
            self.data[end : end + len(extra)] = np.frombuffer(extra, np.uint8)
        body = self.data[HEAD_SIZE:end]
        body.flags.writeable = False
        return FlowMsg(info, body, aux, self.block.retain())


def encode(value: object, info: MsgInfo, alloc: Alloc = HeapBlock, aux: Aux = NO_AUX) -> FlowMsg:
    """A message ready to be put into a queue: written into a block, copied only if it does not lie in one already.

    Args:
        value: Array, `Tensor`, numpy scalar, None (a null message), or any object that can be pickled; instances of
            subclasses of arrays are objects.
        info: Head; message type and null flag are set here, the rest stays.
        alloc: Gives a block of that many bytes.
        aux: Batch members or error to send along.

    Raises:
        TensorError: if an array's dtype cannot be sent.
        PackagingError: if an object cannot be pickled.
    """
    if type(value) is np.ndarray and value.dtype.kind != "O":
        return _encode_array(value, None, info, alloc, aux)
    if isinstance(value, FlowMsg):
        null = value.info.data_flag & DataFlag.NULL
        return seal(FlowMsg(_retype(info, value.info.msg_type, null), value.body, aux), alloc)
    if value is None:
        return seal(FlowMsg(_retype(info, MsgType.TENSOR, DataFlag.NULL), None, aux), alloc)
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, Tensor):
        return _encode_array(value.data, value.dtype, info, alloc, aux)
    if is_plain_array(value):
        if value.dtype.kind != "O":
            return _encode_array(value, None, info, alloc, aux)
        if all(isinstance(item, (str, bytes)) for item in value.flat):
            return _encode_strings(value, info, alloc, aux)
    return _encode_object(value, info, alloc, aux)


def decode(msg: FlowMsg) -> object:
    """The value a message carries: a read-only array, an object, the bytes of a raw message, or None."""
    if msg.body is None or msg.is_null:
        return None
    if msg.info.msg_type == MsgType.TENSOR:
        return read_tensor(msg.body)
    if msg.info.msg_type == MsgType.PICKLED:
        return _decode_object(msg.body)
    codec = msg_types.of_number(msg.info.msg_type)
    return memoryview(msg.body) if codec is None else _read_by(codec, memoryview(msg.body))


def seal(msg: FlowMsg, alloc: Alloc) -> FlowMsg:
    """The same message written into a block of its own."""
    block = alloc(msg.wire_size)
    msg.write_to(block)
    return FlowMsg.from_block(block)


def describe(msg: FlowMsg) -> str:
    """What a message carries, in words such as `float32[3, 4]`, for error texts."""
    if msg.body is None or msg.is_null:
        return "null"
    if msg.info.msg_type == MsgType.TENSOR:
        desc = TensorDesc.unpack_from(msg.body, 0)
        return f"{desc.dtype.name.lower()}{list(desc.shape)}"
    codec = msg_types.of_number(msg.info.msg_type)
    kind = "object" if msg.info.msg_type == MsgType.PICKLED else f"message of type {msg.info.msg_type}"
    kind = kind if codec is None else codec.cls.__qualname__
    return f"{kind} of {msg.body.nbytes} bytes"


def _retype(info: MsgInfo, msg_type: int, null: int = 0) -> MsgInfo:
    made = info.copy()
    made.msg_type = msg_type
    made.data_flag = (info.data_flag & DataFlag.CUSTOM_ID) | null
    return made


def _encode_array(array: Array, declared: DataType | None, info: MsgInfo, alloc: Alloc, aux: Aux) -> FlowMsg:
    data_type = declared or data_type_of(array.dtype)
    if data_type is DataType.STRING:
        return _encode_strings(array, info, alloc, aux)
    info = _retype(info, MsgType.TENSOR)
    extra = aux.pack() if aux is not NO_AUX else b""
    size = array.nbytes
    if array.base is not None:
        in_place = _reusable_block(array, info, extra)
        if in_place is not None:
            return FlowMsg(info, in_place.array()[HEAD_SIZE : DATA_OFFSET + size], aux, in_place.retain())
    end = DATA_OFFSET + size
    block = alloc(end + len(extra))
    data = block.array(writable=True)
    info.pack_into(data, DESC_SIZE + size, len(extra))
    data[HEAD_SIZE:DATA_OFFSET] = packed_desc(data_type, array.shape, size)
    native = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    np.copyto(np.ndarray(array.shape, native, data, DATA_OFFSET), array)
    if extra:
        data[end : end + len(extra)] = np.frombuffer(extra, np.uint8)
    body = data[HEAD_SIZE:end]
    body.flags.writeable = False
    return FlowMsg(info, body, aux, block)


def _reusable_block(array: Array, info: MsgInfo, extra: bytes) -> Block | None:
    """The block an array lies in, with its head written to it, if it can go as it is.

    That holds for an array made by `alloc_tensor`, which is handed over and read-only from here on, and for one that
    came in a message and leaves under the same head.
    """
    block = block_of(array)
    end = DATA_OFFSET + array.nbytes
    if block is None or block.nbytes < end + len(extra) or not array.flags.c_contiguous:
        return None
    data = block.array()
    if _address(array) != _address(data) + DATA_OFFSET:
        return None
    desc = TensorDesc.unpack_from(data, HEAD_SIZE)
    if desc.shape != array.shape or desc.dtype is not data_type_of(array.dtype):
        return None
    head = info.pack(end - HEAD_SIZE, len(extra))
    if array.flags.writeable:
        array.flags.writeable = False
        target = block.array(writable=True)
        target[:HEAD_SIZE] = np.frombuffer(head, np.uint8)
        target[end : end + len(extra)] = np.frombuffer(extra, np.uint8)
        return block
    same = data[:HEAD_SIZE].tobytes() == bytes(head) and data[end : end + len(extra)].tobytes() == extra
    return block if same else None


def _address(array: Array) -> int:
    # `array.ctypes.data` makes three objects to say the same.
    address: int = array.__array_interface__["data"][0]
    return address


def _encode_strings(array: Array, info: MsgInfo, alloc: Alloc, aux: Aux) -> FlowMsg:
    return seal(FlowMsg(_retype(info, MsgType.TENSOR), pack_strings(array), aux), alloc)


def _encode_object(value: object, info: MsgInfo, alloc: Alloc, aux: Aux) -> FlowMsg:
    codec = msg_types.of_class(type(value))
    if codec is not None:
        return _encode_by(codec, value, info, alloc, aux)
    pickled, raws = _pickled(value)
    sizes = [pickled.nbytes, *(raw.nbytes for raw in raws)]
    head = struct.pack(f"<Q{len(sizes)}Q", len(sizes), *sizes)
    offsets = _offsets(len(head), sizes)
    extra = aux.pack() if aux is not NO_AUX else b""
    body_size = offsets[-1] + sizes[-1]
    block = alloc(HEAD_SIZE + body_size + len(extra))
    data = block.array(writable=True)
    info = _retype(info, MsgType.PICKLED)
    info.pack_into(data, body_size, len(extra))
    body = data[HEAD_SIZE:]
    body[: len(head)] = np.frombuffer(head, np.uint8)
    for offset, part in zip(offsets, [pickled, *raws]):
        body[offset : offset + part.nbytes] = np.frombuffer(part, np.uint8)
    body[body_size : body_size + len(extra)] = np.frombuffer(extra, np.uint8)
    return FlowMsg.from_block(block)


def _encode_by(codec: TypeCodec, value: object, info: MsgInfo, alloc: Alloc, aux: Aux) -> FlowMsg:
    """A message with what a registered type makes of its object; with a size, made in the message itself."""
    extra = aux.pack() if aux is not NO_AUX else b""
    info = _retype(info, codec.msg_type)
    try:
        content = None if codec.size is not None else memoryview(codec.serialize(value)).cast("B")  # type: ignore[arg-type]
        body_size = content.nbytes if content is not None else int(codec.size(value))  # type: ignore[misc]
        block = alloc(HEAD_SIZE + body_size + len(extra))
        data = block.array(writable=True)
        info.pack_into(data, body_size, len(extra))
        body = data[HEAD_SIZE : HEAD_SIZE + body_size]
        if content is not None:
            body[:] = np.frombuffer(content, np.uint8)
        else:
            codec.serialize(value, memoryview(body))
    except PoolExhaustedError:
        raise
    except Exception as cause:
        name = codec.cls.__qualname__
        raise PackagingError(f"a {name} (message type {codec.msg_type}) cannot be written: {text_of(cause)}") from cause
    if extra:
        data[HEAD_SIZE + body_size : HEAD_SIZE + body_size + len(extra)] = np.frombuffer(extra, np.uint8)
    return FlowMsg.from_block(block)


def _read_by(codec: TypeCodec, data: memoryview) -> object:
    try:
        return codec.deserialize(data)
    except Exception as cause:
        text = f"a message of type {codec.msg_type} cannot be read as {codec.cls.__qualname__}: {text_of(cause)}"
        raise PackagingError(text) from cause


def _pickled(value: object) -> tuple[memoryview, list[memoryview]]:
    """The pickle of an object, and what of it lies out of band."""
    if type(value) in _SIMPLE:  # the same bytes, made in a tenth of the time
        return memoryview(pickle.dumps(value, 5)), []
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    try:
        pickler_class()(stream, protocol=5, buffer_callback=buffers.append).dump(value)
        raws = [buffer.raw() for buffer in buffers]
    except Exception as cause:
        raise PackagingError(f"a {type(value).__name__} cannot travel to another process: {text_of(cause)}") from cause
    return stream.getbuffer(), raws


def _decode_object(body: Bytes) -> object:
    (count,) = struct.unpack_from("<Q", body)
    sizes = list(struct.unpack_from(f"<{count}Q", body, 8))
    offsets = _offsets(8 + 8 * count, sizes)
    parts = [body[offset : offset + size] for offset, size in zip(offsets, sizes)]
    try:
        return pickle.loads(parts[0], buffers=parts[1:])
    except (Exception, SystemExit) as cause:  # any class may do anything when it is made again
        hint = "its class has to be importable here, and to be made again from what its __reduce__ gives"
        text = f"an object that arrived cannot be made again: {type(cause).__name__}: {text_of(cause)}"
        raise PackagingError(text, hint=hint) from cause


def _offsets(start: int, sizes: Sequence[int]) -> list[int]:
    """Where each part begins; all on multiples of 64 so that arrays in them are aligned."""
    offsets, at = [], start
    for size in sizes:
        at = -(-at // _ALIGN) * _ALIGN
        offsets.append(at)
        at += size
    return offsets
