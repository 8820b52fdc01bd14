"""Thin functions: each call of the library gives nothing, or raises what the code means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dflow_core.errors import PluginError
from dflow_pne_npu.bindings.declarations import CONSTANTS, CORE, MAJOR_VERSION, OPTIONAL
from dflow_pne_npu.bindings.errors import AclError
from dflow_pne_npu.bindings.library import LibrarySearch, function_names, has, open_library

_NUMBERS = ("DataType", "Format")
"""Ends of the names of functions that give a number which is no code."""


class Acl:
    """The library, opened. Its functions are attributes without the prefix check: `acl.aclrtSetDevice(0)`.

    A function that gives a code raises AclError for any but 0; others give what the library gives.

    Args:
        search: Where to look for the library.

    Raises:
        PluginError: there is none, or one of another interface version.
    """

    def __init__(self, search: LibrarySearch | None = None) -> None:
        search = search or LibrarySearch.here()
        self.search_path = search.path()
        self.ffi, self.lib = open_library(search)
        for declarations in (CORE, OPTIONAL):
            for name in function_names(declarations):
                setattr(self, name, self._thin(name) if has(self.lib, name) else self._missing(name))
        self.version = self._version()
        if self.version[0] != MAJOR_VERSION:
            found = ".".join(map(str, self.version))
            raise PluginError(f"ACL has interface version {found}, this plugin was made for {MAJOR_VERSION}.x",
                              hint="install a dflow-pne-npu that was made for this CANN")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"ACL has no function {name!r} here")

    def has(self, name: str) -> bool:
        """Whether the library has a function that is optional."""
        return has(self.lib, name)

    def initialise(self) -> None:
        """`aclInit`; being initialised by somebody else before is fine."""
        code = self.lib.aclInit(self.ffi.NULL)
        if code not in (0, CONSTANTS["ACL_ERROR_REPEAT_INITIALIZE"]):
            raise self._error(code, "aclInit")
        if code:
            self.lib.aclGetRecentErrMsg()

    def finalise(self) -> None:
        """Take one `initialise` back, where the library counts them; else leave it to the process's end."""
        if self.has("aclFinalizeReference"):
            self.aclFinalizeReference(self.ffi.new("uint64_t *"))

    def device_count(self) -> int:
        """Devices that are visible; 0 where there are none."""
        count = self.ffi.new("uint32_t *")
        return int(count[0]) if self.lib.aclrtGetDeviceCount(count) == 0 else 0

    def current_device(self) -> int:
        """Device of this thread's context."""
        device = self.ffi.new("int32_t *")
        self.aclrtGetDevice(device)
        return int(device[0])

    def soc_name(self) -> str:
        """Name of the chip, as atc wants it; "" if it cannot be told."""
        text = self.lib.aclrtGetSocName()
        return "" if text == self.ffi.NULL else str(self.ffi.string(text).decode())

    def memory(self) -> tuple[int, int]:
        """Free and whole memory of the current context's device, bytes."""
        free, total = self.ffi.new("size_t *"), self.ffi.new("size_t *")
        self.aclrtGetMemInfo(CONSTANTS["ACL_HBM_MEM"], free, total)
        return int(free[0]), int(total[0])

    def runs_on_device(self) -> bool:
        """Whether this program runs on the chip itself, so that host and device memory are one."""
        mode = self.ffi.new("int *")
        self.aclrtGetRunMode(mode)
        return bool(mode[0] == CONSTANTS["ACL_DEVICE"])

    def _version(self) -> tuple[int, int, int]:
        numbers = [self.ffi.new("int32_t *") for _ in range(3)]
        self.aclrtGetVersion(*numbers)
        return int(numbers[0][0]), int(numbers[1][0]), int(numbers[2][0])

    def _thin(self, name: str) -> Callable[..., Any]:
        function = getattr(self.lib, name)
        if self.ffi.typeof(function).result.cname != "int" or name.endswith(_NUMBERS):
            return function  # type: ignore[no-any-return]
        error = self._error

        def call(*arguments: Any) -> None:
            code = function(*arguments)
            if code:
                raise error(code, name)

        call.__name__ = name
        return call

    def _missing(self, name: str) -> Callable[..., Any]:
        def call(*_arguments: Any) -> None:
            raise PluginError(f"this CANN's library has no {name}", hint="install a newer CANN")

        return call

    def _error(self, code: int, call: str) -> AclError:
        text = self.lib.aclGetRecentErrMsg()
        words = "" if text == self.ffi.NULL else self.ffi.string(text).decode("utf-8", "replace")
        device = self.ffi.new("int32_t *")
        known = self.lib.aclrtGetDevice(device) == 0
        if not known:
            self.lib.aclGetRecentErrMsg()
        return AclError(code, call, words, int(device[0]) if known else None)
