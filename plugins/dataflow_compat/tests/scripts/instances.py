"""A slow function runs as several instances that a deploy file gives it; results come in the order they were fed."""

import json
import time

import numpy as np

import dataflow as df


@df.pyflow(num_returns=2)
def slow(number):
    time.sleep(0.05 if number.numpy() % 2 else 0.0)
    return number, df.get_running_instance_id()


df.init({"ge.experiment.data_flow_deploy_info_path": "deploy.json"})
number = df.FlowData(name="number")
node = slow.fnode()
graph = df.FlowGraph(list(node(number)))
with open("deploy.json", "w", encoding="utf-8") as file:
    entry = {"flow_node_list": [node.name], "logic_device_list": "0:0:0:0,0:0:0:0"}
    json.dump({"batch_deploy_info": [entry]}, file)
for value in range(8):
    assert graph.feed_data({number: np.int64(value)}) == 0
found, instances = [], set()
for _ in range(8):
    (value, instance), code = graph.fetch(timeout=30000)
    assert code == 0, code
    found.append(int(value.numpy()))
    instances.add(instance)
print(found, sorted(instances))
df.finalize()
