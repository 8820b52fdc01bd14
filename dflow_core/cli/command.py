"""What every command has in common: `--json`, `--debug`, exit codes, and errors without a traceback."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Concatenate, ParamSpec

import click

from dflow_core.cli.output import Output
from dflow_core.cli.services import Services
from dflow_core.errors import DflowError, GraphError, OptionError

P = ParamSpec("P")

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class Refused(click.ClickException):
    """The command line names something that is not there; exit code 2."""

    exit_code = USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def command(
    name: str, *, passes_on: bool = False
) -> Callable[[Callable[Concatenate[Services, Output, P], int]], click.Command]:
    """Turn a function into a command.

    The function is given the services and the output, then its options; it returns the exit code.

    Args:
        name: Name of the command.
        passes_on: Whether options it does not know are taken as arguments.
    """
    context = {"ignore_unknown_options": passes_on}

    def wrap(func: Callable[Concatenate[Services, Output, P], int]) -> click.Command:
        @click.pass_context
        def run(ctx: click.Context, /, *args: P.args, **kwargs: P.kwargs) -> None:
            output = Output(bool(kwargs.pop("as_json")))
            debug = bool(kwargs.pop("debug"))
            services = ctx.find_object(Services) or Services()
            ctx.exit(guarded(functools.partial(func, services, output, *args, **kwargs), output, debug))

        # Options below `@command` have left their parameters on the function.
        named = functools.update_wrapper(run, func)
        named = click.option("--debug", is_flag=True, help="Show tracebacks.")(named)
        named = click.option("--json", "as_json", is_flag=True, help="Print one JSON document, no tables.")(named)
        return click.command(name, help=func.__doc__, context_settings=context)(named)

    return wrap


def settings(func: Callable[P, int]) -> Callable[P, int]:
    """Give a command `-O KEY=VALUE`, as a dict `options`."""

    def parse(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
        wrong = [text for text in given if "=" not in text.strip("=")]
        if wrong:
            raise click.BadParameter(f"expected KEY=VALUE, got {wrong[0]!r}")
        return {key.strip(): value for key, _, value in (text.partition("=") for text in given)}

    text = "An option of the session, such as queue_depth=32; repeatable. `dflow config show` lists them."
    option = click.option("-O", "--option", "options", multiple=True, metavar="KEY=VALUE", callback=parse, help=text)
    return option(func)


def guarded(work: Callable[[], int], output: Output, debug: bool = False) -> int:
    """Do the work of a command; an error becomes one message and an exit code."""
    try:
        return work()
    except (click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        output.error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`head`, say) has gone; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        _tell(error, output)
        if debug:
            output.errors.print(traceback.format_exc(), markup=False)
        return _exit_code(error)


def _exit_code(error: Exception) -> int:
    return USAGE if isinstance(error, (click.ClickException, OptionError)) else FAILED


def _tell(error: Exception, output: Output) -> None:
    if output.as_json:
        output.document({"error": describe(error)})
        return
    if isinstance(error, click.ClickException):
        hint = getattr(error, "hint", "")
        output.error(error.format_message() + (f"\n  hint: {hint}" if hint else ""))
    elif isinstance(error, DflowError):
        output.error(str(error))
    else:
        output.error(f"{type(error).__name__}: {error}\n  hint: run it again with --debug to see where")


def describe(error: Exception) -> Mapping[str, object]:
    """An error as data."""
    found: dict[str, object] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, DflowError):
        found |= {"message": error.message, "node": error.node, "instance": error.instance}
        found |= {"trans_id": error.trans_id, "hint": error.hint}
    if isinstance(error, GraphError):
        found["faults"] = error.faults
    if isinstance(error, click.ClickException):
        found |= {"message": error.format_message(), "hint": getattr(error, "hint", "")}
    return found
