"""Files for "always" rules: `.agentrail/permissions.toml` of a trusted project, otherwise the user's."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from attrs import frozen

from agentrail.blueprints.config_discovery import PERMISSIONS_FILE, FoundFiles, read_bytes, show_path
from agentrail.blueprints.configuration import read_configuration
from agentrail.blueprints.trust_store import (
    changing_files,
    digests_of,
    is_trusted,
    read_trust,
    write_trust,
)
from agentrail.config.config_file import MAX_CONFIG_BYTES, Scope
from agentrail.config.permission_toml import with_allowed
from agentrail.config.trust import file_digest
from agentrail.errors import OptionError
from agentrail.private_paths import write_private


@frozen(kw_only=True)
class PermissionFile:
    path: Path
    shown: str
    scope: Scope


def _place_in(files: FoundFiles, environ: Mapping[str, str], cwd: Path) -> PermissionFile | None:
    home = Path(environ["HOME"]) if environ.get("HOME") else None
    if files.directory is not None and is_trusted(files, environ):
        path = files.directory / PERMISSIONS_FILE
        return PermissionFile(path=path, shown=show_path(path, cwd, home), scope="project")
    if home is None:
        return None
    path = home / PERMISSIONS_FILE
    return PermissionFile(path=path, shown=show_path(path, cwd, home), scope="user")


def keep_allowed(
    rules: Sequence[str], environ: Mapping[str, str], *, cwd: Path, config: Path | None = None
) -> PermissionFile | None:
    """Add `allow` rules to the user's file, keeping a trusted project trusted."""
    with changing_files(environ):
        return _keep(rules, environ, cwd, config)


def _keep(
    rules: Sequence[str], environ: Mapping[str, str], cwd: Path, config: Path | None
) -> PermissionFile | None:
    # Includes imported files of other programs, which are trusted with the project.
    files = read_configuration(environ, cwd=cwd, config=config).files
    place = _place_in(files, environ, cwd)
    if place is None or not rules:
        return None
    text = _text_of(place, files)
    made = with_allowed(text, rules, name=place.shown)
    if len(made.encode()) > MAX_CONFIG_BYTES:
        raise OptionError(
            [f"{place.shown} would be longer than {MAX_CONFIG_BYTES // 1024} KiB: remove some rules"]
        )
    if made != text:
        _write(place, made, partial(_trust_still, files, made, environ) if place.scope == "project" else None)
    return place


def _text_of(place: PermissionFile, files: FoundFiles) -> str:
    """Return the text of the file, for a project the text just trusted."""
    found = [one.data for one in files.project if one.path == place.path]
    if not found and place.scope == "user" and os.path.lexists(place.path):
        found = [read_bytes(place.path, follow=False)]
    try:
        return b"".join(found).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionError([f"{place.shown} is not UTF-8: save it as UTF-8"]) from error


def _write(place: PermissionFile, text: str, agree: Callable[[], None] | None) -> None:
    """Write a file atomically, after `agree`."""
    folder = place.path.parent
    try:
        if folder.is_symlink():
            raise OptionError([f"{folder} is a symbolic link, and agentrail does not write through links"])
        write_private(place.path, text.encode(), before_replacing=agree)
    except OSError as error:
        raise OptionError([f"{place.shown} cannot be written: {error.strerror}"]) from error


def _trust_still(files: FoundFiles, text: str, environ: Mapping[str, str]) -> None:
    """Trust the same files and skills as before, and the file as written, but no concurrent change."""
    directory = str(files.directory.resolve()) if files.directory is not None else ""
    listed = read_trust(environ)
    was = listed.directories.get(directory, {})
    digests = {**was, **digests_of(files), PERMISSIONS_FILE.as_posix(): file_digest(text.encode())}
    write_trust(listed.with_directory(directory, digests), environ)
