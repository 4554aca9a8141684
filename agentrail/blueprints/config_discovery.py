"""Configuration files of a directory, each read once so that the parsed bytes are the hashed ones."""

import errno
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from attrs import evolve, frozen

from agentrail.config.config_file import MAX_CONFIG_BYTES, Scope
from agentrail.config.key_filter import in_one_line
from agentrail.errors import OptionError
from agentrail.file_systems import NotRegular, read_regular
from agentrail.named_modules import ModuleFile
from agentrail.stores.data_directory import expand_home

FileOrigin: TypeAlias = Literal[
    "agentrail",
    "claude",
    "codex",
    "claude settings",
    "claude command",
    "codex command",
    "gemini command",
    "mcp",
]
_IMPORTED: Final[tuple[tuple[str, str, FileOrigin, str, str], ...]] = (
    ("agents", "claude", "claude", ".claude/agents", "*.md"),
    ("agents", "codex", "codex", ".codex/agents", "*.toml"),
    ("commands", "claude", "claude command", ".claude/commands", "**/*.md"),
    ("commands", "codex", "codex command", ".codex/prompts", "*.md"),
    ("commands", "gemini", "gemini command", ".gemini/commands", "**/*.toml"),
)

CONFIG_NAME: Final = "agentrail.toml"
AGENTS_FOLDER: Final = Path(".agentrail") / "agents"
USER_FOLDER: Final = ".agentrail"
PERMISSIONS_FILE: Final = Path(USER_FOLDER) / "permissions.toml"
CONFIG_VARIABLE: Final = "AGENTRAIL_CONFIG"
MAX_AGENT_FILES: Final = 1_000


@frozen(kw_only=True)
class FoundFile:
    """A file as found, up to one byte over the size limit. `unread` is empty, or why another program's file cannot be read."""

    name: str
    path: Path
    folder: Path
    key: str
    data: bytes
    scope: Scope
    origin: FileOrigin = "agentrail"
    unread: str = ""


@frozen(kw_only=True)
class FoundFiles:
    """The files that apply. `code` has the modules that a trusted project's files name, with their local imports."""

    directory: Path | None = None
    project: tuple[FoundFile, ...] = ()
    code: tuple[ModuleFile, ...] = ()
    user: tuple[FoundFile, ...] = ()
    why: str = ""


def find_files(config: Path | None, environ: Mapping[str, str], cwd: Path) -> FoundFiles:
    home = Path(environ["HOME"]) if environ.get("HOME") else None
    try:
        return _find_files(config, environ, cwd, home)
    except OSError as error:  # a directory of another user, for example in `HOME` after `sudo -E -u`
        raise OptionError([f"{error.filename} cannot be read: {error.strerror}"]) from error


def _find_files(config: Path | None, environ: Mapping[str, str], cwd: Path, home: Path | None) -> FoundFiles:
    user_folder = None if home is None else home / USER_FOLDER
    directory, named, why = _find_project(config, environ, cwd, home)
    project: tuple[FoundFile, ...] = ()
    if directory is not None:
        toml = directory / CONFIG_NAME if named is None else named
        agents = directory / AGENTS_FOLDER
        # In the home directory these are the user's own files.
        agents_of_user = None if user_folder is None else user_folder / "agents"
        project = _read_all(
            toml, None if agents == agents_of_user else agents, directory, scope="project", cwd=cwd, home=home
        )
        if directory != home:
            project += _read_permissions(directory, directory, "project", cwd, home)
    user: tuple[FoundFile, ...] = ()
    if user_folder is not None:
        user = _read_all(
            user_folder / CONFIG_NAME, user_folder / "agents", user_folder, scope="user", cwd=cwd, home=home
        )
        user += _read_permissions(user_folder.parent, user_folder, "user", cwd, home)
    return FoundFiles(directory=directory if project else None, project=project, user=user, why=why)


def _find_project(
    config: Path | None, environ: Mapping[str, str], cwd: Path, home: Path | None
) -> tuple[Path | None, Path | None, str]:
    named, why = config, "--config"
    if named is None and environ.get(CONFIG_VARIABLE):
        named, why = expand_home(environ[CONFIG_VARIABLE], CONFIG_VARIABLE), CONFIG_VARIABLE
    if named is not None:
        named = cwd / named
        if not named.exists():
            raise OptionError([f"{why} is {str(named)!r}: there is no such file"])
        return named.resolve().parent, named.resolve(), why
    for place in (cwd, *cwd.parents):
        own = (place / AGENTS_FOLDER).is_dir() or _is_there(place / PERMISSIONS_FILE)
        if _is_there(place / CONFIG_NAME) or (own and place != home):
            return place, None, "found above" if place != cwd else "found here"
        if place == home or (place / ".git").exists():
            break
    return None, None, ""


