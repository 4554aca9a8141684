"""Which files hold commands, and their bytes: those of the user, and those of the nearest directory above that has any. Links are not followed."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from agentrail.blueprints.finding import USER_FOLDER, find_files, read_bytes, show_path
from agentrail.blueprints.trusting import is_trusted
from agentrail.commands import CommandFile, CommandRegistry, commands_of_files
from agentrail.commands.markdown import MAX_COMMAND_BYTES, CommandSource
from agentrail.errors import OptionError

COMMANDS_FOLDER: Final = "commands"
MAX_COMMAND_FILES: Final = 500
_MAX_DEPTH: Final = 8


def read_commands(
    environ: Mapping[str, str],
    *,
    cwd: Path | None = None,
    trust_project: bool = False,
    registry: CommandRegistry | None = None,
) -> CommandRegistry:
    """Read the commands of the user and of the project.

    Args:
        environ: Of this `AGENTRAIL_CONFIG` and `HOME` are looked at.
        cwd: Where to begin to look; None for the directory of the process.
        trust_project: Whether the project counts as trusted, this time; else a file of it chooses no model.
        registry: What there is besides; None for what is built in.

    Returns:
        All of them. A file that cannot become a command is left out, and `left_out` says why, with its line.

    Raises:
        OptionError: Your move: the list of trusted directories cannot be read.
    """
    where = (Path.cwd() if cwd is None else cwd).absolute()
    home = Path(environ["HOME"]) if environ.get("HOME") else None
    found: list[CommandFile] = []
    left_out: list[str] = []
    project = _find_project(where, home)
    if project is not None:
        granted = trust_project or is_trusted(find_files(None, environ, where), environ)
        _read_all(project, "project", where, home, found, left_out, granted=granted)
    if home is not None:
        _read_all(home / USER_FOLDER / COMMANDS_FOLDER, "user", where, home, found, left_out, granted=True)
    commands, faults = commands_of_files(found)
    return (registry or CommandRegistry()).with_commands(*commands, left_out=(*left_out, *faults))


def _find_project(where: Path, home: Path | None) -> Path | None:
    for place in (where, *where.parents):
        folder = place / USER_FOLDER / COMMANDS_FOLDER
        if place != home and folder.is_dir():
            return folder
        if place == home or (place / ".git").exists():
            return None
    return None


def _read_all(  # noqa: PLR0913 - of this file alone
    folder: Path,
    source: CommandSource,
    where: Path,
    home: Path | None,
    found: list[CommandFile],
    left_out: list[str],
    *,
    granted: bool,
) -> None:
    if folder.is_symlink() or folder.parent.is_symlink():
        left_out.append(f"{show_path(folder, where, home)} is a link: put the files there")
        return
    paths = sorted(_paths_in(folder))
    if len(paths) > MAX_COMMAND_FILES:
        said = f"{show_path(folder, where, home)} has {len(paths)} files: the first {MAX_COMMAND_FILES} count"
        left_out.append(said)
    for path in paths[:MAX_COMMAND_FILES]:
        try:
            data = read_bytes(path, follow=False, most=MAX_COMMAND_BYTES)
        except OptionError as error:
            left_out.append(error.faults[0])
            continue
        name = show_path(path, where, home)
        below = path.relative_to(folder).as_posix()
        found.append(CommandFile(name=name, path=below, data=data, source=source, granted=granted))


def _paths_in(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder, followlinks=False):
        if len(Path(place).relative_to(folder).parts) >= _MAX_DEPTH:
            folders.clear()
        yield from (Path(place) / name for name in files if name.endswith(".md"))
