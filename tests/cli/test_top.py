"""`agentrail top`: what it draws, what keys do, and that a terminal is as it was afterwards."""

import unicodedata

import pytest
from hypothesis import given, settings, strategies as st

from agentrail.cli.top_command import named_keys, read_token
from agentrail.cli.top_view import (
    SORT_KEYS,
    Speeds,
    TopView,
    age,
    columns_of,
    draw_table,
    foot_line,
    head_lines,
    press,
    scaled,
    shown_rows,
)
from agentrail.errors import OptionError
from agentrail.wire.rows import SessionRow, ToolAtWork, WaitingCounts

NOBODYS = WaitingCounts(approvals=0, questions=0)


def row(name, **more):
    told = {"phase": "idle", "waiting": NOBODYS, "changed_at_ms": 1_000, "model": "demo:"}
    return SessionRow(session_id=name, **{**told, "tokens": 0, "cost_usd": 0.0, **more})


def slow(_name):
    return 0.0


def drawn(rows, width=100, sort="age"):
    return draw_table(rows, width=width, now_ms=61_000, speed=slow, sort=sort)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)


@settings(max_examples=100)
@given(title=TEXTS, tool=TEXTS, model=TEXTS, width=st.integers(20, 240))
def test_no_line_is_wider_than_the_terminal_and_none_steers_it(title, tool, model, width):
    """Whatever stands in a title: wide characters count twice, combining ones not at all."""
    at_work = ToolAtWork(name=tool, since_ms=1)
    rows = [row("s-1", title=title, tool=at_work, running=1, model=model, agent_id=tool)]
    for line in (*drawn(rows, width), *head_lines(rows, 1, "live", title, width), foot_line(width)):
        assert columns_of(line) <= width
        assert not {unicodedata.category(char) for char in line} & {"Cc", "Cf", "Cs"}


@pytest.mark.parametrize("sort", [*SORT_KEYS.values()])
def test_each_order_has_all_rows_and_the_unknown_last_either_way(sort):
    """Turned, the known ones are turned, and those without a value stay at the end."""
    first, second = (ToolAtWork(name=name, since_ms=1) for name in "tu")
    rows = [
        row("a", title="b", cost_usd=1.0, tokens=5, model="x", restarts=1, tool=first),
        row("b", title="a", cost_usd=2.0, tokens=9, model="y", restarts=0, tool=second, changed_at_ms=9),
        row("c", cost_usd=None, tokens=None, model=None, changed_at_ms=5),
    ]
    for is_turned in (False, True):
        found = shown_rows(rows, TopView(sort=sort, is_turned=is_turned), slow)
        assert sorted(one.session_id for one in found) == ["a", "b", "c"]
        if sort in ("cost", "tokens", "model", "title", "tool"):
            assert found[-1].session_id == "c"
    known = [one.session_id for one in shown_rows(rows, TopView(sort="cost"), slow)]
    assert known == ["b", "a", "c"]


def test_keys_sort_turn_scroll_and_show_the_ended():
    """Within what there is; a key that means nothing changes nothing."""
    view = TopView()
    assert press(view, "c", rows=9, page=3).sort == "cost"
    assert press(press(view, "c", rows=9, page=3), "c", rows=9, page=3).is_turned
    assert press(view, "e", rows=9, page=3).with_ended
    assert press(view, "down", rows=9, page=3).first == 1
    assert press(view, "page_down", rows=9, page=3).first == 3
    assert press(view, "end", rows=9, page=3).first == 6
    assert press(press(view, "end", rows=9, page=3), "home", rows=9, page=3).first == 0
    assert press(view, "up", rows=9, page=3) == press(view, "#", rows=9, page=3) == view
    assert press(view, "down", rows=2, page=3).first == 0
    assert shown_rows([row("a", ended=True)], view, slow) == []
    assert named_keys(b"\x1b[Aq\x1b[6~\x00\xc3\xa9c") == ["up", "q", "page_down", "c"]


def test_speed_is_what_came_within_ten_seconds():
    """Counted by the clock of whoever looks; a session that is new has none, one that is gone is forgotten."""
    speeds = Speeds()
    speeds.note([row("a", tokens=100)], 0.0)
    assert speeds.of("a", 0.0) == 0
    speeds.note([row("a", tokens=300)], 4.0)
    assert speeds.of("a", 4.0) == 50
    speeds.note([row("a", tokens=300)], 9.0)
    assert round(speeds.of("a", 9.0), 1) == 22.2
    for now in (20.0, 21.0, 40.0):
        speeds.note([row("a", tokens=300)], now)
    assert speeds.of("a", 40.0) == 0
    speeds.note([row("a", tokens=400)], 45.0)
    assert speeds.of("a", 45.0) == 20
    speeds.note([], 46.0)
    assert speeds.of("a", 46.0) == 0


def test_tokens_and_ages_are_written_shortly():
    """Tokens with a unit from a thousand on; ages in one unit, and never below nothing."""
    said = {0: "0", 999: "999", 1_000: "1.0k", 12_345: "12.3k", 123_456: "123k", 1_234_567: "1.2M"}
    assert {number: scaled(number) for number in said} == said
    assert [age(ms) for ms in (-5, 59_999, 60_000, 3_600_000, 90_000_000)] == ["0s", "59s", "1m", "1h", "1d"]


def test_a_token_is_read_of_a_file_or_of_the_environment(tmp_path, monkeypatch):
    """A file that is none is said to be none, and what it holds is not repeated."""
    monkeypatch.setenv("AGENTRAIL_TOKEN", "agt_of_the_environment")
    assert read_token(None) == "agt_of_the_environment"
    path = tmp_path / "token"
    path.write_text("agt_x\n")
    assert read_token(path) == "agt_x"
    path.write_text("two words")
    for bad in (path, tmp_path / "none"):
        with pytest.raises(OptionError) as refused:
            read_token(bad)
        assert "two words" not in str(refused.value)
