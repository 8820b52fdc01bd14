"""Each kind of bad input: one clear error on the right request, the others go on, nothing leaks."""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
import sys
import threading

import numpy as np
import pytest

from dflow_core.errors import (
    ClosedError,
    CompileError,
    DeployError,
    ModelFormatError,
    OptionError,
    PoolExhaustedError,
    QueueFullError,
    RunError,
    TensorError,
    UsageError,
)
from dflow_offline_inference import (
    DeadlineError,
    DependencyError,
    ModelConfig,
    NotStartedError,
    OfflineInference,
    RequestCancelledError,
    RequestFailedError,
    State,
    WorkerLostError,
)


@pytest.fixture
def offline(start, make_puppet):
    return start(make_puppet(), config={"batch": 4})


def works(offline, rows) -> bool:
    """Whether requests still run."""
    return offline.infer("m", rows(3)).result(5)["y"][0, 0] == 6


def test_an_unknown_model(offline, rows) -> None:
    with pytest.raises(UsageError, match="no model is called 'n'") as caught:
        offline.infer("n", rows(1))
    assert caught.value.hint == "there are m"
    assert works(offline, rows)


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({}, "no input 'x'"),
        ({"x": np.ones((1, 2), "f4"), "z": np.ones(1)}, "'z' is none of its inputs"),
        ({"X": np.ones((1, 2), "f4")}, "no input 'x'; 'X'"),
        (np.ones((1, 2), "f8"), r"input 'x': expected float\[\?, \?\], got double"),
        (np.ones((2,), "f4"), "rank differs"),
        (None, "got a NoneType"),
    ],
)
def test_inputs_that_do_not_fit(offline, rows, inputs, text) -> None:
    with pytest.raises(TensorError, match=text):
        offline.infer("m", inputs)
    assert offline.overview().open == 0 and works(offline, rows)


def test_shapes_that_cannot_share_a_batch_run_apart(start, make_puppet, rows) -> None:
    puppet = make_puppet()
    offline = start(puppet, config={"batch": 4, "batch_wait": 3600.0})
    handles = [offline.infer("m", rows(n, width=n)) for n in (1, 2, 3)]
    offline.close()
    assert [handle.result(0)["y"].shape for handle in handles] == [(1, 1), (1, 2), (1, 3)]


def test_a_dependency_on_a_request_that_was_never_made(offline, rows) -> None:
    for number in (999, 0, -1):
        with pytest.raises(UsageError, match=f"no request {number} was made"):
            offline.infer("m", rows(1), after=[number])
    assert works(offline, rows)


def test_a_dependency_on_a_request_of_another(offline, start, make_puppet, rows) -> None:
    foreign = start(make_puppet()).infer("m", rows(1))
    with pytest.raises(UsageError, match="belongs to another OfflineInference"):
        offline.infer("m", rows(1), after=[foreign])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"priority": float("nan")}, "priority=nan: expected a number"),
        ({"priority": float("inf")}, "priority=inf: expected a number"),
        ({"priority": "high"}, "priority='high': expected a number"),
        ({"priority": None}, "priority=None: expected a number"),
        ({"deadline": "soon"}, "deadline='soon': expected seconds"),
        ({"deadline": float("nan")}, "deadline=nan: expected seconds"),
        ({"timeout": "long"}, "timeout='long': expected seconds"),
        ({"chain": ["a"]}, "a list names no chain"),
        ({"callback": 5}, "callback=5: a int cannot be called"),
        ({"after": 5}, "after=5: expected several requests"),
        ({"after": "5"}, "after='5': expected several requests"),
        ({"after": ["x"]}, "after: 'x' is no request"),
        ({"after": [None]}, "after: None is no request"),
        ({"after": [True]}, "after: True is no request"),
    ],
)
def test_what_cannot_be_said_of_a_request(offline, rows, wrong: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(text)):
        offline.infer("m", rows(1), **wrong)
    assert offline.overview().open == 0 and works(offline, rows)


def test_one_request_is_no_list_of_them(offline, rows) -> None:
    with pytest.raises(UsageError, match="expected several requests"):
        offline.infer("m", rows(1), after=offline.infer("m", rows(1)))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [({"window": 0}, "window=0"), ({"window": "all"}, "window='all'"), ({"errors": "keep"}, "errors='keep'"),
     ({"priority": "high"}, "priority='high'"), ({"model": "n"}, "no model is called 'n'"),
     ({"model": None}, "no model is called None"), ({"model": ["m"]}, "no model is called ['m']")],
)
def test_a_map_that_cannot_be_is_refused_before_its_first_item(offline, rows, wrong: dict[str, object], text) -> None:
    model = wrong.pop("model", "m")
    with pytest.raises(UsageError, match=re.escape(text)):
        offline.map(model, [rows(1)], **wrong)


