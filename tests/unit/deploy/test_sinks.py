"""Where output goes."""

from __future__ import annotations

import io
import logging
import os
import socket
import sys

import pytest

from dflow_core.deploy.children.sinks import FolderSink, LoggingSink, NullSink, StderrSink, _DescriptorWriter, make_sink
from dflow_core.errors import OptionError


@pytest.mark.parametrize(
    ("option", "cls"), [("", StderrSink), ("stderr", StderrSink), ("logging", LoggingSink), ("none", NullSink)]
)
def test_options_name_sinks(option, cls):
    assert isinstance(make_sink(option), cls)


def test_a_folder_is_made(tmp_path):
    assert isinstance(make_sink(f"dir:{tmp_path}/a/b"), FolderSink)
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("option", ["file", "dir:"])
def test_other_options_are_refused(option):
    with pytest.raises(OptionError, match=r"stderr, logging, none, or dir:PATH"):
        make_sink(option)


def test_stderr_is_the_one_of_the_moment(monkeypatch):
    """Notebooks and test runners replace it."""
    sink = StderrSink()
    for text in ("a", "b"):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        assert sink.write(text.encode()) == 1
        assert stream.getvalue() == text


def test_no_stderr_takes_everything(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert StderrSink().write(b"abc") == 3


def test_a_full_pipe_takes_what_fits_and_stays_blocking_for_others(monkeypatch):
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(sys, "__stderr__", stream)
        sink = StderrSink()
        taken = 0
        while part := sink.write(b"x" * 65536):
            taken += part
        assert taken >= 65536
        assert os.get_blocking(write)
        os.read(read, 65536)
        assert sink.write(b"more") == 4
        sink.close()
        sink.close()
    os.close(read)


def test_a_socket_is_written_piece_by_piece():
    near, far = socket.socketpair()
    with near, far:
        writer = _DescriptorWriter(near.fileno())
        taken = writer.write(b"x" * (8 << 20))
        assert 0 < taken < 8 << 20
        assert near.getblocking()
        far.recv(1 << 20)
        writer.close()


def test_a_file_is_written_in_place(tmp_path):
    with open(tmp_path / "f", "wb") as file:
        writer = _DescriptorWriter(file.fileno())
        os.write(file.fileno(), b"before ")
        assert writer.write(b"after") == 5
    assert (tmp_path / "f").read_bytes() == b"before after"


def test_records_carry_the_node(caplog):
    with caplog.at_level(logging.INFO, "dflow"):
        assert LoggingSink().write(b"[n#0] hello [x]\n[dflow] %s\n") > 0
    records = [(record.name, record.getMessage()) for record in caplog.records]
    assert records == [("dflow.node.n#0", "hello [x]"), ("dflow.node.dflow", "%s")]


def test_files_get_plain_lines_under_safe_names(tmp_path):
    FolderSink(tmp_path).write(b"[outer/n#0] a\n[../../etc#0] b\n[outer/n#0] c\n")
    assert (tmp_path / "outer_n#0.log").read_text() == "a\nc\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".._.._etc#0.log", "outer_n#0.log"]
