"""The daemon of a machine: runs the parts of graphs that applications on other machines send it."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

from dflow_core.deploy.machines.part_host import Means, PartHost
from dflow_core.spi import Link, LinkConfig, LinkTransport

_CLOSE_LIMIT = 10.0


class Daemon:
    """Listens for applications, each with a graph of its own. Thread-safe.

    It runs what it is sent, with the rights of its user; who may send something is said by the key of the links.

    Args:
        transport: Makes links.
        address: Where to listen.
        config: This end of the links.
        means: What parts are run with; its deployer ends with the daemon.

    Attributes:
        address: Host and port in force.

    Raises:
        UsageError: it is not possible to listen there.
    """

    def __init__(self, transport: LinkTransport, address: str, config: LinkConfig, means: Means) -> None:
        self._means = means
        self._lock = threading.Lock()
        self._hosts: set[PartHost] = set()
        self._closed = False
        means.deployer.warm_up()
        self._listener = transport.listen(address, config, self._accept)
        self.address = self._listener.address

    @property
    def graphs(self) -> int:
        """How many applications it serves now."""
        with self._lock:
            return len(self._hosts)

    def close(self, timeout: float = _CLOSE_LIMIT) -> None:
        """End every part, within a limit (seconds), and listen no more. Idempotent."""
        with self._lock:
            self._closed = True
            hosts = tuple(self._hosts)
        with contextlib.ExitStack() as stack:
            stack.callback(self._means.deployer.close)
            self._listener.close()
            if hosts:
                with ThreadPoolExecutor(len(hosts), "dflow-daemon") as pool:
                    list(pool.map(lambda host: host.close(timeout), hosts))
        with self._lock:
            self._hosts.clear()

    def _accept(self, link: Link) -> None:
        host = PartHost(link, self._means, self._forget)
        with self._lock:
            if self._closed:
                link.close(0.0)
                return
            self._hosts.add(host)
        host.begin()

    def _forget(self, host: PartHost) -> None:
        with self._lock:
            self._hosts.discard(host)
