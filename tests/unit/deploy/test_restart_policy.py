"""Whether and when a lost process is started again: losses on a clock of the test, and what follows on each."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from dflow_core.deploy.supervision.restart_policy import RestartPolicy, Restarts
from dflow_core.types import NodeOptions

NO = None
LOADING = None


@dataclass(frozen=True)
class Case:
    """A policy, and losses: (seconds on the clock, how long it had lived, what follows)."""

    name: str
    policy: RestartPolicy
    losses: tuple[tuple[float, float | None, float | None], ...]


CASES = [
    Case("the first loss is followed by a start at once", RestartPolicy(), ((100.0, 50.0, 0.0),)),
    Case(
        "short lives: at once, then pauses that double up to the limit", RestartPolicy(restarts=99),
        ((0.0, 0.1, 0.0), (0.1, 0.1, 0.05), (0.2, 0.1, 0.1), (0.4, 0.1, 0.2), (0.7, 0.1, 0.4), (1.2, 0.1, 0.8),
         (2.1, 0.1, 1.0), (3.2, 0.1, 1.0)),
    ),
    Case(
        "a long life ends the row of short ones", RestartPolicy(restarts=99),
        ((0.0, 0.1, 0.0), (0.1, 0.1, 0.05), (9.0, 8.0, 0.0), (9.1, 0.1, 0.05), (9.2, 0.1, 0.1)),
    ),
    Case(
        "a life as long as the longest pause is short, one beyond it is not", RestartPolicy(restarts=99),
        ((1.0, 1.0, 0.0), (2.0, 1.0, 0.05), (3.1, 1.01, 0.0)),
    ),
    Case(
        "one that does not load again counts as a short life", RestartPolicy(restarts=99),
        ((5.0, 5.0, 0.0), (5.1, LOADING, 0.05), (5.2, LOADING, 0.1)),
    ),
    Case(
        "its own pauses", RestartPolicy(restarts=99, delay=2.0, longest_delay=30.0),
        ((10.0, 10.0, 0.0), (20.0, 10.0, 2.0), (32.0, 10.0, 4.0), (46.0, 10.0, 8.0), (64.0, 10.0, 16.0),
         (90.0, 10.0, 30.0), (130.0, 31.0, 0.0)),
    ),
    Case(
        "no pauses", RestartPolicy(restarts=99, delay=0.0, longest_delay=0.0),
        ((0.1, 0.1, 0.0), (0.2, 0.1, 0.0), (0.3, LOADING, 0.0), (0.4, LOADING, 0.0), (0.5, LOADING, 0.0)),
    ),
    Case(
        "given up after as many restarts as there may be within the window", RestartPolicy(restarts=2),
        ((0.0, 9.0, 0.0), (30.0, 9.0, 0.0), (59.9, 9.0, NO)),
    ),
    Case("none at all", RestartPolicy(restarts=0), ((1000.0, 1000.0, NO),)),
    Case(
        "losses leave the window one by one", RestartPolicy(restarts=2, window=10.0),
        ((0.0, 9.0, 0.0), (6.0, 5.0, 0.0), (11.0, 5.0, 0.0), (15.9, 4.0, NO)),
    ),
    Case(
        "at the end of the window a loss still counts", RestartPolicy(restarts=1, window=10.0),
        ((0.0, 9.0, 0.0), (10.0, 9.0, NO)),
    ),
    Case(
        "just after it, it does not", RestartPolicy(restarts=1, window=10.0),
        ((0.0, 9.0, 0.0), (10.01, 9.0, 0.0)),
    ),
    Case("never", RestartPolicy("never", restarts=99), ((1.0, 1.0, NO),)),
    Case(
        "always, however often", RestartPolicy("always", restarts=0),
        tuple((60.0 + n / 100, 50.0, 0.0) for n in range(200)),
    ),
    Case(
        "always has pauses too, which stay at the limit", RestartPolicy("always", longest_delay=0.1),
        ((0.0, 0.0, 0.0), (0.1, 0.0, 0.05), *((float(n), 0.0, 0.1) for n in range(1, 300))),
    ),
    Case(
        "the last one of those that degrade is started again within the limit", RestartPolicy("degrade", restarts=1),
        ((0.0, 9.0, 0.0), (1.0, 9.0, NO)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_follows_on_each_loss(case: Case) -> None:
    restarts = Restarts(case.policy)
    assert [restarts.after_loss(now, lived) for now, lived, _ in case.losses] == [then for *_, then in case.losses]


@pytest.mark.parametrize(
    ("policy", "losses", "text"),
    [
        (RestartPolicy(restarts=2), 3, "it was started again 2 times within 60 s, and `restarts=2` allows no more"),
        (RestartPolicy(restarts=1, window=0.5), 2, "it was started again 1 time within 0.5 s, and `restarts=1` allows"),
        (RestartPolicy(restarts=0), 1, "it was not started again, and `restarts=0` allows no more"),
        (RestartPolicy("never"), 1, "it is not started again, because of `when_lost='never'`"),
    ],
)
def test_a_refusal_says_which_option_it_is_of(policy: RestartPolicy, losses: int, text: str) -> None:
    restarts = Restarts(policy)
    assert [restarts.after_loss(0.0, 5.0) for _ in range(losses)][-1] is None
    assert restarts.refusal.startswith(text)
    assert ("restart_window" in policy.advice) == (policy.when_lost != "never")


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (RestartPolicy(), "started again up to 3 times in 60 s, pauses of 0.05 to 1 s"),
        (RestartPolicy("always"), "started again however often, pauses of 0.05 to 1 s"),
        (RestartPolicy("never"), "not started again"),
        (RestartPolicy(restarts=0), "not started again (restarts=0)"),
        (RestartPolicy("always", restarts=0), "started again however often, pauses of 0.05 to 1 s"),
        (
            RestartPolicy("degrade", 1, 5.0, 0.0, 0.0),
            "left to other instances; the last one is started again up to 1 time in 5 s, no pauses",
        ),
    ],
)
def test_a_plan_says_it_in_words(policy: RestartPolicy, words: str) -> None:
    assert policy.words == words


KINDS = ("restart", "degrade", "always", "never")
MERGED = {
    ("restart", "degrade"): "restart", ("restart", "always"): "restart", ("restart", "never"): "never",
    ("degrade", "always"): "restart", ("degrade", "never"): "never", ("always", "never"): "never",
}


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations_with_replacement(KINDS, 2)))
def test_nodes_that_share_a_process_are_never_started_more_often_than_each_asked_for(one: str, other: str) -> None:
    expected = one if one == other else MERGED[one, other]
    for kinds in ((one, other), (other, one)):
        assert RestartPolicy.of([NodeOptions(when_lost=kind) for kind in kinds]).when_lost == expected


def test_a_shared_process_has_the_fewest_restarts_and_the_longest_times() -> None:
    options = [
        NodeOptions(restarts=5, restart_window=10.0, restart_delay=0.5, restart_delay_max=2.0),
        NodeOptions(restarts=2, restart_window=90.0, restart_delay=0.1, restart_delay_max=9.0),
        NodeOptions(restarts=0, when_lost="always"),
    ]
    assert RestartPolicy.of(options) == RestartPolicy("restart", 2, 90.0, 0.5, 9.0)
    assert RestartPolicy.of([NodeOptions()]) == RestartPolicy()
