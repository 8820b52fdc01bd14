"""A submodel as one piece of bytes, for caches and wires; `om_file.py` has whole graphs.

`serde.py` is imported where it is needed only: protobuf is slow to import.
"""

from __future__ import annotations

from dflow_core.model.flow_model import PneModel
from dflow_core.model.frame import Buffer, frame_chunks, read_frame


def pack_submodel(model: PneModel) -> list[Buffer]:
    """A submodel as buffers to be written one after the other; its large bytes are not copied.

    Raises:
        PackagingError: if it is of a class of its own, or an init parameter cannot travel.
    """
    from dflow_core.model.serde import serialize_submodel

    return frame_chunks(serialize_submodel(model))


def unpack_submodel(data: Buffer) -> PneModel:
    """The inverse of `pack_submodel`.

    Raises:
        ModelFormatError: if the bytes hold no submodel.
    """
    from dflow_core.model.serde import deserialize_submodel

    return deserialize_submodel(read_frame(data, "the submodel"))
