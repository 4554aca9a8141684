"""User memory: what a user asks to be remembered is told to the model in all of their later sessions, and in those of no other user."""

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
        """Take the file; it is made by `start`."""
        self._path = path
        self.context_providers = (self.recall,)

    async def start(self) -> None:
        """Make the file. What fails here keeps the host from starting."""
        await self._run(TABLE)

    async def on_turn_persisted(self, ctx: RequestContext) -> None:
        """Learn from the last message of the user, when it is committed and not before: one that is lost was not said."""
        if ctx.reader is None:
            return
        for said in reversed(await ctx.reader.messages()):
            if isinstance(said, UserMessage) and said.origin == "prompt":
                for note in ASKED.findall(text_of(said)):
                    await self._run(ADD, ctx.tenant_id, ctx.user_id, note.strip())
                return

    async def recall(self, ctx: ProviderContext, said: tuple[Message, ...]) -> Sequence[UserMessage] | AtEnd:
        """Tell what is known of the user. It changes from turn to turn, so it stands behind the conversation."""
        of_user = (str(ctx.user_data["tenant_id"]), str(ctx.user_data["user_id"]))
        notes = await self._run(READ, *of_user, MAX_NOTES)
        if not notes:
            return ()
        told = "\n".join(
            ["What this user asked to be remembered:", *(f"- {note}" for (note,) in reversed(notes))]
        )
        # Not in front: the vendor's cache of the whole conversation would be lost with each note that is added.
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
    """Give the words of a message."""
    return "\n".join(block.text for block in message.content if isinstance(block, Text))
