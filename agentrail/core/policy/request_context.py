"""The model's context: token estimates, compaction, and the conversation that is sent."""

from collections.abc import Collection, Sequence
from operator import is_
from typing import Final, Literal, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from agentrail.core.values.history import History
from agentrail.core.values.toolbox import Toolbox
from agentrail.core.values.transcript import transcript_of
from agentrail.errors import ErrorInfo
from agentrail.errors.advice import with_remark
from agentrail.frozen import canonical_json
from agentrail.messages import (
    AssistantBlock,
    AssistantMessage,
    FileRef,
    Image,
    JsonValue,
    Message,
    Opaque,
    PromptRef,
    Text,
    Thinking,
    TokenUsage,
    ToolCall,
    ToolMessage,
    UserBlock,
    UserMessage,
)

# Token counts of a conversation, without the vendor's tokenizer.  The vendor's last report is exact up to its
# response. Later messages are estimated at four bytes per token. Reports are never summed, because each
# counts the whole conversation. Nothing is counted twice, so a turn costs only its own messages, even if no
# vendor reports.

BYTES_PER_TOKEN: Final = 4
IMAGE_TOKENS: Final = 1_600
"""Vendors count pixels, not bytes, and scale down larger pictures."""
_IMAGE_SIZE: Final = IMAGE_TOKENS * BYTES_PER_TOKEN


