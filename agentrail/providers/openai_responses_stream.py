"""The stream of OpenAI Responses, event by event: `ResponsesStream`. Pure; no network and no clock enters this file.

The format says everything up to four times: in deltas, in the `done` of a part, in the `done` of its item, and in the
response at the end. Each later one is held against what came before. So a server that leaves some of them out is
understood, a whole response in place of a stream too, and where two of them disagree the later one wins.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from agentrail.core.protocol.request import Chunk, Completed, EffectId, UsageUpdate
from agentrail.errors import ProtocolError
from agentrail.messages import StopReason, TokenUsage
from agentrail.providers.failures import Vendor, cut_short, failure_in_stream, reported_failure
from agentrail.providers.json_text import decode_object
from agentrail.providers.response_builder import ResponseBuilder, pieces_in, text_of, usage_in

_INCOMPLETE: Final[Mapping[str, StopReason]] = MappingProxyType(
    {"max_output_tokens": "max_tokens", "content_filter": "refused"}
)
# The member in which the `done` of a part has the whole of it.
_PART_DONE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "response.output_text.done": "text",
        "response.refusal.done": "refusal",
        "response.reasoning_summary_text.done": "text",
        "response.reasoning_text.done": "text",
    }
)
_ITEM_PARTS: Final[Mapping[str, str]] = MappingProxyType({"output_text": "text", "refusal": "refusal"})


class ResponsesStream:
    """Understands one response. Feed it the data of each event, then close it."""

    def __init__(self, *, model: str, attempt: EffectId, vendor: Vendor, request_bytes: int) -> None:
        """Begin a response; see `MakeReader`."""
        self.draft: ResponseBuilder = ResponseBuilder(provider="openai", model=model, attempt=attempt)
        self._vendor = vendor
        self._request_bytes = request_bytes
        # How many items were announced for each place of the output.
        self._announced: dict[int | str, int] = {}
        self._calls: dict[object, int] = {}  # by item: the call's index in the draft
        self._done: set[object] = set()  # items that are whole
        self._was_refused = False
        self._is_finished = False
        self.ignored_events: int = 0
        """How many events came after the terminal, or are of a kind that is not known here."""

    def feed(self, data: str) -> list[Chunk]:
        """Understand the data of one event.

        Raises:
            ProviderError: The vendor's move: the event is an error, or none of this format.
        """
        if self._is_finished or data.startswith("[DONE]"):  # the mark of another format, which proxies add
            self.ignored_events += 1
            return []
        event = decode_object(data)
        kind = event.get("type")
        match kind:
            case "response.output_text.delta":
                return self._text(text_of(event, "delta"), self._part(kind, event))
            case "response.function_call_arguments.delta":
                return self._arguments(event)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._thinking(text_of(event, "delta"), self._part(kind, event))
            case "response.refusal.delta":
                self._was_refused = True
                return self._text(text_of(event, "delta"), self._part(kind, event))
            case str() if kind in _PART_DONE:
                return self._part_done(kind, event)
            case "response.function_call_arguments.done":
                return self._arguments_done(self._item(event), text_of(event, "arguments"))
            case "response.output_item.added":
                return self._item_added(event, _object_of(event, "item"))
            case "response.output_item.done":
                return self._item_done(self._item(event), _object_of(event, "item"))
            case "response.completed" | "response.incomplete" | "response.failed":
                return self._terminal(_object_of(event, "response"), kind.partition(".")[2])
            case _ if event.get("object") == "response":  # whole, where a stream was asked for
                return self._terminal(event, "other")
            case _:
                return self._unknown(event)

    def close(self) -> list[Chunk]:
        """Say what the end of the stream means: a response is over when it said so, and not before.

        Raises:
            Transport: The vendor's move: the stream ended before the response did.
        """
        if not self._is_finished:
            raise cut_short(self._vendor)
        return []

    # --- which item, which part of it

    def _item(self, event: dict[str, Any]) -> tuple[int | str, int]:
        """Say which item an event is about: by its place in the output, by its id where a server leaves that out."""
        place = event.get("output_index")
        if not isinstance(place, int):
            place = text_of(event, "item_id") or text_of(_object_of(event, "item"), "id") or 0
        # Not by id in the first place: there are proxies that give an item another id with each event.
        return (place, self._announced.setdefault(place, 0))

    def _part(self, kind: str, event: dict[str, Any]) -> object:
        # By the kind and not by which index is there: some servers leave it out where it would be 0.
        member = "summary" if kind.startswith("response.reasoning_summary") else "content"
        number = event.get(f"{member}_index")
        return (self._item(event), member, number if isinstance(number, int) else 0)

    # --- parts of items

    def _text(self, piece: str, part: object) -> list[Chunk]:
        return [self.draft.text(piece, part)] if piece else []

    def _thinking(self, piece: str, part: object) -> list[Chunk]:
        return [self.draft.thinking(piece, key=part)] if piece else []

    def _part_done(self, kind: str, event: dict[str, Any]) -> list[Chunk]:
        whole, part = text_of(event, _PART_DONE[kind]), self._part(kind, event)
        if kind.startswith("response.reasoning"):
            return self._whole_thinking(whole, part)
        self._was_refused = self._was_refused or kind == "response.refusal.done"
        return self._whole_text(whole, part)

    def _whole_text(self, whole: str, part: object) -> list[Chunk]:
        # A `done` without its text says nothing, and so takes nothing back.
        return self._text(self.draft.missing(part, whole), part) if whole else []

    def _whole_thinking(self, whole: str, part: object) -> list[Chunk]:
        return self._thinking(self.draft.missing(part, whole), part) if whole else []

    def _arguments(self, event: dict[str, Any]) -> list[Chunk]:
        index, piece = self._calls.get(self._item(event)), text_of(event, "delta")
        if index is None:  # its item was not announced: the `done` of the item has the whole, and the name
            self.ignored_events += 1
            return []
        return [self.draft.arguments(index, piece)] if piece else []

    def _arguments_done(self, key: object, whole: str) -> list[Chunk]:
        index = self._calls.get(key)
        if index is None or not whole:
            return []
        missing = self.draft.missing_arguments(index, whole)
        return [self.draft.arguments(index, missing)] if missing else []

    # --- items

    def _item_added(self, event: dict[str, Any], item: dict[str, Any]) -> list[Chunk]:
        place, earlier = self._item(event)
        self._announced[place] = earlier + 1  # some servers say place 0 for every item: each begins anew
        return self._start_call((place, earlier + 1), item) if item.get("type") == "function_call" else []

    def _start_call(self, key: object, item: dict[str, Any]) -> list[Chunk]:
        started = self.draft.start_call(text_of(item, "call_id"), text_of(item, "name"))
        self._calls[key] = started.index
        return [started]

    def _item_done(self, key: object, item: dict[str, Any]) -> list[Chunk]:
        if key in self._done:
            self.ignored_events += 1
            return []
        self._done.add(key)
        match item.get("type"):
            case "message":
                return self._message_done(key, item)
            case "function_call":
                chunks = [] if key in self._calls else self._start_call(key, item)
                return [*chunks, *self._arguments_done(key, text_of(item, "arguments"))]
            case "reasoning":
                chunks = self._reasoning_done(key, item)
                self.draft.opaque(item)  # goes back unchanged; the thinking beside it is for people
                return chunks
            case str():
                self.draft.opaque(item)  # a hosted tool's call, or what will be invented
                return []
            case _:
                message = "the provider finished an item without saying what it is"
                raise ProtocolError(message)

    def _message_done(self, key: object, item: dict[str, Any]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for number, part in _parts_of(item, "content"):
            kind = text_of(part, "type")
            if kind in _ITEM_PARTS:
                self._was_refused = self._was_refused or kind == "refusal"
                chunks += self._whole_text(text_of(part, _ITEM_PARTS[kind]), (key, "content", number))
        return chunks

    def _reasoning_done(self, key: object, item: dict[str, Any]) -> list[Chunk]:
        return [
            chunk
            for member in ("summary", "content")
            for number, part in _parts_of(item, member)
            for chunk in self._whole_thinking(text_of(part, "text"), (key, member, number))
        ]

    # --- the end

    def _terminal(self, response: dict[str, Any], said: str) -> list[Chunk]:
        status = response.get("status") or said
        if status == "failed":
            raise reported_failure(_object_of(response, "error"), self._vendor)
        chunks: list[Chunk] = []
        if not self._done:  # items that came whole are what counts; here they would only stand once more
            for number, item in _parts_of(response, "output"):
                item_id = text_of(item, "id")
                place = item_id if item_id in self._announced else number
                chunks += self._item_done((place, self._announced.get(place, 0)), item)
        reported = response.get("usage")
        usage = self.draft.estimate(self._request_bytes)
        if isinstance(reported, dict):
            usage = usage_in(self.draft, reported, "input_tokens", "output_tokens") or usage
            chunks.append(UsageUpdate(usage))
        self._is_finished = True
        return [*chunks, self._completed(status, response, usage)]

    def _completed(self, status: object, response: dict[str, Any], usage: TokenUsage) -> Completed:
        reason: StopReason
        if self._was_refused:
            reason = "refused"
        elif status == "completed":
            reason = "tool_use" if self.draft.has_calls else "end"
        elif status == "incomplete":
            # Without a reason, as some servers leave it, it is the one that every server has.
            details = _object_of(response, "incomplete_details")
            reason = _INCOMPLETE.get(text_of(details, "reason") or "max_output_tokens", "other")
        else:
            reason = "other"
        return self.draft.completed(reason, usage)

    def _unknown(self, event: dict[str, Any]) -> list[Chunk]:
        kind = event.get("type")
        if kind == "error" and not isinstance(event.get("error"), dict):
            raise reported_failure(event, self._vendor)  # flat, with `code` and `message` in the event itself
        if kind == "error" or not isinstance(kind, str):  # as proxies write it
            failure = failure_in_stream(event, self._vendor)
            if failure is not None:
                raise failure
        self.ignored_events += 1
        return []


def _parts_of(value: dict[str, Any], name: str) -> list[tuple[int, dict[str, Any]]]:
    return [
        (number, part) for number, part in enumerate(pieces_in(value.get(name))) if isinstance(part, dict)
    ]


def _object_of(value: dict[str, Any], name: str) -> dict[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}
