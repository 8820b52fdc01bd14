"""What decorators have registered, by module and class."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

__all__ = ["FlowFuncInfos", "FlowFuncRegister"]


class FlowFuncInfos:
    """What is known of the functions of one class."""

    def __init__(self) -> None:
        self._params: dict[str, str] = {}
        self._resources: list[dict[str, object]] = []
        self._object: object = None
        self._hook: Callable[[], object] | None = None
        self._visible_device_enable = False

    def add_func_params(self, name: str, params: str) -> None:
        """Add a function and its ports, such as `i0,i1,o0`."""
        self._params[name] = params

    def get_all_func_params(self) -> dict[str, str]:
        """Ports by function."""
        return self._params

    def add_running_resources_info(self, resource_type: str, num: int) -> None:
        """Add what an instance needs."""
        self._resources.append({"type": resource_type, "num": num})

    def get_running_resources_info(self) -> list[dict[str, object]]:
        """What an instance needs, as config files have it."""
        return self._resources

    def set_func_object(self, func_object: object) -> None:
        """Keep the object."""
        self._object = func_object

    def get_func_object(self) -> object:
        """The object."""
        return self._object

    def set_env_hook_func(self, env_hook_func: Callable[[], object] | None) -> None:
        """Keep what runs before the object is unpickled."""
        self._hook = env_hook_func

    def get_env_hook_func(self) -> Callable[[], object] | None:
        """What runs before the object is unpickled."""
        return self._hook

    def set_visible_device_enable(self, enable: bool) -> None:
        """Keep whether the process sees one device only."""
        self._visible_device_enable = enable

    def get_visible_device_enable(self) -> bool:
        """Whether the process sees one device only."""
        return self._visible_device_enable


class FlowFuncRegister:
    """Functions that decorators have seen in this process."""

    _funcs: ClassVar[dict[tuple[str, str], dict[str, str]]] = {}
    _infos: ClassVar[dict[tuple[str, str], FlowFuncInfos]] = {}

    @classmethod
    def register_flow_func(cls, module: str, clz: str, func: str, params: str) -> None:
        """Add a function and its ports."""
        cls._funcs.setdefault((module, clz), {})[func] = params

    @classmethod
    def get_flow_func(cls, module: str, clz: str) -> dict[str, str] | None:
        """Ports of the functions of a class, or None."""
        return cls._funcs.get((module, clz))

    @classmethod
    def register_flow_func_infos(cls, module: str, clz: str, infos: FlowFuncInfos) -> None:
        """Keep what is known of a class."""
        cls._infos[module, clz] = infos

    @classmethod
    def get_flow_func_infos(cls, module: str, clz: str) -> FlowFuncInfos | None:
        """What is known of a class, or None."""
        return cls._infos.get((module, clz))
