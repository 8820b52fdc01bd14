"""The Ascend Computing Language on a CPU, for machines without an NPU.

    home         the folder that stands in for a CANN installation, and the environment that leads to it
    om_file      the emulator's model file
    shapes       gears and free dimensions
    naming       names of a model's outputs as atc gives them
    options      what atc is told
    faults       errors of atc, with their ids
    atc          the model compiler

The library itself is C++ (`cpp/`); `home/lib64/libascendcl.so` is what it is built into.
"""

from dflow_acl_emulator.home import EmulatorMissingError, emulated_environment, home

__all__ = ["EmulatorMissingError", "emulated_environment", "home"]
