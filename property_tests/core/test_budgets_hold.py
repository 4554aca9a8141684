"""A budget holds over a tree of sessions, for any fan-out and any schedule."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentrail.core.policy.budget import (
    Bound,
    Budget,
    Ledger,
    Price,
    ReservationId,
    bound_of,
    budget_left,
    release,
    reserve,
    settle,
)
from agentrail.messages import TokenUsage

BUDGETS = st.builds(
    Budget,
    max_cost_usd=st.sampled_from((0.001, 0.01, 0.1, 0.3)),
    max_total_tokens=st.sampled_from((10, 500, 5_000)),
)
PRICES = st.builds(
    Price,
    input=st.floats(0, 20),
    output=st.floats(0, 100),
    cache_read=st.none() | st.floats(0, 20),
    cache_write=st.none() | st.floats(0, 30),
)
SHARES = st.floats(0, 1)


class Tree(RuleBasedStateMachine):
    """A root, its children and theirs, each with a budget or without, who ask, use and crash as they like.

    This is how sessions share a ledger: who has one reserves in it first, then asks the next one above.
    """

    @initialize(root=BUDGETS, others=st.lists(st.tuples(st.integers(0, 5), st.none() | BUDGETS), max_size=6))
    def grow(self, root, others):
        """The root has a budget; of the others some."""
        self.ledgers: list[Ledger | None] = [Ledger(budget=root)]
        self.parents: list[int | None] = [None]
        self.out: dict[ReservationId, tuple[int, Price, int, int]] = {}
        self.asked = 0
        self.used = [TokenUsage()]
        for place, budget in others:
            self.parents.append(place % len(self.ledgers))
            self.ledgers.append(Ledger(budget=budget) if budget else None)
            self.used.append(TokenUsage())

    @rule(who=st.integers(0, 6), size=st.integers(0, 400), answer=st.integers(0, 400), price=PRICES)
    def ask(self, who, size, answer, price):
        """Somebody wants to send a request; the whole line above decides."""
        line = self._line(who % len(self.ledgers))
        self.asked += 1
        name = ReservationId(f"r{self.asked}")
        bound = bound_of(size, answer, price)
        done: list[int] = []
        for owner in line:
            after = self._reserve(owner, name, bound)
            if after is None:
                for below in done:
                    self.ledgers[below] = release(self._ledger(below), name)
                return
            self.ledgers[owner] = after
            done.append(owner)
        self.out[name] = (who % len(self.ledgers), price, size, answer)

    @precondition(lambda self: self.out)
    @rule(which=st.integers(0, 50), of_input=SHARES, of_cache=SHARES, of_output=SHARES, twice=st.booleans())
    def end(self, which, of_input, of_cache, of_output, twice):
        """A response is complete; its report may come twice."""
        name = list(self.out)[which % len(self.out)]
        who, price, size, answer = self.out.pop(name)
        read = int(size * of_input)
        usage = TokenUsage(
            input=read,
            output=int(answer * of_output),
            cache_read=int(read * of_cache),
            cache_write=read - int(read * of_cache),
        )
        cost = price.cost_usd(usage)
        usage = TokenUsage(input=usage.input, output=usage.output, cost_usd=cost)
        self._settle(who, name, usage, times=1 + twice)
        for owner in self._line(who):
            self.used[owner] += usage

    @precondition(lambda self: self.out)
    @rule(which=st.integers(0, 50))
    def crash(self, which):
        """A session is gone while its request is out."""
        name = list(self.out)[which % len(self.out)]
        who, *_ = self.out.pop(name)
        self._settle(who, name, None, times=1)

    @invariant()
    def no_limit_is_passed(self):
        """Not even by one token or a billionth of a dollar, and never by what was really used."""
        for ledger, used in zip(self.ledgers, self.used, strict=True):
            if ledger is None:
                continue
            promised = [bound for _, bound in ledger.open]
            cost = ledger.spent_nano_usd + sum(bound.nano_usd for bound in promised)
            tokens = ledger.spent_tokens + sum(bound.tokens for bound in promised)
            assert cost <= round(ledger.budget.max_cost_usd * 1e9)
            assert tokens <= ledger.budget.max_total_tokens
            left = budget_left(ledger)
            assert left.tokens == ledger.budget.max_total_tokens - tokens
            assert used.total <= ledger.spent_tokens
            assert used.cost_usd * 1e9 <= ledger.spent_nano_usd + 1e-3

    @invariant()
    def nothing_stays_promised(self):
        """A ledger's open reservations are the requests that are out below it."""
        for owner, ledger in enumerate(self.ledgers):
            if ledger is not None:
                below = {name for name, (who, *_) in self.out.items() if owner in self._line(who)}
                assert {name for name, _ in ledger.open} == below

    def _line(self, who: int) -> list[int]:
        line: list[int] = []
        place: int | None = who
        while place is not None:
            if self.ledgers[place] is not None:
                line.append(place)
            place = self.parents[place]
        return line

    def _ledger(self, owner: int) -> Ledger:
        ledger = self.ledgers[owner]
        assert ledger is not None
        return ledger

    def _reserve(self, owner: int, name: ReservationId, bound: Bound) -> Ledger | None:
        after = reserve(self._ledger(owner), name, bound)
        return after if isinstance(after, Ledger) else None

    def _settle(self, who: int, name: ReservationId, usage: TokenUsage | None, *, times: int) -> None:
        for owner in self._line(who):
            for _ in range(times):
                self.ledgers[owner] = settle(self._ledger(owner), name, usage)


@pytest.mark.at(124)
@pytest.mark.at(125)
class TestTree(Tree.TestCase):  # type: ignore[valid-type,misc]  # Hypothesis makes it at run time
    """Whatever a tree of sessions does, no limit in it is passed."""
