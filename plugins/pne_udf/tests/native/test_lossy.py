"""Queues that drop messages: each still ends its transaction, as in `dflow_core/executor/lossy.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dflow_core.executor.lossy import merged, notice_of
from dflow_core.message import DataFlag, MsgInfo, encode, root_token


def test_readers_are_told_what_an_output_dropped(make_rig: Callable) -> None:
    rig = make_rig("pass", lossy=True, depth=2).start()
    told = []
    for trans_id in range(1, 6):
        rig.feed(trans_id, np.zeros(3))
        if trans_id > 2:
            told.append(rig.heap.get(rig.told[1]))
    assert [(msg.info.trans_id, msg.info.token) for msg in told] == [(n, root_token(n)) for n in (1, 2, 3)]
    assert all(msg.info.data_flag == DataFlag.SKIP | DataFlag.NULL and msg.body is None for msg in told)
    assert {msg.aux.error.kind for msg in told} == {"dropped"}
    assert [rig.get().info.trans_id for _ in range(2)] == [4, 5]


def test_notices_wait_at_the_sender_where_there_is_no_room(make_rig: Callable) -> None:
    rig = make_rig("pass", lossy=True, depth=1).start()
    for trans_id in range(1, 9):
        rig.feed(trans_id, np.zeros(3))
        while rig.stats().sent < trans_id:
            pass
    assert [rig.heap.get(rig.told[1]).info.trans_id for _ in range(4)] == [1, 2, 3, 4]
    rig.feed(9, np.zeros(3))
    assert [rig.heap.get(rig.told[1]).info.trans_id for _ in range(4)] == [5, 6, 7, 8]


def test_notices_of_an_input_pass_on_one_by_one(make_rig: Callable) -> None:
    rig = make_rig("pass", lossy=True).start()
    notices = [notice_of(encode(np.zeros(2), MsgInfo(n, token=root_token(n))), "in0") for n in (1, 2)]
    rig.heap.put(rig.told[0], merged(*notices))
    outs = [rig.get() for _ in range(2)]
    assert [(out.info.trans_id, out.info.token) for out in outs] == [(n, root_token(n)) for n in (1, 2)]
    assert all(out.info.data_flag & DataFlag.SKIP for out in outs)
    rig.feed(3, np.zeros(2))
    assert rig.get().info.trans_id == 3


def test_the_end_waits_for_the_notices_too(make_rig: Callable) -> None:
    rig = make_rig("pass", lossy=True).start()
    for queue in (*rig.ins, *rig.told[:1]):
        rig.heap.close(queue)
    rig.wait_for(4)
