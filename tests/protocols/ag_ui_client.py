"""An AG-UI client for tests: its types are the official ones, its order is that of `@ag-ui/client`, and it is stricter.

It parses each frame with `ag-ui-protocol`, verifies what may follow what, and keeps messages as the reducer of the
client does. Stricter: nothing is opened twice, nothing is sent after the one terminal frame, and each call has at most
one result.
"""

import json
from collections.abc import Iterable
from typing import Any

from attrs import define, field

from tests.providers.vendors import judge

LAST = ("RUN_FINISHED", "RUN_ERROR")
OPENS = {
    "TEXT_MESSAGE_START": "messageId",
    "REASONING_START": "messageId",
    "REASONING_MESSAGE_START": "messageId",
    "TOOL_CALL_START": "toolCallId",
    "STEP_STARTED": "stepName",
    "SUBAGENT_STARTED": "subagentRunId",
}
CLOSES = {
    "TEXT_MESSAGE_END": "TEXT_MESSAGE_START",
    "REASONING_END": "REASONING_START",
    "REASONING_MESSAGE_END": "REASONING_MESSAGE_START",
    "TOOL_CALL_END": "TOOL_CALL_START",
    "STEP_FINISHED": "STEP_STARTED",
    "SUBAGENT_FINISHED": "SUBAGENT_STARTED",
    "SUBAGENT_ERROR": "SUBAGENT_STARTED",
}
CONTINUES = {
    "TEXT_MESSAGE_CONTENT": "TEXT_MESSAGE_START",
    "REASONING_MESSAGE_CONTENT": "REASONING_MESSAGE_START",
    "TOOL_CALL_ARGS": "TOOL_CALL_START",
}


