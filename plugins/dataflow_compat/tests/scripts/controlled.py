"""A class with several functions, one of which is told by another node how to work."""

import dataflow as df


@df.pyflow(resources={"memory": 100, "num_cpus": 1})
class Filter:
    """Counts what passes a limit that another function sets."""

    def __init__(self, limit):
        self.limit = limit
        self.passed = 0

    @df.method()
    def configure(self, command):
        self.limit = command["limit"]
        return {"limit": self.limit, "passed": self.passed}

    @df.method(num_returns=2, choice_output=lambda item: item is not None)
    def sort(self, value):
        if value.numpy()[0] < self.limit:
            return value, None
        self.passed += 1
        return None, value


@df.pyflow
def commands(text):
    name, _, number = text.partition("=")
    return {name: int(number)}


df.init({"ge.exec.deviceId": "0"})
words = df.FlowData(name="words")
numbers = df.FlowData(name="numbers")
node = Filter.fnode(5)
answer = node.configure(commands.fnode()(words))
small, large = node.sort(numbers)
graph = df.FlowGraph([small, large, answer])
graph.set_contains_n_mapping_node(True)

for number in (3, 8):
    assert graph.feed({numbers: df.Tensor([number])}, partial_inputs=True) == 0
print("small", [t.numpy().tolist() for t in graph.fetch([0], timeout=30000)[0]])
print("large", [t.numpy().tolist() for t in graph.fetch([1], timeout=30000)[0]])
assert graph.feed({words: "limit=9"}, partial_inputs=True) == 0
print("answer", graph.fetch([2], timeout=30000))
assert graph.feed({numbers: df.Tensor([8])}, partial_inputs=True) == 0
print("small", [t.numpy().tolist() for t in graph.fetch([0], timeout=30000)[0]])
print("nothing more", graph.fetch([1], timeout=100))
df.finalize()
