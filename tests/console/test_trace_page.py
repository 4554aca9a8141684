"""The page that `sessions trace --html` writes, in a browser: under its own policy, in both looks, and judged by axe."""

import pytest

from agentrail.cli import sessions_command, store_access
from agentrail.cli.exit_codes import Exit
from agentrail.cli.store_access import StorePlace
from tests.cli.canary_store import write_canary_store
from tests.console.browsing import axe_faults, in_each_look, shows

pytestmark = pytest.mark.check


def test_a_written_page_is_readable_in_both_looks_and_its_policy_forbids_nothing_that_it_needs(
    pages, tmp_path, monkeypatch
):
    """No script runs, nothing is asked for, nothing scrolls sideways, and the style sheet is in force."""
    monkeypatch.setattr(store_access, "send_logs_to_stderr", lambda **_: None)
    written = tmp_path / "page.html"
    place = StorePlace(store=f"sqlite:{write_canary_store(tmp_path / 's.db')}")
    assert sessions_command.trace("s-1", html=written, place=place) is Exit.DONE
    page = pages.open(f"file://{written}")
    shows(page, "Timeline", "How often, canary?", "call of task", "Cost")
    for _ in in_each_look(page):
        assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
        assert axe_faults(page) == []
    bars = page.evaluate(
        "() => [...document.querySelectorAll('rect')].map((one) => getComputedStyle(one).fill)"
    )
    assert bars
    assert "rgb(0, 0, 0)" not in bars
    assert pages.of(page).requests == [f"file://{written}"]
