"""A function finds something wrong and raises an exception; the others are told, and so is who fetches."""

import numpy as np

import dataflow as df
import dataflow.flow_func as ff


class Check:
    @ff.proc_wrapper("i0,o0")
    def check(self, run_context, input_flow_msgs):
        if not input_flow_msgs:  # another function raised an exception
            return ff.FLOW_FUNC_SUCCESS
        values = input_flow_msgs[0].get_tensor().numpy()
        if values.min() < 0:
            run_context.raise_exception(-2, 200)
            return ff.FLOW_FUNC_SUCCESS
        return run_context.set_output(0, values)


class Listen:
    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        self.told = []
        return ff.FLOW_FUNC_SUCCESS

    @ff.proc_wrapper("i0,o0")
    def listen(self, run_context, input_flow_msgs):
        if not input_flow_msgs:
            self.told.append(run_context.get_exception())
            return ff.FLOW_FUNC_SUCCESS
        found = [value for entry in self.told for value in entry]
        return run_context.set_output(0, np.array(found, np.int64))


def node_of(cls):
    node = df.FlowNode(1, 1, cls.__name__)
    node.add_process_point(df.FuncProcessPoint(py_func=cls))
    return node


df.init({})
left, right = df.FlowData(name="left"), df.FlowData(name="right")
graph = df.FlowGraph([node_of(Check)(left), node_of(Listen)(right)])
graph.set_inputs_align_attrs(100, 30000)
graph.set_exception_catch(True)

info = df.FlowInfo(start_time=5, end_time=6, transaction_id=7)
info.set_user_data(b"who")
assert graph.feed_data({left: np.array([1, -1]), right: 1}, info) == 0
tensors, found, code = graph.fetch_data(timeout=30000)
print(code, tensors, found.start_time, found.end_time, found.transaction_id, bytes(found.user_data[:3]))
for _ in range(1000):  # the others are told a moment later
    assert graph.feed_data({left: np.array([1, 1]), right: 1}) == 0
    tensors, found, code = graph.fetch_data(timeout=30000)
    assert code == 0, code
    if tensors[1].numpy().size:
        break
print(code, [tensor.numpy().tolist() for tensor in tensors])
df.finalize()
