"""A basic graph: a C++ function that calls a model while it works, and a model that gets its inputs batched by time.

Arguments: the folder of the model files, the config file of the C++ project.
"""

import sys

import numpy as np

import dataflow as df

MODELS, CPP_CONFIG = sys.argv[1:3]


def build():
    left = df.FlowData(schema=df.TensorDesc(df.DT_FLOAT, [1]), name="left")
    right = df.FlowData(schema=df.TensorDesc(df.DT_FLOAT, [1]), name="right")

    adder = df.GraphProcessPoint(df.Framework.ONNX, f"{MODELS}/add_dynamic.onnx", name="adder")
    function = df.FuncProcessPoint(compile_config_path=CPP_CONFIG, name="sums")
    function.set_init_param("factor", 10.0)
    function.add_invoked_closure("adder", adder)
    sums = df.FlowNode(input_num=2, output_num=2, name="sums_node")
    sums.add_process_point(function)
    both, scaled = sums(left, right)

    batched = df.FlowNode(2, 1, name="batched_node")
    model = df.GraphProcessPoint(df.Framework.ONNX, f"{MODELS}/add_dynamic.onnx")
    batched.add_process_point(model)
    window = df.TimeBatch()
    window.time_window = 30
    window.batch_dim = 0
    batched.map_input(0, model, 0, [window])
    batched.map_input(1, model, 1, [window])
    total = batched(both, scaled)
    return left, right, df.FlowGraph([total], graph_options={}, name="basic")


df.init({"ge.exec.deviceId": "0", "ge.exec.logicalDeviceId": "[0:0]"})
left, right, graph = build()
for step in range(6):
    info = df.FlowInfo(start_time=step * 10, end_time=(step + 1) * 10)
    code = graph.feed_data({left: np.array([step], np.float32), right: [1.0]}, info, timeout=60000)
    assert code == 0, code
for _ in range(2):
    tensors, info, code = graph.fetch_data([0], timeout=30000)
    print(code, tensors[0].numpy().tolist(), info.start_time, info.end_time)
df.finalize()
