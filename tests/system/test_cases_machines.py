"""Peers' bug reports about several machines: BC-006, BC-094, BC-096, BC-097."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.errors import LinkLostError, PeerGoneError
from dflow_core.testing.waiting import is_alive, wait_until
from tests.system.machines_support import Machines, machines, network, start_daemon
from tests.system.test_machines import HERE, QUIET, THERE, chain, copies, node

MIB = 1 << 20


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Machines]:
    """One other machine."""
    with machines(tmp_path) as made:
        made.start()
        with made.resources():
            yield made


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[Machines]:
    """No other machine but what the test makes."""
    with machines(tmp_path) as made, made.resources():
        yield made


CLIENT = """
import sys
import numpy as np
import dflow_core as df

@df.pyflow
def near(x):
    return np.full(64 << 17, float(x))

@df.pyflow
def far(x):
    import os, signal
    if x[0] < 0:
        os.kill(os.getppid(), signal.SIGSTOP)
    return float(x[0])

graph = df.FlowGraph([far.fnode()(near.fnode()(df.FlowData("x")))], {"deploy_info": sys.argv[1], "output": "none"})
with graph:
    for number in range(5):
        graph.feed({"x": float(number)})
    print("fed", [status.pid for status in graph.running.deployment.status() if status.node == "near"][0], flush=True)
    while True:
        graph.fetch()
        graph.feed({"x": 1.0})
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("victim", ["node", "client", "client by interrupt"])
def test_what_a_lost_sender_had_sent_is_let_go(elsewhere, victim, rounds, tmp_path):
    """BC-006: 64 MiB tensors; the sending node or the application ends abnormally, again and again."""
    other = elsewhere.others[0]
    info = elsewhere.place(near=HERE, far=THERE)
    (tmp_path / "client.py").write_text(CLIENT)
    held = []
    for _ in range(rounds):
        client = subprocess.Popen(
            [sys.executable, str(tmp_path / "client.py"), info], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env={**os.environ, "DFLOW_LINK_LEASE": "1"},
        )
        assert client.stdout is not None
        word, pid = client.stdout.readline().split()
        assert word == "fed"
        if victim == "node":
            os.kill(int(pid), signal.SIGKILL)
            client.wait(30)  # its fetch raises
        else:
            client.send_signal(signal.SIGINT if "interrupt" in victim else signal.SIGKILL)
            client.wait(30)
        client.stdout.close()
        wait_until(lambda: other.holds()["memory files"] == 0 and other.holds()["processes"] <= 1)
        held.append(other.holds())
    assert len({tuple(one.items()) for one in held}) == 1


def test_a_killed_daemon_leaves_nothing(elsewhere):
    """BC-006: SIGKILL of the daemon that receives."""
    other = elsewhere.others[0]
    info = elsewhere.place(near=HERE, far=THERE, back=HERE)
    with pytest.raises(LinkLostError), copies(info, link_lease="0.5") as graph:
        for _ in range(4):
            graph.feed({"x": np.zeros(64 << 17)})
        below = other.below()
        other.kill()
        while True:
            graph.fetch(timeout=20)
    wait_until(lambda: not any(map(is_alive, below)))


def test_a_short_cut_loses_and_doubles_nothing(elsewhere):
    """BC-094, within the lease: held back, and reset."""
    with network(elsewhere.others[0].address) as way:
        info = elsewhere.place([way.address], a=HERE, b=THERE, c=HERE)
        with chain(info, link_lease="20") as graph:
            results = graph.map((np.full(1000, float(i)) for i in range(20, 1020)), in_flight=16)
            found = [next(results)[0] for _ in range(100)]
            way.hold()
            way.mend()
            found += [next(results)[0] for _ in range(100)]
            way.cut()
            way.mend()
            found += [x[0] for x in results]
            assert found == [2 * i + 1.0 for i in range(20, 1020)]
            stats = graph.running.stats()
            assert [one.calls for one in stats.nodes] == [1000] * 3
        assert way.accepted >= 2


def test_a_long_cut_is_one_clear_error_and_both_sides_are_clean(elsewhere):
    """BC-094, beyond the lease."""
    other = elsewhere.others[0]
    with network(other.address) as way:
        info = elsewhere.place([way.address], a=HERE, b=THERE, c=HERE)
        with chain(info, link_lease="0.5") as graph:
            graph(np.zeros(1))
            way.cut()
            with pytest.raises(LinkLostError, match=f"{way.address}.*0.5 s"):
                while True:
                    graph(np.zeros(1), timeout=20)
        wait_until(lambda: other.holds()["memory files"] == 0 and other.holds()["processes"] <= 1)
        way.mend()
        with chain(info) as graph:
            assert graph(np.zeros(1)).tolist() == [1.0]


