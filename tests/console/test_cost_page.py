"""The page *Cost* in a browser: the sums of the server, to the last digit in its CSV, and what was estimated."""

import csv
import io
from decimal import Decimal
from pathlib import Path

import pytest

from agentrail.cli.cost_command import csv_lines, exact_usd
from agentrail.errors import Overloaded
from agentrail.gateway.authorization import ANYONE_HERE as LOCAL
from agentrail.runtime.cost_table import cost_table, make_query
from agentrail.runtime.session_clock import now_ms
from agentrail.testing.models import fails, says
from tests.console.browsing import SIDEWAYS, axe_faults, in_each_look, reload, shows, until
from tests.console.rows import cost_row
from tests.host.hosting import profile, say
from tests.runtime.test_spending import Priced
from tests.thinned import nightly

pytestmark = pytest.mark.check

BILLIONTH = Decimal("1e-9")
TIME_OF_RESET = "12:00:00 AM"


def is_near(shown, atto_usd):
    """Whether a sum is that of the server to a billionth."""
    return abs(Decimal(shown) - Decimal(exact_usd(atto_usd))) < BILLIONTH


def told(by="profile", rows=(), **given):
    """An answer of `inspect/cost`."""
    total = cost_row(
        cost_usd=sum(row["cost_usd"] for row in rows), estimated_usd=sum(row["estimated_usd"] for row in rows)
    )
    return {
        "by": by, "tz": "UTC", "rows": list(rows), "total": total, "today": total, "month": total, "budgets": [], "unread": [], **given,
    }  # fmt: skip


def answering_cost(server, **given):
    """Let a scripted server answer by what is asked for."""

    async def answer(request):
        by = request.query_params["by"]
        return given.get(by) or told(by)

    server.answers["GET inspect/cost"] = answer


@pytest.mark.c(32)
def test_what_is_shown_and_downloaded_adds_up_to_what_the_command_says(pages, console_server, tmp_path):
    """To a billionth; what was estimated is marked, and a session is led to."""
    turns = [says("One."), fails(Overloaded("busy"), after="half a "), says("Two."), says("Three.")]
    console_server.start(profiles=[profile(Priced(turns))], store="memory:")

    async def ask():
        for name in ("a", "b", "a"):
            request = await console_server.host.submit(say("Hi", by=LOCAL, session_id=name), LOCAL)
            await request.outcome()

    console_server.run(ask)
    page = pages.open(
        console_server.link("#/cost?by=session"), accept_downloads=True, timezone_id="Asia/Kathmandu"
    )
    shows(page, "Cost by session", "Days of Asia/Kat")
    with page.expect_download() as coming:
        page.get_by_role("button", name="CSV").click()
    assert coming.value.suggested_filename == "cost-by-session.csv"
    rows = list(csv.DictReader(io.StringIO(Path(coming.value.path()).read_text())))

    async def sums():
        at_ms = now_ms()
        told_of = await console_server.host.supervisor.spendings(scope=LOCAL.tenant_id)
        return cost_table(told_of, make_query("session", now_ms=at_ms), at_ms)

    table = console_server.run(sums)
    assert list(rows[0]) == next(iter(csv_lines(table))).split(",")
    assert [row["key"] for row in rows] == [row.key for row in table.rows]
    for mine, theirs in zip(rows, table.rows, strict=True):
        assert is_near(mine["cost_usd"], theirs.amount.atto_usd)
        assert is_near(mine["estimated_usd"], theirs.amount.estimated_atto_usd)
        assert int(mine["requests"]) == theirs.amount.requests
    assert is_near(sum(Decimal(row["cost_usd"]) for row in rows), table.total.atto_usd)
    assert table.total.estimated_atto_usd > 0
    shows(page, "% estimated")
    assert page.get_by_role("link", name="a", exact=True).first.get_attribute("href") == "#/s/a"