@define
class AgUiClient:
    """One thread as a page shows it."""

    messages: list[dict[str, Any]] = field(factory=list)
    state: dict[str, Any] = field(factory=dict)
    custom: list[dict[str, Any]] = field(factory=list)
    interrupts: list[dict[str, Any]] = field(factory=list)
    pending: list[str] = field(factory=list)
    usage: list[dict[str, Any]] = field(factory=list)
    opened: set[tuple[str, str]] = field(factory=set)
    """All that was ever opened, of the kinds that outlive a run."""

    def read(self, frames: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Take one run to its end, and return its terminal frame."""
        run = _Run(self)
        for frame in frames:
            run.take(frame)
        assert run.last is not None, "the run has no terminal frame"
        return run.last

    def say(self, text: str, name: str) -> None:
        """Add a message of the user."""
        self.messages.append({"id": name, "role": "user", "content": text})

    def answer(self, call_id: str, content: str) -> None:
        """Add the result of a call that the client ran, behind its call, as the client does."""
        self._insert({"id": f"r-{call_id}", "role": "tool", "toolCallId": call_id, "content": content})

    def call(self, call_id: str) -> dict[str, Any]:
        """Return a call."""
        return next(
            call for one in self.messages for call in one.get("toolCalls", ()) if call["id"] == call_id
        )

    def results(self, call_id: str) -> list[str]:
        """Return the results of a call."""
        return [one["content"] for one in self.messages if one.get("toolCallId") == call_id]

    @property
    def told(self) -> list[tuple[str, str]]:
        """The texts of users and of the model, in order."""
        return [
            (one["role"], one["content"])
            for one in self.messages
            if one["role"] in ("user", "assistant") and one.get("content")
        ]

    def _message(self, name: str) -> dict[str, Any] | None:
        return next((one for one in self.messages if one["id"] == name), None)

    def _insert(self, result: dict[str, Any]) -> None:
        place = len(self.messages)
        for at, one in enumerate(self.messages):
            if any(call["id"] == result["toolCallId"] for call in one.get("toolCalls", ())):
                place = at + 1
                while place < len(self.messages) and self.messages[place]["role"] == "tool":
                    place += 1
        self.messages.insert(place, result)


@define
class _Run:
    client: AgUiClient
    is_started: bool = False
    last: dict[str, Any] | None = None
    active: set[tuple[str, str | None, str]] = field(factory=set)
    subagents: set[str] = field(factory=set)
    owners: dict[tuple[str, str], str | None] = field(factory=dict)

    def take(self, frame: dict[str, Any]) -> None:
        judge("ag_ui.core", "Event").validate_json(json.dumps(frame))
        kind = frame["type"]
        assert self.last is None, f"{frame} came after the terminal frame"
        assert self.is_started or kind in ("RUN_STARTED", "RUN_ERROR"), f"{frame} came first"
        if kind == "RUN_STARTED":
            assert not self.is_started, "the run started twice"
            assert frame["protocolVersion"] == "1.0"
            self.is_started = True
        elif kind in OPENS:
            self._open(kind, frame)
        elif kind in CLOSES:
            self._close(CLOSES[kind], frame)
        elif kind in CONTINUES:
            self._continue(CONTINUES[kind], frame)
        elif kind in LAST:
            self._finish(frame)
        else:
            self._take_whole(kind, frame)

    def _open(self, kind: str, frame: dict[str, Any]) -> None:
        name, child = frame[OPENS[kind]], frame.get("subagentRunId")
        key = (kind, child, name)
        assert key not in self.active, f"{frame} is open already"
        if kind == "SUBAGENT_STARTED":
            assert name not in self.subagents, f"{frame} started twice"
            parent = frame.get("parentSubagentRunId")
            assert parent is None or parent in self.subagents, f"{frame} has an unknown parent"
            self.subagents.add(name)
        elif kind != "STEP_STARTED":
            assert (kind, name) not in self.client.opened, f"{frame} was opened before"
            self.client.opened.add((kind, name))
            self.owners[kind, name] = child
            assert child is None or child in self.subagents, f"{frame} is of a child that did not start"
        self.active.add(key)
        self._build(kind, name, frame)

    def _build(self, kind: str, name: str, frame: dict[str, Any]) -> None:
        messages = self.client.messages
        if kind == "TOOL_CALL_START":
            parent = frame.get("parentMessageId")
            owner = self.owners.get(("TEXT_MESSAGE_START", parent or ""), frame.get("subagentRunId"))
            assert owner == frame.get("subagentRunId"), f"{frame} is in the message of another"
            message = self.client._message(parent or name)  # noqa: SLF001 - one module
            if message is None:
                message = {"id": parent or name, "role": "assistant"}
                messages.append(message)
            call = {
                "id": name,
                "type": "function",
                "function": {"name": frame["toolCallName"], "arguments": ""},
            }
            message.setdefault("toolCalls", []).append(call)
        elif kind in ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START"):
            assert self.client._message(name) is None, f"{frame} has the id of another message"  # noqa: SLF001
            role = "assistant" if kind == "TEXT_MESSAGE_START" else "reasoning"
            messages.append({"id": name, "role": role, "content": ""})

    def _close(self, kind: str, frame: dict[str, Any]) -> None:
        key = (kind, frame.get("subagentRunId"), frame[OPENS[kind]])
        assert key in self.active, f"{frame} closes what is not open"
        self.active.remove(key)
        if kind == "TOOL_CALL_START":
            assert isinstance(json.loads(self.client.call(key[2])["function"]["arguments"]), dict)

    def _continue(self, kind: str, frame: dict[str, Any]) -> None:
        name = frame[OPENS[kind]]
        assert (kind, frame.get("subagentRunId"), name) in self.active, f"{frame} continues what is not open"
        assert frame["delta"]
        if kind == "TOOL_CALL_START":
            self.client.call(name)["function"]["arguments"] += frame["delta"]
        else:
            message = self.client._message(name)  # noqa: SLF001 - one module
            assert message is not None
            message["content"] += frame["delta"]

    def _take_whole(self, kind: str, frame: dict[str, Any]) -> None:
        client = self.client
        match kind:
            case "TOOL_CALL_RESULT":
                assert not client.results(frame["toolCallId"]), f"{frame} is a second result"
                told = {"id": frame["messageId"], "role": "tool", "toolCallId": frame["toolCallId"]}
                client._insert({**told, "content": frame["content"]})  # noqa: SLF001 - one module
            case "MESSAGES_SNAPSHOT":
                assert not [one for one in self.active if one[0].endswith("MESSAGE_START")], "text is open"
                thinking = any(one["role"] == "reasoning" for one in frame["messages"])
                fresh = {one["id"]: one for one in frame["messages"]}
                own = {one["id"] for one in client.messages}
                twice = len(client.messages) - len(own)  # which a client with an id twice has sent itself
                assert len(frame["messages"]) - len(fresh) <= twice, "a snapshot has an id twice"
                kept = [
                    one
                    for one in client.messages
                    if one["id"] in fresh or (one["role"] == "reasoning" and not thinking)
                ]
                gone = {one["id"] for one in client.messages} - {one["id"] for one in kept}
                client.opened = {one for one in client.opened if one[1] not in gone}
                known = {one["id"] for one in kept}
                client.messages = [fresh.get(one["id"], one) for one in kept]
                client.messages += [one for name, one in fresh.items() if name not in known]
            case "STATE_DELTA":
                for change in frame["delta"]:
                    assert change["op"] == "add"
                    client.state[change["path"].removeprefix("/")] = change["value"]
            case "CUSTOM":
                assert frame["name"].startswith("agentrail.")
                client.custom.append(frame)
            case _:
                raise AssertionError(frame)

    def _finish(self, frame: dict[str, Any]) -> None:
        self.last = frame
        assert frame["type"] == "RUN_ERROR" or not self.active, f"{self.active} is open at the end"
        outcome = frame.get("outcome", {})
        self.client.interrupts = outcome.get("interrupts", [])
        self.client.pending = outcome.get("pendingToolCallIds", [])
        self.client.usage = frame.get("usage", [])
