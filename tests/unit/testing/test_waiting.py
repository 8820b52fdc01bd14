from __future__ import annotations

import os

import pytest

from dflow_core.testing.waiting import comes_true, is_alive, wait_until


def test_condition_is_looked_at_until_it_comes_true_or_the_limit_is_over() -> None:
    looks = iter([False, 0, None, "yes"])
    wait_until(lambda: next(looks), pause=0.0)
    assert comes_true(lambda: True, limit=0)
    assert not comes_true(lambda: False, limit=0.01, pause=0.001)
    with pytest.raises(AssertionError, match=r"did not come true within 0\.01 s"):
        wait_until(lambda: False, limit=0.01, pause=0.001)


def test_zombie_is_not_alive() -> None:
    assert is_alive(os.getpid())
    pid = os.posix_spawn("/bin/true", ["true"], {})
    wait_until(lambda: not is_alive(pid))  # it has ended and nobody has asked how
    os.waitpid(pid, 0)
    assert not is_alive(pid)
