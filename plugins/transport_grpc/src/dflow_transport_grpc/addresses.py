"""Hosts and ports: read, written, and who has one that is in use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from dflow_core.errors import UsageError

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^:\[\]\s]+)):(\d{1,5})")
_PEER = re.compile(r"^ipv[46]:")
_LISTENS = "0A"


def split_address(address: str) -> tuple[str, int]:
    """Host and port of an address such as `10.0.0.2:7070` or `[::1]:7070`.

    Raises:
        UsageError: it is none.
    """
    found = _ADDRESS.fullmatch(address.strip())
    if found is None or int(found[3]) > 65535:
        raise UsageError(
            f"{address!r} is no address",
            hint="write host:port, such as 10.0.0.2:7070 or [::1]:7070; port 0 is any free one",
        )
    return found[1] or found[2], int(found[3])


def join_address(host: str, port: int) -> str:
    """An address of a host and a port."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_address(text: str) -> str:
    """An address as gRPC says it, such as `ipv6:%5B::1%5D:7070`, as people write it."""
    return unquote(_PEER.sub("", text))


def holder_of(port: int) -> str:
    """The process that listens at a TCP port of this machine, in words; "" where that cannot be known."""
    inodes = set(_listeners(port))
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            links = [os.readlink(entry) for entry in folder.iterdir()]
            if any(link == f"socket:[{inode}]" for link in links for inode in inodes):
                name = (folder.parent / "comm").read_text(encoding="utf-8", errors="replace").strip()
                return f"process {folder.parent.name} ({name})"
        except OSError:  # gone meanwhile, or another user's
            continue
    return ""


def _listeners(port: int) -> Iterator[str]:
    """Inodes of the sockets that listen at a port, by the kernel's tables."""
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]