def test_a_dependency_on_itself_cannot_be_said(offline, rows) -> None:
    """Requests depend on earlier ones only: the next id is nobody's yet, so there are no circles."""
    last = offline.infer("m", rows(1))
    with pytest.raises(UsageError, match="not on itself"):
        offline.infer("m", rows(1), after=[last.id + 1])


def test_a_dependency_that_fails_takes_along_all_behind_it(start, gated, make_puppet, rows) -> None:
    offline = start({"m": gated, "n": make_puppet()})
    bad = offline.infer("m", rows(1))
    behind = [offline.infer("n", rows(2), after=[bad])]
    for _ in range(2000):
        behind.append(offline.infer("n", rows(2), after=[behind[-1]]))
    other = offline.infer("n", rows(4))
    bad.cancel()
    gated.gate.set()
    for handle, before in zip(behind, [bad, *behind]):
        error = handle.exception(5)
        assert isinstance(error, DependencyError) and error.other_id == before.id
        assert (error.request_id, error.node) == (handle.id, "n")
    assert "was cancelled" in str(behind[0].exception()) and "failed" in str(behind[1].exception())
    assert other.result(5)["y"][0, 0] == 8 and offline.overview().waiting == 0


def test_a_dependency_that_failed_before(offline, rows, until) -> None:
    bad = offline.infer("m", np.zeros((1, 0), "f4"))
    bad.cancel()
    until(lambda: offline.overview().open == 0)
    if bad.state is State.CANCELLED:
        for after in ([bad], [bad.id]):
            assert isinstance(offline.infer("m", rows(1), after=after).exception(5), DependencyError)
    assert works(offline, rows)


def test_use_before_init_and_after_close(make_puppet, make_point, puppet_session, rows) -> None:
    offline = OfflineInference({"m": make_point(make_puppet())}, session=puppet_session)
    offline.close()
    with pytest.raises(NotStartedError, match="init has not been called"):
        offline.infer("m", rows(1))
    with offline:
        with pytest.raises(UsageError, match="before"):
            offline.init()
        assert works(offline, rows)
    for use in (lambda: offline.infer("m", rows(1)), lambda: offline.map("m", []), offline.overview):
        with pytest.raises(ClosedError, match="was closed"):
            use()
    offline.close()


def test_a_callback_that_raises_is_logged_with_its_request(offline, rows, caplog) -> None:
    def broken(_handle) -> None:
        raise ValueError("in the callback")

    with caplog.at_level(logging.ERROR, "dflow.offline_inference"):
        handle = offline.infer("m", rows(1), callback=broken)
        assert handle.result(5)["y"][0, 0] == 2
        offline.close()
    (record,) = [r for r in caplog.records if "callback" in r.message]
    assert record.getMessage() == f"request {handle.id}: its callback raised ValueError"
    assert record.exc_info and "in the callback" in str(record.exc_info)


def test_what_watches_cannot_harm(start, make_puppet, rows, caplog) -> None:
    def broken(_event) -> None:
        raise ValueError("in the sink")

    with caplog.at_level(logging.CRITICAL, "dflow.offline_inference"):
        assert works(start(make_puppet(), on_event=broken), rows)


def test_a_callback_that_leaves_the_program_harms_nobody(offline, rows) -> None:
    handle = offline.infer("m", rows(1), callback=lambda _: sys.exit(3))
    handle.result(5)
    assert works(offline, rows)


def test_a_callback_that_would_wait_for_ever_is_told(offline, start, gated, rows) -> None:
    found: list[BaseException] = []
    other = start(gated, max_waiting=1)
    for number in range(2):
        other.infer("m", rows(number))
    other.infer("m", rows(2))  # waits: the queue is full now

    def wrong(handle) -> None:
        for use in (lambda: offline.infer("m", rows(1)).result(), offline.close):
            try:
                use()
            except UsageError as error:
                found.append(error)

    gate = threading.Event()
    offline.infer("m", rows(1), callback=wrong)
    offline.infer("m", rows(1), callback=lambda _: gate.set())
    assert gate.wait(5)
    assert ["a callback waits" in str(found[0]), "cannot close" in str(found[1])] == [True, True]
    assert works(offline, rows)


