"""User code travels to a fresh interpreter, or says what in it cannot (BC-077)."""

from __future__ import annotations

import dataclasses
import enum
import functools
import io
import os
import socket
import subprocess
import sys
import textwrap
import threading
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from dflow_core.errors import PackagingError
from dflow_core.udf import MethodSpec, PythonFunc, fingerprint, is_importable, pack, unpack

OFFSET = 10


def module_level(x: int) -> int:
    return x + OFFSET


class WithLock:
    def __init__(self) -> None:
        self.inner = {"locks": [threading.Lock()]}


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Color(enum.Enum):
    RED = 1


def notebook(source: str) -> dict[str, object]:
    """What cells of a notebook leave: code run in a namespace called `__main__`."""
    space: dict[str, object] = {"__name__": "__main__"}
    exec(textwrap.dedent(source), space)
    return space


def run_elsewhere(package: bytes, folder: Path, root: Path, use: str = "found.target(1)") -> str:
    """What using a package prints in a fresh interpreter, in another folder."""
    (folder / "package").write_bytes(package)
    code = f"from dflow_core.udf import unpack\nfound = unpack(open('package', 'rb').read())\nprint({use})"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ----------------------------------------------------------------------------------------------------- what travels


def closure() -> Callable[[int], int]:
    base = 5
    return lambda x: x + base


def test_every_shape_of_code_travels_to_a_fresh_interpreter(tmp_path, root):
    """BC-077: function in a cell, lambda, closure, nested class, partial, staticmethod, dataclass, generator."""
    cell = notebook(
        """
        import dataclasses, functools
        LIMIT = 3
        @functools.cache
        def cached(x): return x * LIMIT
        def plain(x): return x + LIMIT
        def calling(x): return plain(x) * 2
        @dataclasses.dataclass
        class Data:
            x: int
        class Outer:
            class Nested:
                @staticmethod
                def make(x): return Data(x)
                def use(self, x): return self.make(x).x
        def gen(x):
            yield from range(x)
        """
    )
    things = {
        "cell": cell["plain"], "calling": cell["calling"], "lambda": lambda x: x + OFFSET, "closure": closure(),
        "module": module_level, "partial": functools.partial(cell["plain"]), "dataclass": cell["Data"],
        "nested": cell["Outer"].Nested().use, "generator": cell["gen"], "numpy": lambda x: int(np.sum([x, x])),
        "enum": lambda x: Color.RED.value + x, "point": lambda x: Point(x).y, "cached": cell["cached"],
    }
    use = "{k: (list(f(1)) if k == 'generator' else f(1)) for k, f in found.items()}"
    printed = run_elsewhere(pack(things), tmp_path, root, use)
    assert "Data(x=1)" in printed
    for text in (
        "'cell': 4", "'calling': 8", "'lambda': 11", "'closure': 6", "'module': 11", "'partial': 4", "'nested': 1",
        "'generator': [0]", "'numpy': 2", "'enum': 2", "'point': 0", "'cached': 3",
    ):
        assert text in printed


