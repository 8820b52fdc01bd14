"""Running graphs answer who may ask, within limits, and leave nothing in a file system."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping

import pytest

from dflow_core.deploy.door import Address, Door, addresses, ask, ask_all
from dflow_core.deploy.supervision.loop import Loop
from dflow_core.errors import PeerGoneError, WaitTimeoutError


@contextlib.contextmanager
def opened(answer: Callable[[str], Mapping[str, object]]) -> Iterator[Address]:
    loop = Loop("door", lambda: None, lambda error: None)
    loop.start()
    before = set(addresses())
    door = Door(answer)
    loop.post(lambda: loop.listen(door.socket.fileno(), door.let_in))
    try:
        (address,) = set(addresses()) - before
        yield address
    finally:
        loop.close(5)
        door.close()


def test_question_is_answered_and_the_socket_has_no_file_and_is_gone_in_the_end() -> None:
    with opened(lambda question: {"you asked": question}) as address:
        assert (address.pid, address.user) == (os.getpid(), os.geteuid())
        assert ask(address, "ps") == {"you asked": "ps"}
        assert address.name.startswith("\0")
    assert address not in addresses()
    with pytest.raises(PeerGoneError, match="has ended"):
        ask(address, "ps")


def test_two_graphs_of_a_process_have_two_doors() -> None:
    with opened(lambda _: {"graph": "a"}) as one, opened(lambda _: {"graph": "b"}) as two:
        assert [answer["graph"] for _, answer in ask_all([one, two], "ps")] == ["a", "b"]


def test_error_of_the_answer_reaches_who_asked() -> None:
    def fail(question: str) -> Mapping[str, object]:
        raise KeyError("x")

    with opened(fail) as address:
        assert ask(address, "ps") == {"error": "KeyError: 'x'"}


def test_answer_beyond_the_limit_is_refused_by_who_gives_it() -> None:
    with opened(lambda _: {"text": "x" * (17 << 20)}) as address:
        assert "too large" in str(ask(address, "ps")["error"])


def test_visitors_who_say_nothing_keep_nobody_out_for_long_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four silent visitors fill the door; a fifth is turned away at once, and not kept waiting."""
    monkeypatch.setattr("dflow_core.deploy.door._PATIENCE", 0.2)
    with opened(lambda _: {"fine": 1}) as address, contextlib.ExitStack() as stack:
        for _ in range(4):
            silent = stack.enter_context(socket.socket(socket.AF_UNIX))
            silent.connect(address.name)
        limit = threading.Event()
        for _ in range(500):
            with contextlib.suppress(PeerGoneError):
                assert ask(address, "ps") == {"fine": 1}
                break
            limit.wait(0.02)
        else:
            pytest.fail("the door never became free")


def test_one_of_another_user_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(lambda _: {"secret": 1}) as address:
        monkeypatch.setattr("dflow_core.deploy.door._user_of", lambda end: os.geteuid() + 1)
        with pytest.raises(PeerGoneError):
            ask(address, "ps")


STOPPED = """
import os, time
from dflow_core.deploy.door import Door
door = Door(lambda question: {})
print("listening", flush=True)
time.sleep(60)
"""


def test_application_that_is_stopped_gives_a_clear_line_and_no_hang() -> None:
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE) as application:
        assert application.stdout is not None and application.stdout.readline()
        (address,) = (one for one in addresses() if one.pid == application.pid)
        try:
            with pytest.raises(WaitTimeoutError, match=f"process {application.pid} hangs: no answer within 0.1 s"):
                ask(address, "ps", 0.1)
            application.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, application.pid, os.WSTOPPED)
            ((_, answer),) = ask_all([address], "ps", 0.1)
            assert answer == {"error": f"process {application.pid} is stopped: no answer within 0.1 s"}
        finally:
            application.kill()
    assert address not in addresses()


def test_socket_that_a_fork_keeps_open_is_not_taken_for_the_application() -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(f"\0dflow-{os.geteuid()}-{int(gone.stdout)}-0")
        left_over.listen()
        assert int(gone.stdout) not in {one.pid for one in addresses()}
