"""A picture is cut into a matrix of tiles, worked on by several instances, and put together again."""

import json

import numpy as np

import dataflow as df
import dataflow.flow_func as ff


class Cut:
    @ff.proc_wrapper("i0,o0")
    def cut(self, run_context, input_flow_msgs):
        picture = input_flow_msgs[0].get_tensor().numpy()
        config = ff.BalanceConfig(2, 2)
        config.set_data_pos([(row, col) for row in range(2) for col in range(2)])
        tiles = [picture[row : row + 1, col : col + 1].copy() for row in range(2) for col in range(2)]
        return run_context.set_multi_outputs(0, tiles, config)


@df.pyflow
def work(tile):
    return df.Tensor(tile.numpy() * 10 + df.get_running_instance_num())


class Glue:
    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        self.tiles = []
        return ff.FLOW_FUNC_SUCCESS

    @ff.proc_wrapper("i0,o0")
    def glue(self, run_context, input_flow_msgs):
        self.tiles.append(float(input_flow_msgs[0].get_tensor().numpy()[0, 0]))
        if len(self.tiles) < 4:
            return ff.FLOW_FUNC_SUCCESS
        tiles, self.tiles = sorted(self.tiles), []
        return run_context.set_output(0, np.array(tiles, np.float32))


def node_of(cls):
    node = df.FlowNode(1, 1, cls.__name__)
    node.add_process_point(df.FuncProcessPoint(py_func=cls))
    return node


df.init({"ge.experiment.data_flow_deploy_info_path": "deploy.json"})
picture = df.FlowData(name="picture")
cut, worker, glue = node_of(Cut), work.fnode(), node_of(Glue)
cut.set_balance_scatter()
worker.set_alias("workers")
graph = df.FlowGraph([glue(worker(cut(picture)))])
graph.set_contains_n_mapping_node(True)
df.utils.generate_deploy_template(graph, "deploy.json")
with open("deploy.json", encoding="utf-8") as file:
    placement = json.load(file)
for entry in placement["batch_deploy_info"]:
    if entry["flow_node_list"] == ["workers"]:
        entry["logic_device_list"] = "0:0:0:0,0:0:0:0"
with open("deploy.json", "w", encoding="utf-8") as file:
    json.dump(placement, file)
assert graph.feed_data({picture: np.arange(4, dtype=np.float32).reshape(2, 2)}) == 0
tensors, info, code = graph.fetch_data(timeout=30000)
print(code, [tensor.numpy().tolist() for tensor in tensors])
df.finalize()
