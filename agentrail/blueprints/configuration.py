"""All that files say of a directory: read, joined, narrowed where it is not trusted, and looked at."""

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from agentrail.blueprints.finding import PERMISSIONS_FILE, FoundFile, FoundFiles, find_files
from agentrail.blueprints.trusting import is_trusted
from agentrail.config.keys import in_one_line
from agentrail.config.narrowing import NotGranted, narrow_settings
from agentrail.config.places import ConfigFault
from agentrail.config.reading import ConfigFile, decode_file, read_agent, read_permissions, read_toml
from agentrail.config.settings import (
    NO_SETTINGS,
    Settings,
    faults_of_agent_names,
    join_files,
    merge_settings,
)
from agentrail.errors import OptionError

_SHOWN: int = 8


@frozen(kw_only=True)
class Configuration:
    """What files say.

    Attributes:
        settings: What holds.
        faults: What is wrong with the files, by file and line.
        not_granted: What a project's files say and does not hold, because they are not trusted.
        files: Which there are.
        trusted: Whether those of the project are.
    """

    settings: Settings = NO_SETTINGS
    faults: tuple[ConfigFault, ...] = ()
    not_granted: tuple[NotGranted, ...] = ()
    files: FoundFiles = field(default=FoundFiles(), repr=False)
    trusted: bool = False

    def check(self) -> "Configuration":
        """Give itself, where nothing is wrong.

        Raises:
            OptionError: Your move: all faults.
        """
        if self.faults:
            raise OptionError([str(fault) for fault in self.faults])
        return self

    @property
    def notice(self) -> str | None:
        """What is to be said first where a project is not trusted, in one line; None where there is nothing to say."""
        if self.files.directory is None or self.trusted:
            return None
        said = f"{in_one_line(str(self.files.directory))} is not trusted: its files may only narrow"
        if not self.not_granted:
            return f"{said}, and do no more than that"
        shown = ", ".join(str(one) for one in self.not_granted[:_SHOWN])
        more = len(self.not_granted) - _SHOWN
        rest = f" and {more} more" if more > 0 else ""
        return f"{said}; agentrail trust would grant: {shown}{rest}"


def read_configuration(
    environ: Mapping[str, str],
    *,
    cwd: Path | None = None,
    config: Path | None = None,
    trust_project: bool = False,
    files: FoundFiles | None = None,
) -> Configuration:
    """Read all files that hold for a directory.

    Args:
        environ: Of this `AGENTRAIL_CONFIG` and `HOME` are looked at.
        cwd: The directory; None for that of the process.
        config: A file of configuration in place of what would be found.
        trust_project: Whether the project's files count as trusted, this time.
        files: What `find_files` has found, in place of looking for them.

    Raises:
        OptionError: Your move: a file cannot be read. What is wrong inside of one is in `faults`.
    """
    if files is None:
        files = find_files(config, environ, (cwd or Path.cwd()).absolute())
    project, faults = join_files([_read(one) for one in files.project])
    user, faults_of_user = join_files([_read(one) for one in files.user])
    trusted = trust_project or is_trusted(files, environ)
    not_granted: tuple[NotGranted, ...] = ()
    joined = merge_settings(project, user)
    # Of all that is written, and not of what is left: a name that is no agent is wrong in an untrusted file too.
    faults = (*faults, *faults_of_user, *faults_of_agent_names(joined))
    if not trusted:
        project, not_granted = narrow_settings(project, user)
        joined = merge_settings(project, user)
    return Configuration(
        settings=joined, faults=faults, not_granted=not_granted, files=files, trusted=trusted
    )


def _read(found: FoundFile) -> ConfigFile:
    folder = str(found.folder)
    text, faults = decode_file(found.name, found.data)
    if faults:
        return ConfigFile(name=found.name, folder=folder, scope=found.scope, faults=faults)
    if found.path.suffix == ".md":
        return read_agent(found.name, found.path.stem, text, scope=found.scope, folder=folder)
    if found.path.name == PERMISSIONS_FILE.name:
        return read_permissions(found.name, text, scope=found.scope, folder=folder)
    return read_toml(found.name, text, scope=found.scope, folder=folder)
