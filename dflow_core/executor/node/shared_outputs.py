"""Outputs that several functions of a node may send to, without I/O (runtime-semantics.md section 11).

A transaction is answered there by whichever function sends for it. That one sends nothing is no answer as long as
another may: only when all have sent nothing has the branch not been taken.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence

from dflow_core.types import FuncSpec

_REMEMBERED = 16384


class SharedOutputs:
    """Counts, for each shared output, the functions that sent nothing for a key. Thread-safe.

    Args:
        functions: The functions of the node.
    """

    def __init__(self, functions: Sequence[FuncSpec]) -> None:
        users = Counter(output for function in functions for output in set(function.outputs))
        self._users = {output: count for output, count in users.items() if count > 1}
        self._silent: OrderedDict[tuple[int, tuple[int, int]], int] = OrderedDict()
        self._lock = threading.Lock()

    def ends(self, output: int, key: tuple[int, int]) -> bool:
        """One function has sent nothing to an output for a key: whether that ends the key there."""
        users = self._users.get(output)
        if users is None:
            return True
        with self._lock:
            count = self._silent.pop((output, key), 0) + 1
            if count == users:
                return True
            self._silent[output, key] = count
            if len(self._silent) > _REMEMBERED:
                self._silent.popitem(last=False)
        return False
