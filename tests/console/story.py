"""Events as a session sends them, written by hand for the scripted server: numbers, times and the frames around them are kept count of here."""

import json
from typing import Any

from attrs import define, field

from tests.console.scripted import ScriptedServer

BEGAN_MS = 1_795_341_600_000
_READ = {"input": 100, "output": 20, "cache_read": 0, "cache_write": 0, "reasoning": 0}
USAGE = {**_READ, "cost_usd": 0.01, "estimated": False}


@define(eq=False)
class Story:
    """One session on a scripted server: what is told is sent, and is there for later readers. `status` and `more` are for its snapshot."""

    server: ScriptedServer
    session_id: str = "s-1"
    seq: int = 0
    told: list[dict[str, Any]] = field(factory=list)
    status: dict[str, Any] = field(factory=dict)
    more: dict[str, Any] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.server.replies["subscribe"] = self._subscribed
        self.server.answers[f"GET sessions/{self.session_id}/events"] = self._page
        self.server.answers[f"GET sessions/{self.session_id}"] = self._state
        self.server.answers[f"GET sessions/{self.session_id}/rules"] = {"rules": []}

    def link(self, **given: Any) -> str:
        return self.server.link(f"#/s/{self.session_id}", **given)

    def tell(self, kind: str, **fields: Any) -> dict[str, Any]:
        self.seq += 1
        event = self.event(kind, **fields)
        self.told.append(event)
        self._send(event)
        return event

    def whisper(self, kind: str, **fields: Any) -> None:
        self._send({**self.event(kind, **fields), "ephemeral": True})

    def event(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Make an event with the number that counts now."""
        at_ms = BEGAN_MS + self.seq * 100
        return {"kind": kind, "seq": self.seq, "session_id": self.session_id, "at_ms": at_ms, **fields}

    def resend(self, *events: dict[str, Any]) -> None:
        for event in events:
            self._send(event)

    # --- what comes often

    def begins(self, words: str = "Do it.", ref: str = "p-1") -> None:
        """A person says something, and a cycle begins."""
        self.tell("prompt_received", ref=ref, content=[{"kind": "text", "text": words}])
        self.tell("agent_start", ref=ref)

    def asks(self, attempt: int = 1) -> None:
        context = {"messages": 1, "context_messages": 0, "context_digest": ""}
        self.tell("request_start", model="demo:", **context, attempt=attempt)

    def says(self, *pieces: str, attempt: int = 1) -> None:
        self.tell("message_start", attempt=attempt)
        for piece in pieces:
            self.whisper("message_delta", delta=piece, attempt=attempt)

    def answers(self, words: str = "", *calls: tuple[str, str, dict[str, Any]], attempt: int = 1) -> None:
        """The answer is complete: words, and calls as id, name, arguments."""
        blocks: list[dict[str, Any]] = [{"kind": "text", "text": words}] if words else []
        blocks += [
            {"kind": "tool_call", "call_id": call_id, "name": name, "arguments": arguments}
            for call_id, name, arguments in calls
        ]
        stop = "tool_use" if calls else "end"
        message = {
            "role": "assistant",
            "content": blocks,
            "model": "demo:",
            "stop_reason": stop,
            "cut": False,
        }
        self.tell("response_complete", message=message, usage=USAGE, stop_reason=stop, attempt=attempt)
        if calls:
            self.tell("tool_calls", count=len(calls))

    def starts(self, call_id: str, name: str, arguments: dict[str, Any]) -> None:
        self.tell("tool_execution_start", name=name, call_id=call_id, arguments=arguments)

    def ends(self, call_id: str, name: str, text: str = "ok", **result: Any) -> None:
        told = {"call_id": call_id, "name": name, "text": text, "is_error": False, "details": None, **result}
        self.tell("tool_execution_end", name=name, call_id=call_id, result=told)

    def done(self, ref: str = "p-1") -> None:
        self.tell("agent_end", messages=[], usage=USAGE, stop_reason="end", ref=ref, turns=1)

    def approval(self, call_id: str, tool: str, *below: str, **arguments: Any) -> dict[str, Any]:
        """An approval of a call of this session, or of one below it."""
        asked = {"id": "a-1", "call_id": call_id, "tool": tool, "arguments": arguments}
        at = {"arguments_hash": "0" * 64, "requested_at_ms": BEGAN_MS}
        return {**asked, **at, "path": [self.session_id, *below]}

    # --- what the server answers

    def snapshot(self) -> dict[str, Any]:
        status = {
            "session_id": self.session_id, "phase": "idle", "turn": 0, "model": "demo:", "running_tools": [], "approvals": [],
            "questions": [], "suspended": False, "tearing_down": False, "messages": 0, "usage": USAGE, "budget_left": None,
            "last_seq": self.seq, "restarts": 0, "children": [], **self.status,
        }  # fmt: skip
        told = {"seq": self.seq, "status": status, "queued": [], "todos": [], "text": "", "messages": []}
        return {**told, "before": 0, "title": None, "agent_id": "desk", "children": [], **self.more}

    def _subscribed(self, frame: dict[str, Any]) -> list[dict[str, Any]]:
        if frame["session_id"] != self.session_id:
            error = {"code": "session_unknown", "message": "there is no such session", "status": 404}
            return [{"type": "reply", "id": frame["id"], "ok": False, "error": error}]
        head = {"type": "subscribed", "id": frame["id"], "session_id": self.session_id}
        after = frame.get("after")
        if after is None:
            return [{**head, "seq": self.seq, "snapshot": self.snapshot()}]
        missed = [{"type": "event", "event": event} for event in self.told if event["seq"] > after]
        return [{**head, "seq": after}, *missed]

    async def _page(self, request: Any) -> dict[str, Any]:
        given = request.query_params
        kinds = set(given["kinds"].split(",")) if "kinds" in given else None
        before, after = int(given.get("before", self.seq + 1)), int(given.get("after", 0))
        between = [event for event in self.told if after < event["seq"] < before]
        wanted = [event for event in between if kinds is None or event["kind"] in kinds]
        limit = int(given["limit"])
        page = wanted[:limit] if "after" in given else wanted[-limit:]
        is_cut = len(page) < len(wanted)
        first = page[0]["seq"] if is_cut and "after" not in given else after + 1
        kept_from = self.told[0]["seq"] if self.told else 1
        return {"events": page, "first": first, "last": before - 1, "more": is_cut, "kept_from": kept_from}

    async def _state(self, _request: Any) -> dict[str, Any]:
        return self.snapshot()

    def _send(self, event: dict[str, Any]) -> None:
        if self.server.accepted:
            self.server.send(json.dumps({"type": "event", "event": event}))
