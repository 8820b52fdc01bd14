"""A rig for the native runtime: libflow_func.so, a transport in plain memory, and functions as users write them.

Messages go in and come out as the Python side makes and reads them, so every byte the runtime writes is looked at with
the code it has to agree with.
"""

from __future__ import annotations

import ctypes
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from dflow_core.message import FlowMsg, HeapBlock, MsgInfo, encode, root_token
from dflow_core.spi import include_dir
from dflow_pne_udf.native import seam
from dflow_pne_udf.native.attrs import pack_attrs

HERE = Path(__file__).resolve().parent
SDK = Path(seam.__file__).resolve().parent.parent / "sdk"
LIBRARY = SDK / "devlib" / "linux" / platform.machine() / "libflow_func.so"
SECOND = 1_000_000_000
READY, RUNNING, SUSPENDED, FINISHED, FAILED = 1, 2, 3, 4, 5
U32 = ctypes.c_uint32
P32 = ctypes.POINTER(U32)


class BlockView(ctypes.Structure):
    _fields_ = [("head", ctypes.c_void_p), ("data", ctypes.c_void_p), ("size", ctypes.c_uint64)]


class Table(ctypes.Structure):
    _fields_ = [
        ("abi", U32), ("size", U32), ("context", ctypes.c_void_p),
        ("allocate", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int64)),
        ("retain", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)),
        ("release", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)),
        ("view", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(BlockView))),
        ("queue_find", ctypes.c_void_p),
        ("enqueue", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, U32, ctypes.c_int64, ctypes.c_int64)),
        ("dequeue", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, U32, ctypes.c_int64)),
        ("take_dropped", ctypes.c_void_p),
        ("level", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, U32)),
        ("close", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, U32)),
    ]


class Invoked(ctypes.Structure):
    _fields_ = [
        ("key", ctypes.c_char_p), ("inputs", ctypes.POINTER(seam.Output)), ("outputs", P32), ("n_inputs", U32),
        ("n_outputs", U32),
    ]


def numbers(values: Sequence[int]) -> ctypes.Array[U32]:
    """A C array; never empty, so that it has an address."""
    return (U32 * max(1, len(values)))(*values)


@dataclass
class FuncSetup:
    """A function of the node: its ports, and whether it takes queues."""

    name: str
    inputs: Sequence[int] = (0,)
    outputs: Sequence[int] = (0,)
    stream: bool = False


class Heap:
    """The transport in plain memory.

    Args:
        path: The library.
        limit: Bytes of blocks; 0 is no limit.
    """

    def __init__(self, path: Path, limit: int = 0) -> None:
        self._lib = ctypes.CDLL(str(path))
        self._lib.heap_create.restype = ctypes.c_void_p
        self._lib.heap_create.argtypes = [ctypes.c_uint64]
        for name in ("heap_queue", "heap_blocks", "heap_destroy"):
            getattr(self._lib, name).argtypes = [ctypes.c_void_p]
        self._lib.heap_queue.argtypes = [ctypes.c_void_p, ctypes.c_char_p, U32]
        self._lib.heap_lossy.argtypes = [ctypes.c_void_p, U32]
        self.address = self._lib.heap_create(limit)
        self.table = Table.from_address(self.address)

    def queue(self, name: str, depth: int = 16) -> int:
        """A new queue."""
        return int(self._lib.heap_queue(self.address, name.encode(), depth))

    def lose(self, queue: int) -> None:
        """From now on the oldest message of a queue gives way when it is full."""
        self._lib.heap_lossy(self.address, queue)

    @property
    def blocks(self) -> int:
        """Blocks that somebody holds."""
        return int(self._lib.heap_blocks(self.address))

    def put(self, queue: int, msg: FlowMsg) -> None:
        """Send a message."""
        heap = HeapBlock(msg.wire_size)
        msg.write_to(heap)
        data = heap.array().tobytes()
        key = self.table.allocate(self.table.context, len(data), 0)
        view = BlockView()
        assert self.table.view(self.table.context, key, ctypes.byref(view)) == 0
        ctypes.memmove(view.head, data, len(data))
        assert self.table.enqueue(self.table.context, queue, key, 5 * SECOND) == 0

    def get(self, queue: int, wait: float = 5.0) -> FlowMsg | None:
        """The next message, copied out of its block; None if none came."""
        key = self.table.dequeue(self.table.context, queue, int(wait * SECOND))
        if key < 0:
            return None
        view = BlockView()
        assert self.table.view(self.table.context, key, ctypes.byref(view)) == 0
        copy = HeapBlock(view.size)
        copy.array(writable=True)[:] = np.ctypeslib.as_array((ctypes.c_uint8 * view.size).from_address(view.head))
        assert self.table.release(self.table.context, key) == 0
        return FlowMsg.from_block(copy)

    def close(self, queue: int) -> None:
        """Close a queue."""
        self.table.close(self.table.context, queue)

    def destroy(self) -> None:
        """End the group."""
        self._lib.heap_destroy(self.address)


