"""What a recording keeps, without a file."""

from __future__ import annotations

from collections.abc import Iterator

from dflow_core.recording import Keeper

SIZE = 100


class File:
    """The file as the keeper sees it: records of 100 bytes, one after the other."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper, self.end = keeper, 0

    def write(self, *trans_ids: int) -> None:
        self.keeper.wrote(trans_ids, self.end, SIZE)
        self.end += SIZE

    def run(self, trans_id: int, failed: bool = False) -> bool:
        wanted = self.keeper.wants_fed(trans_id, SIZE)
        if wanted:
            self.write(trans_id)
            self.keeper.ended(trans_id, failed)
        return wanted

    def exchange(self, *nodes: str) -> int:
        at, self.end = self.end, self.end + SIZE
        self.keeper.exchanged(nodes, at, SIZE)
        return at


def offsets(keeper: Keeper) -> list[int] | None:
    pieces = keeper.compaction()
    return None if pieces is None else [piece.offset for piece in pieces]


def kept(keeper: Keeper) -> list[int]:
    """What would be written anew now, though there may be too little to gain."""
    dead, keeper.dead = keeper.dead, 1 << 30
    found = offsets(keeper)
    keeper.dead = dead
    return found or []


def test_only_the_newest_good_ones_are_kept() -> None:
    keeper = Keeper(good=2, limit=10_000, slack=0)
    file = File(keeper)
    for trans_id in range(1, 7):
        file.run(trans_id)
    assert (keeper.live, keeper.dead) == (200, 400)
    assert offsets(keeper) == [400, 500]


def test_failed_ones_are_kept_however_many_good_ones_follow() -> None:
    keeper = Keeper(good=1, limit=10_000, slack=0)
    file = File(keeper)
    for trans_id in range(1, 20):
        file.run(trans_id, failed=trans_id in (1, 7))
    assert keeper.live == 300
    assert offsets(keeper) == [0, 600, 1800]


def test_what_is_under_way_is_never_thrown_out() -> None:
    keeper = Keeper(good=0, limit=10_000, slack=0)
    file = File(keeper)
    assert keeper.wants_fed(1, SIZE)
    file.write(1)
    for trans_id in range(2, 9):
        file.run(trans_id)
    assert offsets(keeper) == [0]


def test_good_ones_give_way_where_there_is_no_room_then_the_first_failures_stay() -> None:
    keeper = Keeper(good=10, limit=300, slack=0)
    file = File(keeper)
    assert file.run(1) and file.run(2, failed=True) and file.run(3)
    assert file.run(4, failed=True) and keeper.live == 300  # 1 has gone
    assert file.run(5, failed=True) and keeper.live == 300  # and 3
    assert not file.run(6, failed=True)
    assert keeper.left_out == 1 and not keeper.is_open(6)


def test_transaction_that_outgrows_the_room_is_left_out_whole() -> None:
    keeper = Keeper(good=10, limit=100, slack=0)
    file = File(keeper)
    assert keeper.wants_fed(1, SIZE)
    file.write(1)
    assert not keeper.wants_fed(1, SIZE)  # another input of the same transaction
    assert (keeper.live, keeper.dead, keeper.left_out) == (0, 100, 1)


def test_call_of_a_batch_is_kept_as_long_as_one_of_its_transactions() -> None:
    keeper = Keeper(good=0, limit=10_000, slack=0)
    file = File(keeper)
    for trans_id in (1, 2):
        assert keeper.wants_fed(trans_id, SIZE)
        file.write(trans_id)
    assert keeper.wants_call((1, 2), SIZE)
    file.write(1, 2)
    keeper.ended(1, failed=False)
    keeper.ended(2, failed=True)
    assert keeper.live == 200
    assert not keeper.wants_call((1, 2), SIZE), "they have ended"


def test_version_of_a_node_is_kept_as_long_as_a_transaction_needs_it_or_it_is_the_newest() -> None:
    keeper = Keeper(good=1, limit=10_000, slack=0)
    file = File(keeper)
    file.run(1)  # by the graph as it was started
    assert file.exchange("a") == 100
    file.run(2, failed=True)
    assert file.exchange("a") == 300
    file.run(3)
    assert file.exchange("a", "b") == 500
    file.run(4)
    # Kept: version 1 for the failure 2, and version 3 for 4, which is the newest as well; not 1 and 3, and version 2.
    assert kept(keeper) == [100, 200, 500, 600] and (keeper.live, keeper.dead) == (400, 300)
    assert file.exchange("b") == 700
    assert kept(keeper) == [100, 200, 500, 600, 700], "of a it is the newest still"
    assert file.exchange("a") == 800
    file.run(5)
    assert kept(keeper) == [100, 200, 700, 800, 900]


def test_newest_version_stays_where_nothing_else_is_kept() -> None:
    keeper = Keeper(good=0, limit=10_000, slack=0)
    file = File(keeper)
    for trans_id in range(1, 5):
        file.exchange("a")
        file.run(trans_id)
    assert kept(keeper) == [600] and keeper.live == 100


def test_versions_count_as_what_is_kept_and_good_transactions_give_way_to_them() -> None:
    keeper = Keeper(good=10, limit=300, slack=0)
    file = File(keeper)
    assert file.run(1) and file.run(2)
    file.exchange("a")
    assert file.run(3) and keeper.live == 300, "1 has gone"
    assert kept(keeper) == [100, 200, 300]


def test_few_calls_of_a_spread_out_transaction_are_enough() -> None:
    keeper = Keeper(good=0, limit=10_000)
    keeper.wants_fed(1, SIZE)
    assert [keeper.wants_call((1,), SIZE) for _ in range(6)] == [True] * 4 + [False] * 2


def test_file_is_written_anew_only_when_most_of_it_is_of_no_use() -> None:
    """So each byte is copied once on average, and the file is at most twice what is kept, and the slack."""
    keeper = Keeper(good=4, limit=100_000, slack=1000)
    file, copied, largest = File(keeper), 0, 0

    def rounds() -> Iterator[int]:
        yield from range(1, 1000)

    for trans_id in rounds():
        file.run(trans_id)
        largest = max(largest, keeper.live + keeper.dead)
        pieces = keeper.compaction()
        if pieces is not None:
            copied += sum(piece.size for piece in pieces)
            keeper.compacted()
    assert copied <= 1000 * SIZE
    assert largest <= 2 * 500 + 1000 + SIZE
