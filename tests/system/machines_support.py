"""Other machines for tests: daemons on the loopback interface, files that place nodes there, and a bad network."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dflow_core.testing.waiting import is_alive, wait_until

HOST_TYPE = {"x86_64": "X86", "aarch64": "Aarch"}.get(platform.machine(), "X86")


@dataclass
class Other:
    """Another machine: a daemon with its processes."""

    process: subprocess.Popen[str]
    address: str

    @property
    def pid(self) -> int:
        return self.process.pid

    def below(self) -> list[int]:
        """Every process that descends from the daemon."""
        found, pending = [], [self.pid]
        while pending:
            for task in Path(f"/proc/{pending.pop()}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    pids = [int(pid) for pid in task.read_text().split()]
                    pending += pids
                    found += pids
        return found

    def holds(self) -> dict[str, int]:
        """What it holds now: processes, descriptors, memory files that are mapped."""
        maps = Path(f"/proc/{self.pid}/maps").read_text()
        return {
            "processes": len(self.below()), "descriptors": len(os.listdir(f"/proc/{self.pid}/fd")),
            "memory files": maps.count("memfd:"),
        }

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


def start_daemon(*words: str, **environ: str) -> Other:
    """A daemon on a free port of this machine."""
    command = [sys.executable, "-m", "dflow_core.cli.main", "daemon", "--json", *words]
    if "--listen" not in words:
        command += ["--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environ},
    )
    assert process.stdout is not None and process.stderr is not None
    text = ""
    while not text.endswith("}\n"):
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f"no daemon: {process.stderr.read()}")
        text += line
    return Other(process, json.loads(text)["address"])


@dataclass
class Machines:
    """The daemons of a test, and what is placed on them."""

    folder: Path
    others: list[Other] = field(default_factory=list)

    def start(self, count: int = 1, *words: str) -> list[Other]:
        """More daemons."""
        new = [start_daemon(*words) for _ in range(count)]
        self.others += new
        return new

    @contextlib.contextmanager
    def resources(self) -> Iterator[None]:
        """Have graphs in the block take the resource file that `place` writes."""
        before = os.environ.get("RESOURCE_CONFIG_PATH")
        os.environ["RESOURCE_CONFIG_PATH"] = str(self.folder / "resources.json")
        try:
            yield
        finally:
            del os.environ["RESOURCE_CONFIG_PATH"]
            if before is not None:
                os.environ["RESOURCE_CONFIG_PATH"] = before

    def place(self, addresses: Sequence[str] = (), /, **nodes: str) -> str:
        """Files for a graph: node name to logical devices, `0:1:-1:0` being the first daemon; gives the deploy file.

        Args:
            addresses: Where the machines listen, if not where the daemons do.
            nodes: Devices by node.
        """
        cluster = [{"node_id": 0, "ipaddr": "127.0.0.1", "port": 1, "is_local": True}]
        for number, address in enumerate(addresses or [other.address for other in self.others], 1):
            host, _, port = address.rpartition(":")
            cluster.append({"node_id": number, "ipaddr": host.strip("[]"), "port": int(port), "is_local": False})
        resources = {
            "cluster": [{"cluster_nodes": [
                {**node, "node_type": "host", "item_list": [{"item_id": 0, "device_id": 0}]} for node in cluster
            ]}],
            "node_def": [{"node_type": "host", "item": [{"item_type": "cpu"}]}],
            "item_def": [{"item_type": "cpu", "resource_type": HOST_TYPE}],
        }
        info = {"batch_deploy_info": [
            {"flow_node_list": [node], "logic_device_list": devices} for node, devices in nodes.items()
        ]}
        (self.folder / "resources.json").write_text(json.dumps(resources))
        (self.folder / "deploy.json").write_text(json.dumps(info))
        return str(self.folder / "deploy.json")


@contextlib.contextmanager
def machines(folder: Path) -> Iterator[Machines]:
    """Machines that end with the block; it fails where one cannot end in order, or leaves a process behind."""
    made = Machines(folder)
    try:
        yield made
        for other in made.others:
            below = other.below()
            if other.process.poll() is None:
                other.process.send_signal(signal.SIGTERM)
                assert other.process.wait(20) == 0
            wait_until(lambda pids=below: not any(map(is_alive, pids)))  # type: ignore[misc]
    finally:
        for other in made.others:
            other.kill()
            for stream in (other.process.stdout, other.process.stderr):
                if stream is not None:
                    stream.close()


class Network:
    """A way to a daemon that can be cut: a port on the loopback interface, and threads that carry bytes.

    Args:
        address: Where the way leads.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))
        self._works = threading.Event()
        self._works.set()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.accepted = 0
        self._run(self._accept)

    def hold(self) -> None:
        """Carry nothing any more, and say nothing of it."""
        self._works.clear()

    def cut(self) -> None:
        """Carry nothing any more, and reset every connection."""
        self.hold()
        for end in list(self._open):
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                end.close()
        self._open.clear()

    def mend(self) -> None:
        """Carry again."""
        self._works.set()

    def close(self) -> None:
        self.cut()
        self._server.close()
        self.mend()
        for thread in self._threads:
            thread.join(10)

    def _run(self, call: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=call, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        self._server.settimeout(0.05)
        while self._server.fileno() >= 0:
            with contextlib.suppress(OSError):
                near, _ = self._server.accept()
                if not self._works.is_set():
                    near.close()
                    continue
                self.accepted += 1
                near.settimeout(None)
                far = socket.create_connection(self._target)
                self._open |= {near, far}
                self._run(self._carry, near, far)
                self._run(self._carry, far, near)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                while not self._works.wait(0.05):
                    if source.fileno() < 0:
                        return
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def network(address: str) -> Iterator[Network]:
    """A way to a daemon that can be cut; it ends with the block."""
    made = Network(address)
    try:
        yield made
    finally:
        made.close()
