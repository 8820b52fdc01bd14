"""Models through atc: the command line, the process, what it said."""

from dflow_pne_npu.compiling.command import arguments
from dflow_pne_npu.compiling.compiler import AtcCompiler, AtcFailedError

__all__ = ["AtcCompiler", "AtcFailedError", "arguments"]
