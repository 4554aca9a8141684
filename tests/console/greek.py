# ruff: noqa: RUF001 - it is Greek, and meant to be
"""A world on a scripted server in which nothing that comes from the server has a Latin letter: what shows one then is a word of the console itself."""

from functools import partial
from typing import Any, Final

from tests.console.rows import NOW, cost_row, plugin_row, session_row, tree_row, waiting_row
from tests.console.scripted import ScriptedServer
from tests.console.story import Story

ID: Final = "σ-1"
TITLE: Final = "Επιστροφή 4411"


def greek(server: ScriptedServer) -> Story:
    """Fill a server with sessions, a tree, plugins and costs; give the session that pages show."""
    assert server.info is not None
    server.refusal = "δεν γίνεται"
    server.info["principal"] |= {"tenant": "πελάτης", "user": "άννα"}
    server.info["profiles"] = [{"agent_id": "γραφείο", "description": "Το γραφείο", "model": "μ:"}]
    server.info["models"] = [{"model": "μ:", "window": 200_000, "input_price": 3.0, "output_price": 15.0}]
    server.info["version"] = "0.1.0"
    seen = {"title": TITLE, "agent_id": "γραφείο"}
    row: Any = partial(session_row, **seen, model="μ:", user="άννα", turn=3)
    rows = [
        row(ID, phase="executing_tools", tool={"name": "κέλυφος", "since_ms": NOW - 12_000}, running=1),
        row("σ-2", waiting={"approvals": 1, "questions": 1}, queued=2, restarts=1),
        row("σ-3", ended=True, outcome="completed"),
        row("σ-4", ended=True, outcome="crashed"),
    ]
    path = [{"session_id": "σ-2", "title": TITLE}]
    waits: Any = partial(
        waiting_row, **seen, path=path, at_ms=NOW - 5_000, summary="διαγραφή", arguments_hash="00" * 32
    )
    server.rows["sessions"] = rows
    server.rows["waiting"] = [
        waits("κ-1", "σ-2", tool="κέλυφος", approval_id="α-1", expires_at_ms=NOW + 62_000),
        waits("κ-2", "σ-2", kind="question", tool=None, approval_id="α-1", ref="ρ-1"),
    ]
    exits = [{"reason": "σφάλμα", "at_ms": NOW - 3_000}]
    tree = partial(tree_row, name="δέντρο", phase=None, session_id=None)
    server.rows["tree"] = [
        tree("ρίζα", None, strategy="one_for_one"),
        tree_row("παιδί", "ρίζα", name="δέντρο", session_id=ID, title=TITLE, restarts=2, exits=exits),
        tree("κολλημένο", "ρίζα", kind="actor", stuck=True, mailbox=9),
    ]
    failure = {"at_ms": NOW, "error": "σφάλμα"}
    server.rows["plugins"] = [
        plugin_row("έλεγχος"),
        plugin_row("όριο", failures=3, stuck_ms=14_000, last_failure=failure),
        plugin_row("φύλακας", "session"),
    ]
    server.answers["GET sessions"] = {"sessions": rows, "next_cursor": None}
    line = {"limit_usd": 20.0, "resets_at_ms": 1_795_392_000_000}
    cost = partial(cost_row, estimated_usd=0.01, unpriced=1)
    server.answers["GET inspect/cost"] = {
        "by": "day",
        "tz": "+02:00",
        "unread": ["σ-9"],
        "rows": [cost("2026-11-21", 1.5), cost("2026-11-22", 2.6)],
        "total": cost("", 4.1),
        "today": cost("", 2.6),
        "month": cost("", 61.0),
        "budgets": [{"name": "ημέρα", "used_usd": 2.6, "limit_usd": 20.0}],
        "day_budgets": [
            {"of": "tenant", "name": "όλοι", "used_usd": 20.0, **line},
            {"of": "user", "name": "Άννα", "used_usd": 4.0, **line, "limit_usd": 5.0},
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
