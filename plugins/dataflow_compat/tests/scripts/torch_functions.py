"""Functions and classes of torch tensors, one of them exported as a model."""

import torch

import dataflow as df


@df.npu_model(num_returns=2)
def normalise(image):
    mean = image.mean()
    return image - mean, mean


@df.npu_model
class Gain:
    def __init__(self, factor):
        self.factor = torch.tensor(factor)

    @df.method()
    def apply(self, image):
        return image * self.factor


@df.npu_model(optimize_level=2, input_descs=[df.TensorDesc(df.DT_FLOAT, [-1, 2])])
class Net(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.constant_(self.layer.weight, scale)

    def forward(self, image):
        return self.layer(image)


@df.pyflow
def as_list(tensor):
    return tensor.numpy().tolist()


df.init({"ge.exec.deviceId": "0"})
image = df.FlowData(name="image")
centred, mean = normalise.fnode()(image)
louder = Gain.fnode(10.0).apply(centred)
graph = df.FlowGraph([Net.fnode(2.0)(louder), mean, as_list.fnode()(louder)])
pixels = df.Tensor([[1.0, 2.0], [3.0, 6.0]], tensor_desc=df.TensorDesc(df.DT_FLOAT, [2, 2]))
assert graph.feed_data({image: pixels}) == 0
(net, middle, values), code = graph.fetch(timeout=50000)
print(code, net.numpy().tolist(), middle.numpy().tolist(), values)

# torch tensors may be fed as they are
assert graph.feed({image: torch.tensor([[0.0, 2.0]])}) == 0
print(graph.fetch([2], timeout=50000))
df.finalize()