class TokenCount(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The known length of a request. Part of a session's state, and replaced when tools or prompt change.

    Attributes:
        fixed: Estimate of everything before the conversation, made by `fixed_tokens_of`.
    """

    fixed: int = 0
    tokens: int = 0
    messages: int = 0

    def reported(self, usage: TokenUsage, messages: int, *, added_tokens: int = 0) -> "TokenCount":
        """Return the count after a vendor's report, which replaces all estimates."""
        if usage.estimated or not usage.input:
            return self
        return TokenCount(fixed=self.fixed, tokens=max(usage.total - added_tokens, 0), messages=messages)

    def grown(self, messages: Sequence[Message]) -> "TokenCount":
        """Add the messages since the last count. A conversation that became shorter is counted again."""
        known, length = self.messages, len(messages)
        if known == length and known:
            return self
        if known > length or not known:
            return TokenCount(fixed=self.fixed, tokens=self.fixed + tokens_of(messages[:]), messages=length)
        added = tokens_of(messages[known:])
        return TokenCount(fixed=self.fixed, tokens=self.tokens + added, messages=length)


def tokens_of(messages: Sequence[Message]) -> int:
    return _in_tokens(sum(map(_size_of, messages)))


def fixed_tokens_of(system: str | None, tools: Toolbox) -> int:
    """Estimate everything before the conversation: the system prompt and the list of tools."""
    listed = sum(
        utf8_size(spec.name) + utf8_size(spec.description) + len(canonical_json(spec.parameters))
        for spec in tools
    )
    return _in_tokens(utf8_size(system or "") + listed)


def _size_of(message: Message) -> int:
    """Count the bytes of a message. A picture counts as its tokens would."""
    match message:
        case UserMessage(content=blocks):
            return sum(map(_block_size, blocks))
        case AssistantMessage(content=blocks):
            return sum(map(_block_size, blocks))
        case ToolMessage(results=results):
            return sum([utf8_size(result.text) + len(result.images) * _IMAGE_SIZE for result in results])
        case _ as never:
            assert_never(never)


def _block_size(block: UserBlock | AssistantBlock) -> int:
    match block:
        case Text(text=text):
            return utf8_size(text)
        case Thinking(text=text, signature=signature):
            return utf8_size(text) + len(signature or "")
        case ToolCall(name=name, arguments=arguments, malformed=malformed):
            sent = utf8_size(malformed or "") if arguments is None else len(canonical_json(arguments))
            return len(name) + sent
        case Opaque(payload=payload):
            return len(canonical_json(payload))
        case Image():
            return _IMAGE_SIZE
        case FileRef(path=path):
            return utf8_size(path)
        case _ as never:
            assert_never(never)


def utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _in_tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


CompactionReason: TypeAlias = Literal["due", "overflow", "asked"]

ASSUMED_WINDOW: Final = 128_000
KEPT_MESSAGES: Final = 6
DISTANCE: Final = 10
SUMMARY_TOKENS: Final = 4_096
LEAST_TOKENS: Final = 500
"""Minimum number of tokens of a conversation that the model reads to summarise it, however small its window is."""

SUMMARY_PROMPT: Final = (
    "[The conversation above becomes too long and is replaced by your summary of it; you go on working from that alone. "
    "Write what you will need: what the user wants, with open requests word for word; what was decided and why; what was "
    "done, with paths, names, commands, values and results in full; what failed; what comes next. Keep what an earlier "
    "summary says. Call no tool. Answer with the summary and nothing else.]"
)
SUMMARY_HEAD: Final = "[Summary of the {removed} messages before this point{where}]"


class CompactionLimits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Limits on the length of a conversation.

    Attributes:
        window: Context window of the model, in tokens. `ASSUMED_WINDOW` if unknown.
    """

    window: int = ASSUMED_WINDOW
    is_assumed: bool = False
    compact_at_tokens: int = 170_000


class CompactionWatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """When the next compaction may start, as lengths of the history. Part of a session's state, across its cycles.

    Attributes:
        due_from: Before this length none is due.
        forced_from: Before this length an overflow forces none.
    """

    due_from: int = 0
    forced_from: int = 0


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A planned compaction.

    Attributes:
        squeezed_tokens: How many tokens of them the model can read, if not all. It then gets a transcript.
    """

    reason: CompactionReason
    cut: int
    squeezed_tokens: int | None = None

    def moved(self, position: int) -> int:
        """Return the new position of a position in the old history. Removed messages map to the place after the summary."""
        return max(position - self.cut, 0) + 1


class NoCompaction(msgspec.Struct, frozen=True, gc=False):
    """No compaction, and why."""

    why: Literal["not_due", "too_soon", "calls_open", "nothing_to_cut"]


class Summary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The model's summary of the beginning of a conversation.

    Attributes:
        saved_to: Path of the full text in the workspace. None if it could not be written.
    """

    text: str
    saved_to: str | None


class Compacted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The conversation continues with the summary."""

    history: History
    watch: CompactionWatch
    tokens_before: int
    tokens_after: int


class NotShrunk(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The summary is empty or too long. The conversation stays as it is."""

    watch: CompactionWatch
    tokens_before: int
    tokens_after: int


def is_due(estimate: int, limits: CompactionLimits) -> bool:
    """Return whether a conversation is too long: above 85 % of the window, or above the session's own limit."""
    return estimate > min(limits.window * 85 // 100, limits.compact_at_tokens)


def decide_compaction(
    history: History,
    watch: CompactionWatch,
    reason: CompactionReason,
    estimate: int,
    limits: CompactionLimits,
) -> CompactionPlan | NoCompaction:
    if reason == "due" and not is_due(estimate, limits):
        return NoCompaction("not_due")
    earliest = {"due": watch.due_from, "overflow": watch.forced_from, "asked": 0}[reason]
    if len(history) < earliest:
        return NoCompaction("too_soon")
    if history.open:
        return NoCompaction("calls_open")
    cut = cut_of(history.messages, limits.window)
    if cut == 0:
        return NoCompaction("nothing_to_cut")
    # A conversation that did not fit does not fit with a request for a summary either. Half of it will fit,
    # even if the window is smaller than reported.
    fits = reason != "overflow" and estimate + SUMMARY_TOKENS <= limits.window
    half = max(min(limits.window, estimate) // 2, LEAST_TOKENS)
    return CompactionPlan(reason=reason, cut=cut, squeezed_tokens=None if fits else half)


def cut_of(messages: Sequence[Message], window: int) -> int:
    """Return the number of messages to remove.

    The last six stay, or as many of them as fit into a tenth of the window, but at least one, however large it is.
    Results and their calls stay or go together, so no conversation begins with a result.
    """
    room = window // 10
    cut, kept_tokens = len(messages), 0
    while cut > 0:
        start = cut - 2 if isinstance(messages[cut - 1], ToolMessage) else cut - 1
        kept_tokens += tokens_of(messages[start:cut])
        is_too_much = len(messages) - start > KEPT_MESSAGES or kept_tokens > room
        if is_too_much and cut < len(messages):
            break
        cut = start
    return cut


def messages_for_summary(plan: CompactionPlan, removed: Sequence[Message]) -> tuple[Message, ...]:
    ask = Text(text=SUMMARY_PROMPT)
    if plan.squeezed_tokens is None:
        return (*removed, UserMessage(content=(ask,), origin="note"))
    text = Text(text=_squeezed(transcript_of(removed), plan.squeezed_tokens * BYTES_PER_TOKEN))
    return (UserMessage(content=(text, ask), origin="note"),)


def can_shrink(history: History, plan: CompactionPlan) -> bool:
    """Return whether a summary of a few words would shrink the conversation by a fifth. If not, a request for one is useless."""
    return _is_enough(tokens_of(history.messages[plan.cut :]), tokens_of(history.messages[:]))


def finish_compaction(
    history: History, watch: CompactionWatch, plan: CompactionPlan, summary: Summary
) -> Compacted | NotShrunk:
    where = f"; their full text is in {summary.saved_to}" if summary.saved_to else ""
    head = SUMMARY_HEAD.format(removed=plan.cut, where=where)
    message = UserMessage(content=(Text(text=f"{head}\n\n{summary.text.strip()}"),), origin="note")
    shorter = history.compacted(plan.cut, message)
    before, after = tokens_of(history.messages[:]), tokens_of(shorter.messages[:])
    if not summary.text.strip() or not _is_enough(after, before):
        return NotShrunk(
            watch=compaction_failed(history, watch, plan), tokens_before=before, tokens_after=after
        )
    marked = _marked(watch, plan, len(history), len(shorter))
    return Compacted(history=shorter, watch=marked, tokens_before=before, tokens_after=after)


def _is_enough(after: int, before: int) -> bool:
    return after * 5 <= before * 4


def compaction_failed(history: History, watch: CompactionWatch, plan: CompactionPlan) -> CompactionWatch:
    """Record a compaction without a usable summary. It is not retried at once."""
    return _marked(watch, plan, len(history), len(history))


def overflow_error(error: ErrorInfo, history: History, estimate: int, limits: CompactionLimits) -> ErrorInfo:
    """Return the error of an overflow that no compaction can resolve."""
    kept = history.messages[cut_of(history.messages, limits.window) :]
    assumed = ", assumed" if limits.is_assumed else ""
    counted = "1 message" if len(kept) == 1 else f"{len(kept)} messages"
    remark = f"about {estimate:,} tokens in a window of {limits.window:,}{assumed}; {counted} of {tokens_of(kept):,} cannot be cut"
    return ErrorInfo(code=error.code, message=with_remark(error.message, remark))


def _marked(watch: CompactionWatch, plan: CompactionPlan, before: int, after: int) -> CompactionWatch:
    following = after + DISTANCE
    # A forced one also delays the other kind, but not vice versa: an overflow right after a due compaction
    # shows that the estimate is wrong, and one correction is allowed. The rest of its distance is kept.
    left = max(watch.forced_from - before, 0)
    return CompactionWatch(
        due_from=following, forced_from=following if plan.reason == "overflow" else after + left
    )


def _squeezed(text: str, most: int) -> str:
    """Cut out the middle: the beginning has the task, and the end has the current status."""
    if len(text) <= most:
        return text
    head, tail = most // 4, most - most // 4
    return f"{text[:head]}\n\n[… {len(text) - most:,} characters left out …]\n\n{text[-tail:]}"


# The outgoing conversation: old tool arguments are shortened and refused cycles omitted. The history keeps
# both.  A file that was written fifty messages ago need not be sent again in full. A vendor that refused
# would refuse again while the cause is in the context, so users can read it and the model does not.  A change
# in a request costs the vendor's prompt cache from there on. So the border between old and new moves in
# steps: between two steps every request extends the previous one byte for byte, and a step changes only long
# arguments in the block that it passes. A shortened message is made once and kept, and so is its encoded
# form.

FRESH_MESSAGES: Final = 20
STEP: Final = 10
MAX_ARGUMENT_CHARACTERS: Final = 2_000
KEPT_CHARACTERS: Final = 500


class Outgoing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Cached results for the outgoing conversation. They are derived from the messages, so they can always be rebuilt.

    Attributes:
        first: The first message of the conversation. Another first message means another conversation.
        border: Messages before it were checked for long arguments.
        begun: Start of the cycle that the last of them belongs to.
        refused: The ranges to omit: start, and end (exclusive).
    """

    first: Message | None = None
    border: int = 0
    short: tuple[tuple[int, Message], ...] = ()
    seen: int = 0
    begun: int = 0
    refused: tuple[tuple[int, int], ...] = ()

    def place_of(self, place: int) -> int | None:
        before = 0
        for start, stop in self.refused:
            if start <= place < stop:
                return None
            before += stop - start if stop <= place else 0
        return place - before


def outgoing(
    kept: Outgoing, messages: Sequence[Message], refused: Collection[PromptRef] = ()
) -> tuple[Outgoing, Sequence[Message]]:
    # The border is a multiple of the step, and at most FRESH_MESSAGES + STEP - 1 from the end.
    length = len(messages)
    border = max(0, (length - FRESH_MESSAGES) // STEP * STEP)
    first = messages[0] if length else None
    if first is not kept.first or border < kept.border:
        kept = Outgoing(first=first)
    if border > kept.border:
        block = enumerate(messages[kept.border : border], start=kept.border)
        new = tuple(
            (place, short) for place, message in block if (short := _shortened(message)) is not message
        )
        kept = replace(kept, border=border, short=kept.short + new)
    if length > kept.seen:
        kept = _with_refusals(kept, messages, refused)
    if not (kept.short or kept.refused):
        return kept, messages
    sent = list(messages[:])
    for place, message in kept.short:
        sent[place] = message
    for start, stop in reversed(kept.refused):
        del sent[start:stop]
    return kept, sent


def unrefused(messages: Sequence[Message], cut: int, refused: Collection[PromptRef]) -> tuple[Message, ...]:
    found = _with_refusals(Outgoing(first=messages[0] if messages else None), messages, refused)
    return tuple(message for place, message in enumerate(messages[:cut]) if found.place_of(place) is not None)


def _with_refusals(kept: Outgoing, messages: Sequence[Message], refused: Collection[PromptRef]) -> Outgoing:
    """Check new messages for refused cycles.

    A cycle extends from its prompt to the refusal. Without a prompt it began before the first message, which may be
    the summary of a compaction, and the summary stays.
    """
    begun, found = kept.begun, list(kept.refused)
    for place, message in enumerate(messages[kept.seen :], start=kept.seen):
        if isinstance(message, UserMessage):
            if message.origin == "note" and place == 0:
                begun = 1
            elif message.origin == "prompt":
                before = messages[begun]
                if begun < place and isinstance(before, UserMessage) and before.ref in refused:
                    found.append((begun, _behind_notes(messages, place)))
                begun = place
        elif isinstance(message, AssistantMessage) and message.stop_reason == "refused":
            found.append((begun, place + 1))
            begun = place + 1
    return replace(kept, seen=len(messages), begun=begun, refused=tuple(found))


def _behind_notes(messages: Sequence[Message], prompt: int) -> int:
    """Return the end of the cycle before a prompt. The notes right before a prompt belong to the prompt."""
    place = prompt
    while place and isinstance(note := messages[place - 1], UserMessage) and note.origin == "note":
        place -= 1
    return place


def _shortened(message: Message) -> Message:
    """Return the message with shortened arguments, or the same object if none is long."""
    if not isinstance(message, AssistantMessage):
        return message
    content = tuple(
        replace(block, arguments=short)
        if isinstance(block, ToolCall) and (short := _short_arguments(block)) is not None
        else block
        for block in message.content
    )
    if all(map(is_, content, message.content)):
        return message
    return replace(message, content=content)


def _short_arguments(call: ToolCall) -> dict[str, JsonValue] | None:
    arguments = call.arguments or {}
    if not any(map(_is_long, arguments.values())):
        return None
    return {name: _short(value) for name, value in arguments.items()}


def _is_long(value: JsonValue) -> bool:
    match value:
        case str():
            return len(value) > MAX_ARGUMENT_CHARACTERS
        case list():
            return any(map(_is_long, value))
        case dict():
            return any(map(_is_long, value.values()))
        case _:
            return False


def _short(value: JsonValue) -> JsonValue:
    match value:
        case str() if len(value) > MAX_ARGUMENT_CHARACTERS:
            return f"{value[:KEPT_CHARACTERS]} [… {len(value) - KEPT_CHARACTERS:,} characters left out …]"
        case list():
            return [_short(item) for item in value]
        case dict():
            return {name: _short(item) for name, item in value.items()}
        case _:
            return value
