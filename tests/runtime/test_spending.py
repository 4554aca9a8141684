"""What sessions have used is what their journals say, to a billionth, however it is added up (13.4)."""

import datetime
import random
from fractions import Fraction

import pytest
import trio

from agentrail import open_supervisor
from agentrail.abc import Capabilities
from agentrail.abc.store import Filters
from agentrail.core.journal.usage import ATTO, Spending, SpentAmount, add_up, atto_of, usd_of
from agentrail.core.policy.budget import Budget, Price
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.errors import OptionError, Overloaded, StoreUnavailable
from agentrail.events import CompactEnd
from agentrail.messages import SessionId, TokenUsage
from agentrail.runtime import spending_book
from agentrail.runtime.agent import Agent
from agentrail.runtime.cost_table import CostQuery, begin_of, cost_table, day_of, first_day_of, make_query
from agentrail.runtime.session_clock import now_ms, set_now_ms
from agentrail.runtime.spending_book import SessionSpending, SpendingBook
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, Turn, calls, fails, says
from agentrail.tools import builtin
from tests.runtime.rig import on_virtual_time
from tests.thinned import each

BILLIONTH = 1e-9
DAY_MS = 86_400_000
NOON = 1_795_348_800_000  # 2026-11-22, 12:00 UTC
SCOPE = "acme"


class Priced(FunctionModel):
    """A model whose requests cost odd amounts, and one of them nothing that is known."""

    def __init__(self, turns, *, unknown=()):
        """Answer with these turns in order; requests with the numbers of `unknown` have no price."""
        super().__init__(self._answer_next)
        self._turns = iter(turns)
        self._unknown = unknown

    def capabilities(self, model):
        return Capabilities(context_window=100_000, price=Price(input=0.7, output=3.3))

    def _answer_next(self, _request):
        number = len(self.requests)
        turn = next(self._turns)
        cost = None if number in self._unknown else 0.1 / (number + 2)
        usage = TokenUsage(input=100 + number, output=7 * number, cache_read=number, cost_usd=cost)
        return Turn(
            text=turn.text, calls=turn.calls, error=turn.error, usage=usage, pause_seconds=turn.pause_seconds
        )


async def spent(supervisor, **given):
    told = await supervisor.spendings(**given)
    return {one.session_id: one for one in told}


def total(told):
    return add_up(one.amount for one in told.spendings)


# --- from journals


