"""Recordings of running graphs: what is kept (`keeper`), the file (`file_format`), writing and reading it.

    with df.FlowGraph([...], {"record": "run.dfrec"}) as graph: ...
    recording = read_recording("run.dfrec")

Checksums find damage, not malice: the graph in a recording holds pickled functions, so replaying a recording, like
loading an .om file, runs code of whoever made it. Listing one unpickles nothing.

Names are looked up when they are first used: executors need only what they send.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflow_core.recording.keeper import Keeper
    from dflow_core.recording.recorder import Recorder
    from dflow_core.recording.recording import RecordedTransaction, Recording, Update, read_recording
    from dflow_core.recording.records import LOST, End, FailedCall, ResultDigest, copied, message_bytes, message_of

__all__ = [
    "LOST",
    "End",
    "FailedCall",
    "Keeper",
    "RecordedTransaction",
    "Recorder",
    "Recording",
    "ResultDigest",
    "Update",
    "copied",
    "message_bytes",
    "message_of",
    "read_recording",
]

_HOMES = {
    "LOST": "records",
    "End": "records",
    "FailedCall": "records",
    "copied": "records",
    "message_bytes": "records",
    "message_of": "records",
    "ResultDigest": "records",
    "Keeper": "keeper",
    "Recorder": "recorder",
    "RecordedTransaction": "recording",
    "Recording": "recording",
    "Update": "recording",
    "read_recording": "recording",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found
