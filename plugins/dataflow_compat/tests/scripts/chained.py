"""Several models with aliases and a deploy file: an ONNX model and a TensorFlow model, one after the other.

Argument: the folder of the model files.
"""

import json
import sys

import dataflow as df

MODELS = sys.argv[1]

with open("model_config.json", "w", encoding="utf-8") as file:
    json.dump({"inputs_tensor_desc": [{"shape": [3], "data_type": "DT_FLOAT", "format": "ND"}] * 2}, file)

df.init({"ge.experiment.data_flow_deploy_info_path": "deploy.json"})
a = df.FlowData(schema=df.TensorDesc(df.DT_FLOAT, [3]), name="a")
b = df.FlowData(schema=df.TensorDesc(df.DT_FLOAT, [3]), name="b")

onnx = df.GraphProcessPoint(df.Framework.ONNX, f"{MODELS}/add_float.onnx", compile_config_path="model_config.json")
tensorflow = df.GraphProcessPoint(
    df.Framework.TENSORFLOW, f"{MODELS}/add.pb", load_params={"input_data_names": "Placeholder,Placeholder_1"}
)
first = onnx.fnode(2, 1).set_alias("onnx_add")
second = tensorflow.fnode(input_num=2, output_num=1, name="second").set_alias("tf_add")
middle = first(a, b)
graph = df.FlowGraph([second(middle, b), middle], graphpp_builder_async=True)

df.utils.generate_deploy_template(graph, "deploy.json")
with open("deploy.json", encoding="utf-8") as file:
    print([entry["flow_node_list"] for entry in json.load(file)["batch_deploy_info"]])

print(graph.feed_data({a: [1, 2, 3], b: [10, 10, 10]}))
tensors, info, code = graph.fetch_data([1, 0], timeout=30000)
print(code, [tensor.numpy().tolist() for tensor in tensors])
df.finalize()
