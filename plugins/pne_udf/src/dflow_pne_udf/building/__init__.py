"""Builds C++ function projects with CMake and keeps what comes out by content."""

from dflow_pne_udf.building.builder import Builder
from dflow_pne_udf.building.release import Release, open_release, unpack_release
from dflow_pne_udf.building.tools import Tools

__all__ = ["Builder", "Release", "Tools", "open_release", "unpack_release"]
