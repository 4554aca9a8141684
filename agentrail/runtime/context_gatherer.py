"""Context providers: call them one after another, validate their messages, and keep the result by an id."""

import hashlib
from collections.abc import Sequence, Set as AbstractSet
from functools import partial
from typing import Any, Final

import trio
from attrs import define, field, frozen
from msgspec.structs import replace

from agentrail.abc import MAX_CONTEXT_BYTES, AtEnd, ContextProvider, ProviderContext, TimedProvider
from agentrail.core.policy.request_context import tokens_of
from agentrail.core.protocol.effects import GatherContext
from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.protocol.signals import ContextGathered
from agentrail.core.values.history import Log
from agentrail.errors import ErrorInfo
from agentrail.logs import Logger
from agentrail.messages import Image, Message, Text, UserBlock, UserMessage
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.exits import keep
from agentrail.otp.guarded_calls import call_guarded
from agentrail.runtime.crashes import PortCrashed, crash_edge
from agentrail.runtime.error_scrubber import Scrub
from agentrail.runtime.session_clock import now_ms

LOGGER: Final = Logger("agentrail.runtime")

PROVIDER_SECONDS: Final = 10.0
"""Time limit for one provider, in seconds."""

_NOTHING_KEPT: Final = EffectId("")


@frozen(kw_only=True)
class Gathered:
    front: tuple[UserMessage, ...] = ()
    end: tuple[UserMessage, ...] = ()


_NO_CONTEXT: Final = Gathered()


@define(eq=False, repr=False, weakref_slot=False)
class ContextGatherer:
    _providers: Sequence[ContextProvider]
    _about: ProviderContext
    _scrub: Scrub = keep
    _kept: Gathered = field(init=False, default=_NO_CONTEXT)
    _kept_by: EffectId = field(init=False, default=_NOTHING_KEPT)
    _earlier: dict[UserMessage, UserMessage] = field(init=False, factory=dict)
    _said: set[tuple[UserBlock, ...]] = field(init=False, factory=set)
    _read: Sequence[Message] = field(init=False, default=())

    def __attrs_post_init__(self) -> None:
        self._providers = tuple(self._providers)

    async def gather(self, effect: GatherContext) -> ContextGathered:
        messages = tuple(effect.messages)
        known = self._known(effect.messages)
        front: list[UserMessage] = []
        end: list[UserMessage] = []
        for provider in self._providers:
            name = _name_of(provider)
            try:
                returned = await self._ask(provider, name, messages)
                given, is_end = (
                    (returned.messages, True) if isinstance(returned, AtEnd) else (returned, False)
                )
                with self._edge(name):  # the result may be an object of its own class
                    kept, faults = decide_context(given, known)
            except PortCrashed as crashed:
                self._report(name, crashed.error.message)
                continue
            (end if is_end else front).extend(kept)
            if faults:
                await self._say_left_out(provider, name, faults)
        return self._keep(effect.effect_id, Gathered(front=tuple(front), end=tuple(end)))

    def join(self, request: ModelRequest, context: EffectId) -> ModelRequest:
        if context != self._kept_by:  # only the last gathering can match
            return request
        front, end = self._kept.front, self._kept.end
        points = tuple(
            point + len(front) if isinstance(point, int) else point for point in request.cache_points
        )
        return replace(request, messages=(*front, *request.messages, *end), cache_points=points)

    def _known(self, messages: Sequence[Message]) -> AbstractSet[tuple[UserBlock, ...]]:
        """Return the user messages of the conversation, reading only those added since the last call."""
        longer = isinstance(messages, Log) and isinstance(self._read, Log) and messages.grew_from(self._read)
        if not longer:
            self._said = set()
        new = messages[len(self._read) :] if longer else messages
        self._said.update([message.content for message in new if isinstance(message, UserMessage)])
        self._read = messages
        return self._said

    async def _ask(self, provider: ContextProvider, name: str, messages: tuple[Message, ...]) -> Any:
        with self._edge(name):
            if isinstance(provider, TimedProvider):
                return await provider(self._about, messages)
            with trio.move_on_after(PROVIDER_SECONDS):
                return await provider(self._about, messages)
        message = f"it returned nothing within {PROVIDER_SECONDS:g} s"
        raise PortCrashed(ErrorInfo(code="context_provider_timeout", message=message))

    async def _say_left_out(self, provider: ContextProvider, name: str, faults: list[str]) -> None:
        if not isinstance(provider, TimedProvider):
            for fault in faults:
                self._report(name, fault)
            return
        try:
            with self._edge(name):
                await provider.left_out(self._about, tuple(faults))
        except PortCrashed as crashed:
            self._report(name, crashed.error.message)

    def _edge(self, name: str) -> crash_edge:
        return crash_edge(partial(_decide_crash, name), scrub=self._scrub)

    def _report(self, name: str, fault: str) -> None:
        LOGGER.warning("session %s: context provider %s: %s", self._about.session_id, name, fault)

    def _keep(self, effect_id: EffectId, found: Gathered) -> ContextGathered:
        # Equal messages keep their earlier objects: encoded forms are cached by object, and a new first message
        # would cause the whole conversation to be encoded again.
        earlier = self._earlier  # also deduplicates equal messages
        front, end = (
            tuple([earlier.setdefault(one, one) for one in part]) for part in (found.front, found.end)
        )
        self._earlier = {one: one for one in (*front, *end)}
        self._kept, self._kept_by = Gathered(front=front, end=end), effect_id
        every = (*front, *end)
        return ContextGathered(
            at_ms=now_ms(),
            effect_id=effect_id,
            count=len(every),
            digest=digest_of_context(front, end),
            tokens=tokens_of(every) if every else 0,
        )