@dataclass
class Rig:
    """One instance with its queues.

    Args:
        library, heap: What it runs on.
        funcs: Its functions.
        inputs, outputs: Numbers of ports.
        depth: Of every queue.
        attrs: Init parameters.
        options: More fields of the configuration.
        invoked: Key of a model with one input and one output whose queues are `fed` and `fetched`.
        dead: (trans_id, data_label, ports) of parts that were lost.
        lossy: Whether the first input and the first output drop their oldest message when they are full.
        spread: Queues besides its first one that the first output has, the rule by which one is picked, and how many
            of the queues are spare.
    """

    library: ctypes.CDLL
    heap: Heap
    funcs: Sequence[FuncSetup]
    inputs: int = 1
    outputs: int = 1
    depth: int = 16
    attrs: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    invoked: str = ""
    dead: Sequence[tuple[int, int, Sequence[int]]] = ()
    lossy: bool = False
    spread: tuple[int, int, int] = (0, 0, 0)
    udf: int | None = None

    def open(self) -> int:
        """Open it; 0 or the code."""
        self.ins = [self.heap.queue(f"in{i}", self.depth) for i in range(self.inputs)]
        self.outs = [self.heap.queue(f"out{i}", self.depth) for i in range(self.outputs)]
        self.more = [self.heap.queue(f"more{i}", self.depth) for i in range(self.spread[0])]
        self._keep: list[object] = []
        config = seam.Config(api=1, node=b"node", work_path=b"/some/folder", device_id=3, instance=1, instance_count=4)
        config.transport = self.heap.address
        config.funcs, config.n_funcs = self._array(seam.Func, [self._func(func) for func in self.funcs])
        config.inputs, config.n_inputs = self._kept(numbers(self.ins)), len(self.ins)
        config.outputs, config.n_outputs = self._array(seam.Output, [self._output(queue) for queue in self.outs])
        if self.invoked:
            self.fed, self.fetched = self.heap.queue("fed"), self.heap.queue("fetched")
            feeds, count = self._array(seam.Output, [self._output(self.fed)])
            outputs = self._kept(numbers([self.fetched]))
            models, config.n_invoked = self._array(
                Invoked, [Invoked(self.invoked.encode(), feeds, outputs, count, 1)]
            )
            config.invoked = ctypes.cast(models, ctypes.c_void_p)
        parts = [seam.DeadPartRecord(trans, self._kept(numbers(p)), label, len(p)) for trans, label, p in self.dead]
        config.dead_parts, config.n_dead_parts = self._array(seam.DeadPartRecord, parts)
        if self.lossy:
            self.told = [self.heap.queue(f"told{i}", 4) for i in range(2)]
            pairs = list(zip((self.ins[0], self.outs[0]), self.told, strict=True))
            for queue, _ in pairs:
                self.heap.lose(queue)
            config.notices, config.n_notices = self._array(seam.Notice, [seam.Notice(*pair) for pair in pairs])
        attrs = pack_attrs(self.attrs)
        config.attrs, config.attrs_size = attrs, len(attrs)
        config.align_timeout_ms = -1
        for name, value in self.options.items():
            setattr(config, name, value)
        made = ctypes.c_void_p()
        code = int(self.library.dflow_udf_open(ctypes.byref(config), ctypes.byref(made)))
        self.udf = made.value
        return code

    def start(self) -> Rig:
        """Open and start it."""
        assert self.open() == 0, self.error()
        assert self.wait(0) == READY, self.failure().message
        assert self.library.dflow_udf_start(self.udf) == 0
        return self

    def wait(self, state: int, seconds: float = 10.0) -> int:
        """Wait until it is in another state."""
        return int(self.library.dflow_udf_wait(self.udf, state, int(seconds * SECOND)))

    def wait_for(self, wanted: int) -> None:
        """Wait until it is in this state."""
        state = self.library.dflow_udf_get_state(self.udf)
        while state != wanted:
            state, before = self.wait(state), state
            assert state != before, f"still {state}, not {wanted}"

    def feed(self, trans_id: int, value: object = None, port: int = 0, **fields: object) -> MsgInfo:
        """Feed a value as the caller of a graph would; returns its head."""
        info = MsgInfo(**{"trans_id": trans_id, "token": root_token(trans_id), **fields})  # type: ignore[arg-type]
        self.put(encode(value, info), port)
        return info

    def put(self, msg: FlowMsg, port: int = 0) -> None:
        """Send a message to an input."""
        self.heap.put(self.ins[port], msg)

    def get(self, output: int = 0) -> FlowMsg:
        """The next message of an output."""
        msg = self.heap.get(self.outs[output])
        assert msg is not None, f"nothing came; {self.failure().message!r}"
        return msg

    def went_to(self) -> int:
        """Which of the queues of the first output has a message; takes it, when there is one."""
        queues = [self.outs[0], *self.more]
        for _ in range(2000):
            for number, queue in enumerate(queues):
                if self.heap.get(queue, 0.001) is not None:
                    return number
        raise AssertionError(f"nothing came; {self.failure().message!r}")

    def is_silent(self, output: int = 0) -> bool:
        """Whether nothing lies in an output."""
        return self.heap.table.level(self.heap.table.context, self.outs[output]) == 0

    def end(self) -> None:
        """Close the inputs and wait for the end."""
        for queue in self.ins:
            self.heap.close(queue)
        self.wait_for(FINISHED)

    def error(self) -> str:
        """Text of the last call that failed."""
        return str(self.library.dflow_udf_last_error().decode())

    def failure(self) -> seam.FailureRecord:
        """Why it failed."""
        failure = seam.FailureRecord()
        self.library.dflow_udf_get_failure(self.udf, ctypes.byref(failure))
        return failure

    def stats(self, func: int = -1) -> seam.Stats:
        """Its counters."""
        stats = seam.Stats()
        assert self.library.dflow_udf_get_stats(self.udf, func, ctypes.byref(stats)) == 0
        return stats

    def notify(self, code: int, trans_id: int, user_context_id: int, *, expired: bool = False) -> None:
        """Tell it of another node's exception."""
        raised = seam.ExceptionRecord(code, int(expired), trans_id, user_context_id)
        self.library.dflow_udf_notify_exception(ctypes.c_void_p(self.udf), b"", ctypes.byref(raised))

    def take_raised(self) -> tuple[int, int, int] | None:
        """Code, transaction and user context of an exception it raised; None if there is none."""
        raised = seam.ExceptionRecord()
        found = self.library.dflow_udf_take_exception(ctypes.c_void_p(self.udf), ctypes.byref(raised))
        return (raised.code, raised.trans_id, raised.user_context_id) if found else None

    def close(self) -> None:
        """Destroy it."""
        if self.udf is not None:
            self.library.dflow_udf_stop(self.udf)
            for queue in self.ins:  # wakes it, so that no test waits for a slice
                self.heap.close(queue)
            self.library.dflow_udf_close(self.udf)
            self.udf = None

    def _kept(self, thing: ctypes.Array[U32]) -> ctypes.Array[U32]:
        self._keep.append(thing)
        return thing

    def _array(self, kind: type, items: Sequence[ctypes.Structure]) -> tuple[object, int]:
        array = (kind * max(1, len(items)))(*items)
        self._keep.append(array)
        return array, len(items)

    def _func(self, func: FuncSetup) -> seam.Func:
        inputs, outputs = self._kept(numbers(func.inputs)), self._kept(numbers(func.outputs))
        return seam.Func(func.name.encode(), inputs, outputs, len(func.inputs), len(func.outputs), int(func.stream))

    def _output(self, queue: int) -> seam.Output:
        more = self.more if queue == self.outs[0] else []
        route = seam.RouteList(self._kept(numbers([queue, *more])), 1 + len(more), *self.spread[1:])
        self._keep.append(route)
        return seam.Output(ctypes.pointer(route), 1)


