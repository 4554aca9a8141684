"""Compaction: a conversation that grows too long goes on with a summary in place of its beginning.

Decided here: when, where to cut, what the model is asked, whether the result is taken. A summary is a request of its own,
and the history is replaced in one step when it is there; until then the conversation is what it was, and an abort leaves
it so. Every compaction shrinks the conversation by a fifth or changes nothing, and between two of one kind there are ten
more messages: so none can follow another without end.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from agentrail.core.policy.estimates import BYTES_PER_TOKEN, tokens_of
from agentrail.core.values.history import History
from agentrail.core.values.transcript import transcript_of
from agentrail.errors import ErrorInfo
from agentrail.errors.advice import with_remark
from agentrail.messages import Message, Text, ToolMessage, UserMessage

CompactionReason: TypeAlias = Literal["due", "overflow", "asked"]

ASSUMED_WINDOW: Final = 128_000
KEPT_MESSAGES: Final = 6
DISTANCE: Final = 10
SUMMARY_TOKENS: Final = 4_096
LEAST_TOKENS: Final = 500
"""What a model is shown of a conversation to summarize, however small its window is said to be."""

SUMMARY_PROMPT: Final = (
    "[The conversation above becomes too long and is replaced by your summary of it; you go on working from that alone. "
    "Write what you will need: what the user wants, with open requests word for word; what was decided and why; what was "
    "done, with paths, names, commands, values and results in full; what failed; what comes next. Keep what an earlier "
    "summary says. Call no tool. Answer with the summary and nothing else.]"
)
SUMMARY_HEAD: Final = "[Summary of the {removed} messages before this point{where}]"


class CompactionLimits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How long a conversation may be.

    Attributes:
        window: Of the model, in tokens; `ASSUMED_WINDOW` where it is unknown.
        is_assumed: Whether it is unknown.
        compact_at_tokens: Compact from here on, however large the window is.
    """

    window: int = ASSUMED_WINDOW
    is_assumed: bool = False
    compact_at_tokens: int = 170_000


class CompactionWatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """When the next compaction may be, as lengths of the history. Part of the state of a session, over all its cycles.

    Attributes:
        due_from: Before this length none is due.
        forced_from: Before this length an overflow forces none.
    """

    due_from: int = 0
    forced_from: int = 0


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A compaction that is to be.

    Attributes:
        reason: Why.
        cut: How many messages are replaced.
        squeezed_tokens: How much of them the model can read, where that is not all; then it gets a transcript.
    """

    reason: CompactionReason
    cut: int
    squeezed_tokens: int | None = None

    def moved(self, position: int) -> int:
        """Say where a position in the old history lies in the new one; of a removed message, right behind the summary."""
        return max(position - self.cut, 0) + 1


class NoCompaction(msgspec.Struct, frozen=True, gc=False):
    """None is to be.

    Attributes:
        why: What stands against it.
    """

    why: Literal["not_due", "too_soon", "calls_open", "nothing_to_cut"]


class Summary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the model made of the beginning.

    Attributes:
        text: Its summary.
        saved_to: Where the full text is in the workspace; None when it could not be written.
    """

    text: str
    saved_to: str | None


class Compacted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The conversation goes on with the summary.

    Attributes:
        history: The new one.
        watch: The new one.
        tokens_before: Estimated, of all messages.
        tokens_after: The same.
    """

    history: History
    watch: CompactionWatch
    tokens_before: int
    tokens_after: int


class NotShrunk(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The summary is empty or too long: the conversation stays as it is.

    Attributes:
        watch: The new one.
        tokens_before: Estimated, of all messages.
        tokens_after: What it would have become.
    """

    watch: CompactionWatch
    tokens_before: int
    tokens_after: int