def test_a_script_and_the_modules_beside_it_travel_without_the_folder(tmp_path, root):
    """BC-077: function in __main__; module next to the script but not installed; modules that import each other."""
    scripts, elsewhere = tmp_path / "scripts", tmp_path / "elsewhere"
    (scripts / "kit").mkdir(parents=True)
    elsewhere.mkdir()
    (scripts / "kit" / "__init__.py").write_text("from kit import deep\nBASE = 100\n")
    (scripts / "kit" / "deep.py").write_text("import kit\ndef low(x): return x + kit.BASE\n")
    (scripts / "helper.py").write_text(
        "import kit\nfrom kit.deep import low\nclass Tool:\n    def use(self, x): return low(x)\n"
    )
    (scripts / "main.py").write_text(
        "import sys\nimport helper\nfrom dflow_core.udf import PythonFunc, pack\n"
        "class Main(helper.Tool):\n    def use(self, x): return super().use(x) + helper.kit.deep.low(0)\n"
        "open(sys.argv[1], 'wb').write(pack(PythonFunc('class', Main)))\n"
    )
    package = elsewhere / "made"
    environment = os.environ | {"PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "main.py", str(package)], check=True, timeout=60, cwd=scripts, env=environment)
    assert run_elsewhere(package.read_bytes(), elsewhere, root, "found.target().use(1)") == "201"


def test_an_edited_cell_travels_as_it_is_now():
    """BC-077: changed and re-run cell."""
    space = notebook("def f(x): return x + 1")
    first = pack(space["f"])
    exec("def f(x): return x + 2", space)
    assert (unpack(first)(1), unpack(pack(space["f"]))(1)) == (2, 3)


def test_what_can_be_imported_goes_by_name():
    assert unpack(pack(textwrap.dedent)) is textwrap.dedent
    assert unpack(pack(np.add)) is np.add
    assert len(pack(PythonFunc("class", PackagingError))) < 400


def test_packages_hold_how_the_code_is_called():
    spec = PythonFunc("class", Point, (1,), {"y": 2}, (MethodSpec("m", 2, choice_output=bool, generator=True),))
    found = unpack(pack(spec))
    assert (found.kind, found.init_args, found.init_kwargs, found.methods) == ("class", (1,), {"y": 2}, spec.methods)
    assert found.target(*found.init_args, **found.init_kwargs).y == 2


def test_what_a_decorator_wrapped_is_taken_out_again():
    wrapper = types.SimpleNamespace(__dflow_target__=textwrap.dedent)
    assert unpack(pack(PythonFunc("function", wrapper))).target is textwrap.dedent


def test_a_module_with_a_circle_in_it_travels_by_value():
    module = types.ModuleType("made_by_hand")
    exec("import sys\ndef f(x): return sys.modules is not None and me.VALUE + x\nVALUE = 7", vars(module))
    module.me = module
    sys.modules[module.__name__] = module
    try:
        package = pack(lambda x: module.f(x))
        assert not is_importable(module.f)
    finally:
        del sys.modules[module.__name__]
    assert unpack(package)(1) == 8


def test_standard_streams_travel_as_those_of_the_other_process():
    assert unpack(pack({"out": sys.stderr}))["out"] is sys.stderr


def test_nothing_stays_registered_afterwards():
    pack(module_level)
    with pytest.raises(PackagingError):
        pack(threading.Lock())
    assert cloudpickle.list_registry_pickle_by_value() == set()


def test_what_the_user_registered_stays_registered():
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        assert unpack(pack(module_level))(1) == 11
        assert cloudpickle.list_registry_pickle_by_value() == {__name__}
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def test_many_threads_pack_at_once():
    with ThreadPoolExecutor(8) as pool:
        packages = list(pool.map(lambda n: pack((lambda x: x + n, module_level)), range(40)))
    assert [unpack(package)[0](0) for package in packages] == list(range(40))


# -------------------------------------------------------------------------------------------------- what does not


def fails(obj: object) -> str:
    with pytest.raises(PackagingError) as error:
        pack(obj)
    assert "create it in the executor" in error.value.hint
    return error.value.message


def test_a_lock_in_a_closure_a_default_a_global_and_a_partial_is_named():
    lock = threading.Lock()
    space = notebook("import threading\nLOCK = threading.Lock()\ndef uses(x):\n    with LOCK: return x")
    assert "<lambda>.lock is of type _thread.lock" in fails(lambda: lock)
    assert "<lambda>.a is of type" in fails(lambda a=lock: a)
    assert "<lambda>.a is of type" in fails(lambda *, a=lock: a)
    assert "uses.LOCK is of type _thread.lock" in fails(space["uses"])
    assert "partial(argument 0) is of type" in fails(functools.partial(print, lock))
    assert "partial(end=)" in fails(functools.partial(print, end=lock))


def test_the_path_goes_through_attributes_and_containers():
    """BC-077: fails at build with the attribute path."""
    assert "WithLock.inner['locks'][0] is of type _thread.lock" in fails(WithLock())
    space = notebook(
        """
        import threading
        class Model:
            __slots__ = ("_lock",)
            def __init__(self): self._lock = threading.Lock()
        class Detector:
            model = Model()
        """
    )
    assert "Detector.model._lock is of type _thread.lock" in fails(space["Detector"])
    assert "Detector.model._lock" in fails(PythonFunc("class", space["Detector"]))
    assert "Model._lock" in fails(space["Model"]())


def test_arguments_of_a_class_are_called_as_its_parameters():
    bad = threading.Lock()
    assert "Point(x=...) is of type" in fails(PythonFunc("class", Point, (bad,)))
    assert "Point(y=...)[0] is of type" in fails(PythonFunc("class", Point, (1,), {"y": [bad]}))
    assert "Point(0=...)".replace("0", "x") in fails(PythonFunc("class", Point, (WithLock(),)))
    method = MethodSpec("m", choice_output=lambda item: bad)
    assert "Point.m choice_output.bad is of type" in fails(PythonFunc("class", Point, methods=(method,)))


def test_files_sockets_and_generators_do_not_travel(tmp_path):
    (tmp_path / "f").write_text("x")
    with open(tmp_path / "f") as file, socket.socket() as sock, open(tmp_path / "f", "rb") as binary:
        assert "_io.TextIOWrapper" in fails(lambda: file)
        assert "socket.socket" in fails({"a": sock})
        assert "_io.BufferedReader" in fails([binary])
    assert "generator" in fails(x for x in "ab")
    assert unpack(pack(io.BytesIO(b"x"))).read() == b"x"


def test_an_object_that_refuses_is_the_culprit_itself():
    class Refuses:
        def __init__(self) -> None:
            self.fine = 1

        def __reduce__(self):
            raise RuntimeError("not me")

    message = fails({"a": [Refuses()]})
    assert "dict['a'][0] is of type" in message
    assert "not me" in message


def test_the_name_can_be_given():
    with pytest.raises(PackagingError, match=r"node det\['a'\] is of type"):
        pack({"a": threading.Lock()}, "node det")


def test_methods_properties_and_modules_are_looked_through():
    lock = threading.Lock()

    class Holder:
        @property
        def prop(self):
            return lock

        @staticmethod
        def stat():
            return lock

    assert "Holder.prop.lock" in fails(Holder) or "Holder.stat.lock" in fails(Holder)
    assert ".inner['locks'][0]" in fails(types.MethodType(lambda self: self, WithLock()))
    module = types.ModuleType("holds_a_lock")
    module.LOCK = lock
    sys.modules[module.__name__] = module
    try:
        assert "module.LOCK is of type" in fails(lambda: module)
    finally:
        del sys.modules[module.__name__]


def test_a_set_and_a_key_can_be_to_blame():
    class Key:
        def __reduce__(self):
            raise RuntimeError

    assert "set{} is of type" in fails({Key()})
    assert "Key" in fails({Key(): 1})


# ----------------------------------------------------------------------------------------------------- broken packages


def test_bytes_that_are_no_package_are_refused():
    for data in (b"", b"PK\x03\x04", b"dflow-code 1 x\n", b"\xff" * 300):
        with pytest.raises(PackagingError, match="expected packed user code"):
            unpack(data)


def test_code_of_another_python_is_refused_with_both_versions():
    version = f"{sys.version_info.major}.{sys.version_info.minor}".encode()
    package = pack(lambda x: x).replace(b" " + version + b" code", b" 3.7 code", 1)
    with pytest.raises(PackagingError, match=r"packed by cpython 3\.7, this is cpython.*\n.*env="):
        unpack(package)


def test_packages_without_code_are_taken_from_any_python():
    version = f"{sys.version_info.major}.{sys.version_info.minor}".encode()
    package = pack({"a": 1}).replace(b" " + version + b" plain", b" 3.7 plain", 1)
    assert b" 3.7 plain\n" in package
    assert unpack(package) == {"a": 1}


def test_cut_packages_are_refused():
    package = pack(module_level)
    for end in range(len(package) - 1, 40, -17):
        with pytest.raises(PackagingError):
            unpack(package[:end])


def test_a_missing_module_is_named():
    module = types.ModuleType("short_lived")
    module.__file__ = os.path.join(os.path.dirname(os.__file__), "short_lived.py")
    exec("class Thing: pass", vars(module))
    module.Thing.__module__ = "short_lived"
    sys.modules["short_lived"] = module
    try:
        package = pack(module.Thing)
        assert is_importable(module.Thing)
    finally:
        del sys.modules["short_lived"]
    with pytest.raises(PackagingError, match=r"short_lived.*\n.*install it"):
        unpack(package)


# ----------------------------------------------------------------------------------------------------- fingerprints


def test_a_fingerprint_is_the_same_in_every_process_and_changes_with_the_code(root):
    code = (
        "from dflow_core.udf import fingerprint\n"
        "import enum, functools\n"
        "class E(enum.Enum):\n    A = 1\n"
        "class C:\n    'doc'\n    k = frozenset({'a', 'b', 'c'})\n"
        "    def f(self, x): return x in {'p', 'q', 'r'}, E.A, {1: 'x'}\n"
        "    @property\n    def p(self): return self\n"
        "def g(x, y=(1, 2.5)): return [lambda: x, C]\n"
        "print(fingerprint((C, g, functools.partial(g, 1), C(), {'s', 't'})))"
    )
    moved, changed = "# moved down\n\n" + code.replace("'doc'", "'other doc'"), code.replace("2.5", "3")
    printed = set()
    for seed, edited in (("1", code), ("2", moved), ("3", changed)):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", edited], capture_output=True, text=True, timeout=60, check=True, env=environment
        )
        printed.add(done.stdout.strip())
    assert len(printed) == 2