@pytest.mark.operation("O-009")
@on_virtual_time
async def test_all_groupings_add_up_to_what_the_journals_say():
    """By model, user, profile, session and day; with a retry that broke off, an abort in mid-stream, and two models."""
    set_now_ms(NOON)
    async with open_supervisor(store="memory:") as supervisor:
        journals = 0.0
        for number in range(6):
            set_now_ms(NOON + number * DAY_MS * 7 // 10)
            turns = [
                says("One."),
                fails(Overloaded("busy"), after="half a "),
                says("Two."),
                says("three ", "four", pause_seconds=5),
            ]
            session = await supervisor.start_session(
                model=Priced(turns),
                session_id=f"s-{number}",
                scope=SCOPE,
                user_data={"user_id": f"u{number % 2}", "agent_id": f"p{number % 3}", "tenant_id": SCOPE},
            )
            await session.ask("a")
            await session.ask("b")
            receipt = await session.prompt("c")
            await trio.sleep(7)
            await session.abort()
            assert receipt.ref
            journals += (await session.status()).usage.cost_usd
        told = await supervisor.spendings(scope=SCOPE)
        at_ms = now_ms()
    assert journals > 0.3
    for by in ("day", "profile", "model", "user", "session"):
        table = cost_table(told, make_query(by, zone="Europe/Berlin", now_ms=at_ms), at_ms)
        rows = sum((Fraction(row.amount.atto_usd, ATTO) for row in table.rows), Fraction())
        assert rows == Fraction(table.total.atto_usd, ATTO)
        assert abs(float(rows) - journals) < BILLIONTH
        assert table.total.requests == 6 * 4
        assert 0 < table.total.estimated_atto_usd < table.total.atto_usd
        assert len(table.rows) == {"day": 5, "profile": 3, "model": 1, "user": 2, "session": 6}[by]


@on_virtual_time
async def test_what_works_for_a_session_is_counted_once():
    """In its own journal, and under its root; what the parent books of it is left out."""
    turns = iter([calls(("task", {"description": "Look."})), says("Found."), says("Done.")])
    async with open_supervisor(store="memory:") as supervisor:
        model = Priced(turns)
        session = await supervisor.start_session(
            model=model,
            session_id="root",
            scope=SCOPE,
            tools=builtin("task"),
            agents=[Agent(name="a", description="b")],
        )
        await session.ask("Go")
        whole = (await session.status()).usage
        told = await spent(supervisor, scope=SCOPE)
    child = next(one for name, one in told.items() if name != "root")
    assert len(model.requests) == 3
    assert child.root_id == "root"
    assert (total(told["root"]).requests, total(child).requests) == (2, 1)
    both = total(told["root"]) + total(child)
    assert (both.tokens_in, both.tokens_out) == (whole.input, whole.output)
    assert abs(usd_of(both.atto_usd) - whole.cost_usd) < BILLIONTH


class Watched(MemoryStore):
    """A store that writes down which journals are read, and from where."""

    def __init__(self):
        super().__init__()
        self.reads, self.found, self.is_away = [], [], False

    def read(self, scope, session, after=0, limit=1000):
        if self.is_away:
            message = "the server restarts"
            raise StoreUnavailable(message)
        self.reads.append((session, after))
        return super().read(scope, session, after, limit)

    def find(self, filters=Filters(), *, after=None, limit=100):  # noqa: B008 - frozen
        page = super().find(filters, after=after, limit=limit)
        self.found += [one.session for one in page]
        return page


@on_virtual_time
async def test_only_what_is_new_is_read_and_the_sums_are_the_same():
    """A second look reads no session that was not written since; one that went on is read from where it was."""
    store = Watched()
    async with open_supervisor(store=store) as supervisor:
        sessions = [
            await supervisor.start_session(model=Priced([says("a"), says("b")]), session_id=name, scope=SCOPE)
            for name in ("x", "y")
        ]
        for one in sessions:
            await one.ask("1")
        before = len(await sessions[0].journal())
        first = await spent(supervisor, scope=SCOPE)
        store.reads.clear()
        assert await spent(supervisor, scope=SCOPE) == first
        assert store.reads == []
        await sessions[0].ask("2")
        again = await spent(supervisor, scope=SCOPE)
        assert store.reads == [("x", before)]
    assert total(again["x"]).requests == 2
    assert again["y"] == first["y"]
    assert {one.session_id: one for one in SpendingBook(store).look()} == again


@on_virtual_time
async def test_a_look_at_a_day_finds_the_sessions_of_that_day():
    """A budget is looked at every two seconds, in a store of years."""
    store = Watched()
    async with open_supervisor(store=store) as supervisor:
        for name in ("old", "new"):
            await trio.sleep(60)
            session = await supervisor.start_session(model=Priced([says("a")]), session_id=name, scope=SCOPE)
            await session.ask("1")
    book = SpendingBook(store)
    assert len(book.look(SCOPE)) == 2
    store.found.clear()
    (told,) = book.look(SCOPE, store.get(SCOPE, "new").opened_at_ms)
    assert [told.session_id] == store.found == ["new"]


@on_virtual_time
async def test_a_store_that_is_away_is_not_taken_for_sessions_that_cost_nothing():
    """A budget that is judged by such sums would let everything pass."""
    store = Watched()
    async with open_supervisor(store=store) as supervisor:
        session = await supervisor.start_session(model=Priced([says("a")]), session_id="x", scope=SCOPE)
        await session.ask("1")
        store.is_away = True
        with pytest.raises(StoreUnavailable):
            await supervisor.spendings(scope=SCOPE)
        store.is_away = False
        assert total((await spent(supervisor, scope=SCOPE))["x"]).requests == 1


@on_virtual_time
async def test_what_deleted_sessions_used_is_forgotten_also_of_scopes_that_are_asked_about_no_more(
    monkeypatch,
):
    """Tenants come, are asked about once, delete everything and leave."""
    monkeypatch.setattr(spending_book, "KNOWN_SLACK", 4)
    store = MemoryStore()
    book = SpendingBook(store)
    async with open_supervisor(store=store) as supervisor:
        for number in range(20):
            scope = f"tenant-{number}"
            session = await supervisor.start_session(
                model=Priced([says("a")]), session_id="main", scope=scope
            )
            await session.ask("1")
            (told,) = book.look(scope)
            assert total(told).requests == 1
            if number:  # one stays
                await supervisor.stop_session("main", scope=scope)
                await supervisor.delete_session("main", scope=scope)
        assert len(book._known) <= 2 * 2 + 4  # noqa: SLF001 - nothing shows what is kept to answer faster
        assert book.look("tenant-0")


@on_virtual_time
async def test_a_fork_is_charged_for_what_it_adds_and_a_rewind_gives_nothing_back():
    """What was spent is spent."""
    async with open_supervisor(store="memory:") as supervisor:
        session = await supervisor.start_session(
            model=Priced([says(text) for text in "abcd"]), session_id="main", scope=SCOPE
        )
        await session.ask("1")
        number = (await session.journal())[-1].number
        await session.ask("2")
        fork = await session.fork(number, session_id="fork")
        await fork.ask("3")
        await spent(supervisor, scope=SCOPE)
        await session.rewind(number)
        await session.ask("4")
        told = await spent(supervisor, scope=SCOPE)
        main = (await session.status()).usage
    assert (total(told["main"]).requests, total(told["fork"]).requests) == (3, 1)
    assert abs(usd_of(total(told["main"]).atto_usd) - main.cost_usd) < BILLIONTH


@on_virtual_time
async def test_of_what_was_trimmed_the_sum_is_known_and_of_a_fork_only_what_it_added_since():
    """The snapshot that is left has the sum of a session; in that of a fork is also what was spent in front of it."""
    store = MemoryStore()
    async with open_supervisor(store=store) as supervisor:
        for name in ("main", "alone"):
            session = await supervisor.start_session(
                model=Priced([says(text) for text in "abc"]), session_id=name, scope=SCOPE
            )
            await session.ask("1")
            await session.ask("2")
        main = supervisor.session("main", scope=SCOPE)
        fork = await main.fork(session_id="fork")
        await fork.ask("3")
    async with open_supervisor(store=store) as supervisor:
        for name in ("alone", "fork"):
            (snapshot,) = store.snapshots(SCOPE, SessionId(name))
            await supervisor.trim_session(name, before=snapshot.seq, scope=SCOPE)
            model = Priced([says("d")])
            session = await supervisor.resume_session(name, model=model, scope=SCOPE)
            await session.ask("4")
            if name == "alone":
                whole = (await session.status()).usage
        told = await spent(supervisor, scope=SCOPE)
    alone, fork_alone = total(told["alone"]), total(told["fork"])
    assert told["alone"].fault is None
    assert abs(usd_of(alone.atto_usd) - whole.cost_usd) < BILLIONTH
    assert (alone.tokens_in, alone.requests) == (whole.input, 2)
    assert (fork_alone.requests, fork_alone.atto_usd) == (1, atto_of(0.1 / 3))
    assert total(told["main"]).requests == 2


# --- values


def told_at(*at_ms, **given):
    """A session that used something at these times."""
    spendings = [
        Spending(slot_ms=at // 900_000 * 900_000, model="m", amount=SpentAmount(requests=1, atto_usd=ATTO))
        for at in at_ms
    ]
    return SessionSpending(
        session_id=SessionId("s"),
        root_id=SessionId("s"),
        scope="",
        agent_id="",
        user_id="",
        spendings=tuple(spendings),
        **given,
    )


def test_days_are_those_of_the_zone():
    """Also of one that is a quarter of an hour off. A session whose journal cannot be read is named."""
    midnight = NOON - DAY_MS // 2
    told = told_at(midnight - 3_600_000, midnight + 3_600_000)
    for zone, keys in (
        ("UTC", ["2026-11-21", "2026-11-22"]),
        ("Asia/Kathmandu", ["2026-11-22"]),
        ("America/St_Johns", ["2026-11-21"]),
    ):
        table = cost_table([told], make_query(zone=zone, now_ms=NOON), NOON)
        assert [row.key for row in table.rows] == keys, zone
    table = cost_table([told_at(NOON, fault="damaged")], make_query("model", now_ms=NOON), NOON)
    assert (table.unread, [row.key for row in table.rows]) == (("s",), ["m"])


def test_first_and_last_day_count_and_today_and_the_month_are_there_whatever_was_asked_for():
    """A week is seven days with today."""
    told = told_at(*(NOON - days * DAY_MS for days in range(30)))
    table = cost_table([told], make_query(since="7d", until="2026-11-20", now_ms=NOON), NOON)
    assert [row.key for row in table.rows] == [f"2026-11-{day}" for day in (16, 17, 18, 19, 20)]
    assert (table.today.requests, table.month.requests) == (1, 22)
    assert first_day_of(make_query(since="7d", now_ms=NOON), NOON) == datetime.date(2026, 11, 1)
    assert first_day_of(make_query(since="40d", now_ms=NOON), NOON) == datetime.date(2026, 10, 14)
    assert first_day_of(CostQuery(), NOON) is None
    berlin = make_query(zone="Europe/Berlin", now_ms=NOON).zone
    assert begin_of(day_of(NOON, berlin), berlin) == NOON - 13 * 3_600_000


@each(
    ("given", "said"),
    [
        ({"by": "week"}, "by is 'week': expected one of day, profile, model, user, session"),
        ({"zone": "../../etc/passwd"}, "tz is '../../etc/passwd'"),
        ({"zone": "Europe"}, "tz is 'Europe'"),
        ({"zone": ""}, "tz is ''"),
        ({"since": "2026-02-30"}, "since is '2026-02-30'"),
        ({"since": "0d"}, "since is '0d'"),
    ],
)
def test_what_cannot_be_asked_is_said(given, said):
    """With what is expected; a zone is no path."""
    with pytest.raises(OptionError) as caught:
        make_query(given.pop("by", "day"), now_ms=NOON, **given)
    assert said in str(caught.value)


# --- providers that report tokens and no cost


class PricedByTheToken(FunctionModel):
    """A model that states its price and leaves the cost of its responses to us."""

    def capabilities(self, model):
        return Capabilities(context_window=100_000, price=Price(input=1.0, output=10.0))


async def test_the_price_that_a_user_set_comes_before_the_known_one():
    """For the cost of a response, and for the budget, which counts what a request may cost."""

    class PricedByItsUser(PricedByTheToken):
        model_policy = ModelPolicy(price=Price(input=3.0, output=30.0))

    spent = []
    for kind in (PricedByTheToken, PricedByItsUser):
        async with open_supervisor() as supervisor:
            model = kind(lambda _: says("Good day."))
            session = await supervisor.start_session(
                model=model, budget=Budget(max_cost_usd=1.0), max_output_tokens=2_000
            )
            await session.ask("Hi")
            status = await session.status()
        assert status.budget_left.cost_usd == pytest.approx(1.0 - status.usage.cost_usd)
        spent.append(status.usage.cost_usd)
    assert spent[0] > 0
    assert spent[1] == pytest.approx(3 * spent[0])


@on_virtual_time
@pytest.mark.parametrize(
    ("turn", "used"),
    [
        (fails(Overloaded("busy"), after="They li"), True),
        (says("They lived.", pause_seconds=10_000), True),
        (fails(Overloaded("busy")), False),
    ],
    ids=["broke off", "silent", "refused"],
)
async def test_a_summary_that_is_cut_costs_what_it_sent(turn, used):
    """It is not free, with a budget or without: its server says nothing more. One that was refused has used nothing."""

    def answer(request):
        return turn if request.tool_choice == "none" else says("word " * 200)

    async with open_supervisor() as supervisor:
        session = await supervisor.start_session(
            model=PricedByTheToken(answer), budget=Budget(max_cost_usd=10.0), max_output_tokens=2_000
        )
        for _ in range(5):
            await session.ask("Go on. " * 50)
        before = await session.status()
        async with session.subscribe() as events:
            await session.compact()
            async for event in events:
                if isinstance(event, CompactEnd):
                    break
        after = await session.status()
    sent = after.usage.input - before.usage.input
    spent = before.budget_left.cost_usd - after.budget_left.cost_usd
    assert (sent > 300, after.usage.estimated, spent > 0.01) == (used, used, used)
    assert after.usage.cost_usd == pytest.approx(before.usage.cost_usd + sent * 1e-6)


@on_virtual_time
async def test_a_response_without_a_cost_costs_what_the_model_says():
    """It is not free: the session and its budget count its tokens at the price of the model."""
    used = TokenUsage(input=100_000, output=10_000)
    model = PricedByTheToken(lambda _: Turn(text="Yes.", usage=used))
    async with open_supervisor() as supervisor:
        session = await supervisor.start_session(
            model=model, budget=Budget(max_cost_usd=1.0), max_output_tokens=20_000
        )
        await session.ask("Hi")
        status = await session.status()
    assert status.usage.cost_usd == pytest.approx(0.2)
    assert status.budget_left.cost_usd == pytest.approx(0.8)


@on_virtual_time
@pytest.mark.parametrize("seed", range(12))
async def test_a_budget_counts_what_was_cut_off(seed):
    """However often requests are cut at random, all that their server may charge for stays within the budget."""
    chance = random.Random(seed)  # noqa: S311 - a test's
    limit = chance.choice((2_000, 5_000))
    charged = 0

    def answer(request):
        nonlocal charged
        used = TokenUsage(input=10, output=chance.randint(1, 400))
        charged += used.total  # whether or not anybody waits for its end
        return Turn(text="word " * 9, usage=used, pause_seconds=0.3)

    async with open_supervisor() as supervisor:
        session = await supervisor.start_session(
            model=FunctionModel(answer), budget=Budget(max_total_tokens=limit), max_output_tokens=400
        )
        for _ in range(60):
            await session.prompt("Go.")
            await trio.sleep(chance.choice((0.01, 0.35, 0.7, 5)))
            await session.abort("x")
    assert charged <= limit
