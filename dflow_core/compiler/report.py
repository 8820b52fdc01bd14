"""What became of each node when a graph was compiled, for `dflow plan` and `dflow compile`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

CacheState: TypeAlias = Literal["hit", "miss", "off", "shared", "loaded"]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node.

    Args:
        node: Its full name.
        engine: Engine that compiled it.
        cache: `hit` or `miss` of the compile cache; `off` where there is none, or where the engine says that compiling
            costs less; `shared` with another node of this graph that is the same; `loaded` from a compiled file.
        seconds: Time it took.
        notes: What the engine found worth telling, one sentence each.
    """

    node: str
    engine: str
    cache: CacheState
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BuildReport:
    """A whole graph.

    Args:
        nodes: Its nodes, producers before consumers.
        changes: What the passes did, one sentence each.
        seconds: Time of everything.
    """

    nodes: tuple[NodeReport, ...]
    changes: tuple[str, ...]
    seconds: float

    @property
    def cache_hits(self) -> int:
        """Nodes that were not compiled because the cache had them."""
        return sum(node.cache == "hit" for node in self.nodes)
