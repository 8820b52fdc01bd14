"""A function that takes queues instead of values, and a function that yields its results one by one."""

import queue

import dataflow as df


@df.pyflow
def pieces(text):
    yield from text.split()


@df.pyflow(stream_input="Queue")
def join(words):
    found = [words.get()]
    while found[-1] != "stop":
        try:
            found.append(words.get(timeout=20000))
        except queue.Empty:
            break
    return " ".join(found[:-1])


@df.pyflow(stream_input="Queue")
class Sums:
    @df.method()
    def add(self, numbers):
        first = numbers.get(timeout=20000)
        second = numbers.get(timeout=20000)
        return df.Tensor(first.numpy() + second.numpy())


df.init({})
text, number = df.FlowData(name="text"), df.FlowData(name="number")
joined = df.FlowGraph([join.fnode()(pieces.fnode()(text))])
assert joined.feed({text: "one two"}) == 0
assert joined.feed({text: "three stop"}) == 0
print(joined.fetch(timeout=30000))

summed = df.FlowGraph([Sums.fnode().add(number)])
for value in (1, 2, 3, 4):
    assert summed.feed_data({number: value}) == 0
print([summed.fetch_data(timeout=30000)[0][0].numpy().tolist() for _ in range(2)])
df.finalize()