@nightly
def test_days_budgets_and_shares_are_drawn_and_sessions_are_called_by_their_names(pages, scripted_server):
    """A bar for each day also where nothing was used, hatched as far as it was estimated; budgets against their limits; names above ids, with what turns text marked."""
    days = [cost_row("2026-11-20", 2.0, estimated_usd=0.5), cost_row("2026-11-22", 1.0)]
    budgets = [
        {"name": "s-1", "used_usd": 4.1, "limit_usd": 5.0},
        {"name": "s-2", "used_usd": 1.0, "limit_usd": 1.0},
    ]
    profiles = [cost_row("desk", 3.0, estimated_usd=0.12, unpriced=2), cost_row("", 0.0)]
    answering_cost(
        scripted_server,
        day=told("day", days, budgets=budgets),
        profile=told("profile", profiles, unread=["x"]),
    )
    page = pages.open(scripted_server.link("#/cost?days=7"), timezone_id="UTC", clock=True)
    page.clock.set_fixed_time("2026-11-22T12:00:00Z")
    reload(page, showing="$4.10 of $5.00")
    heights = page.locator(".bar-whole").evaluate_all("(bars) => bars.map((one) => one.style.height)")
    assert heights == ["0%", "0%", "0%", "0%", "100%", "0%", "50%"]
    share = page.evaluate("() => document.querySelectorAll('.bar-estimated')[4].style.height")
    assert share == "25%"
    label = page.get_by_role("img", name="Cost of 7 days").get_attribute("aria-label")
    assert "$3.00 in total, at most $2.00 on Nov 20, 2026" in label
    for words in ("4 %", "+2 ?", "unnamed", "50 % of the input came from a cache", "cannot be read: x"):
        shows(page, words)
    page.get_by_role("combobox").nth(1).select_option("model")
    until(page, "() => location.hash.includes('by=model')")
    shows(page, "Cost by model", "No usage in this period.")

    names = {"s-1": "Refund \u202e4411"}
    budgets = [{"name": f"s-{number}", "used_usd": 1.0, "limit_usd": 2.0} for number in (1, 2)]
    rows = (cost_row("s-1", 1.0), cost_row("s-2", 0.5))
    answering_cost(
        scripted_server,
        session=told("session", rows, names=names),
        day=told("day", budgets=budgets, names=names),
    )
    page.evaluate("() => { location.hash = '#/cost?by=session'; }")
    reload(page, showing="Cost by session")
    shown = page.locator(".cost-table tbody th").all_inner_texts()
    assert shown == ["Refund ⟦U+202E⟧4411\ns-1", "s-2"]
    assert page.locator(".budgets .called").all_inner_texts() == ["Refund ⟦U+202E⟧4411"]
    assert page.locator(".budgets a").all_inner_texts() == ["s-1", "s-2"]
    page.set_viewport_size({"width": 360, "height": 800})
    name, bar = (
        page.locator(f".budgets {one}").first.bounding_box()["width"] for one in (".cost-name", ".meter")
    )
    assert name > 2 * bar, "the name is what a phone has room for"


@nightly
def test_its_states_say_what_is_missing(pages, scripted_server):
    """No journal, an older server, an error that passes."""
    answering_cost(scripted_server)
    scripted_server.info["journal"] = False
    page = pages.open(scripted_server.link("#/cost"), showing="this server keeps none")
    scripted_server.info["journal"] = True
    scripted_server.info["features"] = ["watch"]
    reload(page, showing="Cost needs a newer server")
    assert scripted_server.asked.count("GET inspect/cost") == 0
    scripted_server.info["features"] = ["cost"]
    known = scripted_server.answers["GET inspect/cost"]
    scripted_server.answers["GET inspect/cost"] = (
        503,
        {"error": {"code": "store_unavailable", "message": "not now", "hint": None}},
    )
    pages.of(page).expects.append("503")
    reload(page, showing="not now")
    scripted_server.answers["GET inspect/cost"] = known
    page.get_by_role("button", name="Try again").click()
    shows(page, "No usage in this period.")


@nightly
def test_a_day_is_held_against_its_budget(pages, scripted_server):
    """Today of all together, and each user; one that is spent says until when; an older server tells of none."""
    resets = 1_795_392_000_000
    line = {"limit_usd": 20.0, "resets_at_ms": resets}
    scripted_server.answers["GET sessions"] = {"sessions": [], "next_cursor": None}
    days = [
        {"of": "tenant", "name": "acme", "used_usd": 4.1, **line},
        {"of": "user", "name": "ann", "used_usd": 5.0, **line, "limit_usd": 5.0},
        {"of": "user", "name": "bob", "used_usd": 4.0, **line, "limit_usd": 5.0, "overrun_usd": 0.75},
    ]
    answering_cost(scripted_server, day=told("day", [cost_row("2026-11-22", 4.1)], day_budgets=days))
    page = pages.open(scripted_server.link("#/cost"), timezone_id="UTC")
    shows(page, "$4.10 of $20.00 a day, in UTC")
    lines = page.evaluate("() => [...document.querySelectorAll('.budgets li')].map((one) => one.innerText)")
    assert [" ".join(one.split()) for one in lines] == [
        "acme all users, per day $4.10 of $20.00",
        f"ann user, per day $5.00 of $5.00 Exhausted: new messages are refused until {TIME_OF_RESET}. Running work continues.",
        "bob user, per day $4.00 of $5.00 Cycles under way may add up to $0.75.",
    ]
    assert page.get_by_role("link", name="ann").get_attribute("href") == "#/?q=ann"
    assert axe_faults(page) == []
    answering_cost(scripted_server)
    reload(page, showing="No active session has a cost budget, and there is no daily budget.")


@nightly
@pytest.mark.c(36)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(pages, scripted_server):
    """With long names and large sums."""
    days = [cost_row(f"2026-11-{day:02}", day * 1.5, estimated_usd=day * 0.3) for day in range(1, 23)]
    profiles = [
        cost_row("a-profile-with-a-very-long-name-" * 3, 12_345.678, estimated_usd=1.0),
        cost_row("b", 0.000_012),
    ]
    budgets = [{"name": "a-session-with-a-long-name-" * 3, "used_usd": 4.1, "limit_usd": 5.0}]
    answering_cost(scripted_server, day=told("day", days, budgets=budgets), profile=told("profile", profiles))
    page = pages.open(scripted_server.link("#/cost"), showing="$12,346")
    for _ in in_each_look(page):
        assert page.evaluate(SIDEWAYS) <= 0
        assert axe_faults(page) == []
