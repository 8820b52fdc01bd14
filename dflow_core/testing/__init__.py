"""Tools for people who write plugins: harnesses, fakes, contract suites, pytest fixtures.

    FuncHarness       drives a FlowFunc without a process, with a clock that moves when told to
    EngineContract    what every engine must do, as a pytest class to subclass
    transport_contract (module)  the same for transports
    FakeEngine, FakePoint, fake_registry   an engine whose models are Python functions
    fixtures (module)  pytest fixtures, `clean_machine` above all; `pytest_plugins = ["dflow_core.testing.fixtures"]`

Nothing here imports pytest until a suite or the fixtures are used.
"""

from dflow_core.testing.clock import FakeClock
from dflow_core.testing.func_harness import FuncHarness, Sent

__all__ = ["FakeClock", "FuncHarness", "Sent"]
