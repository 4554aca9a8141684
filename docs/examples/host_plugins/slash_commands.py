"""Slash commands: a message such as `/orders 17` is answered by the host. No session is made for it, and no model is asked."""

import re
from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches

from agentrail.host import ChatRequestContext, HandledResponse, HostPlugin, Principal

Command = Callable[[Principal, str], Awaitable[str]]
"""Takes the caller and the text after the command, and returns the answer."""

WORD = re.compile(r"/([a-z][a-z-]*)(?:\s+(.*))?", re.DOTALL)  # not /etc/hosts, which is part of a message


class SlashCommands(HostPlugin):
    """Answers messages that begin with a slash and a known word, the same on every route and for every profile."""

    name = "slash_commands"
    priority = 100  # before message limits, because a command costs nothing

    def __init__(self, commands: Mapping[str, Command]) -> None:
        """Register the commands by name, in lower case and without the slash."""
        self._commands = {"help": self._help, **commands}

    async def intercept_chat_request(self, ctx: ChatRequestContext) -> HandledResponse | None:
        """Answer a command, and let other messages pass. An answer to a question of the model is never a command."""
        found = WORD.fullmatch(ctx.request.message.strip())
        if found is None or ctx.kind == "respond":
            return None
        command = self._commands.get(found[1])
        if command is None:
            near = get_close_matches(found[1], self._commands, n=1)
            hint = f"did you mean /{near[0]}?" if near else "/help lists all"
            error = {"code": "command_unknown", "message": f"there is no command /{found[1]}", "hint": hint}
            return HandledResponse({"error": error}, status=404)
        return HandledResponse({"command": found[1], "text": await command(ctx.principal, found[2] or "")})

    async def _help(self, principal: Principal, rest: str) -> str:
        return " ".join(f"/{word}" for word in sorted(self._commands))
