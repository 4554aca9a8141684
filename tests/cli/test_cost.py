"""`agentrail cost`: the sums of the server, to the last digit, and what cannot be asked."""

import csv
import io
from decimal import Decimal

import pytest

from agentrail.cli.cost_command import COLUMNS, csv_lines, table_lines
from agentrail.core.journal.usage import ATTO, SpentAmount, add_up
from agentrail.runtime.cost_table import CostQuery, CostRow, CostTable
from agentrail.testing.models import says
from tests.cli.rig import run_line
from tests.gateway.web import serving
from tests.host.hosting import profile
from tests.runtime.test_spending import Priced

BILLIONTH = Decimal("1e-9")


@pytest.mark.c(32)
@pytest.mark.operation("O-009")
async def test_the_command_and_the_server_add_up_to_the_same(tmp_path):
    """Row by row, beside the process that writes the store."""
    store = f"sqlite:{tmp_path}/a.db"
    desk = profile(Priced([says("One."), says("Two."), says("Three.")]))
    async with serving(profiles=[desk], store=store) as web:
        for name in ("a", "b", "a"):
            answer = await web.client.post("/chat", json={"message": "Hi", "session_id": name})
            assert answer.status_code == 200
        for by in ("session", "day"):
            told = (await web.client.get(f"/inspect/cost?by={by}")).json()
            ran = await run_line(f"cost --by {by} --csv --store {store} --data-dir {tmp_path}")
            assert ran.code == 0, ran.err
            rows = list(csv.DictReader(io.StringIO(ran.out)))
            assert tuple(rows[0]) == COLUMNS
            assert [row["key"] for row in rows] == [row["key"] for row in told["rows"]]
            for mine, theirs in zip(rows, told["rows"], strict=True):
                assert abs(Decimal(mine["cost_usd"]) - Decimal(theirs["cost_usd"])) < BILLIONTH
                assert int(mine["tokens_in"]) == theirs["tokens_in"] > 0
            whole = sum(Decimal(row["cost_usd"]) for row in rows)
            assert abs(whole - Decimal(told["total"]["cost_usd"])) < BILLIONTH
            assert whole > Decimal("0.05")


async def test_what_cannot_be_asked_is_said_with_what_can():
    """Wrong usage; and a store that is not there."""
    ran = await run_line("cost --since yesterday --store sqlite:/nowhere/a.db")
    assert (ran.code, ran.out) == (2, "")
    assert "since is 'yesterday': expected a day such as 2026-11-01, or 7d for the last seven days" in ran.err
    ran = await run_line("cost --by week")
    assert (ran.code, "profile" in ran.err) == (2, True)


def test_a_table_for_people_says_what_is_estimated_and_what_has_no_price():
    """With the sum, and what caches saved reading; no name is a formula where the file is opened."""
    some = SpentAmount(
        requests=2, tokens_in=1_200, tokens_out=30, cached=300, atto_usd=ATTO, estimated_atto_usd=ATTO // 4
    )
    other = SpentAmount(requests=1, tokens_in=800, unpriced=1)
    rows = (CostRow(key="desk", amount=some), CostRow(key="", amount=other))
    table = CostTable(rows=rows, total=add_up([some, other]), today=some, month=some)
    assert list(table_lines(table, CostQuery(by="profile"))) == [
        "profile  requests     in  cached  out     cost",
        "desk            2  1,200     300   30  $1.0000  25% estimated",
        "-               1    800       0    0  $0.0000  1 without a price",
        "all             3  2,000     300   30  $1.0000  25% estimated, 1 without a price",
        "15% of the input came from a cache",
    ]
    nothing = SpentAmount()
    for key in ("=1+1", "+x", "-x", "@x", "\tx"):
        table = CostTable(
            rows=(CostRow(key=key, amount=nothing),), total=nothing, today=nothing, month=nothing
        )
        assert list(csv_lines(table))[1].strip('"').startswith("'")