def compiled(target: Path, sources: Sequence[Path], *flags: str) -> Path:
    """A library, built from C++ sources with every warning an error."""

    def compile_one(source: Path) -> str:
        made = str(target.parent / f"{source.stem}.o")
        _run(["g++", "-Wall", "-Wextra", "-Werror", "-fPIC", *flags, "-c", str(source), "-o", made])
        return made

    with ThreadPoolExecutor(4) as pool:
        objects = list(pool.map(compile_one, sources))
    _run(["g++", "-shared", *objects, "-o", str(target), "-L", str(LIBRARY.parent), "-lflow_func", "-pthread"])
    return target


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """The first test of a run waits for compilers, which may be slow where much else goes on."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    """The library under test."""
    assert LIBRARY.exists(), f"{LIBRARY} is missing: install the plugin where there is a C++ compiler"
    found = seam.runtime(LIBRARY)
    for name in ("suspend", "recover"):
        getattr(found, f"dflow_udf_{name}").argtypes = [ctypes.c_void_p]
    return found


@pytest.fixture(scope="session")
def heap_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The transport in plain memory, built."""
    target = tmp_path_factory.mktemp("heap") / "libheap.so"
    include = f"-I{include_dir()}"
    return compiled(target, [HERE / "heap_transport.cc"], "-std=c++17", "-O1", include)


