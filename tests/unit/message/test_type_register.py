"""Objects that travel in a form of their own (python-api.md section 9)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pytest

from dflow_core.errors import PackagingError, UsageError
from dflow_core.message import FlowMsg, MsgInfo, decode, describe, encode, msg_types
from dflow_core.message.type_register import MsgTypes

POINT, CLOUD = 1024, 65534


class Point:
    def __init__(self, x: float, y: float) -> None:
        self.x, self.y = x, y


class Cloud:
    def __init__(self, points: np.ndarray) -> None:
        self.points = points


def write_point(point: Point) -> bytes:
    return struct.pack("<2d", point.x, point.y)


def read_point(data: memoryview) -> Point:
    return Point(*struct.unpack("<2d", data))


def write_cloud(cloud: Cloud, buffer: memoryview) -> None:
    np.frombuffer(buffer, np.float32)[:] = cloud.points


def read_cloud(data: memoryview) -> Cloud:
    return Cloud(np.frombuffer(data, np.float32))


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    msg_types.register(POINT, Point, write_point, read_point)
    msg_types.register(CLOUD, Cloud, write_cloud, read_cloud, lambda cloud: cloud.points.nbytes)
    yield
    for number in (POINT, CLOUD):
        msg_types.unregister(number)


def test_a_registered_object_is_what_its_functions_make_of_it():
    msg = encode(Point(1, 2), MsgInfo(7))
    assert (msg.info.msg_type, msg.body.nbytes) == (POINT, 16)
    point = decode(msg)
    assert isinstance(point, Point)
    assert (point.x, point.y) == (1, 2)
    assert describe(msg) == "Point of 16 bytes"


def test_one_with_a_size_is_written_and_read_in_the_message_itself():
    msg = encode(Cloud(np.arange(4, dtype=np.float32)), MsgInfo(7))
    cloud = decode(msg)
    assert isinstance(cloud, Cloud)
    assert cloud.points.tolist() == [0, 1, 2, 3]
    assert np.shares_memory(cloud.points, msg.body)
    assert not cloud.points.flags.writeable


def test_a_type_that_nobody_knows_is_raw():
    msg = encode(Point(1, 2), MsgInfo(7))
    msg_types.unregister(POINT)
    raw = decode(msg)
    assert isinstance(raw, memoryview)
    assert bytes(raw) == write_point(Point(1, 2))


def test_a_class_derived_from_a_registered_one_is_another():
    class Derived(Point):
        pass

    msg = encode(Derived(1, 2), MsgInfo(7))
    assert msg.info.msg_type == 65535


def test_functions_that_fail_say_for_which_type():
    msg_types.register(POINT, Point, lambda point: 1 / 0, lambda data: 1 / 0)
    with pytest.raises(PackagingError, match=r"Point.*type 1024.*division by zero"):
        encode(Point(1, 2), MsgInfo(7))
    with pytest.raises(PackagingError, match=r"type 1024.*Point.*division by zero"):
        decode(FlowMsg(MsgInfo(7, msg_type=POINT), np.zeros(16, np.uint8)))
    msg_types.register(POINT, Point, lambda point: 3, read_point)
    with pytest.raises(PackagingError, match="Point"):
        encode(Point(1, 2), MsgInfo(7))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((1023, Point, write_point, read_point), "from 1024 to 65534"),
        ((65535, Point, write_point, read_point), "from 1024 to 65534"),
        ((True, Point, write_point, read_point), "from 1024 to 65534"),
        ((1025, Point(1, 2), write_point, read_point), "expected a class"),
        ((1025, dict, None, read_point), "serialize must be a function"),
        ((1025, dict, write_point, read_point, 3), "size must be a function"),
        ((POINT, Cloud, write_point, read_point), "that of Point already"),
        ((1025, Point, write_point, read_point), "has message type 1024 already"),
    ],
)
def test_what_cannot_be_registered_is_refused(arguments, text):
    with pytest.raises(UsageError, match=text):
        msg_types.register(*arguments)


def test_the_same_pair_again_replaces_its_functions():
    types = MsgTypes()
    for size in (1, 2):
        types.register(POINT, Point, write_point, read_point, lambda point, size=size: size)
    codec = types.of_class(Point)
    assert codec is types.of_number(POINT)
    assert codec is not None and codec.size is not None and codec.size(None) == 2
    assert [one.cls for one in types.codecs()] == [Point]
