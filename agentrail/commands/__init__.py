"""Slash commands: one registry for `agentrail chat`, the console and the host. Nothing here reads a file or uses a terminal.

- `slash_command.py`: `SlashCommand`, its input and its answer. `command_registry.py`: `CommandRegistry`, which finds a command by its
  name.
- `built_in.py`: the built-in commands, `command_output.py`: their output. `markdown.py`: turns a Markdown file into a command.
  `template.py`: fills the typed arguments into its prompt.

    >>> from agentrail.commands import CommandRegistry, SlashCommand, CommandAnswer
    >>> async def greet(call):
    ...     return CommandAnswer(lines=(f"Hello {call.text}.",))
    >>> mine = CommandRegistry().with_commands(SlashCommand(name="greet", description="Says hello.", run=greet))
    >>> mine.find("/GREET").name
    'greet'
"""

from agentrail.commands.built_in import built_in_commands as built_in_commands
from agentrail.commands.command_registry import CommandRegistry as CommandRegistry
from agentrail.commands.markdown import (
    CommandFile as CommandFile,
    commands_of_files as commands_of_files,
    read_command as read_command,
)
from agentrail.commands.slash_command import (
    CommandAnswer as CommandAnswer,
    CommandCall as CommandCall,
    CommandDesk as CommandDesk,
    CommandFacts as CommandFacts,
    CommandRow as CommandRow,
    CommandSession as CommandSession,
    SlashCommand as SlashCommand,
    TypedCommand as TypedCommand,
    read_typed as read_typed,
)
from agentrail.commands.template import expand_prompt as expand_prompt
