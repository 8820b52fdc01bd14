"""Batching: TimeBatch, CountBatch, Unbatch.

Decisions are state machines without I/O (`time_window`, `count_window`): messages and the time go in, instructions come
out. Thin functions (`time_batch`, `count_batch`) carry the instructions out over a RunContext. The semantics are
those of CANN's built-in UDFs; the README lists every difference.

Modules, lowest first: items, instructions, time_window and count_window, assembly and parameters, batch_func,
time_batch and count_batch and unbatch, plugin.
This module imports none of them, so that a plugin listed costs nothing.
"""
