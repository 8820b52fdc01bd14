"""What every command has in common."""

from __future__ import annotations

import json

import click
import pytest

from dflow_core.cli import main
from dflow_core.cli.app import COMMANDS, app, run
from dflow_core.cli.command import Refused, guarded
from dflow_core.cli.output import Output
from dflow_core.errors import Fault, GraphError, NodeError, OptionError


def raising(error: BaseException):
    def work() -> int:
        raise error

    return work


def test_a_command_that_works_gives_its_own_exit_code(capsys):
    assert guarded(lambda: 1, Output()) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NodeError("bad", node="n"), 1),
        (GraphError("g", [Fault("cycle", "n", "", "goes in a circle")]), 1),
        (OptionError("unknown option 'x'"), 2),
        (Refused("no such file"), 2),
        (RuntimeError("a bug"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_give_exit_codes(error, code, capsys):
    assert guarded(raising(error), Output()) == code
    assert "Traceback" not in capsys.readouterr().err


def test_an_error_is_told_with_its_hint_and_without_a_traceback(capsys):
    guarded(raising(OptionError("unknown option 'x'", hint="did you mean 'y'?")), Output())
    err = capsys.readouterr().err
    assert "error: unknown option 'x'" in err and "hint: did you mean 'y'?" in err


def test_debug_shows_the_traceback(capsys):
    guarded(raising(RuntimeError("a bug")), Output(), debug=True)
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_unforeseen_error_says_how_to_see_more(capsys):
    guarded(raising(RuntimeError("a [bug]")), Output())
    assert "RuntimeError: a [bug]" in capsys.readouterr().err


def test_errors_are_documents_when_json_is_asked_for(capsys):
    fault = Fault("cycle", "n", "input 0", "goes in a circle")
    assert guarded(raising(GraphError("g", [fault])), Output(as_json=True)) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["type"] == "GraphError"
    assert error["faults"][0]["node"] == "n"


def test_node_errors_as_documents_say_where(capsys):
    guarded(raising(NodeError("bad", node="n", instance=2, trans_id=7, hint="h")), Output(as_json=True))
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["node"], error["instance"], error["trans_id"], error["hint"]) == ("n", 2, 7, "h")


def test_refusals_as_documents_hold_their_hint(capsys):
    guarded(raising(Refused("no", "yes")), Output(as_json=True))
    assert json.loads(capsys.readouterr().out)["error"] == {"type": "Refused", "message": "no", "hint": "yes"}


def test_click_may_leave_early():
    with pytest.raises(click.exceptions.Exit):
        guarded(raising(click.exceptions.Exit(0)), Output())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists_explains_itself_and_has_json(name):
    context = click.Context(app)
    found = app.get_command(context, name)
    assert found is not None and found.name == name and found.help
    leaves = [found] if not isinstance(found, click.Group) else list(found.commands.values())
    for leaf in leaves:
        assert {"--json", "--debug"} <= {opt for param in leaf.params for opt in param.opts}


@pytest.mark.parametrize("arguments", [["nope"], ["plugins", "--nope"], ["inspect"], ["config", "show", "-O", "x"]])
def test_wrong_usage_gives_exit_code_2(arguments, capsys):
    assert run(arguments) == 2
    assert "Error:" in capsys.readouterr().err


def test_help_and_version_give_exit_code_0(capsys):
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)
    assert run(["--version"]) == 0


def test_without_its_libraries_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(main, "NEEDED", ("click", "no_such_library"))
    assert main.main() == 2
    assert capsys.readouterr().err.strip().endswith("needs no_such_library: pip install 'dflow-core[cli]'")