@pytest.fixture(scope="session")
def build_udfs() -> Callable[..., Path]:
    """Builds the users' functions: one include folder each way, flags as given."""

    def build(target: Path, *flags: str, sources: str = "*.cc") -> Path:
        includes = [f"-I{SDK / 'include'}", f"-I{SDK / 'include' / 'flow_func'}"]
        return compiled(target, sorted(HERE.glob(f"udfs/{sources}")), *flags, *includes)

    return build


@pytest.fixture(scope="session")
def udf_library(tmp_path_factory: pytest.TempPathFactory, build_udfs: Callable[..., Path]) -> Path:
    """The users' functions, built as samples are: C++11, the old string."""
    flags = ["-std=c++11", "-O0", "-D_GLIBCXX_USE_CXX11_ABI=0", "-ftrapv", "-fstack-protector-all"]
    return build_udfs(tmp_path_factory.mktemp("udfs") / "libudfs.so", *flags)


@pytest.fixture
def make_rig(library: ctypes.CDLL, heap_library: Path, udf_library: Path) -> Iterator[Callable[..., Rig]]:
    """Make rigs; they are closed at the end, and no block may be left."""
    heaps: list[Heap] = []
    rigs: list[Rig] = []

    def make(*funcs: tuple[object, ...] | str, limit: int = 0, **more: object) -> Rig:
        heap = Heap(heap_library, limit)
        heaps.append(heap)
        setups = [FuncSetup(func) if isinstance(func, str) else FuncSetup(*func) for func in funcs]
        options = {"library": str(udf_library).encode(), **more.pop("options", {})}  # type: ignore[dict-item]
        rigs.append(Rig(library, heap, setups, options=options, **more))  # type: ignore[arg-type]
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()
    for heap in heaps:
        for queue in range(64):
            while heap.get(queue, 0) is not None:
                pass
        left = heap.blocks
        heap.destroy()
        assert left == 0, f"{left} blocks are left"
