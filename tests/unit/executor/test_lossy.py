"""Queues that drop messages: the transactions of what they drop end, once, however far behind the reader is."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from dflow_core.builtin_transport import InprocTransport
from dflow_core.errors import ClosedError, DroppedError, QueueFullError
from dflow_core.executor import GraphClient, InlineBackend
from dflow_core.executor.lossy import (
    LossyReader,
    LossySender,
    flush,
    merged,
    notice_of,
    reader,
    sender,
    split,
    waitable,
)
from dflow_core.message import Aux, DataFlag, ErrorInfo, FlowMsg, seal
from dflow_core.model import FlowModel
from dflow_core.spi import GroupConfig, MemoryGroup, Overflow
from tests.unit.executor.support import Func, Node, flow_model, message

NOTICES = {"q": "news"}


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    with contextlib.closing(InprocTransport().create_group(GroupConfig(memory_limit=1 << 20))) as made:
        made.create_queue("q", 2, Overflow.DROP_OLDEST)
        made.create_queue("news", 2)
        yield made


def put(queue: object, group: MemoryGroup, *trans_ids: int) -> None:
    for trans_id in trans_ids:
        block = seal(message(trans_id), group.alloc).block
        assert block is not None
        queue.put(block, 0)  # type: ignore[attr-defined]


def taken(queue: object) -> list[tuple[int, bool]]:
    """Transaction of each message that can be read now, and whether it carries data."""
    found = []
    while (block := queue.get(0)) is not None:  # type: ignore[attr-defined]
        msg = FlowMsg.from_block(block)
        found.append((msg.info.trans_id, msg.is_data))
    return found


def test_notice_is_a_skip_with_the_same_key_and_token_and_says_which_queue() -> None:
    msg = message(3, data_label=2)
    made = notice_of(msg, "q")
    assert (made.info.key, made.info.token, made.body) == (msg.info.key, msg.info.token, None)
    assert made.info.data_flag & DataFlag.SKIP
    assert made.aux.error is not None and "'q' dropped" in made.aux.error.message


def test_dropped_error_or_end_goes_on_as_it_is() -> None:
    error = FlowMsg(replace(message(1).info, data_flag=DataFlag.ERROR), None, Aux(error=ErrorInfo("node", "bad")))
    assert notice_of(error, "q") == error
    end = FlowMsg(replace(message(1).info, data_flag=DataFlag.END))
    assert notice_of(end, "q") == end
    assert merged(notice_of(message(2), "q"), end) is None


def test_notices_are_put_together_and_taken_apart_again() -> None:
    one = notice_of(message(0), "q")
    for trans_id in range(1, 64):
        one = merged(one, notice_of(message(trans_id), "q")) or pytest.fail("they fit")
    assert [(part.info.trans_id, part.info.token) for part in split(one)] == [
        (k, message(k).info.token) for k in range(64)
    ]
    assert all(part.info.data_flag & DataFlag.SKIP for part in split(one))
    assert merged(one, notice_of(message(64), "q")) is None


def test_reader_hears_of_what_the_sender_displaced(group: MemoryGroup) -> None:
    put(sender(group, "q", NOTICES), group, 1, 2, 3, 4)
    assert sorted(taken(reader(group, "q", NOTICES))) == [(1, False), (2, False), (3, True), (4, True)]
    assert group.stats().blocks_in_use == 0


def test_sender_never_waits_for_notices_and_none_is_lost(group: MemoryGroup) -> None:
    end = sender(group, "q", NOTICES)
    assert isinstance(end, LossySender)
    put(end, group, *range(1, 501))
    assert end.pending and group.stats().blocks_in_use < 20
    source, found = reader(group, "q", NOTICES), []
    while more := taken(source):
        found += more
        flush([end])
    assert not end.pending
    assert sorted(found) == [(k, k > 498) for k in range(1, 501)]
    assert group.stats().blocks_in_use == 0


def test_sender_without_memory_for_a_notice_keeps_the_message_until_it_is_told(group: MemoryGroup) -> None:
    end = sender(group, "q", NOTICES)
    put(end, group, *range(1, 8))  # three are dropped beyond the notices that find room
    blocks = [group.alloc(1) for _ in range(100)]
    while True:
        try:
            blocks.append(group.alloc(1 << 12))
        except Exception:
            break
    block = blocks.pop(0)
    source = FlowMsg(message(8).info, None)
    del block
    made = seal(source, group.alloc).block
    assert made is not None
    end.put(made, 0)
    blocks.clear()
    read, found = reader(group, "q", NOTICES), []
    while more := taken(read):
        found += more
        flush([end])
    assert sorted(k for k, _ in found) == list(range(1, 9))


def test_message_too_old_for_its_reader_is_a_notice_to_it(group: MemoryGroup) -> None:
    group.create_queue("aged", 4, Overflow.MAX_AGE, 0.01)
    group.create_queue("aged news", 4)
    notices = {"aged": "aged news"}
    end, source = sender(group, "aged", notices, 0.01), reader(group, "aged", notices)
    put(end, group, 1, 2, 3, 4)
    put_at = time.monotonic()
    while time.monotonic() - put_at <= 0.01:
        pass
    assert (group.queue("aged").level(), end.level()) == (4, 0)  # all of it is old, so there is room
    assert taken(source) == [(k, False) for k in range(1, 5)]


def test_full_queue_with_an_age_still_refuses(group: MemoryGroup) -> None:
    group.create_queue("aged", 1, Overflow.MAX_AGE, 60)
    group.create_queue("aged news", 4)
    end = sender(group, "aged", {"aged": "aged news"}, 60)
    put(end, group, 1)
    with pytest.raises(QueueFullError):
        put(end, group, 2)


def test_closed_queue_ends_after_its_last_notice(group: MemoryGroup) -> None:
    end, source = sender(group, "q", NOTICES), reader(group, "q", NOTICES)
    put(end, group, 1, 2, 3)
    group.queue("q").close()
    found = []
    with pytest.raises(ClosedError):
        for _ in range(20):
            block = source.get(0)
            if block is not None:
                found.append(FlowMsg.from_block(block).info.trans_id)
            if len(found) == 3:
                group.queue("news").close()
    assert sorted(found) == [1, 2, 3]


def test_only_queues_that_are_open_are_waited_for(group: MemoryGroup) -> None:
    source = reader(group, "q", NOTICES)
    assert isinstance(source, LossyReader)
    assert [q.name for q in waitable([source, sender(group, "q", NOTICES)])] == ["news", "q", "q"]
    group.queue("news").close()
    assert source.get(0) is None
    assert [q.name for q in waitable([source])] == ["q"]


# ---------------------------------------------------------------------------------------------------- in one thread


def burst_graph(overflow: str, **settings: float) -> FlowModel:
    """A node that makes ten parts of what it gets, a queue of three, and a node that adds one."""
    nodes = [
        Node("burst", Func(lambda x: [x + k for k in range(10)]), ["x"]),
        Node("add", Func(lambda x: x + 1), ["burst:0"]),
    ]
    model = flow_model(nodes, ["x"], ["add:0"])
    ends = tuple(
        replace(end, depth=3, overflow=overflow, **settings) if end.name == "burst:0" else end  # type: ignore[arg-type]
        for end in model.relation.endpoints
    )
    return replace(model, relation=replace(model.relation, endpoints=ends))


def run_inline(model: FlowModel, clock: object = None) -> tuple[GraphClient, InlineBackend]:
    funcs = {
        "burst": Func(lambda x: [x + k for k in range(10)]), "add": Func(lambda x: x + 1),
    }
    loaders = {"TEST": lambda part, _context: [funcs[part.name]]}
    extra = {"clock": clock} if clock else {}
    backend = InlineBackend(model, loaders, **extra)  # type: ignore[arg-type]
    return GraphClient("test", ["x"], ["add:0"], backend), backend


@pytest.mark.parametrize(
    ("overflow", "kept"),
    [
        ("block", range(10)), ("drop_oldest", [7, 8, 9]), ("drop_newest", [0, 1, 2]), ("keep_latest", [9]),
    ],
)
def test_inline_graph_keeps_and_drops_the_same_messages(overflow: str, kept: list[int]) -> None:
    client, backend = run_inline(burst_graph(overflow))
    outcomes = client.call({0: np.array(100)})
    got = [int(outcome.messages[0].get_tensor()) for outcome in outcomes]  # type: ignore[union-attr,arg-type]
    assert got == [101 + k for k in kept]
    assert client.in_flight == 0
    for edge in backend.edges():
        assert edge.sent == edge.delivered + edge.dropped + edge.level
    client.close()


def test_inline_messages_grow_old_by_the_clock() -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0  # each look at the clock takes a second
        return now[0]

    client, backend = run_inline(burst_graph("max_age", max_age=5.0), clock)
    with pytest.raises(DroppedError, match="queue 'burst:0->add:0' dropped"):
        client.call({0: np.array(100)})
    assert client.in_flight == 0 and client.counters.dropped == 1
    assert next(edge.dropped for edge in backend.edges() if edge.name == "burst:0->add:0") == 10
    client.close()
