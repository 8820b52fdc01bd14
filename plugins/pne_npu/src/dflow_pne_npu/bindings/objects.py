"""Contexts, streams, events and memory as objects: closed in the right order, used only while they are open."""

from __future__ import annotations

from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from dflow_core.errors import ClosedError
from dflow_core.types import Array
from dflow_pne_npu.bindings.calls import Acl
from dflow_pne_npu.bindings.declarations import CONSTANTS
from dflow_pne_npu.bindings.errors import AclError

Self = TypeVar("Self", bound="Handle")

UP, DOWN, ACROSS = (CONSTANTS[f"ACL_MEMCPY_{way}"] for way in ("HOST_TO_DEVICE", "DEVICE_TO_HOST", "DEVICE_TO_DEVICE"))


class Handle:
    """Something of the library that is given back once; a context manager."""

    def __init__(self, acl: Acl, handle: Any) -> None:
        self.acl = acl
        self._handle: Any = handle

    @property
    def handle(self) -> Any:
        """What the library calls it.

        Raises:
            ClosedError: it has been given back.
        """
        if self._handle is None:
            raise ClosedError(f"this {type(self).__name__} has been closed")
        return self._handle

    def close(self) -> None:
        """Give it back. Idempotent."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._release(handle)

    def _release(self, handle: Any) -> None:
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Context(Handle):
    """A context of a device; what is made while it is current belongs to it, and is closed before it.

    Args:
        acl: The library.
        device: Number of the device.

    Raises:
        AclError: there is no such device, or it cannot be opened.
    """

    def __init__(self, acl: Acl, device: int) -> None:
        acl.initialise()
        try:
            acl.aclrtSetDevice(device)
            made = acl.ffi.new("aclrtContext *")
            acl.aclrtCreateContext(made, device)
        except AclError:
            acl.finalise()
            raise
        super().__init__(acl, made[0])
        self.device = device
        self._inside: list[Handle] = []

    def make_current(self) -> None:
        """Make it this thread's context."""
        self.acl.aclrtSetCurrentContext(self.handle)

    def keep(self, made: Self) -> Self:
        """Close something with this context, before what was kept earlier."""
        self._inside.append(made)
        return made

    def drop(self, kept: Handle) -> None:
        """Close something that was kept, now."""
        self._inside.remove(kept)
        kept.close()

    def _release(self, handle: Any) -> None:
        first: AclError | None = None
        steps = [one.close for one in reversed(self._inside)]
        self._inside.clear()
        self.acl.lib.aclrtSetCurrentContext(handle)
        steps += [lambda: self.acl.aclrtDestroyContext(handle), lambda: self.acl.aclrtResetDevice(self.device)]
        for step in (*steps, self.acl.finalise):
            try:
                step()
            except AclError as error:
                first = first or error
        if first is not None:
            raise first


class Stream(Handle):
    """A queue of work of the current context.

    Args:
        acl: The library.
        name: What to call it in errors.
    """

    def __init__(self, acl: Acl, name: str = "") -> None:
        made = acl.ffi.new("aclrtStream *")
        acl.aclrtCreateStream(made)
        super().__init__(acl, made[0])
        self.name = name
        self._is_timed = acl.has("aclrtSynchronizeStreamWithTimeout")

    def synchronize(self, timeout: float) -> None:
        """Wait until its work is done; seconds.

        Raises:
            AclError: the work failed, or is not done after the time.
        """
        try:
            if self._is_timed:
                self.acl.aclrtSynchronizeStreamWithTimeout(self.handle, max(1, int(timeout * 1000)))
            else:
                self.acl.aclrtSynchronizeStream(self.handle)
        except AclError as error:
            raise AclError(error.code, error.call, error.text, error.device, self.name) from None

    def wait_for(self, event: Event) -> None:
        """Let later work wait for an event."""
        self.acl.aclrtStreamWaitEvent(self.handle, event.handle)

    def _release(self, handle: Any) -> None:
        self.acl.aclrtDestroyStream(handle)


class Event(Handle):
    """A mark in a stream."""

    def __init__(self, acl: Acl) -> None:
        made = acl.ffi.new("aclrtEvent *")
        acl.aclrtCreateEvent(made)
        super().__init__(acl, made[0])

    def record(self, stream: Stream) -> None:
        """Put it behind what the stream has to do."""
        self.acl.aclrtRecordEvent(self.handle, stream.handle)

    def _release(self, handle: Any) -> None:
        self.acl.aclrtDestroyEvent(handle)


class DeviceBuffer(Handle):
    """Memory of the current context's device.

    Args:
        acl: The library.
        size: Bytes, at least 1.

    Raises:
        AclError: the device has not that much.
    """

    def __init__(self, acl: Acl, size: int) -> None:
        made = acl.ffi.new("void **")
        acl.aclrtMalloc(made, max(size, 1), CONSTANTS["ACL_MEM_MALLOC_HUGE_FIRST"])
        super().__init__(acl, made[0])
        self.size = size
        self.device = acl.current_device()

    def copy_from(self, host: HostBuffer, size: int, stream: Stream) -> None:
        """Put a copy of host memory behind what a stream has to do."""
        self.acl.aclrtMemcpyAsync(self.handle, self.size, host.handle, size, UP, stream.handle)

    def copy_to(self, host: HostBuffer, size: int, stream: Stream) -> None:
        """Put a copy into host memory behind what a stream has to do."""
        self.acl.aclrtMemcpyAsync(host.handle, host.size, self.handle, size, DOWN, stream.handle)

    def read(self, host: HostBuffer, size: int) -> None:
        """Copy into host memory, at once."""
        if size:
            self.acl.aclrtMemcpy(host.handle, host.size, self.handle, size, DOWN)

    def write(self, array: Array) -> None:
        """Copy an array in, at once."""
        data = np.ascontiguousarray(array)
        if data.nbytes:
            self.acl.aclrtMemcpy(self.handle, self.size, self.acl.ffi.from_buffer(data), data.nbytes, UP)

    def _release(self, handle: Any) -> None:
        self.acl.aclrtFree(handle)


class HostBuffer(Handle):
    """Pinned host memory, which copies run from and to while the program goes on; `array` shows it as bytes."""

    def __init__(self, acl: Acl, size: int) -> None:
        made = acl.ffi.new("void **")
        acl.aclrtMallocHost(made, max(size, 1))
        super().__init__(acl, made[0])
        self.size = size
        self.array: Array = np.frombuffer(acl.ffi.buffer(made[0], max(size, 1)), dtype=np.uint8)

    def _release(self, handle: Any) -> None:
        self.array = np.empty(0, np.uint8)
        self.acl.aclrtFreeHost(handle)
