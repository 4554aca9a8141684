"""A client of the UI message stream for tests: it takes parts as `processUIMessageStream` of `ai` 6 does, and is stricter than that one.

It holds the order of parts by a small automaton: what is opened is closed before the end, ids are never opened again, there is exactly one
last part, and a result belongs to a call that was shown.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

LAST = ("finish", "abort", "error")


@define
class UiClient:
    """One chat as a page shows it: messages by id, in order."""

    messages: dict[str, list[dict[str, Any]]] = field(factory=dict)
    ends: list[dict[str, Any]] = field(factory=list)
    transient: list[dict[str, Any]] = field(factory=list)
    called: list[str] = field(factory=list)
    """The calls that `onToolCall` was given."""

    def read(self, parts: Iterable[Mapping[str, Any]], *, is_replay: bool = False) -> dict[str, Any]:
        """Take one response to its end; a replay begins its message anew. Gives the part that it ended with."""
        response = _Response(self, is_replay=is_replay)
        for part in parts:
            response.take(part)
        assert response.last is not None, "the response has no last part"
        self.ends.append(response.last)
        return response.last

    def told(self, message_id: str | None = None) -> list[Any]:
        """What stands in a message in the end: texts that were taken back left out, what belongs together joined."""
        told: list[Any] = []
        parts = self.messages[message_id or next(reversed(self.messages))]
        taken_back = {
            name for part in parts if part["type"] == "data-discarded" for name in part["data"]["ids"]
        }
        for part in parts:
            match part["type"]:
                case "text" | "reasoning" if part["id"] not in taken_back and part["text"]:
                    if told and told[-1][0] == part["type"]:
                        told[-1] = (part["type"], told[-1][1] + part["text"])
                    else:
                        told.append((part["type"], part["text"]))
                case "dynamic-tool":
                    told.append(
                        ("call", part["toolCallId"], part["state"], part.get("output"), part.get("errorText"))
                    )
                case _:
                    pass
        return told

    def call(self, call_id: str) -> dict[str, Any]:
        parts = self.messages[next(reversed(self.messages))]
        return next(part for part in parts if part.get("toolCallId") == call_id)


@define
class _Response:
    client: UiClient
    is_replay: bool
    parts: list[dict[str, Any]] | None = None
    in_step: bool = False
    open_part: dict[str, Any] | None = None
    opened: set[str] = field(factory=set)
    last: dict[str, Any] | None = None

    def take(self, part: Mapping[str, Any]) -> None:
        assert self.last is None, f"{part} came behind the last part"
        kind = part["type"]
        if kind in LAST:
            assert self.open_part is None, f"{self.open_part} is not closed"
            assert not self.in_step, "the step is not closed"
            assert kind != "finish" or self.parts is not None, "a message ends that never began"
            self.last = dict(part)
        elif kind == "start":
            assert self.parts is None, "one response is one message"
            if self.is_replay:
                self.client.messages.pop(part["messageId"], None)
            self.parts = self.client.messages.setdefault(part["messageId"], [])
            self.opened = {
                one["id"] for one in self.parts if "id" in one and one["type"] in ("text", "reasoning")
            }
        elif part.get("transient"):
            self.client.transient.append(dict(part))
        else:
            assert self.parts is not None, f"{part} came in front of the start"
            self._take_of_message(part, self.parts)

    def _take_of_message(self, part: Mapping[str, Any], parts: list[dict[str, Any]]) -> None:
        kind = part["type"]
        match kind.split("-"):
            case ["start", "step"]:
                assert not self.in_step
                self.in_step = True
                parts.append({"type": "step-start"})
            case ["finish", "step"]:
                assert self.in_step
                assert self.open_part is None
                self.in_step = False
            case ["text" | "reasoning", _]:
                self._take_words(part, parts)
            case ["tool", *_]:
                self._take_call(part, parts)
            case ["data", *_]:
                known = [one for one in parts if one["type"] == kind and one["id"] == part["id"]]
                if known:
                    known[0]["data"] = part["data"]
                else:
                    parts.append(dict(part))
            case _:
                raise AssertionError(part)

    def _take_words(self, part: Mapping[str, Any], parts: list[dict[str, Any]]) -> None:
        kind, what = part["type"].split("-")
        if what == "start":
            assert self.open_part is None, "words are opened while others are open"
            assert self.in_step, "words stand outside of a step"
            assert part["id"] not in self.opened, "an id was opened again"
            self.opened.add(part["id"])
            self.open_part = {"type": kind, "id": part["id"], "text": ""}
            parts.append(self.open_part)
            return
        opened = self.open_part
        assert opened is not None, part
        assert (opened["type"], opened["id"]) == (kind, part["id"]), part
        if what == "delta":
            assert part["delta"]
            opened["text"] += part["delta"]
        else:
            assert what == "end"
            assert opened["text"], "words without a word"
            self.open_part = None

    def _take_call(self, part: Mapping[str, Any], parts: list[dict[str, Any]]) -> None:
        name = part["toolCallId"]
        known = next((one for one in parts if one.get("toolCallId") == name), None)
        if part["type"] == "tool-input-start":
            assert known is None, "a call was opened again"
            shown = {"type": "dynamic-tool", "toolCallId": name, "toolName": part["toolName"]}
            parts.append({**shown, "state": "input-streaming"})
            return
        assert known is not None, f"{part} is of a call that was not shown"
        is_over = known["state"].startswith("output-")
        given = known["state"] == "output-available" and known.get("given")
        assert not is_over or given, f"{part} came behind the result of its call"
        match part["type"]:
            case "tool-input-available":
                known.update(state="input-available", input=part["input"])
                if not part["providerExecuted"]:
                    self.client.called.append(name)
            case "tool-approval-request":
                assert known["state"] in ("input-available", "approval-requested")
                known.update(state="approval-requested", approval={"id": part["approvalId"]})
            case "tool-output-denied":
                assert "approval" in known
                known["state"] = "output-denied"
            case "tool-output-available":
                known.update(state="output-available", output=part["output"])
            case "tool-output-error":
                known.update(state="output-error", errorText=part["errorText"])
            case _:
                raise AssertionError(part)
