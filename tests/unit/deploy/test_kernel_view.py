"""What the kernel says of the threads of a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

from dflow_core.deploy.kernel_view import kernel_view


def test_each_thread_is_named_with_its_state() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    text = kernel_view(os.getpid())
    stop.set()
    thread.join()
    assert f"thread {os.getpid()} " in text and f"thread {thread.native_id} " in text
    assert ": sleeping" in text and ": running" in text


def test_stopped_process_is_seen_to_be_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        try:
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            assert ": stopped" in kernel_view(process.pid)
        finally:
            process.kill()


def test_process_that_is_gone_gives_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert kernel_view(process.pid) == ""
