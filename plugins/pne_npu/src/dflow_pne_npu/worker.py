"""The ModelWorker: one loaded model on one device."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from dflow_core.errors import DeployError, DflowError, RunError, TensorError
from dflow_core.model import GraphModel, PneModel
from dflow_core.spi import ModelWorker, OutputAlloc, WorkerContext
from dflow_core.types import Array, data_type_of, numpy_dtype_of
from dflow_pne_npu.bindings import Acl, AclError, Context, Model, describe_model
from dflow_pne_npu.bindings.models import model_sizes
from dflow_pne_npu.engine import tensor_spec
from dflow_pne_npu.running import Flight, ResidentStore, Runner, Staying, make_runner
from dflow_pne_npu.running.runner import SLOTS


class NpuLoader:
    """Loads GraphModels of the NPU engine (a `WorkerLoader`); results stay on the device among those it loads."""

    def __init__(self) -> None:
        self._store = ResidentStore()

    def __call__(self, model: PneModel, context: WorkerContext) -> NpuWorker:
        """Load a model on a device.

        Raises:
            PluginError: there is no ACL library here.
            DeployError: there is no such device, or it has not the memory.
            AclError: the library refuses the model.
        """
        assert isinstance(model, GraphModel)
        return NpuWorker(Acl(), model, context, self._store)


class NpuWorker(ModelWorker):
    """Runs one model; two calls can be in flight, so that copies overlap executions.

    Args:
        acl: The library.
        model: What to load.
        context: What the executor says.
        store: Results of other models of this process that stay on the device.
    """

    def __init__(
        self, acl: Acl, model: GraphModel, context: WorkerContext, store: ResidentStore | None = None
    ) -> None:
        stay = Staying(store or ResidentStore(), context.stays_here)
        self._node, self._instance = context.node, context.instance
        self._lost: AclError | None = None
        self._flights: list[Flight] = []
        device = _device(acl, model, context)
        opened = Context(acl, device)
        self._context: Context | None = opened
        try:
            self._model, self._runner = self._loaded(acl, opened, model, stay)
        except BaseException:
            self._context = None
            with contextlib.suppress(AclError):
                opened.close()
            raise
        info = self._model.info
        self.inputs = tuple(map(tensor_spec, info.inputs))
        self.outputs = tuple(map(tensor_spec, info.outputs))
        self.depth = self._runner.depth
        self.streams = self._runner.depth  # copies of one call go on while another computes, however long it takes
        self._dtypes = [numpy_dtype_of(spec.dtype) for spec in self.inputs]
        context.report(f"{context.node} runs on npu:{device} ({acl.soc_name()})")

    def execute(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Sequence[Array]:
        """Run the model once.

        Raises:
            TensorError: an array has not the dtype or shape that the model takes.
            AclError: the device failed.
        """
        return self.finish(self.begin(inputs, alloc))

    def begin(self, inputs: Sequence[Array], alloc: OutputAlloc) -> object:
        """Start a call.

        Raises:
            TensorError: an array has not the dtype or shape that the model takes.
            AclError: the device failed.
        """
        self._enter()
        arrays = self._fitting(inputs)
        try:
            flight = self._runner.begin(arrays, alloc)
        except ValueError as cause:
            if isinstance(cause, DflowError):
                raise
            raise TensorError(str(cause), node=self._node, instance=self._instance) from None
        except AclError as cause:
            raise self._told(cause, inputs) from None
        self._flights.append(flight)
        return flight

    def finish(self, call: object) -> Sequence[Array]:
        """Wait for the oldest call.

        Raises:
            AclError: the device failed, or took longer than the limit.
        """
        self._enter()
        assert isinstance(call, Flight)
        self._flights.remove(call)
        try:
            return self._runner.finish(call)
        except AclError as cause:
            raise self._told(cause, call.inputs) from None

    def failure(self) -> DflowError | None:
        """Why the device can run nothing any more, or None."""
        return self._lost

    def close(self) -> None:
        """Wait for what is in flight, then free everything, last made first."""
        context, self._context = self._context, None
        if context is None:
            return
        # A failed run has been told, and a device that is gone frees its memory itself.
        with contextlib.suppress(AclError):
            context.make_current()
            self._runner.settle()
        with contextlib.suppress(AclError):
            context.close()

    def _enter(self) -> None:
        if self._context is None:
            raise RunError("the model was used after it had been closed", node=self._node)
        self._context.make_current()

    def _loaded(self, acl: Acl, context: Context, model: GraphModel, stay: Staying) -> tuple[Model, Runner]:
        try:
            _check_memory(acl, context.device, model, self._node)
            loaded = context.keep(Model(acl, model.blob))
            return loaded, make_runner(acl, context, loaded, float(model.settings.get("timeout", "60")), stay)
        except AclError as cause:
            cause.node, cause.instance = self._node, self._instance
            raise

    def _fitting(self, inputs: Sequence[Array]) -> list[Array]:
        if len(inputs) != len(self._dtypes):
            raise TensorError(f"the model takes {len(self._dtypes)} inputs, got {len(inputs)}", node=self._node)
        for index, (array, dtype) in enumerate(zip(inputs, self._dtypes)):
            spec = self.inputs[index]
            fault = None if array.dtype == dtype else spec.mismatch(data_type_of(array.dtype), array.shape)
            fault = fault or spec.mismatch(spec.dtype, array.shape)
            if fault is not None:
                raise TensorError(f"input {index} ({spec.name!r}) does not fit: {fault}", node=self._node,
                                  instance=self._instance)
        return list(inputs)

    def _told(self, cause: AclError, inputs: Sequence[Array]) -> AclError:
        """The error with where it happened; a lost device is remembered."""
        shapes = ", ".join(f"{spec.name} {array.dtype}{list(array.shape)}" for spec, array in zip(self.inputs, inputs))
        cause.message = f"{cause.message}; inputs: {shapes}"
        cause.node, cause.instance = self._node, self._instance
        if cause.is_fatal and self._lost is None:
            self._lost = cause
        return cause


def _device(acl: Acl, model: GraphModel, context: WorkerContext) -> int:
    """The device of an instance: where it was placed, else the one asked for, else one after the other."""
    count = acl.device_count()
    kind, _, number = context.device.rpartition(":")
    asked = int(number if kind == "npu" else model.settings.get("device", "-1"))
    if count == 0:
        raise DeployError("there is no NPU here", node=context.node,
                          hint="`npu-smi info` lists devices; ASCEND_RT_VISIBLE_DEVICES may hide them")
    if asked >= count:
        raise DeployError(f"device {asked} is asked for, there are {count}: 0 to {count - 1}", node=context.node,
                          hint="choose one of them with device=NUMBER")
    return asked if asked >= 0 else context.instance % count


def _check_memory(acl: Acl, device: int, model: GraphModel, node: str) -> None:
    """Refuse a model that the device has no room for, before anything of it is there."""
    work, weights = model_sizes(acl, model.blob)
    info = describe_model(acl, model.blob)
    needed = work + weights + SLOTS * sum(one.size for one in (*info.inputs, *info.outputs))
    free, total = acl.memory()
    if needed > free:
        raise DeployError(
            f"the model needs {needed >> 10} KiB on npu:{device}, {free >> 10} of {total >> 10} KiB are free",
            node=node, hint="put it on another device with device=NUMBER, or load fewer instances",
        )
