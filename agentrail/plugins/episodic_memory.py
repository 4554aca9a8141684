"""`EpisodicMemory`: what a user asked in earlier sessions, and the answer, is shown when it is about the same thing.

Episodes are lines of a file of the workspace, one file per user. Searching by meaning would need a memory that sessions do
not have; words of the prompt that are rare among the episodes find most of what a person would have picked.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import attrs

from agentrail.core.protocol.actions import Action, Continue, ReadFile, Request, WriteFile
from agentrail.core.protocol.hooks import (
    AfterTurn,
    BeforeRequest,
    FileText,
    RequestDone,
    RequestFailed,
    SessionStarted,
)
from agentrail.core.stack.plugin import Context
from agentrail.messages import AssistantMessage, Message, Text, UserMessage
from agentrail.plugins.base import Plugin, on
from agentrail.plugins.episodes import Episode, decode_episodes, encode_episode, nearest, section_of

MAX_EPISODE_CHARACTERS: Final = 400
"""Of each side of an episode: enough to know what it was about, and a hundred of them still make a small state."""


@attrs.frozen(kw_only=True)
class Memory:
    """What is remembered, and how much of it is shown.

    Attributes:
        top_k: So many episodes are shown at most.
        max_episodes_per_user: The newest ones are kept.
        require_user_id: Whether nothing is remembered where `user_data` has no `user_id`.
        directory: Where the files are.
        episodes: Of this user's earlier sessions, oldest first.
    """

    top_k: int
    max_episodes_per_user: int
    require_user_id: bool
    directory: str
    episodes: tuple[Episode, ...] = ()


class EpisodicMemory(Plugin[Memory]):
    """Remembers what each user asked and what came of it, and shows in later sessions what is about the same thing."""

    priority = 610
    sections: tuple[str, ...] = ("memory",)

    def init(
        self,
        *,
        top_k: int = 3,
        max_episodes_per_user: int = 100,
        require_user_id: bool = False,
        directory: str = "episodes",
    ) -> Memory:
        """Take how much is remembered.

        Raises:
            ValueError: Your move: less than one.
        """
        if top_k < 1 or max_episodes_per_user < 1:
            message = (
                f"top_k and max_episodes_per_user are 1 or more; got {top_k} and {max_episodes_per_user}"
            )
            raise ValueError(message)
        return Memory(
            top_k=top_k,
            max_episodes_per_user=max_episodes_per_user,
            require_user_id=require_user_id,
            directory=directory.rstrip("/"),
        )

    @on(SessionStarted)
    def recall(self, event: SessionStarted, memory: Memory, ctx: Context) -> Action[Memory]:
        """Read what is remembered of this user."""
        path = _path(memory, ctx)
        return Continue(memory) if path is None else Request(ReadFile(path), "read", memory)

    @on(RequestDone)
    def take(self, event: RequestDone, memory: Memory, ctx: Context) -> Action[Memory]:
        """Keep the newest episodes, and shorten the file when it has become twice as long as it may."""
        match event.result:
            case FileText(path=path, text=text):
                told = tuple(decode_episodes(text or ""))
                newest = told[-memory.max_episodes_per_user :]
                others = tuple(episode for episode in newest if episode.session_id != ctx.session_id)
                after = attrs.evolve(memory, episodes=others)
                if len(told) <= 2 * memory.max_episodes_per_user:
                    return Continue(after)
                shorter = "".join(map(encode_episode, newest))
                return Request(WriteFile(path=path, text=shorter), "shorten", after)
            case RequestFailed(error=error):
                failed = {"step": event.tag, "reason": error.message}
                return Continue(memory, emits=(("episodic_memory_failed", failed),))
            case _:
                return Continue(memory)

    @on(BeforeRequest)
    def show(self, event: BeforeRequest, memory: Memory, ctx: Context) -> Action[Memory]:
        """Give the section for the prompt of this cycle, the same one on each turn."""
        found = nearest(memory.episodes, _prompt_in(event.messages), memory.top_k)
        return Continue(memory, context={"memory": section_of(found)})

    @on(AfterTurn)
    def keep(self, event: AfterTurn, memory: Memory, ctx: Context) -> Action[Memory]:
        """Write a cycle that ended well behind the others: the next session finds it, this one has it in its history."""
        path = _path(memory, ctx)
        asked, answered = _prompt_in(event.messages_diff), _answer_in(event.messages_diff)
        if path is None or event.outcome != "finished" or not (asked and answered):
            return Continue(memory)
        episode = Episode(
            session_id=ctx.session_id,
            at_ms=event.ended_at_ms,
            asked=_beginning(asked),
            answered=_beginning(answered),
        )
        return Request(WriteFile(path=path, text=encode_episode(episode), append=True), "write", memory)


def _path(memory: Memory, ctx: Context) -> str | None:
    """Give the file of the user; None where nothing is to be remembered."""
    user, tenant = ctx.user_data.get("user_id"), ctx.user_data.get("tenant_id")
    if user is None and memory.require_user_id:
        return None
    tenants = [] if tenant is None else [f"tenant-{quote(str(tenant), safe='')}"]
    file = "everybody" if user is None else f"user-{quote(str(user), safe='')}"
    return "/".join([memory.directory, *tenants, f"{file}.jsonl"])


def _prompt_in(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.origin == "prompt":
            return "\n".join(block.text for block in message.content if isinstance(block, Text))
    return ""


def _answer_in(messages: Sequence[Message]) -> str:
    return next((one.text for one in reversed(messages) if isinstance(one, AssistantMessage)), "")


def _beginning(text: str) -> str:
    return text[:MAX_EPISODE_CHARACTERS].encode("utf-8", "replace").decode()  # JSON has no half characters
