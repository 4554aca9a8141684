"""Rows as a server sends them to the pages: sessions, what waits for the user, nodes of the tree, plugins and costs."""

import time
from typing import Any, Final

NOW: Final = int(time.time() * 1_000)


def session_row(name: str, **more: Any) -> dict[str, Any]:
    return {
        "session_id": name, "title": None, "first_words": None, "agent_id": "desk", "user": "local", "model": "demo:",
        "phase": "idle", "suspended": False, "tearing_down": False, "ended": False, "outcome": None, "parent": None,
        "tool": None, "running": 0, "waiting": {"approvals": 0, "questions": 0}, "queued": 0, "turn": 0, "restarts": 0,
        "tokens": 1_200, "cost_usd": 0.04, "created_at_ms": NOW, "changed_at_ms": NOW, **more,
    }  # fmt: skip


def waiting_row(key: str, session_id: str, **more: Any) -> dict[str, Any]:
    return {
        "key": key, "kind": "approval", "session_id": session_id, "title": None, "agent_id": "desk", "at_ms": NOW,
        "path": [{"session_id": session_id, "title": None}], "expires_at_ms": None, "tool": "shell", "summary": "rm -r build",
        "approval_id": f"ap-{key}", "ref": None, "arguments_hash": "ab" * 32, **more,
    }  # fmt: skip


def question_row(ref: str, session_id: str, words: str | None = None) -> dict[str, Any]:
    asked = {"kind": "question", "tool": None, "approval_id": None, "ref": ref}
    return waiting_row(ref, session_id, **asked, **({} if words is None else {"summary": words}))


def tree_row(key: str, parent: str | None = "0", **more: Any) -> dict[str, Any]:
    """Return a node of the tree: a session, or a supervisor where nothing is above it."""
    usual: dict[str, Any] = {
        "kind": "session" if parent else "supervisor", "status": "running", "phase": "idle" if parent else None,
        "session_id": more.get("name", key) if parent else None, "incarnation": 1, "restarts": 0, "mailbox": 0,
        "up_at_ms": NOW - 7_200_000, "intensity": {"used": 0, "allowed": 3, "within_ms": 5_000}, "exits": [], "stuck": False,
    }  # fmt: skip
    return {"key": key, "parent": parent, "name": key, **usual, **more}


def plugin_row(name: str, kind: str = "host", **more: Any) -> dict[str, Any]:
    hooks = [{"hook": "on_request_start", "calls": 12_345, "failures": 0, "p50_ms": 0.0123, "p99_ms": 12.5}]
    return {
        "key": f"{kind}:{name}", "name": name, "kind": kind, "version": "1.0", "order": 1 if kind == "host" else None, "hooks": hooks,
        "failures": 0, "stuck_hook": None, "stuck_at_ms": None, "sessions": None if kind == "host" else 3, "last_failure": None, **more,
    }  # fmt: skip


def cost_row(key: str = "", cost_usd: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "key": key, "tokens_in": 1_200, "tokens_out": 340, "cached": 600, "cost_usd": cost_usd, "estimated_usd": 0.0, "requests": 3,
        "unpriced": 0, **more,
    }  # fmt: skip
