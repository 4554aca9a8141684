"""`EpisodicMemory`: shows a user's questions and answers from earlier sessions when they are about the same subject."""

from collections.abc import Sequence
from typing import Final

import attrs

from agentrail.core.protocol.actions import Action, Continue, KeepMemory, Request, Search
from agentrail.core.protocol.hooks import (
    AfterTurn,
    BeforePrompt,
    BeforeRequest,
    Found,
    MemoryKept,
    RequestDone,
    RequestFailed,
)
from agentrail.core.stack.plugin import Context
from agentrail.messages import AssistantMessage, Message, Text, UserMessage
from agentrail.plugins.base import Plugin, append_note, on
from agentrail.plugins.episodes import TAG, id_of_episode, show_episodes, text_of_episode

_MOST_FOUND: Final = 100
"""Maximum number of memories that a search returns."""

_MOST_KEPT: Final = 1_000


@attrs.frozen(kw_only=True)
class Episodes:
    """The limits, and the episodes shown now.

    Attributes:
        shown: Text for the model with this prompt. Empty if there is none.
    """

    top_k: int
    max_episodes_per_user: int
    require_user_id: bool
    own: int = 0
    shown: str = ""


class EpisodicMemory(Plugin[Episodes]):
    """Remembers each user's questions and answers, and shows the relevant ones in later sessions."""

    priority = 610

    def init(
        self, *, top_k: int = 3, max_episodes_per_user: int = 100, require_user_id: bool = False
    ) -> Episodes:
        """Set the limits.

        Raises:
            ValueError: Your move: less than one, or more than 1,000 per user.
        """
        if top_k < 1 or not 1 <= max_episodes_per_user <= _MOST_KEPT:
            message = (
                f"top_k and max_episodes_per_user must be 1 or more, the latter at most 1,000; got {top_k} "
                f"and {max_episodes_per_user}"
            )
            raise ValueError(message)
        return Episodes(
            top_k=top_k, max_episodes_per_user=max_episodes_per_user, require_user_id=require_user_id
        )

    @on(BeforePrompt)
    def recall(self, event: BeforePrompt, state: Episodes, ctx: Context) -> Action[Episodes]:
        """Look up episodes that share words with the prompt. The prompt waits for them."""
        state = attrs.evolve(state, shown="")
        if not _may_remember(state, ctx) or ctx.prompt_mode != "full" or not event.text.strip():
            return Continue(state)
        wanted = min(state.top_k + state.own, _MOST_FOUND)
        return Request(Search(query=event.text, max_entries=wanted, tags=(TAG,)), "found", state, wait=True)

    @on(RequestDone)
    def take(self, event: RequestDone, state: Episodes, ctx: Context) -> Action[Episodes]:
        """Keep the episodes found. A failure is published with its step, and the session continues without episodes."""
        match event.result:
            case Found(entries=entries, words_only=reason):
                said = (("memory_words_only", {"reason": reason}),) if reason else ()
                shown = show_episodes(entries, ctx.session_id, state.top_k)
                return Continue(attrs.evolve(state, shown=shown), emits=said)
            case MemoryKept():
                return Continue(attrs.evolve(state, own=state.own + 1))
            case RequestFailed(error=error):
                failed = {"step": event.tag, "reason": error.message}
                return Continue(state, emits=(("episodic_memory_failed", failed),))
            case _:
                return Continue(state)

    @on(BeforeRequest)
    def show(self, event: BeforeRequest, state: Episodes, ctx: Context) -> Action[Episodes]:
        """Append them after the conversation, for this request only: they change with each prompt."""
        return append_note(event, state.shown, state)

    @on(AfterTurn)
    def keep(self, event: AfterTurn, state: Episodes, ctx: Context) -> Action[Episodes]:
        """Remember a cycle that ended well. The next session finds it. This session has it in its history."""
        asked, answered = _prompt_in(event.messages_diff), _answer_in(event.messages_diff)
        is_whole = bool(asked.strip() and answered.strip()) and event.outcome == "finished"
        if not is_whole or not _may_remember(state, ctx):
            return Continue(state)
        wanted = KeepMemory(
            entry_id=id_of_episode(ctx.session_id, event.ended_at_ms),
            text=text_of_episode(asked, answered),
            tags=(TAG,),
            max_entries=state.max_episodes_per_user,
        )
        return Request(wanted, "write", state)


def _may_remember(state: Episodes, ctx: Context) -> bool:
    return not state.require_user_id or ctx.user_data.get("user_id") is not None


def _prompt_in(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.origin == "prompt":
            return "\n".join(block.text for block in message.content if isinstance(block, Text))
    return ""


def _answer_in(messages: Sequence[Message]) -> str:
    return next((one.text for one in reversed(messages) if isinstance(one, AssistantMessage)), "")
