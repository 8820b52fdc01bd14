"""`dflow infer`: from files to files, and on where it stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dflow_core.cli.app import app
from dflow_core.testing.waiting import wait_until
from dflow_offline_inference.commands.folder import ResultFolder

pytestmark = pytest.mark.timeout(120)
PICTURE = (1, 3, 32, 32)


@pytest.fixture
def infer(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command over `conv_small.onnx`, from `in` to `out`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*more: str, source: str = "in", model: str = "conv_small.onnx") -> Result:
        words = ["infer", "--model", str(models / model), "--input", source, "--output", "out", *more]
        return CliRunner().invoke(app, words, catch_exceptions=False)

    return run


@pytest.fixture
def pictures(tmp_path: Path) -> Callable[[Sequence[str]], None]:
    """Makes files of pictures in `in`."""
    def make(names: Sequence[str], shape: Sequence[int] = PICTURE) -> None:
        for number, name in enumerate(names):
            file = tmp_path / "in" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, np.full(shape, number / 10, np.float32))

    return make


def results(folder: Path = Path("out")) -> dict[str, Path]:
    return {str(file.relative_to(folder)): file for file in sorted(folder.rglob("*")) if file.is_file()}


def test_a_file_for_each_file_also_in_folders_below(infer, pictures) -> None:
    pictures(["a.npy", "b.npy", "more/c.npy", ".hidden/d.npy"])
    done = infer("--batch", "2", "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["total"], summary["done"], summary["failed"], summary["finished_before"]) == (3, 3, 0, 0)
    assert list(results()) == [".dflow-infer.json", "a.npy.npz", "b.npy.npz", "more/c.npy.npz"]
    with np.load("out/a.npy.npz") as kept:
        assert kept.files == ["probs"] and kept["probs"].shape == (1, 10)


def test_it_goes_on_where_it_stopped(infer, pictures) -> None:
    pictures(["a.npy", "b.npy"])
    assert "2 items: 2 done, 0 failed" in infer().output
    before = os.stat("out/a.npy.npz").st_mtime_ns
    pictures(["a.npy", "b.npy", "c.npy"])
    assert "3 items: 1 done, 0 failed, 2 finished before" in infer().output
    assert os.stat("out/a.npy.npz").st_mtime_ns == before
    assert "3 items: 3 done" in infer("--restart").output
    assert os.stat("out/a.npy.npz").st_mtime_ns != before


def test_half_written_files_never_count(infer, pictures, tmp_path: Path) -> None:
    pictures(["a.npy"])
    (tmp_path / "out").mkdir()
    half = tmp_path / "out" / ".tmp-123-abcdef"
    half.write_bytes(b"PK half a result")
    assert "1 item: 1 done" in infer().output
    assert not half.exists()


def test_a_run_that_is_killed_is_gone_on_with(infer, pictures, models: Path, tmp_path: Path) -> None:
    """Whatever is there with the name of a result is whole."""
    pictures([f"{n:03}.npy" for n in range(150)])
    command = [sys.executable, "-m", "dflow_core.cli.main", "infer", "--model", str(models / "conv_small.onnx"),
               "--input", "in", "--output", "out"]
    for number in (signal.SIGKILL, signal.SIGINT):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        began = len(list((tmp_path / "out").glob("*.npz")))
        # also a machine with much else to do starts an interpreter in this time
        wait_until(lambda began=began: len(list((tmp_path / "out").glob("*.npz"))) >= began + 5, limit=40.0)
        process.send_signal(number)
        assert process.wait(30) == (-9 if number == signal.SIGKILL else 130)
    found = list((tmp_path / "out").glob("*.npz"))
    assert 10 <= len(found) < 150
    for file in found:
        with np.load(file) as kept:
            assert kept["probs"].shape == (1, 10)
    summary = json.loads(infer("--json").stdout)
    assert (summary["finished_before"], summary["done"]) == (len(found), 150 - len(found))
    assert not list((tmp_path / "out").glob(".tmp-*"))


def test_two_runs_do_not_write_into_one_folder(infer, pictures) -> None:
    """The second would take the first one's half-written files for leftovers, and its list of failures for its own."""
    pictures(["a.npy"])
    with ResultFolder(Path("out"), {"model": "", "pre": "", "post": ""}) as first:
        half = Path("out/.tmp-1-ab")
        half.write_bytes(b"of the first")
        done = infer()
        assert done.exit_code == 2 and "another run is writing into it" in done.output
        assert half.exists()
        first.keep("x", {"ok": True})
    done = infer("--restart")
    assert done.exit_code == 0 and not half.exists(), "whoever ended, however, is not waited for"


