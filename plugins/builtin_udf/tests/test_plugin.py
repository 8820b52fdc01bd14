"""The plugin registers its functions, and imports none before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dflow_builtin_udf import plugin
from dflow_builtin_udf.count_batch import CountBatch
from dflow_builtin_udf.time_batch import TimeBatch
from dflow_builtin_udf.unbatch import Unbatch
from dflow_core.plugins import load_plugins


def test_all_functions_are_registered() -> None:
    registry = load_plugins(builtin=(plugin,), allow=())
    assert (registry.report[0].state, registry.report[0].error) == ("loaded", "")
    made = {name: type(entry.factory()) for name, entry in registry.udfs.items()}
    assert made == {
        "_BuiltIn_TimeBatch": TimeBatch, "_BuiltIn_CountBatch": CountBatch, "_BuiltIn_Unbatch": Unbatch,
    }


@pytest.mark.parametrize("name", ["_BuiltIn_TimeBatch", "_BuiltIn_CountBatch", "_BuiltIn_Unbatch"])
def test_functions_end_their_transactions_themselves(name: str) -> None:
    entry = load_plugins(builtin=(plugin,), allow=()).udf(name)
    assert entry.holds_inputs and entry.n_mapping


def test_each_call_of_the_factory_gives_its_own_state() -> None:
    """BC-041."""
    entry = load_plugins(builtin=(plugin,), allow=()).udf("_BuiltIn_CountBatch")
    assert entry.factory() is not entry.factory()


def test_listing_the_plugin_imports_no_function() -> None:
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; from dflow_builtin_udf import plugin; plugin.dflow_register_udfs(); "
        "print(sorted(m for m in sys.modules if m.startswith('dflow_builtin_udf')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert result.stdout.strip() == "['dflow_builtin_udf', 'dflow_builtin_udf.plugin']"
