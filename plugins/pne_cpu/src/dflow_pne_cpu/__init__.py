"""Engine CPU: runs ONNX files and frozen TensorFlow graphs on the host.

Modules, lowest first:

    facts, onnx_file, tf_file               what a model file says about itself, without a model library
    machine, names                          what this CPU can do; how people spell tensor names
    model_file, settings, recipe            the bytes of a model; what the user asks; what to do with the model
    rounding                                free dimensions rounded up
    runtimes                                OpenVINO and onnxruntime behind one small interface
    engine | worker                         the two contracts of `dflow_core.spi`
    plugin                                  what is registered

Importing this package imports no model library.
"""
