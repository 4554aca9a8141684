"""The stream of Gemini, event by event: `GeminiStream`. Pure; no network and no clock enters this file.

Each event is a whole response with a few more parts, and there is no terminator: a response is complete when it said
why it finished, and the body ended. Signatures belong to single parts and go back on the very same part. So a part
that is signed is a block of its own, behind an `Opaque` that holds its signature and nothing else.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from agentrail.core.protocol.request import Chunk, Completed, EffectId, UsageUpdate
from agentrail.errors import ContentRefused, ProtocolError
from agentrail.messages import StopReason, TokenUsage
from agentrail.providers.failures import Vendor, cut_short, failure_in_stream
from agentrail.providers.json_text import decode_object, encode_json, shown
from agentrail.providers.response_builder import ResponseBuilder, pieces_in, text_of

NAME: Final = "google"
SIGNATURE: Final = "thoughtSignature"

_STOP_REASONS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        "STOP": "end",
        "MAX_TOKENS": "max_tokens",
        "SAFETY": "refused",
        "PROHIBITED_CONTENT": "refused",
        "BLOCKLIST": "refused",
        "SPII": "refused",
        "RECITATION": "refused",
    }
)
_BROKEN_CALL: Final = "MALFORMED_FUNCTION_CALL"
_NO_REASON: Final = frozenset({"", "FINISH_REASON_UNSPECIFIED"})
_COUNTS: Final = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
)


class GeminiStream:
    """Understands one response. Feed it the data of each event, then close it."""

    def __init__(self, *, model: str, attempt: EffectId, vendor: Vendor, request_bytes: int) -> None:
        """Begin a response; see `MakeReader`."""
        self.draft: ResponseBuilder = ResponseBuilder(provider=NAME, model=model, attempt=attempt)
        self._vendor = vendor
        self._request_bytes = request_bytes
        self._counts: dict[str, int] = {}
        self._reported: dict[str, Any] | None = None
        self._usage: TokenUsage | None = None
        self._finish_reason = ""
        self._finish_message = ""
        self._is_finished = False
        self._says_something = False  # a signature alone says nothing
        self.ignored_events: int = 0
        """How many events came after the terminal, or said nothing that is known here."""

    def feed(self, data: str) -> list[Chunk]:
        """Understand the data of one event.

        Raises:
            ProviderError: The vendor's move: the event is an error, a refusal of the prompt, or none of this format.
        """
        if self._is_finished:
            self.ignored_events += 1
            return []
        event = decode_object(data)
        failure = failure_in_stream(event, self._vendor)
        if failure is not None:
            raise failure
        candidates, usage = event.get("candidates"), event.get("usageMetadata")
        candidate = candidates[0] if isinstance(candidates, list) and candidates else None
        chunks: list[Chunk] = []
        if isinstance(candidate, dict):
            self._take_candidate(candidate, chunks)
        else:
            self._refuse_blocked(event.get("promptFeedback"))
            self.ignored_events += not isinstance(usage, dict)
        if isinstance(usage, dict):
            self._take_usage(usage, chunks)
        return chunks

    def close(self) -> list[Chunk]:
        """Say what the end of the body means: the end of the response, if it said why it finished.

        Raises:
            Transport: The vendor's move: the body ended before the response did.
            ProtocolError: The vendor's move: the model wrote a call that cannot be read, or nothing at all.
        """
        if self._is_finished:
            return []
        self._is_finished = True
        if not self._finish_reason:
            raise cut_short(self._vendor)
        if self._finish_reason == _BROKEN_CALL:
            said = f": {shown(self._finish_message)}" if self._finish_message else ""
            message = f"{self._vendor.name} says that the model wrote a malformed call{said}: try again"
            raise ProtocolError(message)
        return [self._completed()]

    # --- parts

    def _take_candidate(self, candidate: dict[str, Any], chunks: list[Chunk]) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in pieces_in(parts):
            if isinstance(part, dict):
                self._take_part(part, chunks)
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason not in _NO_REASON:
            self._finish_reason = reason
            self._finish_message = text_of(candidate, "finishMessage")

    def _take_part(self, part: dict[str, Any], chunks: list[Chunk]) -> None:
        signature = text_of(part, SIGNATURE) or None
        call = part.get("functionCall")
        if isinstance(call, dict):
            self._take_call(call, signature, chunks)
        elif not isinstance(part.get("text", ""), str) or part.keys() - {"text", "thought", SIGNATURE}:
            self.draft.opaque(part)  # code that the vendor ran, pictures, and what will be invented
            self._says_something = True
        elif part.get("thought") is True:
            self._take_thought(text_of(part, "text"), signature, chunks)
        else:
            self._take_text(text_of(part, "text"), signature, chunks)

    def _take_text(self, text: str, signature: str | None, chunks: list[Chunk]) -> None:
        if not text:
            if signature is not None:  # the last part may hold nothing else, and goes back as it came
                self.draft.opaque({"text": "", SIGNATURE: signature})
            return
        self._says_something = True
        if signature is not None:
            self.draft.opaque({SIGNATURE: signature})
        chunks.append(self.draft.text(text))
        if signature is not None:
            self.draft.end_block()

    def _take_thought(self, text: str, signature: str | None, chunks: list[Chunk]) -> None:
        if signature is not None:
            self.draft.end_block()
        if text or signature is not None:
            self._says_something = True
            chunks.append(self.draft.thinking(text, signature))

    def _take_call(self, call: dict[str, Any], signature: str | None, chunks: list[Chunk]) -> None:
        self._says_something = True
        if signature is not None:
            self.draft.opaque({SIGNATURE: signature})
        started = self.draft.start_call(text_of(call, "id"), text_of(call, "name"))
        chunks.append(started)
        arguments = call.get("args")
        if arguments not in (None, {}):
            chunks.append(self.draft.arguments(started.index, encode_json(arguments).decode()))

    # --- the end

    def _refuse_blocked(self, feedback: object) -> None:
        reason = text_of(feedback, "blockReason") if isinstance(feedback, dict) else ""
        if reason and not self._says_something:
            message = f"{self._vendor.name} refused the prompt ({shown(reason)}): say it in other words, or with less"
            raise ContentRefused(message)

    def _take_usage(self, usage: dict[str, Any], chunks: list[Chunk]) -> None:
        """Take the totals that are named; one that is not named keeps its earlier value, and 0 is never named."""
        if usage == self._reported and not self.draft.strange_counts:
            return  # it stands in every event, mostly the same
        self._reported = usage
        for name in _COUNTS:
            count = self.draft.count(name, usage.get(name))
            if count is not None:
                self._counts[name] = count
        taken_together = self._total()
        if taken_together != self._usage:
            self._usage = taken_together
            chunks.append(UsageUpdate(taken_together))

    def _total(self) -> TokenUsage:
        if self.draft.strange_counts or not self._counts:
            return self.draft.estimate(self._request_bytes)
        prompt, hosted_tools, cached, answer, thoughts = (self._counts.get(name, 0) for name in _COUNTS)
        return TokenUsage(
            input=prompt + hosted_tools,
            output=answer + thoughts,  # the count of the candidates leaves the thoughts out
            cache_read=cached,
            reasoning=thoughts,
            cost_usd=None,
        )

    def _completed(self) -> Completed:
        reason: StopReason = _STOP_REASONS.get(self._finish_reason, "other")
        if reason in {"end", "other"}:
            if self.draft.has_calls:
                reason = "tool_use"
            elif not self._says_something:
                message = f"the provider answered with nothing (finish reason {shown(self._finish_reason)}): try again"
                raise ProtocolError(message)
        return self.draft.completed(reason, self._usage or self.draft.estimate(self._request_bytes))
