"""A project and a home with slash commands in files, as an operator and a user write them."""

from pathlib import Path

from agentrail.blueprints.command_files import read_commands
from agentrail.commands import CommandRegistry


def write_commands(folder: Path) -> Path:
    for whose, name, text in (
        ("project", "git/commit", "---\ndescription: Commits.\nargument-hint: what\n---\nCommit $ARGUMENTS."),
        ("home", "thank", "---\ndescription: Says thanks.\n---\nThank you."),
    ):
        path = folder / whose / ".agentrail" / "commands" / f"{name}.md"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return folder


def commands_at(folder: Path) -> CommandRegistry:
    """All commands that there are in the project: built in, its own and the user's."""
    return read_commands({"HOME": str(folder / "home")}, cwd=folder / "project")
