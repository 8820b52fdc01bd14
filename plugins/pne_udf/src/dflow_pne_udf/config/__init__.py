"""The function compile JSON: what a C++ function project says of itself."""

from dflow_pne_udf.config.func_config import BufferPool, FuncConfig, read_config

__all__ = ["BufferPool", "FuncConfig", "read_config"]
