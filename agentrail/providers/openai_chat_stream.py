"""The stream of Chat Completions, event by event: `ChatStream`. Pure; no network and no clock enters this file.

Many servers speak this format, each with an accent. What is tolerated is written where it is tolerated, and each has a
transcript in `tests/wire/openai_chat`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from agentrail.core.protocol.request import Chunk, Completed, EffectId, UsageUpdate
from agentrail.core.values.toolbox import parse_arguments
from agentrail.messages import StopReason, TokenUsage
from agentrail.providers.failures import Vendor, cut_short, failure_in_stream
from agentrail.providers.json_text import JsonEnd, decode_object, encode_json
from agentrail.providers.response_builder import ResponseBuilder, pieces_in, usage_in
from agentrail.providers.think_tags import ThinkTags

_STOP_REASONS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        "stop": "end",
        "tool_calls": "tool_use",
        "function_call": "tool_use",
        "length": "max_tokens",
        "content_filter": "refused",
    }
)


class _Slot:
    """A call that is being assembled. It starts, for the outside, when its name is complete."""

    __slots__ = ("arguments", "index", "name", "wire_id")

    def __init__(self) -> None:
        self.index: int | None = None  # in the draft, once started
        self.name = ""
        self.wire_id = ""
        self.arguments = JsonEnd()


class ChatStream:
    """Understands one response. Feed it the data of each event, then close it."""

    def __init__(self, *, model: str, attempt: EffectId, vendor: Vendor, request_bytes: int) -> None:
        """Begin a response; see `MakeReader`."""
        self.draft: ResponseBuilder = ResponseBuilder(provider="openai-chat", model=model, attempt=attempt)
        self._vendor = vendor
        self._request_bytes = request_bytes
        self._slots: dict[object, _Slot] = {}  # by the wire's index
        self._slot: _Slot | None = None  # the one that grew last
        self._waiting: _Slot | None = None  # the last that began: before it, all others were started
        self._tags = ThinkTags()
        self._finish_reason: str | None = None
        self._was_refused = False
        self._usage: TokenUsage | None = None
        self._is_finished = False
        self.ignored_events: int = 0
        """How many events came after the terminal, or said nothing that is known here."""

    def feed(self, data: str) -> list[Chunk]:
        """Understand the data of one event.

        Raises:
            ProviderError: The vendor's move: the event is an error, or none of this format.
        """
        if self._is_finished:
            self.ignored_events += 1
            return []
        if data.startswith("[DONE]"):
            return [*self._start_waiting(), self._completed()]
        event = decode_object(data)
        if event.get("error") or event.get("object") == "error":
            failure = failure_in_stream(event, self._vendor)
            if failure is not None:
                raise failure
        chunks: list[Chunk] = []
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(choice, dict):
            # `message` is a whole completion where a stream was asked for.
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                self._delta(delta, chunks)
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                self._finish_reason = reason
                chunks += self._start_waiting()
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._take_usage(usage, chunks)
        elif choice is None:
            self.ignored_events += 1  # an empty list of choices is some server's heartbeat
        return chunks

    def close(self) -> list[Chunk]:
        """Say what the end of the stream means. Several servers leave `[DONE]` out; none leaves out the reason.

        Raises:
            Transport: The vendor's move: the stream ended before the response did.
        """
        if self._is_finished:
            return []
        if self._finish_reason is None:
            raise cut_short(self._vendor)
        return [*self._start_waiting(), self._completed()]

    def _delta(self, delta: dict[str, Any], chunks: list[Chunk]) -> None:
        content = delta.get("content")
        if content and isinstance(content, str):  # first, because nearly every delta is this one
            if self._tags.is_over:  # nearly always
                chunks.append(self.draft.text(content))
            else:
                chunks += self._said(content)
            if len(delta) == 1:
                return
        elif isinstance(content, list):  # parts, as in a request
            texts = [part.get("text") for part in pieces_in(content) if isinstance(part, dict)]
            chunks += [
                chunk for text in texts if text and isinstance(text, str) for chunk in self._said(text)
            ]
        thoughts = delta.get("reasoning_content") or delta.get("reasoning")
        if thoughts and isinstance(thoughts, str):
            chunks.append(self.draft.thinking(thoughts))
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._was_refused = True
            chunks.append(self.draft.text(refusal))
        for part in pieces_in(delta.get("tool_calls")):
            if isinstance(part, dict):
                self._call_part(part, chunks)

    def _said(self, text: str) -> list[Chunk]:
        return self._untagged(self._tags.feed(text))

    def _untagged(self, pieces: list[tuple[str, bool]]) -> list[Chunk]:
        say, think = self.draft.text, self.draft.thinking
        return [think(piece) if is_thinking else say(piece) for piece, is_thinking in pieces]

    # --- calls

    def _call_part(self, part: dict[str, Any], chunks: list[Chunk]) -> None:
        function = part.get("function")
        if not isinstance(function, dict):
            function = {}
        # Numbers are no ids: one is made up.
        wire_id = part.get("id") if isinstance(part.get("id"), str) else ""
        name = function.get("name") if isinstance(function.get("name"), str) else ""
        arguments = function.get("arguments")
        slot = self._slot_for(part.get("index"), wire_id or "", name or "", chunks)
        if slot.index is None:
            slot.wire_id = slot.wire_id or wire_id or ""
            if name and name != slot.name:  # repeated by some, in pieces by others
                slot.name += name
        if arguments in (None, "", {}):
            return
        if not isinstance(arguments, str):  # an object instead of its text
            arguments = encode_json(arguments).decode()
        index = self._start(slot, chunks)
        chunks.append(self.draft.arguments(index, arguments))

    def _slot_for(self, index: object, wire_id: str, name: str, chunks: list[Chunk]) -> _Slot:
        """Find the call that a part belongs to: by index, unless id or name say that another one begins."""
        key = index if isinstance(index, int) else None
        slot = self._slots.get(key) if key is not None else self._slot
        if slot is None or self._begins_anew(slot, wire_id, name):
            chunks += self._start_waiting()
            slot = self._slots[key] = self._waiting = _Slot()
        self._slot = slot
        return slot

    def _begins_anew(self, slot: _Slot, wire_id: str, name: str) -> bool:
        if wire_id and slot.wire_id:
            return wire_id != slot.wire_id  # some servers write index 0 for every parallel call
        # Without ids: a name again, after arguments that are complete, is the next call.
        if not name or slot.index is None:
            return False
        slot.arguments.read_on(self.draft.argument_pieces(slot.index))
        return slot.arguments.is_reached and not isinstance(
            parse_arguments("".join(self.draft.argument_pieces(slot.index))), str
        )

    def _start(self, slot: _Slot, chunks: list[Chunk]) -> int:
        if slot.index is None:
            started = self.draft.start_call(slot.wire_id, slot.name)
            slot.index = started.index
            chunks.append(started)
        return slot.index

    def _start_waiting(self) -> list[Chunk]:
        """Say what was held: text that could have become a tag, and calls whose name could still have grown."""
        chunks: list[Chunk] = self._untagged(self._tags.flush())
        if self._waiting is not None:
            self._start(self._waiting, chunks)
            self._waiting = None
        return chunks

    # --- the end

    def _take_usage(self, usage: dict[str, Any], chunks: list[Chunk]) -> None:
        taken = usage_in(self.draft, usage, "prompt_tokens", "completion_tokens") or self.draft.estimate(
            self._request_bytes
        )
        if taken != self._usage:  # some servers repeat it with every chunk
            self._usage = taken
            chunks.append(UsageUpdate(taken))

    def _completed(self) -> Completed:
        self._is_finished = True
        usage = self._usage or self.draft.estimate(self._request_bytes)
        return self.draft.completed(self._stop_reason(), usage)

    def _stop_reason(self) -> StopReason:
        if self._was_refused:
            return "refused"
        # Without a reason but with `[DONE]`, as some proxies end a stream: it is over, and why is unknown.
        reason = _STOP_REASONS.get(self._finish_reason or "", "other")
        if reason in {"end", "other"} and self.draft.has_calls:
            return "tool_use"
        if reason == "tool_use" and not self.draft.has_calls:
            return "end"
        return reason
