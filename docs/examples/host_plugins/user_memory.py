"""User memory: notes that a user asks for are shown to the model in later sessions of that user, and of no other."""

import re
import sqlite3
from collections.abc import Sequence

import trio
from agentrail import Message, Text, UserMessage
from agentrail.host import AtEnd, HostPlugin, ProviderContext, RequestContext

ASKED = re.compile(r"^remember(?: that)?[ :]+(\S.{0,499})$", re.IGNORECASE | re.MULTILINE)
MAX_NOTES = 20
TABLE = "create table if not exists notes (id integer primary key, tenant text, user text, note text, unique (tenant, user, note))"
ADD = "insert or ignore into notes (tenant, user, note) values (?, ?, ?)"
READ = "select note from notes where tenant = ? and user = ? order by id desc limit ?"


class UserMemory(HostPlugin):
    """Learns when a request has ended, and tells before each turn. It keeps its notes in a file of its own."""

    name = "user_memory"

    def __init__(self, path: str) -> None:
        """Remember the path. `start` creates the file."""
        self._path = path
        self.context_providers = (self.recall,)

    async def start(self) -> None:
        """Create the file. A failure here keeps the host from starting."""
        await self._run(TABLE)

    async def on_turn_persisted(self, ctx: RequestContext) -> None:
        """Learn from the last message of the user once it is committed."""
        if ctx.reader is None:
            return
        for said in reversed(await ctx.reader.messages()):
            if isinstance(said, UserMessage) and said.origin == "prompt":
                for note in ASKED.findall(text_of(said)):
                    await self._run(ADD, ctx.tenant_id, ctx.user_id, note.strip())
                return

    async def recall(self, ctx: ProviderContext, said: tuple[Message, ...]) -> Sequence[UserMessage] | AtEnd:
        """Return the notes about the user. They change from turn to turn, so they follow the conversation."""
        of_user = (str(ctx.user_data["tenant_id"]), str(ctx.user_data["user_id"]))
        notes = await self._run(READ, *of_user, MAX_NOTES)
        if not notes:
            return ()
        told = "\n".join(
            ["What this user asked to be remembered:", *(f"- {note}" for (note,) in reversed(notes))]
        )
        # At the end: at the beginning, each new note would invalidate the provider's cache of the conversation.
        return AtEnd([UserMessage(content=(Text(text=told),))])

    async def _run(self, statement: str, *values: str | int) -> list[tuple[str]]:
        """Ask the file, in a thread: a disk may be slow, and hooks share the loop with all sessions."""

        def run() -> list[tuple[str]]:
            with sqlite3.connect(self._path) as connection:
                found: list[tuple[str]] = connection.execute(statement, values).fetchall()
            connection.close()
            return found

        return await trio.to_thread.run_sync(run)


def text_of(message: UserMessage) -> str:
    """Return the text of a message."""
    return "\n".join(block.text for block in message.content if isinstance(block, Text))
