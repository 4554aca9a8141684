"""`CommandRegistry`: all commands that there are, by name. A value: with more of them it is another one."""

import difflib
from collections.abc import Iterable
from typing import Final

from attrs import evolve, frozen

from agentrail.commands.built_in import built_in_commands
from agentrail.commands.command import (
    CommandAnswer,
    CommandCall,
    CommandDesk,
    CommandRow,
    SlashCommand,
    read_typed,
)
from agentrail.errors import CommandError, OptionError, UnknownCommand

MAX_REGISTERED: Final = 2_000


@frozen(kw_only=True)
class CommandRegistry:
    """All commands, and what was left out and why.

    Attributes:
        commands: Those that are built in first, the others by name.
        left_out: What could not become a command, a sentence each, for people.
    """

    commands: tuple[SlashCommand, ...] = built_in_commands()
    left_out: tuple[str, ...] = ()

    def with_commands(self, *commands: SlashCommand, left_out: Iterable[str] = ()) -> "CommandRegistry":
        """Give one with more. One of a known name takes that one's place; the name of one that is built in cannot be taken.

        Args:
            *commands: Of a blueprint, of files, of skills, of a server of tools.
            left_out: What else is to be told of where they come from.

        Raises:
            OptionError: Your move: the name of one that is built in, or more than 2,000; nothing has changed.
        """
        reserved = {one.name for one in built_in_commands()}
        taken = [one.name for one in commands if one.name in reserved]
        if taken:
            raise OptionError([f"/{name} is built in: give the command another name" for name in taken])
        own = {one.name: one for one in self.commands if one.name not in reserved}
        own |= {one.name: one for one in commands}
        if len(own) > MAX_REGISTERED:
            raise OptionError([f"{len(own)} commands are too many: at most {MAX_REGISTERED}"])
        built = [one for one in self.commands if one.name in reserved]
        return evolve(
            self,
            commands=(*built, *(own[name] for name in sorted(own))),
            left_out=(*self.left_out, *left_out),
        )

    def replacing(self, *commands: SlashCommand) -> "CommandRegistry":
        """Give one in which these do what commands that are built in are for, such as `/skills`: who brings the thing brings its command.

        Raises:
            OptionError: Your move: one that is not built in.
        """
        instead = {one.name: one for one in commands}
        strange = [name for name in instead if name not in {one.name for one in built_in_commands()}]
        if strange:
            raise OptionError([f"/{name} is not built in: add it with with_commands" for name in strange])
        return evolve(self, commands=tuple(instead.get(one.name, one) for one in self.commands))

    def find(self, name: str) -> SlashCommand:
        """Find a command.

        Args:
            name: As it was typed, with its slash or without, in any case.

        Raises:
            UnknownCommand: The caller's move: there is none; the message has the nearest name.
        """
        wanted = name.removeprefix("/").lower()
        found = next((one for one in self.commands if one.name == wanted), None)
        if found is not None:
            return found
        near = next(
            iter(difflib.get_close_matches(wanted[:80], [one.name for one in self.commands], n=1)), None
        )
        hint = f"did you mean /{near}?" if near is not None else "/help lists all there are"
        message = f"there is no command /{wanted:.80}: {hint}"
        raise UnknownCommand(message, name=wanted, near=near)

    def rows(self, desk: CommandDesk) -> tuple[CommandRow, ...]:
        """List all of them as they stand for one caller."""
        return tuple(one.row(desk) for one in self.commands)

    async def run(self, name: str, text: str, desk: CommandDesk) -> CommandAnswer:
        """Run a command.

        Args:
            name: As of `find`.
            text: What stands behind it.
            desk: From where; its `rows` are filled in.

        Raises:
            UnknownCommand, CommandError: The caller's move: there is none, it cannot be run here, or not with this.
            Exception: What the session did not take, as itself.

        Cancellation: As of the call that it makes.
        """
        command = self.find(name)
        why = command.why_not(desk)
        if why is None and command.run is None:
            why = "it is done by who reads the lines"
        if why is not None:
            message = f"/{command.name} cannot be run here: {why}"
            raise CommandError(message)
        assert command.run is not None  # noqa: S101 - said above
        return await command.run(
            CommandCall(name=command.name, text=text, desk=evolve(desk, rows=self.rows(desk)))
        )

    async def run_line(self, line: str, desk: CommandDesk) -> CommandAnswer | None:
        """Run a line where it is a command; None for other words. As of `run`."""
        typed = read_typed(line)
        return None if typed is None else await self.run(typed.name, typed.text, desk)
