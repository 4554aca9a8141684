"""`/clear`, `/sessions`, `/resume` and `/export FILE` of a chat: switch conversations, or export one."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import trio
from attrs import frozen
from msgspec.structs import replace

from agentrail import outside
from agentrail.abc.store import Store, StoredSession
from agentrail.cli.session_views import shorten, show_rows, standing_word
from agentrail.cli.store_access import find_one, latest_first, latest_of, shown_id, write_new_file
from agentrail.cli.terminal.completion import Words
from agentrail.core.values.transcript import transcript_of
from agentrail.errors import AgentrailError, CommandError, OptionError
from agentrail.messages import JsonObject, Message, SessionId
from agentrail.runtime.journal_state import journal_entries

SWITCHING: Final = frozenset({"clear", "sessions", "resume"})
_MAX_LISTED: Final = 20
_FIRST_RECORDS: Final = 8
"""The number of records searched for the first prompt."""


@frozen(kw_only=True)
class GoTo:
    """The next conversation of a chat.

    Attributes:
        session: The session to resume, or None for a new one.
    """

    session: SessionId | None = None


async def switch(name: str, text: str, store: Store | None, current: SessionId) -> GoTo | tuple[str, ...]:
    if name == "clear":
        return GoTo()
    if store is None or store.is_immediate:
        message = f"/{name} needs a store, and this chat is not stored"
        raise CommandError(message)
    if name == "sessions":
        return await outside.offload(_listed, store, current)
    found = await outside.offload(lambda: find_one(store, text, "") if text else latest_of(store, current))
    if found.session == current:
        message = f"this is session {current}"
        raise CommandError(message)
    return GoTo(session=SessionId(shown_id(found)))


def _listed(store: Store, current: SessionId) -> tuple[str, ...]:
    found = latest_first(store)
    words = [
        (titled(store, one), "this one" if one.session == current else standing_word(one, is_owned=False))
        for one in found[:_MAX_LISTED]
    ]
    more = (
        [f"… and {len(found) - _MAX_LISTED} more: agentrail sessions list"]
        if len(found) > _MAX_LISTED
        else []
    )
    return (*show_rows(words), *more, "/resume ID continues one")


async def others_in(store: Store | None, current: SessionId) -> Words:
    """Return the sessions of a store that `/resume` accepts, the latest first, each with its status and title."""
    if store is None or store.is_immediate:
        await trio.lowlevel.checkpoint()
        return ()
    found = await outside.offload(lambda: [titled(store, one) for one in latest_first(store)[:_MAX_LISTED]])
    return [
        (one.session, f"{standing_word(one, is_owned=False)} · {shorten(one.standing.title)}")
        for one in found
        if one.session != current
    ]


def titled(store: Store, stored: StoredSession) -> StoredSession:
    """Return a session titled by its first words if it has no title, because an id tells users little. Blocks."""
    if stored.standing.title:
        return stored
    try:
        begins = journal_entries(store, stored, stored.first_seq - 1, _FIRST_RECORDS)
    except AgentrailError:  # an unreadable session gets no title, and resuming it reports the reason
        return stored
    words = (shorten(text) for one in begins if one.kind == "prompt" for text in _texts_in(one.body))
    title = next(filter(None, words), "")
    return replace(stored, standing=replace(stored.standing, title=title))


def _texts_in(body: JsonObject) -> Iterator[str]:
    content: Any = body.get("content")
    for block in content if isinstance(content, Sequence) else ():
        if isinstance(block, Mapping) and isinstance(block.get("text"), str):
            yield block["text"]


def export_to(file: Path, messages: Sequence[Message]) -> str:
    try:
        write_new_file(file, [transcript_of(messages).encode("utf-8", "replace")])
    except OptionError as error:
        raise CommandError(str(error)) from error
    return f"{file}: {len(messages)} messages"
