"""Runs C++ functions in this process: the C interface of libflow_func.so, and the worker behind it."""

from dflow_pne_udf.native.node import CppNode, LibraryPlace

__all__ = ["CppNode", "LibraryPlace"]
