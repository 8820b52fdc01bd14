"""Names, argument checks, exceptions, the log, running information, message types."""

from __future__ import annotations

import io
import logging
import pickle
import threading
from contextlib import redirect_stdout
from typing import Dict, List, Optional, Tuple, Union  # noqa: UP035  # what scripts write

import pytest

import dataflow as df
from dataflow.utils import log
from dataflow.utils import utils as helpers
from dataflow.utils.msg_type_register import MsgTypeRegister
from dataflow.utils.name_scope import name_scope, reset_name_scope


@pytest.fixture(autouse=True)
def fresh_names() -> None:
    reset_name_scope()


def take(name: str | None, **options) -> str:
    with name_scope(name, **options) as unique:
        return unique


def test_names_are_counted_by_what_is_asked_for() -> None:
    names = [take("A"), take("A"), take("A_1"), take("A"), take(None, default_name="A")]
    assert names == ["A", "A_1", "A_1", "A_2", "A_3"]
    assert take("A", namespace="FlowNode") == "A"


def test_a_name_can_be_claimed_once() -> None:
    assert take("A", auto_name=False) == "A"
    with pytest.raises(ValueError, match="already used"):
        take("A", auto_name=False)
    reset_name_scope()
    assert take("A", auto_name=False) == "A"


@pytest.mark.parametrize("options", [{"name": 1}, {"name": None}, {"name": "A", "namespace": 2}])
def test_a_name_is_a_text(options) -> None:
    with pytest.raises(TypeError, match="must be a string"):
        take(**options)


def test_names_can_be_taken_by_several_threads() -> None:
    taken: list[str] = []
    threads = [threading.Thread(target=lambda: taken.append(take("A"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert len(set(taken)) == 8


@helpers.assert_args_type(int, Dict[str, str], List[int], more=Union[str, None])  # noqa: UP006, UP007
def checked(count, names=5, numbers=None, more="") -> int:
    return count


def test_arguments_are_checked_and_defaults_are_not() -> None:
    assert checked(True) == 1
    assert checked(2, {"a": "b"}, [1], more=None) == 2
    for args, options in [(("1",), {}), ((1, {"a": 1}), {}), ((1, {}, ["1"]), {}), ((1,), {"more": 1})]:
        with pytest.raises(df.DfException, match="must be") as error:
            checked(*args, **options)
        assert error.value.error_code == 145000


def test_a_kind_of_type_that_is_not_known_is_refused() -> None:
    odd = helpers.assert_args_type(Tuple[int, int])(lambda x: x)  # noqa: UP006
    with pytest.raises(TypeError):
        odd((1, 2))


def test_exceptions_have_a_code() -> None:
    error = df.DfException("no", 145001)
    assert (str(error), repr(error), error.args, error.message) == ("DfException:145001:no",) * 2 + ((), "no")
    assert df.DfException("no").error_code == 145000
    abort = pickle.loads(pickle.dumps(df.DfAbortException("end", 564004)))
    assert isinstance(abort, df.DfException) and str(abort) == "DfException:564004:end"


def returns(annotation):
    def func(self, a, b=1, *rest): ...

    func.__annotations__ = {} if annotation is Ellipsis else {"return": annotation}
    return func


@pytest.mark.parametrize(
    ("annotation", "count"),
    [(..., -1), (int, 1), (Tuple[int, str], 2), (tuple[int, str], 2), (Optional[int], 2), (List[int], 1),  # noqa: UP006, UP045
     ("x", 1), (None, 1)],
)
def test_outputs_are_counted_from_the_annotation(annotation, count: int) -> None:
    assert helpers.get_typing_num_returns(returns(annotation)) == count
    assert helpers.get_param_count(returns(annotation)) == 3


def test_log_lines_name_the_logger_and_the_place() -> None:
    log.get_logger()
    before, out = log.get_log_level(), io.StringIO()
    try:
        log.set_log_level(log.INFO)
        with redirect_stdout(out):
            log.info("%d of %s", 3, "five")
            log.debug("unseen")
            log.log(log.ERROR, "over")
    finally:
        log.set_log_level(before)
    first, second = out.getvalue().splitlines()
    assert first.startswith("[INFO] DATAFLOW(")
    assert first.endswith("test_log_lines_name_the_logger_and_the_place: 3 of five")
    assert "[test_helpers.py:" in second and second.startswith("[ERROR]")
    assert logging.getLogger("DATAFLOW") is log.get_logger()


def test_running_information_is_for_functions() -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        assert df.get_running_device_id() is None
        assert df.get_running_instance_id() is None
        assert df.get_running_instance_num() is None
    assert out.getvalue().count("known inside a function only") == 3
    assert not helpers.get_running_in_udf()


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def test_classes_are_registered_under_numbers(tmp_path) -> None:
    register = MsgTypeRegister()
    register.register(1024, Point, lambda p: bytes([p.x]), lambda buffer: Point(buffer[0]))
    register.register(1024, Point, lambda p: bytes([p.x]), lambda buffer: Point(buffer[0]), len)
    assert register.registered(1024) and register.registered(65535) and not register.registered(1025)
    assert register.get_msg_type(Point) == 1024
    assert register.get_msg_type(type("Sub", (Point,), {})) is None
    assert register.get_deserialize_func(1024)(memoryview(register.get_serialize_func(1024)(Point(5)))).x == 5
    assert register.get_size_func(1024) is len and register.get_size_func(1025) is None
    for number, clz in [(1025, Point), (1024, int)]:
        with pytest.raises(df.DfException, match="already"):
            register.register(number, clz, bytes, bytes)
    (tmp_path / "a.pkl").write_bytes(register.get_serialize_func(65535)({"a": 1}))
    assert register.deserialize_from_file(str(tmp_path / "a.pkl")) == {"a": 1}
