"""Engine NPU: compiles models with ATC and runs them on Ascend NPUs through ACL.

Modules, lowest first:

    bindings            ACL behind cffi: declarations, thin functions, classes
    installation        where CANN is, and what of it is there
    model_inputs        names of a model file's inputs
    settings            what the user asks
    compiling           atc: its command line, the process, what it said
    running             buffers, shapes, the order of copies and executions
    engine | worker     the two contracts of `dflow_core.spi`
    selftest            everything once, on the device at hand
    plugin, commands    what is registered

Importing this package opens no driver. Nothing here knows whether the library is the vendor's or the emulator's.
"""