def test_a_full_queue_refuses_or_blocks(start, gated, rows) -> None:
    offline = start(gated, max_waiting=2)
    kept = [offline.infer("m", rows(n)) for n in range(4)]  # two slots, two wait
    for timeout in (0, 0.01):
        with pytest.raises(QueueFullError, match="2 requests wait already"):
            offline.infer("m", rows(9), timeout=timeout)
    assert offline.overview().open == 4
    later: list[object] = []
    blocked = threading.Thread(target=lambda: later.append(offline.infer("m", rows(5)).result(5)))
    blocked.start()
    gated.gate.set()
    blocked.join(5)
    assert later and [handle.result(5)["y"][0, 0] for handle in kept] == [0, 2, 4, 6]


def test_who_waits_for_room_is_told_of_the_end(start, gated, rows, until) -> None:
    offline = start(gated, max_waiting=1)
    for number in range(3):
        offline.infer("m", rows(number))
    found: list[BaseException] = []

    def submit() -> None:
        try:
            offline.infer("m", rows(9))
        except ClosedError as error:
            found.append(error)

    blocked = threading.Thread(target=submit)
    blocked.start()
    until(lambda: offline._machinery.scheduler._blocked)
    closer = threading.Thread(target=offline.close)
    closer.start()
    blocked.join(5)
    assert found
    gated.gate.set()
    closer.join(5)
    assert not closer.is_alive()


def test_a_model_that_needs_more_memory_than_there_is(make_puppet, make_point, puppet_session, rows, start) -> None:
    large = make_puppet(weight=600)
    offline = OfflineInference({"m": ModelConfig(make_point(large), instances=2)}, memory={"cpu:0": 1000},
                               session=puppet_session)
    with pytest.raises(DeployError, match=r"cpu:0 has not memory enough .* m#0 600 bytes, m#1 600 bytes; 200 bytes"):
        offline.init()
    assert not large.loaded
    tight = start(make_puppet(), memory={"cpu:0": 1000})
    with pytest.raises(PoolExhaustedError, match="needs 4004 bytes"):
        tight.infer("m", rows(1, width=1000))
    found = list(tight.map("m", [rows(1), rows(1, width=1000), rows(2)], errors="return"))
    assert [type(one).__name__ for one in found] == ["Result", "PoolExhaustedError", "Result"]


def test_a_deadline_in_the_past(offline, rows) -> None:
    for deadline in (0, -1.0, float("-inf")):
        with pytest.raises(UsageError, match="in the past"):
            offline.infer("m", rows(1), deadline=deadline)
    assert works(offline, rows)


def test_a_deadline_ends_a_request_wherever_it_is(start, gated, rows) -> None:
    offline = start(gated, scan_interval=60.0)
    handles = [offline.infer("m", rows(n), deadline=0.05) for n in range(4)]
    safe = offline.infer("m", rows(9), deadline=3600.0)
    for handle in handles:
        error = handle.exception(5)
        assert isinstance(error, DeadlineError) and isinstance(error, TimeoutError)
        assert f"request {handle.id}" in str(error)
    gated.gate.set()
    assert safe.result(5)["y"][0, 0] == 18
    assert {0.0, 9.0} == set(gated.order)


def test_a_worker_that_dies_ends_what_it_held_and_the_other_goes_on(start, make_puppet, rows) -> None:
    puppet = make_puppet()

    def call(x):
        if (x == 13).any():
            puppet.failure = RunError("the device fell off")
            raise puppet.failure
        return [x * 2]

    puppet.function = call
    offline = start(puppet)
    assert works(offline, rows)
    bad = offline.infer("m", rows(13))
    behind = [offline.infer("m", rows(n)) for n in range(3)]
    bad.exception(5)
    for handle in behind:
        error = handle.exception(5)
        assert error is None or isinstance(error, WorkerLostError)
    late = offline.infer("m", rows(1)).exception(5)
    assert isinstance(late, WorkerLostError) and "the device fell off" in str(late)
    offline.close()
    assert puppet.closed == puppet.loaded


def test_an_error_of_any_kind_fails_its_request_only(start, make_puppet, rows) -> None:
    raised = [ValueError("plain"), SystemExit(3), MemoryError(), RunError("ours", hint="do this")]

    def call(x):
        if x[0, 0] < 4:
            raise raised[int(x[0, 0])]
        return [x * 2]

    offline = start(make_puppet(call))
    handles = [offline.infer("m", rows(n)) for n in range(5)]
    errors = [handle.exception(5) for handle in handles]
    assert [type(error) for error in errors] == [RequestFailedError] * 4 + [type(None)]
    assert "SystemExit: 3" in str(errors[1]) and errors[3].hint == "do this"
    again = pickle.loads(pickle.dumps(errors[0]))
    assert (again.request_id, again.node, again.instance) == (handles[0].id, "m", 0)


