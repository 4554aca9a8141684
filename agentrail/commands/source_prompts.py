"""Prompts of tool sources, such as MCP servers, as commands `/source:prompt`."""

from collections.abc import Iterable
from contextlib import suppress

from agentrail.commands.command_registry import MAX_REGISTERED, CommandRegistry
from agentrail.commands.slash_command import CommandAnswer, CommandCall, SlashCommand
from agentrail.core.values.source_prompt import SourcePrompt
from agentrail.errors import OptionError


def source_in(name: str, registry: CommandRegistry) -> str | None:
    """Return the source whose prompt a command may be. None for another command, and an empty text for `help`, which lists all."""
    wanted = name.removeprefix("/").lower()
    source, colon, _ = wanted.partition(":")
    if wanted == "help":
        return ""
    return source if colon and all(one.name != wanted for one in registry.commands) else None


def with_prompts(registry: CommandRegistry, prompts: Iterable[SourcePrompt]) -> CommandRegistry:
    """Return a registry with the prompts whose names are free. One that cannot be typed is left out."""
    known = {one.name for one in registry.commands}
    found: list[SlashCommand] = []
    for one in prompts:
        with suppress(OptionError):
            found += [] if one.name in known else [_command_of(one)]
    room = MAX_REGISTERED - len(known)
    return registry.with_commands(*found[:room]) if found else registry


def _command_of(prompt: SourcePrompt) -> SlashCommand:
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
