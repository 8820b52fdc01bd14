"""A loop that measures: one thread feeds, the main thread fetches."""

import threading
import time

import numpy as np

import dataflow as df

ROUNDS = 300


@df.pyflow
def pre(image):
    return df.Tensor(image.numpy() * np.float32(0.5))


@df.pyflow
class Detector:
    def __init__(self, size):
        self.size = size

    @df.method()
    def detect(self, image):
        result = df.alloc_tensor([self.size], df.DT_FLOAT)
        result.numpy()[...] = image.numpy()[: self.size]
        return result


df.init({})
data = df.FlowData(schema=df.TensorDesc(df.DT_FLOAT, [1024]))
graph = df.FlowGraph([Detector.fnode(4).detect(pre.fnode()(data))])
image = df.alloc_tensor([1024], np.float32)
image.numpy()[...] = 0
assert graph.feed_data({data: image}) == 0
assert graph.fetch_data(timeout=30000)[2] == 0


def feed():
    for number in range(ROUNDS):
        image.numpy()[...] = number
        assert graph.feed_data({data: image}, timeout=30000) == 0


feeder = threading.Thread(target=feed)
start = time.monotonic()
feeder.start()
for number in range(ROUNDS):
    tensors, info, code = graph.fetch_data(timeout=30000)
    assert code == 0 and info.transaction_id == number + 2, (code, info.transaction_id)
    assert tensors[0].numpy().tolist() == [number / 2] * 4
feeder.join()
seconds = time.monotonic() - start
print(f"{ROUNDS} rounds, each right", seconds > 0)
df.finalize()
