"""Command files of the user, and of the nearest parent directory with any, without following links."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from agentrail.blueprints.config_discovery import USER_FOLDER, read_bytes, show_path
from agentrail.blueprints.configuration import read_configuration
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
    where = (Path.cwd() if cwd is None else cwd).absolute()
    home = Path(environ["HOME"]) if environ.get("HOME") else None
    reader = _Reader(where, home)
    project = _find_project(where, home)
    if project is not None:
        granted = trust_project or read_configuration(environ, cwd=where).trusted
        reader.read_all(project, "project", granted=granted)
    if home is not None:
        reader.read_all(home / USER_FOLDER / COMMANDS_FOLDER, "user", granted=True)
    commands, faults = commands_of_files(reader.found)
    return (registry or CommandRegistry()).with_commands(*commands, left_out=(*reader.left_out, *faults))


def _find_project(where: Path, home: Path | None) -> Path | None:
    for place in (where, *where.parents):
        folder = place / USER_FOLDER / COMMANDS_FOLDER
        if place != home and folder.is_dir():
            return folder
        if place == home or (place / ".git").exists():
            return None
    return None


class _Reader:
    def __init__(self, where: Path, home: Path | None) -> None:
        self._where, self._home = where, home
        self.found: list[CommandFile] = []
        self.left_out: list[str] = []

    def read_all(self, folder: Path, source: CommandSource, *, granted: bool) -> None:
        if folder.is_symlink() or folder.parent.is_symlink():
            self.left_out.append(
                f"{self._shown(folder)} is a symbolic link: put the files into a real directory"
            )
            return
        paths = sorted(_paths_in(folder))
        if len(paths) > MAX_COMMAND_FILES:
            self.left_out.append(
                f"{self._shown(folder)} has {len(paths)} files: only the first {MAX_COMMAND_FILES} are read"
            )
        for path in paths[:MAX_COMMAND_FILES]:
            try:
                data = read_bytes(path, follow=False, most=MAX_COMMAND_BYTES)
            except OptionError as error:
                self.left_out.append(error.faults[0])
                continue
            below = path.relative_to(folder).as_posix()
            one = CommandFile(name=self._shown(path), path=below, data=data, source=source, granted=granted)
            self.found.append(one)

    def _shown(self, path: Path) -> str:
        return show_path(path, self._where, self._home)


def _paths_in(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder, followlinks=False):
        if len(Path(place).relative_to(folder).parts) >= _MAX_DEPTH:
            folders.clear()
        yield from (Path(place) / name for name in files if name.endswith(".md") and name[0] != ".")