@pytest.mark.parametrize("source", ["in", "in/**/*.np?"])
def test_results_below_the_inputs_are_no_inputs(infer, pictures, source: str) -> None:
    pictures(["a.npy", "more/b.npy"])
    for told in ("2 items: 2 done", "2 items: 0 done, 0 failed, 2 finished before"):
        done = infer("--output", "in/out", source=source)
        assert done.exit_code == 0 and told in done.output, done.output
    done = infer("--output", "in", source="in")
    assert done.exit_code == 2 and "that is where the items are" in done.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_fails_alone(infer, pictures) -> None:
    pictures(["a.npy", "b.npy"])
    Path("in/a.npy").chmod(0)
    done = infer()
    assert done.exit_code == 1 and "a.npy: PermissionError" in done.output and "1 done, 1 failed" in done.output


def test_items_that_go_away_or_hold_nothing_useful_fail_alone(infer, pictures, tmp_path: Path) -> None:
    """Each way an item can be unreadable is one failed item with its cause."""
    pictures(["a.npy"])
    Path("in/empty.npy").write_bytes(b"")
    np.save("in/objects.npy", np.array([{}], object), allow_pickle=True)
    np.savez("in/two.npz", first=np.zeros(PICTURE, np.float32), second=np.zeros(PICTURE, np.float32))
    np.savez("in/none.npz")
    Path("in/dangling.npy").symlink_to(tmp_path / "nowhere")
    done = infer("--json")
    assert done.exit_code == 1
    summary = json.loads(done.stdout)
    assert (summary["total"], summary["done"]) == (5, 1), "what is no file is no item"
    assert {failure["item"]: failure["error"] for failure in summary["failures"]} == {
        "empty.npy": "EOFError", "none.npz": "TensorError", "objects.npy": "ValueError", "two.npz": "TensorError",
    }


def test_what_fails_is_listed_with_its_cause(infer, pictures) -> None:
    pictures(["a.npy", "c.npy"])
    pictures(["b.npy"], (1, 3, 31, 32))
    Path("in/d.npy").write_bytes(b"not an array")
    done = infer("--batch", "2")
    assert done.exit_code == 1 and "4 items: 2 done, 2 failed" in done.output
    listed = {line["item"]: line for line in map(json.loads, Path("out/failed.jsonl").read_text().splitlines())}
    assert set(listed) == {"b.npy", "d.npy"}
    assert listed["b.npy"]["error"] == "TensorError" and "shape differs" in listed["b.npy"]["message"]
    pictures(["b.npy", "d.npy"])
    assert infer().exit_code == 0
    assert "out/failed.jsonl" not in map(str, Path("out").iterdir()), "nothing is wrong any more"


def test_another_model_does_not_go_on_in_the_same_folder(infer, pictures) -> None:
    pictures(["a.npy"], (1, 3, 128, 128))
    assert infer(model="conv_medium.onnx").exit_code == 0
    done = infer()
    assert done.exit_code == 2 and "holds results of another model" in done.output and "--restart" in done.output


def test_functions_of_the_users_before_and_behind(infer, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text(str(number))
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def load(path):\n"
        "    return np.full((1, 3, 32, 32), float(path.read_text()), np.float32)\n"
        "def best(result):\n"
        "    return {'item': result.context, 'best': result['probs'].argmax(axis=1)}\n"
    )
    done = infer("--pre", "mine:load", "--post", "mine.py:best")
    assert done.exit_code == 0, done.output
    assert json.loads(Path("out/1.txt.json").read_text())["item"] == "1.txt"
    assert "3 finished before" in infer("--pre", "mine:load", "--post", "mine.py:best").output
    changed = infer("--pre", "mine:load")
    assert changed.exit_code == 2 and "another post" in changed.output


