"""`dflow npu`: devices, self-test, programs on the emulator."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from dflow_pne_npu.commands.npu import COMMAND
from dflow_pne_npu.selftest import SelfTest


def test_the_self_test_passes_and_says_what_it_did(emulator, compiled_once) -> None:
    steps = list(SelfTest().run())
    assert [step.name for step in steps if not step.ok] == []
    assert [step.name for step in steps] == ["system", "library", "devices", "copies", "atc", "fixed sizes", "gears",
                                             "open sizes"]
    assert "1 of Ascend310P3" in steps[2].text and all("right answer" in step.text for step in steps[5:])


@pytest.mark.parametrize(
    ("fault", "failed"),
    [("aclrtMemcpyAsync code=107000", "copies"), ("aclmdlExecuteAsync code=507015", "fixed sizes"),
     ("aclrtSetDevice code=507033", "devices")],
)
def test_the_first_step_that_fails_is_the_last(emulator, compiled_once, fault: str, failed: str) -> None:
    emulator.let_fail(fault)
    result = CliRunner().invoke(COMMAND, ["selftest"])
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].startswith((f"FAILED  {failed}", "  hint:"))
    assert fault.split("=")[1] in result.output


def test_devices_are_listed(emulator) -> None:
    result = CliRunner().invoke(COMMAND, ["devices"])
    assert (result.exit_code, result.output) == (0, "npu:0  Ascend310P3  16384 of 16384 MiB free\n")


def test_a_program_runs_on_the_emulator() -> None:
    text = "from dflow_pne_npu.bindings import Acl; print(Acl().soc_name())"
    command = [sys.executable, "-c", "from dflow_core.cli.main import main; main()", "npu", "emulate", "--"]
    done = subprocess.run([*command, sys.executable, "-c", text], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, "Ascend310P3\n"), done.stderr


def test_a_program_that_is_not_there() -> None:
    result = CliRunner().invoke(COMMAND, ["emulate", "--", "no-such-program"])
    assert result.exit_code == 1 and "there is no program 'no-such-program'" in result.output