def decide_context(
    given: Any, known: AbstractSet[tuple[UserBlock, ...]]
) -> tuple[list[UserMessage], list[str]]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        return [], [f"it returned {given!r:.80}: expected a list of UserMessage, or AtEnd(messages)"]
    kept: list[UserMessage] = []
    faults: list[str] = []
    left = MAX_CONTEXT_BYTES
    for place, message in enumerate(given):
        fault = _fault_of(message, known)
        if fault is None:
            size = sum(len(_bytes_of(block)) for block in message.content)
            if size > left:
                fault = f"raises the total above {MAX_CONTEXT_BYTES:,} bytes: return less"
            else:
                left -= size
                kept.append(UserMessage(content=message.content, origin="note"))
        if fault is not None:
            faults.append(f"message {place} is dropped: it {fault}")
    return kept, faults


def _fault_of(message: Any, known: AbstractSet[tuple[UserBlock, ...]]) -> str | None:
    if not isinstance(message, UserMessage):
        kind = type(message).__name__
        return f"is of type {kind}: expected UserMessage, because only the conversation may contain calls and results"
    blocks: Any = message.content
    if not isinstance(blocks, tuple) or not blocks or not all(map(_is_sound, blocks)):
        return f"holds {blocks!r:.80}: expected Text and Image"
    if blocks in known:
        return "repeats the conversation: return only additions"
    return None


def _is_sound(block: Any) -> bool:
    match block:
        case Text(text=str(text)):
            return bool(text)
        case Image(media_type=str(), data=str(), name=str()):
            return True
        case _:
            return False


def _bytes_of(block: UserBlock) -> bytes:
    text = block.text if isinstance(block, Text) else block.data if isinstance(block, Image) else ""
    return text.encode("utf-8", "surrogatepass")


def digest_of_context(front: Sequence[UserMessage], end: Sequence[UserMessage]) -> str:
    if not front and not end:
        return ""
    digest = hashlib.sha256()
    for side, messages in (("front", front), ("end", end)):
        for message in messages:
            for block in message.content:
                kind = block.media_type if isinstance(block, Image) else "text"
                said = _bytes_of(block)
                # Prefixed with the length, so that no text can imitate the start of the next part.
                digest.update(f"{side} {kind} {len(said)}:".encode("utf-8", "surrogatepass"))
                digest.update(said)
            digest.update(b"\n")
    return digest.hexdigest()


def _decide_crash(name: str, error: BaseException) -> ErrorInfo:
    return ErrorInfo(code="context_provider_crashed", message=f"{name} raised {describe_bug(error)}")


def _name_of(provider: object) -> str:
    named = call_guarded(lambda _: None, getattr, provider, "__qualname__", None)
    return named if isinstance(named, str) else type(provider).__name__