def test_a_model_that_cannot_be_loaded(make_puppet, make_point, puppet_session, start) -> None:
    broken = make_puppet(broken=CompileError("no such instruction", node="m"))
    good = make_puppet()
    offline = OfflineInference({"good": make_point(good), "bad": make_point(broken)}, session=puppet_session)
    with pytest.raises(CompileError, match="no such instruction"):
        offline.init()
    assert good.closed == good.loaded
    assert not [t for t in threading.enumerate() if t.name.startswith("dflow-good")]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"batch": 0}, "batch=0"), ({"instances": 0}, "instances=0"), ({"batch_wait": -1.0}, "batch_wait"),
        ({"threads": True}, "threads=True"), ({"devices": ()}, "devices"), ({"batch": 1.5}, "a whole number"),
    ],
)
def test_a_config_that_cannot_be(config, text) -> None:
    with pytest.raises(OptionError, match=text):
        ModelConfig("net.onnx", **config)


def test_settings_that_cannot_be(models) -> None:
    for wrong in ({"workers": "fork"}, {"max_waiting": 0}, {"scan_interval": 0.0}, {"ageing": float("inf")}):
        with pytest.raises(OptionError):
            OfflineInference({"m": models / "add_float.onnx"}, **wrong)
    with pytest.raises(UsageError, match="no model was given"):
        OfflineInference({})
    with pytest.raises(UsageError, match="not a int"):
        OfflineInference({"m": 3})
    with pytest.raises(UsageError, match="expected models by name"):
        OfflineInference("net.onnx")
    with pytest.raises(UsageError, match="on_event=5"):
        OfflineInference({"m": models / "add_float.onnx"}, on_event=5)
    for size in ("1G", 0, -1, True, 1.5):
        with pytest.raises(OptionError, match="memory of 'cpu:0'"):
            OfflineInference({"m": models / "add_float.onnx"}, memory={"cpu:0": size})


def test_memory_of_a_device_where_nothing_runs(make_puppet, make_point, puppet_session) -> None:
    offline = OfflineInference({"m": make_point(make_puppet())}, memory={"cpu:1": 1 << 30}, session=puppet_session)
    with pytest.raises(OptionError, match="memory= names device 'cpu:1'") as caught:
        offline.init()
    assert caught.value.hint == "devices of the models: cpu:0"


def test_files_that_are_no_models(tmp_path, models) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    (tmp_path / "notes.txt").write_text("text")
    for path, kind in (("broken.onnx", CompileError), ("notes.txt", UsageError), ("none.onnx", ModelFormatError)):
        with pytest.raises(kind), OfflineInference({"m": tmp_path / path}):
            pass
    with pytest.raises(OptionError, match="first dimension of input 'X1' is not free"), OfflineInference(
        {"m": ModelConfig(models / "add_float.onnx", batch=2)}
    ):
        pass


def test_ctrl_c_in_the_middle_cancels_what_waits_and_leaves_nothing(
    make_puppet, make_point, puppet_session, rows
) -> None:
    puppet, handles = make_puppet(gate=threading.Event()), []
    with pytest.raises(KeyboardInterrupt), OfflineInference(
        {"m": make_point(puppet)}, session=puppet_session
    ) as offline:
        handles += [offline.infer("m", rows(n)) for n in range(20)]
        assert puppet.entered.acquire(timeout=5)
        handles[0].add_done_callback(lambda _: None)
        opener = threading.Timer(0.05, puppet.gate.set)
        opener.start()
        os.kill(os.getpid(), signal.SIGINT)
        handles[-1].result()
    opener.join(5)
    assert handles[0].result(0)["y"][0, 0] == 0, "what ran was finished"
    assert all(isinstance(handle.exception(0), RequestCancelledError) for handle in handles[1:])
    assert puppet.closed == 1 and puppet.order == [0]


def test_a_stuck_call_is_cancelled_by_the_limit_of_close(start, gated, rows, monkeypatch) -> None:
    from dflow_offline_inference.offline import machinery

    monkeypatch.setattr(machinery, "_STOP_LIMIT", 0.05)
    offline = start(gated)
    running, waiting = offline.infer("m", rows(1)), offline.infer("m", rows(2))
    assert gated.entered.acquire(timeout=5)
    with pytest.raises(DeployError, match="dflow-m#0"):
        offline.close(timeout=0.01)
    for handle in (running, waiting):
        assert isinstance(handle.exception(0), RequestCancelledError)
    gated.gate.set()