def variants() -> list[object]:
    captured = 3
    return [
        lambda x: x, lambda x: x + 1, lambda x: x + 2, lambda x, y=1: x, lambda x, y=2: x, lambda x: captured,
        lambda x: OFFSET, lambda x: len(x), np.arange(3), np.arange(4), np.arange(3.0), np.array([None]), {1}, {2},
        [1, 2], (1, 2), [2, 1], {"a": 1}, {"a": 2}, Point(1), Point(2), Color.RED, len, "len", b"len",
        1, 1.0, True, None, types.SimpleNamespace(a=1), functools.partial(len), [].append, "abc".upper, "abd".upper,
        sys, os, Point, WithLock,
    ]


def test_different_things_have_different_fingerprints_and_equal_ones_the_same():
    first, second = [fingerprint(v) for v in variants()], [fingerprint(v) for v in variants()]
    assert len(set(first)) == len(first)
    assert first == second


def test_values_in_globals_and_closures_count():
    space = notebook("N = 1\ndef f(x): return x + N")
    before = fingerprint(space["f"])
    space["N"] = 2
    assert fingerprint(space["f"]) != before
    space["N"] = 1
    assert fingerprint(space["f"]) == before


def test_circles_end():
    space = notebook("def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n != 0 and even(n - 1)")
    assert fingerprint(space["even"]) != fingerprint(space["odd"])
    circle: list[object] = []
    circle.append(circle)
    assert fingerprint(circle) == fingerprint(circle)


