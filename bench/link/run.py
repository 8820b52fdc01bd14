"""What a link between machines carries, over the loopback interface, against a bare socket and a bare gRPC stream.

    python bench/link/run.py [--rounds 3] [--secs 1]

One process sends frames of one size to another, which takes them whole into memory of its own and answers at the end.
All three take turns within a round; figures are medians, ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import grpc

from dflow_core.spi import FIRST_DATA_LANE, LinkConfig, LinkReceiver
from dflow_transport_grpc.channel import OPTIONS
from dflow_transport_grpc.transport import GrpcLinkTransport

SIZES = {"4 KB": 4096, "150 KB": 150_000, "6 MB": 6_000_000}
LENGTH = struct.Struct("<Q")


class Counter(LinkReceiver):
    """Takes frames into one buffer, and says when so many have come."""

    def __init__(self, size: int, done: Callable[[], object]) -> None:
        self.room, self.left, self.done = memoryview(bytearray(size)), 0, done

    def room_for(self, lane: int, head: bytes, size: int) -> memoryview:
        return self.room

    def arrived(self, lane: int, head: bytes) -> None:
        if head:
            self.done()

    def ended(self, error: Exception | None) -> None:
        pass


def link_end(pipe: Connection, size: int) -> None:
    """The receiving end of a link."""
    links = []

    def accept(link: object) -> None:
        links.append(link)
        link.begin(Counter(size, lambda: pipe.send("done")))  # type: ignore[attr-defined]

    listener = GrpcLinkTransport().listen("127.0.0.1:0", LinkConfig("far"), accept)
    pipe.send(listener.address)
    pipe.recv()
    for link in links:
        link.close()
    listener.close()


def over_link(pipe: Connection, size: int, count: int) -> float:
    """Seconds for so many frames."""
    link = GrpcLinkTransport().connect(pipe.recv(), LinkConfig("near"), 10.0)
    payload = memoryview(bytes(size))
    start = time.perf_counter()
    for number in range(count):
        link.send(FIRST_DATA_LANE, b"last" if number == count - 1 else b"", payload)
    pipe.recv()
    taken = time.perf_counter() - start
    pipe.send("end")
    link.close()
    return taken


def socket_end(pipe: Connection, size: int) -> None:
    """The receiving end of a socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        near, _ = server.accept()
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        room, head, last = memoryview(bytearray(size)), memoryview(bytearray(LENGTH.size)), 0
        while not last:
            near.recv_into(head, LENGTH.size, socket.MSG_WAITALL)
            last = LENGTH.unpack(head)[0]
            near.recv_into(room, size, socket.MSG_WAITALL)
        pipe.send("done")
        pipe.recv()
        near.close()


def over_socket(pipe: Connection, size: int, count: int) -> float:
    """Seconds for so many frames."""
    with socket.create_connection(("127.0.0.1", pipe.recv())) as far:
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        payload = bytes(size)
        start = time.perf_counter()
        for number in range(count):
            far.sendall(LENGTH.pack(number == count - 1))
            far.sendall(payload)
        pipe.recv()
        taken = time.perf_counter() - start
        pipe.send("end")
        return taken


def grpc_end(pipe: Connection, size: int) -> None:
    """The receiving end of a bare stream of bytes."""
    over = threading.Event()

    def carry(said: Iterator[bytes], context: object) -> bytes:
        for _ in said:
            pass
        over.set()
        return b"done"

    handler = grpc.stream_unary_rpc_method_handler(carry)
    server = grpc.server(
        ThreadPoolExecutor(4), handlers=[grpc.method_handlers_generic_handler("B", {"C": handler})], options=OPTIONS
    )
    pipe.send(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    pipe.recv()
    server.stop(None).wait()


def over_grpc(pipe: Connection, size: int, count: int) -> float:
    """Seconds for so many messages."""
    payload = bytes(size)
    with grpc.insecure_channel(f"127.0.0.1:{pipe.recv()}", options=OPTIONS) as channel:
        start = time.perf_counter()
        channel.stream_unary("/B/C")(payload for _ in range(count))
        taken = time.perf_counter() - start
    pipe.send("end")
    return taken


WAYS = {"link": (link_end, over_link), "socket": (socket_end, over_socket), "gRPC stream": (grpc_end, over_grpc)}


def rate(way: str, size: int, secs: float) -> float:
    """Frames a second; as many as take about so long."""
    end, over = WAYS[way]
    count, taken = 16, 0.0
    while True:
        context = multiprocessing.get_context("spawn")
        near, far = context.Pipe()
        process = context.Process(target=end, args=(far, size))
        process.start()
        taken = over(near, size, count)
        process.join()
        if taken > secs / 2:
            return count / taken
        count = max(2 * count, int(count * secs / taken))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--secs", type=float, default=1.0)
    args = parser.parse_args()
    print(f"{'':10}" + "".join(f"{way:>16}" for way in WAYS) + f"{'link / gRPC':>14}{'link / socket':>15}   frames/s")
    for name, size in SIZES.items():
        rows = [[rate(way, size, args.secs) for way in WAYS] for _ in range(args.rounds)]
        middle = [statistics.median(column) for column in zip(*rows, strict=True)]
        ratios = [statistics.median(row[0] / row[other] for row in rows) for other in (2, 1)]
        print(f"{name:10}" + "".join(f"{value:16,.0f}" for value in middle) + f"{ratios[0]:14.2f}{ratios[1]:15.2f}")


if __name__ == "__main__":
    main()
