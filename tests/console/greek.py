# ruff: noqa: RUF001 - it is Greek, and meant to be
"""A world on a scripted server in which nothing that comes from the server has a Latin letter: what shows one then is a word of the console itself."""

import time
from typing import Any, Final

from tests.console.scripted import ScriptedServer
from tests.console.story import Story

NOW: Final = int(time.time() * 1_000)
ID: Final = "σ-1"
TITLE: Final = "Επιστροφή 4411"


def _row(session_id: str, **more: Any) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "title": TITLE,
        "agent_id": "γραφείο",
        "phase": "idle",
        "suspended": False,
        "tearing_down": False,
        "tool": None,
        "running": 0,
        "waiting": {"approvals": 0, "questions": 0},
        "queued": 0,
        "model": "μ:",
        "turn": 3,
        "tokens": 12_000,
        "cost_usd": 0.04,
        "created_at_ms": NOW - 900_000,
        "changed_at_ms": NOW - 60_000,
        "outcome": None,
        "restarts": 0,
        "parent": None,
        "ended": False,
        "user": "άννα",
        **more,
    }


def _node(key: str, parent: str | None, **more: Any) -> dict[str, Any]:
    return {
        "key": key,
        "parent": parent,
        "name": "δέντρο",
        "kind": "supervisor",
        "status": "running",
        "phase": None,
        "session_id": None,
        "title": None,
        "restarts": 0,
        "mailbox": 0,
        "uptime_ms": 3_600_000,
        "strategy": "one_for_one",
        "intensity": {"used": 1, "allowed": 3, "within_ms": 5_000},
        "exits": [],
        "stuck": False,
        **more,
    }


def _plugin(name: str, kind: str, **more: Any) -> dict[str, Any]:
    hooks = [{"hook": "before_tool", "calls": 812, "failures": 0, "p50_ms": 1.2, "p99_ms": 3.0}]
    return {
        "name": name,
        "kind": kind,
        "order": 1,
        "hooks": hooks,
        "failures": 0,
        "stuck_ms": None,
        "sessions": 2,
        "last_failure": None,
        **more,
    }


def _cost_row(key: str, cost: float) -> dict[str, Any]:
    return {
        "key": key,
        "tokens_in": 1_000,
        "tokens_out": 200,
        "cached": 50,
        "cost_usd": cost,
        "estimated_usd": 0.01,
        "requests": 3,
        "unpriced": 1,
    }


def greek(server: ScriptedServer) -> Story:
    """Fill a server with sessions, a tree, plugins and costs; give the session that pages show."""
    assert server.info is not None
    server.refusal = "δεν γίνεται"
    server.info["principal"] |= {"tenant": "πελάτης", "user": "άννα"}
    server.info["profiles"] = [{"agent_id": "γραφείο", "description": "Το γραφείο", "model": "μ:"}]
    server.info["models"] = [{"model": "μ:", "window": 200_000, "input_price": 3.0, "output_price": 15.0}]
    server.info["version"] = "0.1.0"
    rows = [
        _row(ID, phase="executing_tools", tool={"name": "κέλυφος", "since_ms": NOW - 12_000}, running=1),
        _row("σ-2", waiting={"approvals": 1, "questions": 1}, queued=2, restarts=1),
        _row("σ-3", ended=True, outcome="completed"),
        _row("σ-4", ended=True, outcome="crashed"),
    ]
    waiting = {
        "key": "κ-1",
        "kind": "approval",
        "session_id": "σ-2",
        "title": TITLE,
        "agent_id": "γραφείο",
        "path": [{"session_id": "σ-2", "title": TITLE}],
        "at_ms": NOW - 5_000,
        "expires_at_ms": NOW + 62_000,
        "tool": "κέλυφος",
        "summary": "διαγραφή",
        "approval_id": "α-1",
        "ref": None,
        "arguments_hash": "00" * 32,
    }
    server.rows["sessions"] = rows
    server.rows["waiting"] = [
        waiting,
        {**waiting, "key": "κ-2", "kind": "question", "tool": None, "ref": "ρ-1", "expires_at_ms": None},
    ]
    server.rows["tree"] = [
        _node("ρίζα", None),
        _node(
            "παιδί",
            "ρίζα",
            kind="session",
            session_id=ID,
            title=TITLE,
            phase="idle",
            restarts=2,
            exits=[{"reason": "σφάλμα", "at_ms": NOW - 3_000}],
        ),
        _node("κολλημένο", "ρίζα", kind="actor", stuck=True, mailbox=9),
    ]
    server.rows["plugins"] = [
        _plugin("έλεγχος", "host"),
        _plugin("όριο", "host", failures=3, stuck_ms=14_000, last_failure={"at_ms": NOW, "error": "σφάλμα"}),
        _plugin("φύλακας", "session", order=None),
    ]
    server.answers["GET sessions"] = {"sessions": rows, "next_cursor": None}
    server.answers["GET inspect/cost"] = {
        "by": "day",
        "tz": "+02:00",
        "unread": ["σ-9"],
        "rows": [_cost_row("2026-11-21", 1.5), _cost_row("2026-11-22", 2.6)],
        "total": _cost_row("", 4.1),
        "today": _cost_row("", 2.6),
        "month": _cost_row("", 61.0),
        "budgets": [{"name": "ημέρα", "used_usd": 2.6, "limit_usd": 20.0}],
        "day_budgets": [
            {
                "of": "tenant",
                "name": "όλοι",
                "used_usd": 20.0,
                "limit_usd": 20.0,
                "resets_at_ms": 1_795_392_000_000,
            },
            {
                "of": "user",
                "name": "Άννα",
                "used_usd": 4.0,
                "limit_usd": 5.0,
                "resets_at_ms": 1_795_392_000_000,
            },
        ],
    }
    story = Story(server, session_id=ID)
    story.more |= {"title": TITLE, "agent_id": "γραφείο"}
    story.status |= {"model": "μ:"}
    story.begins("Επιστροφή της παραγγελίας.")
    story.asks()
    story.answers("Κοιτάζω **πρώτα**.", ("κ-7", "κέλυφος", {"εντολή": "διαγραφή"}))
    story.starts("κ-7", "κέλυφος", {"εντολή": "διαγραφή"})
    story.ends("κ-7", "κέλυφος", "έτοιμο")
    story.asks()
    story.answers("Τέλος.")
    story.done()
    return story