def _is_there(path: Path) -> bool:
    """Whether a file is there, or anything in its place, which is then reported: denied calls must not become allowed."""
    return path.exists() or path.is_symlink()


def _read_permissions(
    directory: Path, folder: Path, scope: Scope, cwd: Path, home: Path | None
) -> tuple[FoundFile, ...]:
    path = directory / PERMISSIONS_FILE
    if not _is_there(path):
        return ()
    return (evolve(_read_file(path, directory, scope, cwd, home), folder=folder),)


def _read_all(  # noqa: PLR0913 - of this file alone
    toml: Path, agents: Path | None, directory: Path, *, scope: Scope, cwd: Path, home: Path | None
) -> tuple[FoundFile, ...]:
    found = (_read_file(toml, directory, scope, cwd, home, follow=True),) if _is_there(toml) else ()
    if agents is None or not agents.is_dir():
        return found
    # Editors keep hidden files beside an open one: a lock of Emacs is a link, `.#reviewer.md`.
    paths = _few(agents, "agents", [one for one in agents.iterdir() if one.suffix == ".md"])
    return (*found, *(_read_file(path, directory, scope, cwd, home) for path in paths))


def _few(folder: Path, what: str, found: Iterable[Path]) -> list[Path]:
    """Return the files that are not hidden, sorted and not too many."""
    paths = sorted(one for one in found if one.name[0] != ".")
    if len(paths) > MAX_AGENT_FILES:
        raise OptionError([f"{folder} has {len(paths)} {what}: expected at most {MAX_AGENT_FILES}"])
    return paths


def _read_file(  # noqa: PLR0913 - of this file alone
    path: Path,
    folder: Path,
    scope: Scope,
    cwd: Path,
    home: Path | None,
    *,
    origin: FileOrigin = "agentrail",
    follow: bool = False,
) -> FoundFile:
    data, unread = b"", ""
    try:
        data = read_bytes(path, follow=follow)
    except OptionError as error:
        if origin in {"agentrail", "claude settings"}:  # without it, denied calls would be allowed
            raise
        unread = error.faults[0]
    return FoundFile(
        name=show_path(path, cwd, home),
        path=path,
        folder=folder,
        key=path.relative_to(folder).as_posix(),
        data=data,
        scope=scope,
        origin=origin,
        unread=unread,
    )


def find_imported(
    place: Path, kinds: Mapping[str, Sequence[str]], *, scope: Scope, cwd: Path, home: Path | None
) -> tuple[FoundFile, ...]:
    wanted: list[tuple[FileOrigin, Path]] = []
    for kind, owner, origin, folder, pattern in _IMPORTED:
        if owner in kinds.get(kind, ()):
            found = _few(place / folder, kind, (place / folder).glob(pattern))
            wanted += [(origin, one) for one in found]
    if "claude" in kinds.get("permissions", ()):
        settings = [place / ".claude" / name for name in ("settings.local.json", "settings.json")]
        wanted += [("claude settings", one) for one in settings if _is_there(one)]
    wanted += [("mcp", place / one) for one in kinds.get("mcp", ())]
    return tuple(_read_file(path, place, scope, cwd, home, origin=origin) for origin, path in wanted)


def show_path(path: Path, cwd: Path, home: Path | None) -> str:
    return in_one_line(_short(path, cwd, home))


def _short(path: Path, cwd: Path, home: Path | None) -> str:
    if path.is_relative_to(cwd):
        return str(path.relative_to(cwd))
    if home is not None and path.is_relative_to(home):
        return f"~/{path.relative_to(home)}"
    return str(path)


def read_bytes(path: Path, *, follow: bool = True, most: int = MAX_CONFIG_BYTES) -> bytes:
    """Return a file, up to one byte over the limit."""
    try:
        return read_regular(path, most + 1, follow=follow)
    except NotRegular as error:
        raise OptionError([f"{path} is not a regular file: replace it with one, or remove it"]) from error
    except OSError as error:
        reason = "it is a symbolic link" if error.errno == errno.ELOOP and not follow else error.strerror
        raise OptionError([f"{path} cannot be read: {reason}"]) from error
    except ValueError as error:
        raise OptionError([f"{str(path)!r} cannot be read: write a path without NUL"]) from error
