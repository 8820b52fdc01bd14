"""Tools for people who write plugins, each in a module of its own so that none costs what it does not need.

    func_harness        FuncHarness drives a FlowFunc without a process, with a clock that moves when told to
    clock               FakeClock
    engine_contract     EngineContract: what every engine must do, as a pytest class to subclass
    transport_contract  the same for transports
    fakes               a plugin with an engine whose models are Python functions
    waiting             wait_until: for a condition, with a limit
    machine, fixtures   what a test left behind; the pytest fixture `clean_machine`

This module imports none of them: pytest loads `fixtures` in every run where dflow is installed.
"""
