"""Runs graphs on this machine. Imports little, so that the template process starts before the rest is imported."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dflow_core.deploy.children.forkserver import Preparation
from dflow_core.deploy.children.processes import OwnedByProcess, fill_streams
from dflow_core.deploy.children.template import Template
from dflow_core.deploy.settings import DeploySettings, allowed_plugins
from dflow_core.errors import ClosedError
from dflow_core.spi import Deployer

if TYPE_CHECKING:
    from dflow_core.deploy.local_deployment import LocalDeployment
    from dflow_core.model import DeployPlan, FlowModel
    from dflow_core.plugins import PluginRegistry
    from dflow_core.spi import Transport

_EXECUTOR = "dflow_core.executor.process.main"
_BUILTINS = ("dflow_core.builtin",)
_PRELOAD = ("numpy", "cloudpickle", "dflow_core.model.control_serde", "dflow_core.model.serde", "dflow_core.udf")


class LocalDeployer(Deployer):
    """Starts deployments on this machine; they share one template process, from which executors are forked.

    Args:
        registry: Plugins; those installed if not given.
        template: Whether to fork executors from a template process; without it each is a program of its own.
        executor: Module whose `main(control_fd, prepared)` executors run, after its `prepare` in the template.
        builtins: Modules whose plugin hooks executors register without their being installed.
    """

    scheme = "local"

    def __init__(
        self, registry: PluginRegistry | None = None, *, template: bool = True, executor: str = _EXECUTOR,
        builtins: Sequence[str] = _BUILTINS,
    ) -> None:
        fill_streams()
        self._registry = registry
        self._wants_template = template
        self._executor, self._builtins = executor, tuple(builtins)
        self._template: Template | None = None
        self._deployments: list[LocalDeployment] = []
        self._lock = threading.Lock()
        self._closed = False
        self._owner = OwnedByProcess.here("this deployer")

    def warm_up(self) -> None:
        """Start the template process now, beside whatever else is to be done before the first deployment."""
        self._current_template()

    def deploy(
        self, model: FlowModel, plan: DeployPlan, options: Mapping[str, str],
        made: Callable[[LocalDeployment], None] | None = None,
    ) -> LocalDeployment:
        """Start every process of the plan and return when all are ready.

        Args:
            model, plan, options: As for `Deployer.deploy`.
            made: Takes what is about to start; closing it ends the start.

        Raises:
            StartupError: if one does not come up; everything started is ended first.
            ClosedError: it was closed meanwhile.
        """
        from dflow_core.deploy.local_deployment import LocalDeployment

        self._owner.check()
        template = self._current_template(allowed_plugins(options))
        settings = DeploySettings.from_options(options)
        transport = self._transport(plan.transport or settings.transport)
        deployment = LocalDeployment(
            model, plan, options, settings, transport, template, self._executor, self._builtins
        )
        with self._lock:
            self._deployments = [known for known in self._deployments if not known.closed]
            self._deployments.append(deployment)
        if made is not None:
            made(deployment)
        deployment.start()
        return deployment

    def close(self) -> None:
        """End the template process, and deployments that are still open. Idempotent."""
        if self._owner.foreign:
            return  # a fork of the application: everything belongs to the process that made it
        with self._lock:
            self._closed = True
            template, self._template = self._template, None
            deployments, self._deployments = self._deployments, []
        with contextlib.ExitStack() as stack:
            if template is not None:
                stack.callback(template.close)
            for deployment in deployments:
                stack.callback(deployment.close)

    def _current_template(self, allowed: tuple[str, ...] | None = None) -> Template | None:
        with self._lock:
            if self._closed:
                raise ClosedError("this deployer is closed")
            if self._wants_template and (self._template is None or self._template.gone):
                arguments = {"builtins": self._builtins, "allowed": allowed}
                self._template = Template(Preparation(self._executor, arguments, _PRELOAD))
                self._template.start()
            return self._template

    def _transport(self, scheme: str) -> Transport:
        from dflow_core.plugins import load_plugins

        with self._lock:
            if self._registry is None:
                modules = [importlib.import_module(name) for name in self._builtins]
                self._registry = load_plugins(modules, need={scheme} if scheme else None)
            return self._registry.local_transport(scheme).factory()