def test_what_cannot_be_pickled_has_a_fingerprint_of_its_type():
    assert fingerprint(threading.Lock()) == fingerprint(threading.Lock())


def test_a_variable_that_is_not_set_yet_does_not_hurt():
    def outer() -> Callable[[], object]:
        def inner() -> object:
            return later

        made = fingerprint(inner)
        later = 1
        assert fingerprint(inner) != made
        return inner

    assert outer()() == 1


# ----------------------------------------------------------------------------------------------------- importable


def test_installed_and_standard_modules_can_be_imported_elsewhere_and_tests_cannot():
    assert is_importable(textwrap.dedent)
    assert is_importable(pytest.raises)
    assert is_importable(PackagingError)
    assert not is_importable(lambda: 0)
    assert not is_importable(3)
    assert not is_importable(notebook("def f(): ...")["f"])


def test_folders_of_path_files_and_of_the_environment_count(tmp_path, monkeypatch):
    (tmp_path / "added").mkdir()
    (tmp_path / "added" / "by_pth.py").write_text("def f(): ...")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "x.pth").write_text(f"# comment\nimport os\n\n{tmp_path / 'added'}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "added"))
    import by_pth

    try:
        assert not is_importable(by_pth.f)
        monkeypatch.setattr("site.getsitepackages", lambda: [str(tmp_path / "site"), str(tmp_path / "missing")])
        assert is_importable(by_pth.f)
        monkeypatch.undo()
        assert not is_importable(by_pth.f)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "added"))
        assert is_importable(by_pth.f)
        monkeypatch.undo()
    finally:
        del sys.modules["by_pth"]


def test_editable_installs_count(monkeypatch, tmp_path):
    class Finder:
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            return name == "editable_thing" or None

    Finder.__module__ = "__editable___thing_finder"
    module = types.ModuleType("editable_thing")
    module.__file__ = str(tmp_path / "editable_thing.py")
    exec("def f(): ...", vars(module))
    module.f.__module__ = "editable_thing"
    sys.modules["editable_thing"] = module
    try:
        assert not is_importable(module.f)
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
        assert is_importable(module.f)
        monkeypatch.undo()
    finally:
        del sys.modules["editable_thing"]