def is_due(estimate: int, limits: CompactionLimits) -> bool:
    """Say whether a conversation of so many tokens is too long: 85 % of the window, or the session's own limit."""
    return estimate > min(limits.window * 85 // 100, limits.compact_at_tokens)


def decide_compaction(
    history: History,
    watch: CompactionWatch,
    reason: CompactionReason,
    estimate: int,
    limits: CompactionLimits,
) -> CompactionPlan | NoCompaction:
    """Decide whether to compact, and where to cut.

    Args:
        history: The conversation.
        watch: When the last ones were.
        reason: `due` asks for the limits, `overflow` and `asked` do not.
        estimate: Of the next request, in tokens, as a `TokenCount` has it.
        limits: How long it may be.
    """
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
    # What did not fit as a whole does not fit when it asks for a summary either. Half of what was tried will, also
    # where the window is smaller than anybody told us.
    fits = reason != "overflow" and estimate + SUMMARY_TOKENS <= limits.window
    half = max(min(limits.window, estimate) // 2, LEAST_TOKENS)
    return CompactionPlan(reason=reason, cut=cut, squeezed_tokens=None if fits else half)


def cut_of(messages: Sequence[Message], window: int) -> int:
    """Say how many messages may go.

    The last six stay, or as many of them as a tenth of the window holds; one at least, however large it is. Results and
    the calls that they answer stay or go together, so nothing begins with a result.
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
    """Give what the model is sent that shall write the summary: what is cut off, and what is wanted of it.

    Args:
        plan: Where to cut.
        removed: What is cut off, as far as a model may read it.
    """
    ask = Text(text=SUMMARY_PROMPT)
    if plan.squeezed_tokens is None:
        return (*removed, UserMessage(content=(ask,), origin="note"))
    text = Text(text=_squeezed(transcript_of(removed), plan.squeezed_tokens * BYTES_PER_TOKEN))
    return (UserMessage(content=(text, ask), origin="note"),)


def can_shrink(history: History, plan: CompactionPlan) -> bool:
    """Say whether a summary of a few words would shrink the conversation by a fifth; if not, a request for one is in vain."""
    return _is_enough(tokens_of(history.messages[plan.cut :]), tokens_of(history.messages[:]))


def finish_compaction(
    history: History, watch: CompactionWatch, plan: CompactionPlan, summary: Summary
) -> Compacted | NotShrunk:
    """Take a summary, if the conversation shrinks by a fifth with it.

    Args:
        history: The conversation, as it was when the plan was made.
        watch: When the last compactions were.
        plan: What was planned.
        summary: What came of it.
    """
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
    """Note that there is no summary: the request failed, or its answer was of no use. Not to be tried again at once."""
    return _marked(watch, plan, len(history), len(history))


def overflow_error(error: ErrorInfo, history: History, estimate: int, limits: CompactionLimits) -> ErrorInfo:
    """Make the error of an overflow that nothing can be done about.

    Args:
        error: The vendor's.
        history: The conversation that does not fit.
        estimate: Of the request, in tokens.
        limits: How long it may be.
    """
    kept = history.messages[cut_of(history.messages, limits.window) :]
    assumed = ", assumed" if limits.is_assumed else ""
    counted = "1 message" if len(kept) == 1 else f"{len(kept)} messages"
    remark = f"about {estimate:,} tokens in a window of {limits.window:,}{assumed}; {counted} of {tokens_of(kept):,} cannot be cut"
    return ErrorInfo(code=error.code, message=with_remark(error.message, remark))


def _marked(watch: CompactionWatch, plan: CompactionPlan, before: int, after: int) -> CompactionWatch:
    following = after + DISTANCE
    # One that was forced keeps the other kind away too. Not the other way round: an overflow right after a compaction that
    # was due shows that the estimate is wrong, and may be put right once. What was left of its distance stays left.
    left = max(watch.forced_from - before, 0)
    return CompactionWatch(
        due_from=following, forced_from=following if plan.reason == "overflow" else after + left
    )


def _squeezed(text: str, most: int) -> str:
    """Cut out the middle: the beginning says what was wanted, the end where things stand."""
    if len(text) <= most:
        return text
    head, tail = most // 4, most - most // 4
    return f"{text[:head]}\n\n[… {len(text) - most:,} characters left out …]\n\n{text[-tail:]}"
