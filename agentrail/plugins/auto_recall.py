"""`AutoRecall`: shows memories about each prompt after the conversation, without a tool call."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from agentrail.core.protocol.actions import Action, Continue, Request, Search
from agentrail.core.protocol.hooks import BeforePrompt, BeforeRequest, Found, RequestDone, RequestFailed
from agentrail.core.stack.plugin import Context
from agentrail.core.values.memory_text import show_memories
from agentrail.plugins.base import Plugin, append_note, on

MAX_SHOWN_MEMORIES: Final = 20
"""Maximum number of memories in a request. Each may have 8 KiB."""


@attrs.frozen(kw_only=True)
class Recalled:
    """The search limit and the memories found for this prompt.

    Attributes:
        shown: Text for the model. Empty if there is none.
    """

    limit: int
    shown: str = ""
    failed: bool = False


class AutoRecall(Plugin[Recalled]):
    """Shows the user's memories about each prompt."""

    priority = 335

    def init(self, *, limit: int = 5) -> Recalled:
        """Set the maximum number of memories shown.

        Raises:
            ValueError: Your move: not a number from 1 to 20.
        """
        if type(limit) is not int or not 1 <= limit <= MAX_SHOWN_MEMORIES:
            message = f"limit must be a number of memories, 1 to {MAX_SHOWN_MEMORIES}; got {limit!r}"
            raise ValueError(message)
        return Recalled(limit=limit)

    @on(BeforePrompt)
    def look(self, event: BeforePrompt, state: Recalled, ctx: Context) -> Action[Recalled]:
        """Look up memories about the prompt. The prompt waits for the answer."""
        state = attrs.evolve(state, shown="")
        # A session that works for another session starts empty.
        if ctx.prompt_mode != "full" or not event.text.strip():
            return Continue(state)
        return Request(Search(query=event.text, max_entries=state.limit), "found", state, wait=True)

    @on(RequestDone)
    def take(self, event: RequestDone, state: Recalled, ctx: Context) -> Action[Recalled]:
        """Keep the memories found. Report a failed lookup once, and each time that only words were compared."""
        match event.result:
            case Found(entries=entries, words_only=reason):
                listed: list[Any] = [one for one in entries if isinstance(one, Mapping)]
                shown = show_memories(listed) if listed else ""
                said = (("memory_words_only", {"reason": reason}),) if reason else ()
                return Continue(attrs.evolve(state, shown=shown, failed=False), emits=said)
            case RequestFailed(error=error) if not state.failed:
                failed = ("memory_not_recalled", {"reason": error.message})
                return Continue(attrs.evolve(state, failed=True), emits=(failed,))
            case _:
                return Continue(state)

    @on(BeforeRequest)
    def show(self, event: BeforeRequest, state: Recalled, ctx: Context) -> Action[Recalled]:
        """Append the memories after the conversation, for this request only, so that the vendor's cache stays valid."""
        return append_note(event, state.shown, state)
