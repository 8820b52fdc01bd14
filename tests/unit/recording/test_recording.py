"""Recordings of graphs in this thread: what is in the file, whatever happened to it."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.errors import ModelFormatError, OptionError, UsageError
from dflow_core.message import decode
from dflow_core.recording import Recording, read_recording
from dflow_core.recording.file_format import Kind, record_chunks
from dflow_core.recording.records import json_chunks
from dflow_core.replay import replay_call, replay_transaction
from dflow_core.session import DFlowSession


@pytest.fixture
def session() -> Iterator[DFlowSession]:
    with DFlowSession() as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.dfrec"


@df.pyflow
def half(value: np.ndarray) -> np.ndarray:
    return value / 2


@df.pyflow
def add(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if left.sum() < 0:
        raise ValueError("negative")
    return left + right


@df.pyflow
def keep(value: object) -> object:
    if isinstance(value, str) and value == "bad":
        raise KeyError(value)
    return {"got": value}


@df.pyflow
def spread(count: int) -> Iterator[int]:
    yield from range(count)


@df.pyflow(gather=True)
def total(values: list[int]) -> int:
    if len(values) == 3:
        raise ZeroDivisionError("three")
    return sum(values)


def joined(session: DFlowSession, **options: str) -> df.FlowGraph:
    x, y = df.FlowData("x"), df.FlowData("y")
    outputs = add.fnode("add")(half.fnode("half")(x), y)
    return df.FlowGraph([outputs], options, name="joined", mode="inline", session=session)


def single(session: DFlowSession, **options: str) -> df.FlowGraph:
    return df.FlowGraph([keep.fnode("keep")(df.FlowData("x"))], options, name="s", mode="inline", session=session)


def run(graph: df.FlowGraph, *items: object) -> list[object]:
    with graph:
        return list(graph.map(items, errors="return", copy=True))


def test_failed_transaction_is_there_with_all_that_is_known_of_it(session: DFlowSession, path: Path) -> None:
    graph = joined(session, record=str(path))
    with graph:
        assert graph(np.ones(2), np.ones(2)).tolist() == [1.5, 1.5]  # type: ignore[attr-defined]
        info = df.FeedInfo(start_time=5, flow_flags=2, transaction_id=40, user_data=b"mine")
        graph.feed({"x": np.full(2, -8.0), "y": np.ones(2)}, info=info)
        with pytest.raises(df.NodeError, match="negative"):
            graph.fetch()
    recording = read_recording(path)
    assert (recording.graph, recording.inputs, recording.outputs) == ("joined", ("x", "y"), ("add",))
    assert (recording.failed, recording.torn, recording.left_out) == ((40,), 0, 0)
    good, failed = recording.transaction(1), recording.transaction()
    assert (good.end.how, [one.text for one in good.end.results]) == ("result", ["double[2]"])
    assert (failed.end.how, failed.end.error["node"], failed.end.error["error_type"]) == ("error", "add", "ValueError")
    (fed,) = recording.fed(failed)
    head = fed[0].info
    assert (head.trans_id, head.start_time, head.flags, head.user_data[:4]) == (40, 5, 2, b"mine")
    assert [decode(fed[port]).tolist() for port in (0, 1)] == [[-8.0, -8.0], [1.0, 1.0]]  # type: ignore[attr-defined]
    (call,) = recording.calls(failed)
    assert (call.node, call.trans_ids, call.error.error_type) == ("add", (40,), "ValueError")
    assert [decode(msg).tolist() for msg in call.inputs] == [[-4.0, -4.0], [1.0, 1.0]]  # type: ignore[attr-defined]


def test_replay_of_graph_and_of_node_end_as_they_did(session: DFlowSession, path: Path) -> None:
    run(joined(session, record=str(path)), (np.ones(2), np.ones(2)), (np.full(2, -1.0), np.ones(2)))
    before, recording = path.read_bytes(), read_recording(path)
    whole = replay_transaction(session, recording, recording.transaction())
    node = replay_call(session, recording, recording.transaction())
    for done in (whole, node):
        assert done.verdict == "the same error" and isinstance(done.cause, ValueError)
        assert done.error is not None and done.error.trans_id == 2
    good = replay_transaction(session, recording, recording.transaction(1))
    assert good.verdict == "the same results" and decode(good.outputs[0][1]).tolist() == [1.5, 1.5]  # type: ignore[attr-defined]
    assert path.read_bytes() == before, "a replay does not record over its recording"


def test_parts_of_a_gathering_call_are_recorded_and_replayed(session: DFlowSession, path: Path) -> None:
    made = total.fnode("total")(spread.fnode("spread")(df.FlowData("x")))
    graph = df.FlowGraph([made], {"record": str(path)}, mode="inline", session=session)
    assert isinstance(run(graph, 2, 3, 4)[1], df.NodeError)
    recording = read_recording(path)
    (call,) = recording.calls(recording.transaction())
    assert [decode(msg) for msg in call.inputs] == [0, 1, 2]
    done = replay_call(session, recording, recording.transaction())
    assert isinstance(done.cause, ZeroDivisionError) and done.verdict == "the same error"


def test_whole_batch_is_replayed_because_alone_it_would_never_fill(session: DFlowSession, path: Path) -> None:
    @df.pyflow
    def judge(rows: np.ndarray) -> np.ndarray:
        if rows.min() < 0:
            raise ValueError(f"bad row in {rows.shape[0]}")
        return rows

    point = df.FuncProcessPoint(py_func=judge)
    node = df.FlowNode(1, 1, name="judge")
    node.add_process_point(point)
    node.map_input(0, point, 0, [df.CountBatch(batch_size=3)])
    graph = df.FlowGraph([node(df.FlowData("x"))], {"record": str(path)}, mode="inline", session=session)
    found = run(graph, *(np.array([n]) for n in (1, -2, 3)))
    assert all(isinstance(one, df.NodeError) for one in found)
    recording = read_recording(path)
    assert recording.transaction(2).end.together == (1, 2, 3)
    done = replay_transaction(session, recording, recording.transaction(2))
    assert done.verdict == "the same error" and "bad row in 3" in str(done.cause)
    assert str(replay_call(session, recording, recording.transaction(3)).cause) == "bad row in 3"


def test_error_that_is_gone_is_told(session: DFlowSession, path: Path, tmp_path: Path) -> None:
    marker = tmp_path / "fixed"

    @df.pyflow
    def moody(value: int) -> int:
        if not os.path.exists(marker):
            raise OSError("not yet")
        return value

    graph = df.FlowGraph([moody.fnode()(df.FlowData("x"))], {"record": str(path)}, mode="inline", session=session)
    run(graph, 1)
    marker.touch()
    recording = read_recording(path)
    assert replay_transaction(session, recording, recording.transaction()).verdict == "no error this time"
    assert replay_call(session, recording, recording.transaction()).verdict == "no error this time"


def test_objects_are_kept_as_they_travelled_and_not_unpickled(session: DFlowSession, path: Path) -> None:
    class Loud:
        def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
            return os.mkdir, (str(path) + ".was-unpickled",)

    with single(session, record=str(path)) as graph:
        with pytest.raises(df.NodeError):
            graph("bad")
        graph.feed({"x": Loud()})
        graph.fetch()
    os.rmdir(str(path) + ".was-unpickled")
    recording = read_recording(path)
    recording.calls(recording.transaction(1))
    recording.fed(recording.transaction(2))
    assert not os.path.exists(str(path) + ".was-unpickled")
    done = replay_transaction(session, recording, recording.transaction(2))
    assert done.verdict == "results, which cannot be compared"


def test_unfinished_transactions_are_kept(session: DFlowSession, path: Path) -> None:
    """What hangs is what one wants to look at most."""
    with joined(session, record=str(path)) as graph:
        graph.feed({"x": np.ones(2)}, partial=True)
    recording = read_recording(path)
    assert recording.transaction().end.how == "unfinished"
    done = replay_transaction(session, recording, recording.transaction(), timeout=0.05)
    assert isinstance(done.error, df.WaitTimeoutError)


def test_deadline_that_passed_is_a_failure_and_cancelling_is_none(session: DFlowSession, path: Path) -> None:
    with joined(session, record=str(path)) as graph:
        first = graph.feed({"x": np.ones(2)}, partial=True)
        assert graph.cancel(first)
        with pytest.raises(df.CancelledError):
            graph.fetch(timeout=5)
        graph.feed({"x": np.ones(2), "y": np.ones(2)})
        graph.fetch()
        graph.feed({"x": np.ones(2)}, partial=True, deadline=0.01)
        with pytest.raises(df.DeadlineError):
            graph.fetch(timeout=5)
    recording = read_recording(path)
    assert [one.end.how for one in recording.transactions.values()] == ["cancelled", "result", "error"]
    assert len(recording.failed) == 1


def test_inputs_fed_apart_are_fed_apart_again(session: DFlowSession, path: Path) -> None:
    with joined(session, record=str(path)) as graph:
        graph.feed({"y": np.ones(2)}, partial=True)
        graph.feed({"x": np.full(2, 4.0)}, partial=True)
        assert graph.fetch().tolist() == [3.0, 3.0]  # type: ignore[attr-defined]
    recording = read_recording(path)
    assert [sorted(one) for one in recording.fed(recording.transaction(1))] == [[1], [0]]
    assert replay_transaction(session, recording, recording.transaction(1)).verdict == "the same results"


def test_recording_stays_small(session: DFlowSession, path: Path) -> None:
    big = np.zeros(50_000)
    graph = single(session, record=str(path), record_good="2")
    with graph:
        for n in range(40):
            if n == 5:
                with pytest.raises(df.NodeError):
                    graph("bad")
            graph(big)
    assert path.stat().st_size < 8 * big.nbytes
    recording = read_recording(path)
    found = list(recording.transactions)
    assert found[0] == 6 and found[-2:] == [40, 41] and len(found) < 8 and recording.failed == (6,)
    assert replay_call(session, recording, recording.transaction()).verdict == "the same error"
    assert sorted(os.listdir(path.parent)) == [path.name]


def test_transactions_without_room_are_counted(session: DFlowSession, path: Path) -> None:
    with single(session, record=str(path), record_limit="20k") as graph:
        for _ in range(30):
            with pytest.raises(df.NodeError):
                graph("bad")
    recording = read_recording(path)
    assert recording.left_out and len(recording.failed) + recording.left_out == 30
    assert recording.failed[0] == 1, "the first failures are nearest to their cause"


def test_file_cut_anywhere_is_readable_up_to_its_last_whole_record(session: DFlowSession, path: Path) -> None:
    run(single(session, record=str(path)), "good", "bad")
    data = path.read_bytes()
    ends = [at for at in range(len(data)) if data[at : at + 8] == b"\x89DFREC\r\n"] + [len(data)]
    for cut in [*ends[1:], *(end - 1 for end in ends[2:]), *(end + 30 for end in ends[1:-1])]:
        path.write_bytes(data[:cut])
        recording = read_recording(path)
        assert recording.torn == cut - max(end for end in ends if end <= cut)
        whole = cut == len(data)
        assert (recording.left_out == 0) is whole
    path.write_bytes(data[: ends[2]])
    assert read_recording(path).transaction(1).end.how == "open", "fed, and no end of it"
    path.write_bytes(data[: ends[1] - 1])
    with pytest.raises(ModelFormatError, match="cut off before its graph is complete"):
        read_recording(path)
    path.write_bytes(data[: ends[3]] + bytes(200))  # what a file system leaves when the machine dies
    assert read_recording(path).torn == 200


def record_starts(data: bytes) -> list[int]:
    return [at for at in range(0, len(data), 64) if data[at : at + 8] == b"\x89DFREC\r\n"]


def test_altered_file_is_refused_with_the_place(session: DFlowSession, path: Path) -> None:
    """Each byte of the heads, and some between them: of the last record alone it cannot be told from a cut."""
    run(single(session, record=str(path)), "good", "bad")
    data = bytearray(path.read_bytes())
    *starts, last = record_starts(data)
    places = {*(start + n for start in [*starts, last] for n in range(64)), *range(0, len(data), 997)}
    for at in sorted(places):
        data[at] ^= 0x40
        path.write_bytes(data)
        data[at] ^= 0x40
        try:
            recording = read_recording(path)
        except ModelFormatError as error:
            start = max(one for one in [*starts, last] if one <= at)
            assert str(path) in str(error) and error.offset in (start, start + 8, len(data))
        else:
            assert at >= last and recording.torn == len(data) - last, f"byte {at} was altered and nobody noticed"


def test_records_that_follow_a_hole_are_not_left_out_silently(session: DFlowSession, path: Path) -> None:
    run(single(session, record=str(path)), "good", "bad")
    data = path.read_bytes()
    starts = record_starts(data)
    path.write_bytes(data[: starts[2]] + bytes(starts[3] - starts[2]) + data[starts[3] :])
    with pytest.raises(ModelFormatError, match="no whole record begins here, but others follow") as caught:
        read_recording(path)
    assert caught.value.offset == starts[2]
    path.write_bytes(data[: starts[2]] + data[starts[2] : starts[2] + 64] + data[starts[3] : starts[3] + 100])
    assert read_recording(path).torn == 164, "what follows is no whole record either"


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"", "cut off"), (b"PK\x03\x04 some", "no recording"), (b"\x89DFREC\r\n\x07" + bytes(80), "version 7")],
)
def test_other_files_are_refused(path: Path, content: bytes, text: str) -> None:
    path.write_bytes(content)
    with pytest.raises(ModelFormatError, match=text):
        read_recording(path)
    path.unlink()
    with pytest.raises(ModelFormatError, match="No such file"):
        read_recording(path)
    with pytest.raises(ModelFormatError, match="not a regular file"):
        read_recording(path.parent)


def test_file_of_another_kind_is_never_written_over(session: DFlowSession, path: Path) -> None:
    path.write_text("my thesis")
    with pytest.raises(OptionError, match="exists and is no recording"):
        single(session, record=str(path)).start()
    assert path.read_text() == "my thesis" and not session.running
    with pytest.raises(OptionError, match="cannot be written"):
        single(session, record=str(path.parent / "no" / "folder.dfrec")).start()


def test_two_graphs_do_not_write_one_file(session: DFlowSession, path: Path) -> None:
    with single(session, record=str(path)) as first:
        first("good")
        with pytest.raises(OptionError, match="being written by another graph"):
            single(session, record=str(path)).start()
    run(single(session, record=str(path)), "bad")
    assert read_recording(path).failed == (1,), "afterwards it is replaced"


def test_folder_takes_a_file_for_each_graph(session: DFlowSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "all") + "/"
    with single(session, record=folder) as first, single(session, record=folder) as second:
        first("good")
        second("good")
    files = sorted(os.listdir(folder))
    assert len(files) == 2 and all(name.startswith("s-") and name.endswith(".dfrec") for name in files)
    assert all(len(read_recording(os.path.join(folder, name)).transactions) == 1 for name in files)


def test_failed_call_that_cannot_be_read_is_left_out_with_a_line_in_the_log(
    session: DFlowSession, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with single(session, record=str(path)) as graph, caplog.at_level(logging.WARNING):
        observer = graph.running.client._observer
        assert observer is not None
        observer.called([b"nonsense", b"dflowfc1" + bytes(40)])
        with pytest.raises(df.NodeError):
            graph("bad")
    assert caplog.text.count("a failed call is not recorded") == 2
    recording = read_recording(path)
    assert len(recording.calls(recording.transaction())) == 1


def test_node_of_a_graph_inside_is_replayed_with_its_version(session: DFlowSession, path: Path) -> None:
    """Exchanged by its path; the call inside is made again alone, and the graph around it whole."""
    inner = df.FlowGraph([half.fnode("half")(df.FlowData("v"))], name="inner")
    node = Ask.fnode(inner)
    options = {"record": str(path)}
    with df.FlowGraph([node.twice(df.FlowData("x"))], options, mode="inline", session=session) as graph:
        assert float(graph(np.array(4.0))) == 1.0  # type: ignore[arg-type]
        (inside,) = [name for name in graph.running.model.submodels if name.endswith("half")]
        graph.update(inside, twice)
        with pytest.raises(df.NodeError):
            graph(np.array(-4.0))
    recording = read_recording(path)
    failed = recording.transaction()
    assert recording.versions_of(failed) == {inside: 2}
    for done in (replay_call(session, recording, failed, node=inside), replay_transaction(session, recording, failed)):
        assert done.verdict == "the same error" and "twice" in str(done.error)
    assert replay_transaction(session, recording, recording.transaction(1)).verdict == "the same results"


def test_full_disk_ends_the_recording_and_not_the_graph(
    session: DFlowSession, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with single(session, record=str(path)) as graph, caplog.at_level(logging.WARNING):
        graph("good")

        def full(fd: int, buffers: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "writev", full)
        assert [graph("good") for _ in range(3)] == [{"got": "good"}] * 3
        monkeypatch.undo()
        graph("good")
    told = f"{path}: nothing more is recorded: No space left on device"
    assert [record.message for record in caplog.records].count(told) == 1
    assert list(read_recording(path).transactions) == [1]


def test_file_system_that_takes_part_of_a_record_leaves_the_whole_ones(
    session: DFlowSession, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit of this process for files stands for the end of the disk: the kernel writes up to it, then fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with single(session, record=str(path)) as graph, caplog.at_level(logging.WARNING):
        graph("good")
        whole = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (whole + 100_000, hard))
        try:
            graph(np.zeros(1 << 20))
            graph("good")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "nothing more is recorded: File too large" in caplog.text
    recording = read_recording(path)
    assert (path.stat().st_size, recording.torn, recording.left_out) == (whole, 0, None)
    assert [one.end.how for one in recording.transactions.values()] == ["result"]


def test_big_tensors_are_recorded_listed_and_kept_without_memory_of_their_size(
    session: DFlowSession, path: Path
) -> None:
    def peak(work: Callable[[], object]) -> int:
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    big = np.zeros(4 << 20)  # 32 MiB
    with df.FlowGraph([half.fnode()(df.FlowData("x"))], mode="inline", session=session) as graph:
        graph(big)
        bare = peak(lambda: [graph(big) for _ in range(4)])
    options = {"record": str(path), "record_good": "3"}
    with df.FlowGraph([half.fnode()(df.FlowData("x"))], options, mode="inline", session=session) as graph:
        graph(big)
        recorded = peak(lambda: [graph(big) for _ in range(4)])
    assert recorded < bare + (4 << 20), "what is fed is written from where it lies"
    assert peak(lambda: read_recording(path)) < 8 << 20, "listing reads no tensor"
    assert len(read_recording(path).transactions) >= 3


@df.pyflow
def twice(value: np.ndarray) -> np.ndarray:
    if value.min() < 0:
        raise ValueError("twice")
    return 2 * value


@df.pyflow
def thrice(value: np.ndarray) -> np.ndarray:
    if value.min() < 0:
        raise TypeError("thrice")
    return 3 * value


@pytest.mark.parametrize("good", ["16", "0"])
def test_transaction_is_replayed_with_the_version_of_a_node_that_served_it(
    session: DFlowSession, path: Path, good: str
) -> None:
    """Also where records of versions, and of good transactions, were thrown out of the file."""
    node = twice.fnode("node")
    options = {"record": str(path), "record_good": good}
    with df.FlowGraph([node(df.FlowData("x"))], options, mode="inline", session=session) as graph:
        found: list[object] = []
        for number, version in enumerate([twice, thrice, half, thrice, twice]):
            if number:
                graph.update(node, version)
            for value in (2.0, -2.0):
                try:
                    found.append(float(graph(np.array(value))))  # type: ignore[arg-type]
                except df.NodeError as error:
                    found.append(error.error_type)
            if good == "0":
                graph(np.zeros(300_000))
    assert found == [4.0, "ValueError", 6.0, "TypeError", 1.0, -1.0, 6.0, "TypeError", 4.0, "ValueError"]
    recording = read_recording(path)
    failed = [recording.transactions[one] for one in recording.failed]
    assert [recording.versions_of(one) for one in failed] == [{}, {"node": 2}, {"node": 4}, {"node": 5}]
    numbers = [2, 3, 4, 5] if good == "16" else [2, 4, 5]
    assert [update.nodes for update in recording.updates] == [{"node": number} for number in numbers]
    for one in failed:
        for replay in (replay_call, replay_transaction):
            done = replay(session, recording, one)
            assert done.verdict == "the same error" and type(done.cause).__name__ == one.end.error["error_type"]
    for one in recording.transactions.values():
        if not one.failed:
            assert replay_transaction(session, recording, one).verdict == "the same results"


def test_graph_as_it_was_started_is_there_after_exchanges(session: DFlowSession, path: Path) -> None:
    node = twice.fnode("node")
    options = {"record": str(path)}
    with df.FlowGraph([node(df.FlowData("x"))], options, mode="inline", session=session) as graph:
        first = graph.update(node, thrice)
        graph(np.array(1.0))
        with pytest.raises(df.DflowError):
            graph.update("other", thrice)
    recording = read_recording(path)
    (update,) = recording.updates
    assert (update.nodes, update.first, update.at > 0) == ({"node": 2}, first, True)
    started, later = recording.model(), recording.model(recording.transaction(1))
    assert started.submodels["node"] != later.submodels["node"] and started.relation == later.relation


@pytest.mark.parametrize(
    "said",
    [{}, {"first": 1, "at": 0.0}, {"first": "1", "at": 0.0, "nodes": {}}, {"first": 1, "at": 0.0, "nodes": {"a": "2"}}],
)
def test_update_that_cannot_be_read_is_refused_with_the_file(
    session: DFlowSession, path: Path, said: dict[str, object]
) -> None:
    run(single(session, record=str(path)), "good")
    with path.open("ab") as file:
        file.writelines(record_chunks(Kind.UPDATE, 0, json_chunks(said)))
    with pytest.raises(ModelFormatError, match="an update cannot be read") as caught:
        read_recording(path)
    assert caught.value.path == str(path)


@pytest.mark.parametrize(
    ("values", "kept"),
    [(["a", "b"], "b"), (["bad", "good"], "bad"), (["good", "bad"], "bad"), (["bad", "good", "more"], "bad")],
)
def test_id_that_is_used_again_stands_for_the_failed_transaction_or_the_last(
    session: DFlowSession, path: Path, values: list[str], kept: str
) -> None:
    with single(session, record=str(path)) as graph:
        for value in values:
            graph.feed({"x": value}, info=df.FeedInfo(transaction_id=7))
            with contextlib.suppress(df.NodeError):
                graph.fetch()
    recording = read_recording(path)
    (fed,) = recording.fed(recording.transaction(7))
    assert decode(fed[0]) == kept and recording.transaction(7).failed == (kept == "bad")
    assert len(recording.calls(recording.transaction(7))) == (kept == "bad")


def test_full_disk_while_it_is_written_anew_leaves_what_was_there(
    session: DFlowSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    big = np.zeros(300_000)
    with single(session, record=str(path), record_good="1") as graph:
        graph(big)
        monkeypatch.setattr(os, "sendfile", full)
        for _ in range(6):
            graph(big)
    assert sorted(os.listdir(path.parent)) == [path.name], "and no half-written one"
    assert read_recording(path).torn == 0


def test_error_where_there_was_none_is_told(session: DFlowSession, path: Path, tmp_path: Path) -> None:
    marker = tmp_path / "broken"

    @df.pyflow
    def moody(value: int) -> int:
        if os.path.exists(marker):
            raise OSError("broken since")
        return value

    graph = df.FlowGraph([moody.fnode()(df.FlowData("x"))], {"record": str(path)}, mode="inline", session=session)
    run(graph, 1)
    marker.touch()
    recording = read_recording(path)
    assert replay_transaction(session, recording, recording.transaction(1)).verdict == "an error where there was none"


def test_transaction_that_is_not_there_is_named_with_those_that_are(session: DFlowSession, path: Path) -> None:
    run(single(session, record=str(path)), "good", "good")
    recording: Recording = read_recording(path)
    with pytest.raises(UsageError, match="no transaction of .* has failed") as caught:
        recording.transaction()
    assert caught.value.hint == "name one of 1, 2"
    with pytest.raises(UsageError, match="transaction 9 is not in"):
        recording.transaction(9)
    with pytest.raises(UsageError, match="what the failed node was given is not in"):
        replay_call(session, recording, recording.transaction(1))


def test_nothing_is_recorded_unless_it_is_asked_for(session: DFlowSession) -> None:
    with single(session) as graph:
        assert graph.running.client._observer is None
        assert type(graph.running.client._table).__name__ == "TransactionTable"


@df.pyflow
def inverse(value: float) -> float:
    return 1 / value


@df.pyflow
class Ask:
    def __init__(self, model: df.InvokedGraph) -> None:
        self.model = model

    @df.method
    def twice(self, value: float) -> object:
        return self.model(self.model(value))


def test_calls_inside_called_graphs_are_recorded_too(session: DFlowSession, path: Path) -> None:
    inner = df.FlowGraph([inverse.fnode("inverse")(df.FlowData("v"))], name="inner")
    node = Ask.fnode(inner)
    outputs = [node.twice(df.FlowData("x"))]
    graph = df.FlowGraph(outputs, {"record": str(path)}, mode="inline", session=session)
    assert isinstance(run(graph, 2.0, 0.0)[1], df.NodeError)
    recording = read_recording(path)
    calls = recording.calls(recording.transaction())
    assert [call.error.error_type for call in calls] == ["ZeroDivisionError", "NodeError"]
    assert {call.node.split("/")[-1] for call in calls} == {"Ask", "inverse"}
    done = replay_call(session, recording, recording.transaction())
    assert done.verdict == "the same error" and done.node == recording.transaction().end.error["node"]
    assert replay_transaction(session, recording, recording.transaction()).verdict == "the same error"
