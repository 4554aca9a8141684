"""`CommandRegistry`: all commands by name. Immutable: adding commands returns a new registry."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from attrs import evolve, frozen

from agentrail.commands.built_in import built_in_commands
from agentrail.commands.slash_command import (
    CommandAnswer,
    CommandCall,
    CommandDesk,
    CommandRow,
    SlashCommand,
    read_typed,
)
from agentrail.core.values.source_prompt import SourcePrompt
from agentrail.errors import CommandError, OptionError, UnknownCommand
from agentrail.errors.name_guesses import near_name

MAX_REGISTERED: Final = 2_000


@frozen(kw_only=True)
class CommandRegistry:
    """All commands, and the reasons for those left out.

    Attributes:
        commands: Built-in commands first, the others by name.
        left_out: The reasons for left-out commands, a sentence each, for the user.
    """

    commands: tuple[SlashCommand, ...] = built_in_commands()
    left_out: tuple[str, ...] = ()

    def with_commands(self, *commands: SlashCommand, left_out: Iterable[str] = ()) -> "CommandRegistry":
        """Return a registry with more commands. A command replaces one of the same name, unless that is built in.

        Args:
            *commands: From a blueprint, files, skills or a tool server.
            left_out: Further messages about their sources.

        Raises:
            OptionError: Your move: the name of a built-in command, or more than 2,000 commands; nothing has changed.
        """
        reserved = {one.name for one in built_in_commands()}
        taken = [one.name for one in commands if one.name in reserved]
        OptionError.raise_for([f"/{name} is built in: give the command another name" for name in taken])
        own = {one.name: one for one in self.commands if one.name not in reserved}
        own |= {one.name: one for one in commands}
        if len(own) > MAX_REGISTERED:
            raise OptionError([f"{len(own)} commands are too many: the limit is {MAX_REGISTERED}"])
        built = [one for one in self.commands if one.name in reserved]
        return evolve(
            self,
            commands=(*built, *(own[name] for name in sorted(own))),
            left_out=(*self.left_out, *left_out),
        )

    def replacing(self, *commands: SlashCommand) -> "CommandRegistry":
        """Return a registry in which these replace built-in commands such as `/skills`, for components that bring their own.

        Raises:
            OptionError: Your move: a command that is not built in.
        """
        instead = {one.name: one for one in commands}
        strange = [name for name in instead if name not in {one.name for one in built_in_commands()}]
        OptionError.raise_for([f"/{name} is not built in: add it with with_commands" for name in strange])
        return evolve(self, commands=tuple(instead.get(one.name, one) for one in self.commands))

    def with_prompts(self, prompts: Iterable[SourcePrompt]) -> "CommandRegistry":
        """Return a registry with prompts of tool sources whose names are free. One that cannot be typed is left out."""
        found: list[SlashCommand] = []
        for one in prompts:
            with suppress(OptionError):
                found += [] if self._has(one.name) else [_of_prompt(one)]
        return self.with_commands(*found[: MAX_REGISTERED - len(self.commands)]) if found else self

    def source_in(self, name: str) -> str | None:
        """Return the source whose prompt a command may be: empty for `help`, which lists all, None for another command."""
        wanted = name.removeprefix("/").lower()
        source, colon, _ = wanted.partition(":")
        return "" if wanted == "help" else source if colon and not self._has(wanted) else None

    def _has(self, name: str) -> bool:
        return any(one.name == name for one in self.commands)

    def find(self, name: str) -> SlashCommand:
        """Find a command.

        Args:
            name: As typed, with or without its slash, in any case.

        Raises:
            UnknownCommand: The caller's move: an unknown name; the message suggests the nearest one.
        """
        wanted = name.removeprefix("/").lower()
        found = next((one for one in self.commands if one.name == wanted), None)
        if found is not None:
            return found
        near = near_name(wanted, [one.name for one in self.commands], "{}") or None
        hint = f"did you mean /{near}?" if near is not None else "/help lists all commands"
        message = f"there is no command /{wanted:.80}: {hint}"
        raise UnknownCommand(message, name=wanted, near=near)

    def rows(self, desk: CommandDesk) -> tuple[CommandRow, ...]:
        """List all commands, with their availability for one caller."""
        return tuple(one.row(desk) for one in self.commands)

    async def run(self, name: str, text: str, desk: CommandDesk) -> CommandAnswer:
        """Run a command.

        Args:
            name: Same as for `find`.
            text: Its arguments.
            desk: The place where it is run. Its `rows` are filled in.

        Raises:
            UnknownCommand, CommandError: The caller's move: an unknown name, a command that cannot run here, or invalid
                arguments.
            Exception: An error of the session's call, unchanged.

        Cancellation: Same as the session's call.
        """
        command = self.find(name)
        why = command.why_not(desk)
        if why is None and command.run is None:
            why = "it is handled by the chat interface"
        if why is not None:
            message = f"/{command.name} cannot be run here: {why}"
            raise CommandError(message)
        assert command.run is not None  # noqa: S101 - checked above
        return await command.run(
            CommandCall(name=command.name, text=text, desk=evolve(desk, rows=self.rows(desk)))
        )

    async def run_line(self, line: str, desk: CommandDesk) -> CommandAnswer | None:
        """Run a line if it is a command, same as `run`. Return None for any other text."""
        typed = read_typed(line)
        return None if typed is None else await self.run(typed.name, typed.text, desk)


def _of_prompt(prompt: SourcePrompt) -> SlashCommand:
    async def run(call: CommandCall) -> CommandAnswer:
        return CommandAnswer(prompt=await prompt.expand(call.text))

    return SlashCommand(
        name=prompt.name,
        description=prompt.description,
        arguments=prompt.arguments,
        run=run,
        background=False,
        in_history=True,
        source=prompt.source,
    )
