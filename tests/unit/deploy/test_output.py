"""Lines of executors: marked, in order, whole, in bounded memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from dflow_core.deploy.children import output
from dflow_core.deploy.children.output import TAIL, OutputForwarder, ProcessLog
from dflow_core.deploy.children.sinks import NullSink, Sink


class ListSink(Sink):
    """Keeps what it is given, as much as it is told to take."""

    def __init__(self) -> None:
        self.data = b""
        self.room = 1 << 40
        self.closed = False

    def write(self, data: bytes) -> int:
        taken = min(len(data), self.room)
        self.room -= taken
        self.data += data[:taken]
        return taken

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def log() -> Iterator[ProcessLog]:
    """A log of node `n#0`."""
    made = ProcessLog("n#0")
    yield made
    made.close()


def write(log: ProcessLog, data: bytes) -> None:
    """What an executor does."""
    os.write(log.fd, data)


def test_whole_lines_are_marked(log):
    write(log, b"one\ntwo\n")
    assert log.take() == b"[n#0] one\n[n#0] two\n"
    assert log.take() == b""


def test_an_unfinished_line_waits_for_its_end(log):
    write(log, b"one\ntw")
    assert log.take() == b"[n#0] one\n"
    write(log, b"o\n")
    assert log.take() == b"[n#0] two\n"


def test_an_unfinished_line_comes_after_a_while(log):
    write(log, b"prompt> ")
    taken = [log.take() for _ in range(12)]
    assert [text for text in taken if text] == [b"[n#0] prompt> \n"]


def test_an_unfinished_line_comes_at_the_end(log):
    write(log, b"last")
    assert log.take(final=True) == b"[n#0] last\n"


def test_a_line_without_end_is_cut(log):
    write(log, b"x" * 100_000)
    assert len(log.take()) > 100_000


def test_bytes_that_are_no_text_are_shown_escaped(log):
    write(log, b"caf\xe9 \xe6\xa8\xa1\n")
    assert log.take().decode() == "[n#0] caf\\xe9 模\n"


def test_the_tail_is_that_of_the_current_life(log):
    write(log, b"of the first life\n")
    log.begin_life()
    assert log.tail() == ""
    write(log, b"a\nb\n")
    assert log.tail() == "a\nb\n"


def test_the_tail_begins_with_a_whole_line(log):
    write(log, b"0123456789\nabc\n")
    assert log.tail(8) == "abc\n"


def test_memory_of_what_was_taken_is_given_back(log):
    for _ in range(64):
        write(log, (b"x" * 1023 + b"\n") * 64)
        while log.take():
            pass
    assert os.fstat(log.fd).st_blocks * 512 < 512 << 10
    assert len(log.tail()) > TAIL - 2048


def test_what_nobody_takes_is_left_out_with_a_note(log, monkeypatch):
    monkeypatch.setattr(output, "_BACKLOG", 1000)
    write(log, b"x" * 99 + b"\n")
    write(log, (b"y" * 99 + b"\n") * 20)
    text = log.take()
    assert text.startswith(b"[n#0] ... 1600 bytes of output left out")
    assert text.count(b"y\n") == 5


def test_the_forwarder_passes_lines_on_and_the_rest_at_the_end():
    sink = ListSink()
    forwarder = OutputForwarder(sink)
    first, second = forwarder.open_log("a#0"), forwarder.open_log("b#0")
    forwarder.start()
    write(first, b"hello\n")
    end = time.monotonic() + 5
    while not sink.data:
        assert time.monotonic() < end
        time.sleep(0.005)
    write(second, b"unfinished")
    forwarder.note("a note")
    forwarder.close()
    assert sink.closed
    lines = sink.data.decode().splitlines()
    assert lines[0] == "[a#0] hello" and set(lines) == {"[a#0] hello", "[b#0] unfinished", "[dflow] a note"}
    forwarder.close()


def test_a_full_sink_loses_nothing_that_fits_the_backlog():
    sink = ListSink()
    sink.room = 10
    forwarder = OutputForwarder(sink)
    log = forwarder.open_log("a#0")
    write(log, b"".join(b"line %d\n" % number for number in range(1000)))
    forwarder.start()
    end = time.monotonic() + 5
    while sink.room:
        assert time.monotonic() < end
        time.sleep(0.005)
    sink.room = 1 << 40
    forwarder.close()
    assert sink.data == b"".join(b"[a#0] line %d\n" % number for number in range(1000))


def test_a_sink_nobody_empties_does_not_hold_up_the_end():
    sink = ListSink()
    sink.room = 0
    forwarder = OutputForwarder(sink)
    write(forwarder.open_log("a#0"), b"lost\n")
    forwarder.start()
    began = time.monotonic()
    forwarder.close()
    assert time.monotonic() - began < 2


def test_a_broken_sink_is_survived():
    class Broken(NullSink):
        def write(self, data: bytes) -> int:
            raise OSError("gone")

    forwarder = OutputForwarder(Broken())
    forwarder.start()
    write(forwarder.open_log("a#0"), b"lost\n")
    forwarder.close()


def test_a_forwarder_that_never_began_closes():
    forwarder = OutputForwarder(NullSink())
    log = forwarder.open_log("a#0")
    forwarder.close()
    assert log.fd == -1 and log.tail() == ""
