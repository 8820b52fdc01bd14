"""ACL behind cffi, on three floors.

    declarations    what the library exports, as C
    codes, errors   names of codes; AclError
    library         finding and opening it
    calls           thin functions: a code becomes an AclError
    objects         devices, contexts, streams, events, buffers
    models          models, their descriptions, datasets

This is the only folder that sees cffi.
"""

from dflow_pne_npu.bindings.calls import Acl
from dflow_pne_npu.bindings.errors import AclError
from dflow_pne_npu.bindings.library import LibrarySearch, open_library
from dflow_pne_npu.bindings.models import Dataset, IoInfo, Model, ModelInfo, describe_model
from dflow_pne_npu.bindings.objects import Context, DeviceBuffer, Event, HostBuffer, Stream

__all__ = [
    "Acl",
    "AclError",
    "Context",
    "Dataset",
    "DeviceBuffer",
    "Event",
    "HostBuffer",
    "IoInfo",
    "LibrarySearch",
    "Model",
    "ModelInfo",
    "Stream",
    "describe_model",
    "open_library",
]
