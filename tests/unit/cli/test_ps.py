"""`dflow ps` and `dflow stacks` over graphs that only answer."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from click.testing import CliRunner

from dflow_core.cli.app import app
from dflow_core.cli.services import Services
from dflow_core.deploy import Address

GOOD, HUNG = Address(11, 1000, 0), Address(12, 1000, 0)


def answer(calls: int, status: str = "complete") -> Mapping[str, object]:
    node = {
        "node": "b", "instance": 0, "pid": 21, "state": "running", "calls": calls, "failed": 1, "busy": 3.0,
        "blocked": 1.0, "waiting": 4.0, "current": [7, 0.5], "version": 4,
    }
    edge = {
        "name": "a:0->b:0", "depth": 4, "level": 2, "sent": 10 * calls, "delivered": 5, "dropped": 2, "failed": 0,
        "oldest_age": 0.25, "blocked": 1.5, "waiting": 0.0,
    }
    total = {"fed": 9, "delivered": 5, "failed": 1, "dropped": 2}
    return {
        "graph": "g", "pid": 11, "transactions": total, "in_flight": 1, "oldest": 7, "nodes": [node], "edges": [edge],
        "bytes_in_use": 2048, "status": status,
    }


def call(answers: list[list[tuple[Address, Mapping[str, object]]]], *arguments: str) -> tuple[int, str]:
    """Exit code and what was printed; each list is what the graphs say when asked once more."""
    asked: list[str] = []

    def ask(found: list[Address], question: str, patience: float) -> list[tuple[Address, Mapping[str, object]]]:
        asked.append(question)
        assert 0 < patience <= 30
        return [(address, said) for address, said in answers[len(asked) - 1] if address in found]

    services = Services(addresses=lambda: [address for address, _ in answers[0]], ask=ask)
    done = CliRunner().invoke(app, list(arguments), obj=services)
    return done.exit_code, done.output


def test_counters_of_nodes_and_queues_are_listed() -> None:
    code, text = call([[(GOOD, answer(3))]], "ps")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert code == 0
    assert lines[0] == (
        "graph g of process 11: 9 fed, 5 delivered, 1 failed, 2 dropped, 1 in flight, 2.0 KiB"
    )
    assert "complete" in lines
    assert "b#0 4 21 running 3 1 38% 12% 50% transaction 7 for 500.0 ms" in lines
    assert "a:0->b:0 2 of 4 30 5 2 0 250.0 ms 1.50 s 0 µs" in lines


def test_instances_that_were_given_up_are_told() -> None:
    said = {**answer(3), "notes": ["b#0: started again 3 times, given up 2 s ago: it was killed"]}
    assert "given up 2 s ago: it was killed" in " ".join(call([[(GOOD, said)]], "ps")[1].split())


def test_loss_is_told() -> None:
    assert "incomplete: lost x" in call([[(GOOD, answer(3, "incomplete: lost x"))]], "ps")[1]


def test_watching_shows_rates() -> None:
    code, text = call([[(GOOD, answer(3))], [(GOOD, answer(5))]], "ps", "--watch", "0.1", "-n", "2")
    assert code == 0
    rated = next(line for line in text.splitlines() if "(" in line and "b#0" in line)
    assert 1 < float(rated.partition("(")[2].partition("/s")[0]) <= 20


def test_one_that_does_not_answer_is_a_line_and_an_exit_code() -> None:
    code, text = call([[(GOOD, answer(3)), (HUNG, {"error": "process 12 is stopped: no answer within 2 s"})]], "ps")
    assert code == 1
    assert "process 12 is stopped" in text and "b#0" in text


@pytest.mark.parametrize("command", ["ps", "stacks"])
def test_no_graph_is_no_error(command: str) -> None:
    assert call([[]], command) == (0, "no graph runs\n")


def test_json_holds_what_graphs_say() -> None:
    code, text = call([[(GOOD, answer(3))]], "ps", "--json")
    assert code == 0 and '"bytes_in_use": 2048' in text and text.lstrip().startswith("{")


def test_stacks_of_each_process_are_shown() -> None:
    said = {"graph": "g", "pid": 11, "stacks": {"application": "File x\n", "b": "File y"}}
    code, text = call([[(GOOD, said)]], "stacks", "11")
    assert (code, text.splitlines()) == (
        0, ["graph g of process 11", "--- application ---", "File x", "--- b ---", "File y"]
    )


def test_process_without_a_graph_is_named() -> None:
    code, text = call([[(GOOD, {})]], "stacks", "77")
    assert code == 2 and "process 77 runs no graph" in text
