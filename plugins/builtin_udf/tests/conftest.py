"""Harnesses around the built-in UDFs, as the registry gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from dflow_builtin_udf import plugin
from dflow_core.testing.func_harness import FuncHarness

MakeHarness: TypeAlias = Callable[..., FuncHarness]

ENTRIES = {entry.name: entry for entry in plugin.dflow_register_udfs()}


def _make(name: str) -> MakeHarness:
    def make(inputs: int = 1, outputs: int | None = None, **params: object) -> FuncHarness:
        return FuncHarness.of(ENTRIES[name], params, inputs, inputs if outputs is None else outputs)

    return make


@pytest.fixture
def count_batch() -> MakeHarness:
    """A CountBatch with the parameters given."""
    return _make("_BuiltIn_CountBatch")


@pytest.fixture
def time_batch() -> MakeHarness:
    """A TimeBatch with the parameters given."""
    return _make("_BuiltIn_TimeBatch")


@pytest.fixture
def unbatch() -> MakeHarness:
    """An Unbatch with the parameters given."""
    return _make("_BuiltIn_Unbatch")
