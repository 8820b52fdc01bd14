"""The scheduler's decisions, against a model of them: nothing starves, no slot is lost, no limit is passed."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dflow_offline_inference.requests import Request, State
from dflow_offline_inference.scheduler import Admission, Limits

MEMORY = 100


def request(number: int, *, memory: int = 0, rank: float | None = None, chain: object = None, model: int = 0
            ) -> Request:
    return Request(number, 0.0, model, (), memory=memory, rank=number if rank is None else rank, chain=chain)


def handed(admission: Admission) -> list[Request]:
    """Who may run now, in order."""
    admission.choose()
    found = list(admission.leaving)
    admission.leaving.clear()
    for one in found:
        one.change(State.READY, 0.0)
    return found


def finish(admission: Admission, one: Request, state: State = State.DONE) -> list[Request]:
    if one.state is State.READY:
        one.change(State.RUNNING, 0.0)
    one.end(state, 0.0)
    return [hopeless for hopeless, _ in admission.release([one])]


class SchedulerMachine(RuleBasedStateMachine):
    """Random requests, ends and cancels over two or three models on two devices."""

    @initialize(slots=st.lists(st.integers(1, 3), min_size=2, max_size=3))
    def begin(self, slots: list[int]) -> None:
        self.limits = [Limits(f"m{n}", f"cpu:{n % 2}", count) for n, count in enumerate(slots)]
        self.admission = Admission(self.limits, {"cpu:0": MEMORY})
        self.all: dict[int, Request] = {}
        self.after: dict[int, list[int]] = {}
        self.going: dict[int, Request] = {}
        self.ends: dict[int, int] = {}

    def _next(self) -> None:
        for one in handed(self.admission):
            assert one.id not in self.going
            assert all(self.all[n].state is State.DONE for n in self.after[one.id])
            if one.chain is not None:
                earlier = [r for r in self.all.values() if r.chain == one.chain and r.id < one.id]
                assert all(r.ended for r in earlier), "a chain is run in order"
            self.going[one.id] = one

    def _end(self, one: Request) -> None:
        assert one.ended
        self.ends[one.id] = self.ends.get(one.id, 0) + 1

    def _doom(self, hopeless: list[Request]) -> None:
        todo = list(hopeless)
        while todo:
            one = todo.pop()
            before = one.end(State.ERROR, 0.0)
            if before is not None:
                self._end(one)
                todo += [other for other, _ in self.admission.ended(one, before)]

    @rule(model=st.integers(0, 2), priority=st.integers(-2, 2), memory=st.integers(0, MEMORY),
          after=st.sets(st.integers(1, 30), max_size=3), chain=st.sampled_from([None, None, "a", "b"]))
    def submit(self, model: int, priority: int, memory: int, after: set[int], chain: str | None) -> None:
        number = len(self.all) + 1
        one = request(number, memory=memory, rank=number - 5.0 * priority, chain=chain, model=model % len(self.limits))
        others = [self.all[n] for n in after if n in self.all]
        failed = self.admission.add(one, others)
        self.all[number] = one
        self.after[number] = [other.id for other in others]
        if failed is not None:
            assert failed.state in (State.ERROR, State.CANCELLED)
            one.end(State.ERROR, 0.0)
            self._end(one)
        self._next()

    @precondition(lambda self: self.going)
    @rule(pick=st.integers(0, 100), ok=st.booleans())
    def complete(self, pick: int, ok: bool) -> None:
        one = self.going.pop(list(self.going)[pick % len(self.going)])
        hopeless = finish(self.admission, one, State.DONE if ok else State.ERROR)
        self._end(one)
        self._doom(hopeless)
        self._next()

    @precondition(lambda self: self.all)
    @rule(pick=st.integers(1, 100))
    def cancel(self, pick: int) -> None:
        one = self.all[1 + pick % len(self.all)]
        before = one.end(State.CANCELLED, 0.0)
        if before is None:
            return
        self._end(one)
        self.going.pop(one.id, None)
        self._doom([other for other, _ in self.admission.ended(one, before)])
        self._next()

    @rule()
    def recount(self) -> None:
        before = (self.admission.waiting, self.admission.memory_used("cpu:0"))
        self.admission.recount()
        assert (self.admission.waiting, self.admission.memory_used("cpu:0")) == before

    @invariant()
    def limits_hold(self) -> None:
        for number, limits in enumerate(self.limits):
            going = sum(one.model == number for one in self.going.values())
            assert self.admission.used(number) == going <= limits.slots
        used = sum(r.memory for r in self.going.values() if self.limits[r.model].device == "cpu:0")
        assert self.admission.memory_used("cpu:0") == used <= MEMORY

    @invariant()
    def everybody_is_somewhere(self) -> None:
        open_ = [one for one in self.all.values() if not one.ended]
        assert self.admission.waiting == len(open_) - len(self.going)
        assert all(self.ends.get(one.id, 0) == one.ended for one in self.all.values())

    @invariant()
    def no_slot_is_idle_without_a_reason(self) -> None:
        for one in self.all.values():
            if one.state is State.WAITING:
                answers = self.admission.answers(one)
                in_front = any(r.state is State.WAITING and not r.blockers and r.rank < one.rank
                               for r in self.all.values())
                assert not answers or in_front, f"request {one.id} could run: {answers}"
                assert answers.text

    def teardown(self) -> None:
        """Let everything run: then all have ended once, and all slots and memory are free."""
        while getattr(self, "going", None):
            for one in list(self.going.values()):
                del self.going[one.id]
                hopeless = finish(self.admission, one)
                self._end(one)
                self._doom(hopeless)
            self._next()
        if hasattr(self, "all"):
            assert all(one.ended for one in self.all.values())
            assert all(count == 1 for count in self.ends.values())
            assert self.admission.waiting == 0 == self.admission.memory_used("cpu:0")


SchedulerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestScheduler = SchedulerMachine.TestCase


def admission(slots: int = 2, memory: int | None = None) -> Admission:
    return Admission([Limits("m", "cpu:0", slots)], {} if memory is None else {"cpu:0": memory})


def test_the_three_answers_are_separate() -> None:
    made = admission(slots=1, memory=10)
    running = request(1, memory=8)
    made.add(running)
    assert handed(made) == [running]
    waits = request(2, memory=5)
    made.add(waits, [running])
    answers = made.answers(waits)
    assert (answers.slot, answers.memory, answers.dependencies) == (False, False, False)
    assert answers.text == (
        "waiting for a request it depends on; waiting for a slot of model 'm' (1 in use); "
        "waiting for memory on device cpu:0 (needs 5 bytes, 2 are free)"
    )
    finish(made, running)
    assert handed(made) == [waits]


def test_who_waits_for_memory_is_not_overtaken_on_its_device() -> None:
    made = Admission([Limits("a", "cpu:0", 4), Limits("b", "cpu:0", 4), Limits("c", "cpu:1", 4)], {"cpu:0": 10})
    made.add(request(1, memory=6))
    assert [one.id for one in handed(made)] == [1]
    large, small, elsewhere = request(2, memory=8), request(3, memory=1, model=1), request(4, model=2)
    for one in (large, small, elsewhere):
        made.add(one)
    assert handed(made) == [elsewhere]
    assert made.answers(large).text.startswith("waiting for memory on device cpu:0")
    finish(made, elsewhere)
    assert handed(made) == []


def test_a_request_whose_dependency_failed_before_is_not_taken() -> None:
    made = admission()
    bad = request(1)
    made.add(bad)
    bad.end(State.CANCELLED, 0.0)
    made.ended(bad, State.WAITING)
    assert made.add(request(2), [bad]) is bad
    assert made.waiting == 0


def test_a_chain_goes_on_after_a_failure_and_forgets_itself() -> None:
    made = admission()
    first, second = request(1, chain="c"), request(2, chain="c")
    made.add(first)
    made.add(second)
    assert handed(made) == [first]
    assert finish(made, first, State.ERROR) == []
    assert handed(made) == [second]
    finish(made, second)
    assert not made._dependencies._chains and not made._dependencies._dependents


def test_a_chain_stays_in_order_when_one_in_the_middle_is_cancelled() -> None:
    made = admission()
    first, second, third = (request(number, chain="c") for number in (1, 2, 3))
    for one in (first, second, third):
        made.add(one)
    assert handed(made) == [first]
    second.end(State.CANCELLED, 0.0)
    made.ended(second, State.WAITING)
    assert handed(made) == [], "the first is still under way"
    finish(made, first)
    assert handed(made) == [third]