def test_rows_of_an_archive_and_lines_of_a_file(infer, tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", image=np.zeros((12, 3, 32, 32), np.float32))
    assert "12 items: 12 done" in infer("--batch", "4", source="all.npz").output
    assert "all-03.npz" in results()
    (tmp_path / "lines.jsonl").write_text(
        json.dumps({"id": "one", "X1": [1, 2, 3], "X2": [1, 1, 1]}) + "\n\n" + json.dumps({"X1": [1], "X2": [1]}) + "\n"
    )
    done = infer("--restart", source="lines.jsonl", model="add_float.onnx")
    assert done.exit_code == 1 and "lines-3: TensorError" in done.output
    with np.load("out/one.npz") as kept:
        assert kept["Y"].tolist() == [2, 3, 4]


def test_a_pattern_and_priorities(infer, pictures, tmp_path: Path) -> None:
    pictures(["a.npy", "b.npy", "x.npy"])
    (tmp_path / "in" / "notes.txt").write_text("not an array")
    (tmp_path / "watch.py").write_text(
        "def note(result):\n"
        "    with open('order', 'a') as file:\n"
        "        file.write(result.context[0])\n"
        "    return {'ok': True}\n"
    )
    done = infer("--post", "watch:note", "--priority", "x*=5", "--priority", "b*=1", source="in/*.npy")
    assert done.exit_code == 0 and Path("order").read_text() == "xba"


def test_workers_in_processes(infer, pictures) -> None:
    pictures(["a.npy", "b.npy"])
    assert "2 items: 2 done" in infer("--workers", "process", "--instances", "2").output


@pytest.mark.parametrize(
    ("words", "source", "text"),
    [
        ((), "nowhere", "no file found"),
        ((), "texts", "hold no arrays"),
        (("--pre", "nothing"), "in", "expected module:function"),
        (("--pre", "no_such_module:f"), "in", "no module 'no_such_module'"),
        (("--pre", "json:nothing"), "in", "has no 'nothing'"),
        (("--post", "json:__name__"), "in", "not a function"),
        (("--priority", "high"), "in", "expected a number"),
        (("--engine", "CPUU"), "in", "CPUU"),
        (("--batch", "0"), "in", "batch"),
        ((), "broken.npz", "cannot be read"),
        ((), "uneven.npz", "same number of rows"),
        ((), "broken.jsonl", "broken.jsonl:1: no JSON"),
        ((), "list.jsonl", "expected an object"),
        ((), "outside.jsonl", "not a relative path"),
        ((), "twice.jsonl", "also that of line 1"),
    ],
)
def test_a_wrong_command_line_starts_nothing(infer, pictures, tmp_path: Path, words, source: str, text: str) -> None:
    pictures(["a.npy"])
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("")
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "uneven.npz", a=np.zeros(2), b=np.zeros(3))
    lines = {"broken": "{", "list": "[1]", "outside": '{"id": "../x"}', "twice": '{"id": 1}\n{"id": 1}'}
    for name, content in lines.items():
        (tmp_path / f"{name}.jsonl").write_text(content + "\n")
    done = infer(*words, source=source)
    assert done.exit_code in (1, 2) and text in done.output, done.output
    assert not Path("out").exists()


def test_a_model_that_is_not_there(infer, pictures) -> None:
    pictures(["a.npy"])
    done = infer(model="none.onnx")
    assert done.exit_code == 2 and "no such file" in done.output


def test_what_post_returns_must_be_arrays_or_json(infer, pictures, tmp_path: Path) -> None:
    pictures(["a.npy"])
    (tmp_path / "odd.py").write_text("def f(result):\n    return {'x': object()}\n")
    done = infer("--post", "odd:f")
    assert done.exit_code == 1 and "neither arrays nor JSON" in done.output
    assert list(results()) == [".dflow-infer.json", "failed.jsonl"]


def test_the_bar_shows_items_rate_and_time_left(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    from dflow_offline_inference.commands.progress import progress_bar

    with progress_bar(10, 4, shown=True) as tick:
        for failed in (0, 0, 1):
            tick(failed)
    told = capsys.readouterr().err
    assert "7/10" in told and "/s" in told and "1 failed" in told
    with progress_bar(10, 4, shown=False) as tick:
        tick(0)
    assert capsys.readouterr().err == ""