class _Web(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words):
        pass


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_machine_that_is_none_is_told_by_its_address(nobody):
    """BC-096: nobody there, something else there, somebody who says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Web)
        thread = threading.Thread(target=web.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            for port in (closed_port(), web.server_port, silent.getsockname()[1]):
                info = nobody.place([f"127.0.0.1:{port}"], a=HERE, b=THERE, c=HERE)
                with pytest.raises(PeerGoneError, match=f"127.0.0.1:{port}") as caught, chain(info, link_lease="1"):
                    raise AssertionError("it has started")
                assert caught.value.hint
        finally:
            web.shutdown()
            web.server_close()
            thread.join(5)


@pytest.mark.parametrize(("here", "there", "starts"), [
    ("", "", True), ("one", "one", True), ("one", "two", False), ("", "two", False), ("one", "", False),
])
def test_both_ends_need_the_same_key(nobody, monkeypatch, here, there, starts):
    monkeypatch.setenv("DFLOW_LINK_KEY", here)
    nobody.others.append(start_daemon(DFLOW_LINK_KEY=there))
    info = nobody.place(a=HERE, b=THERE, c=HERE)
    if starts:
        with chain(info) as graph:
            assert graph(np.zeros(1)).tolist() == [1.0]
        return
    with pytest.raises(df.UsageError, match="key") as caught, chain(info):
        raise AssertionError("it has started")
    assert "DFLOW_LINK_KEY" in str(caught.value)


def test_proxies_of_the_environment_are_not_asked(elsewhere, monkeypatch):
    """BC-096."""
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with chain(elsewhere.place(a=HERE, b=THERE, c=HERE)) as graph:
        assert graph(np.zeros(1)).tolist() == [1.0]


def test_ipv6(nobody):
    """BC-096."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    nobody.start(1, "--listen", "[::1]:0")
    with chain(nobody.place(a=HERE, b=THERE, c=HERE)) as graph:
        assert graph(np.zeros(1)).tolist() == [1.0]


def test_many_daemons_on_one_machine(nobody):
    """BC-097: with default settings all at once, and on a port that is taken."""
    nobody.start(4)
    assert len({other.address for other in nobody.others}) == 4
    taken = nobody.others[0]
    refused = subprocess.run(
        [sys.executable, "-m", "dflow_core.cli.main", "daemon", "--listen", taken.address], capture_output=True,
        text=True, timeout=30,
    )
    assert refused.returncode == 1
    assert taken.address in refused.stderr and f"process {taken.pid}" in refused.stderr
    taken.kill()
    again = start_daemon("--listen", taken.address)
    nobody.others.append(again)
    assert again.address == taken.address


def test_a_daemon_for_others_needs_a_key():
    refused = subprocess.run(
        [sys.executable, "-m", "dflow_core.cli.main", "daemon", "--listen", "0.0.0.0:0"], capture_output=True,
        text=True, timeout=30, env={k: v for k, v in os.environ.items() if k != "DFLOW_LINK_KEY"},
    )
    assert refused.returncode == 2
    assert "other machines could run anything here" in refused.stderr and "--key-file" in refused.stderr


def test_the_resource_file_says_where_the_daemon_listens(nobody, tmp_path):
    port = closed_port()
    kind = {"node_type": "host", "item": [{"item_type": "cpu"}]}
    server = {"node_id": 0, "node_type": "host", "ipaddr": "127.0.0.1", "port": port, "is_local": True, "item_list": []}
    found = {"cluster": [{"cluster_nodes": [server]}], "node_def": [kind], "item_def": [{"item_type": "cpu"}]}
    (tmp_path / "own.json").write_text(json.dumps(found))
    process = subprocess.Popen(
        [sys.executable, "-m", "dflow_core.cli.main", "daemon", "--resource", str(tmp_path / "own.json")],
        stdout=subprocess.PIPE, text=True,
    )
    with process:
        assert process.stdout is not None
        assert f"listening at 127.0.0.1:{port}" in process.stdout.readline()
        process.terminate()
    assert process.returncode == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_kills_on_both_machines_leave_nothing_and_lose_no_count(elsewhere, rounds):
    """Executors of both machines are killed at random; every transaction has one end."""
    rng = random.Random(7)
    other = elsewhere.others[0]
    first = node("a", lambda x: x + 1, df.FlowData("x"), restarts=1_000_000)
    second = node("b", lambda x: x * 2, first, restarts=1_000_000)
    graph = df.FlowGraph(
        [node("c", lambda x: x - 1, second, restarts=1_000_000)],
        {**QUIET, "deploy_info": elsewhere.place(a=HERE, b=THERE, c=HERE)},
    )
    with graph:
        graph(np.zeros(1))
        ends = 0
        for _ in range(rounds):
            for _ in range(4):
                graph.feed({"x": np.full(1000, 5.0)})
            pids = [one.pid for one in graph.running.deployment.status() if one.pid]
            if pids:
                os.kill(rng.choice(pids), signal.SIGKILL)
            for _ in range(4):
                with contextlib.suppress(df.InstanceLostError):
                    assert graph.fetch(timeout=30)[0] == 11.0
                ends += 1
        counters = graph.running.stats().transactions
        assert ends == 4 * rounds
        assert counters.fed == counters.delivered + counters.failed + counters.dropped
    wait_until(lambda: other.holds()["memory files"] == 0 and other.holds()["processes"] <= 1)
