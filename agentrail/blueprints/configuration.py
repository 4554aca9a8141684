"""Configuration of a directory: read, merged, narrowed if untrusted, and validated."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
from attrs import field, frozen

from agentrail.abc import name_of
from agentrail.blueprints.config_discovery import (
    PERMISSIONS_FILE,
    FoundFile,
    FoundFiles,
    find_files,
    find_imported,
)
from agentrail.blueprints.permission_options import faults_of_policies
from agentrail.blueprints.skill_discovery import find_sources, read_source
from agentrail.blueprints.trust_store import is_listed, is_trusted, read_trust
from agentrail.config.config_file import (
    ConfigFile,
    Scope,
    decode_file,
    read_agent,
    read_permissions,
    read_toml,
)
from agentrail.config.imported_agents import read_claude_agent, read_codex_agent
from agentrail.config.imported_commands import (
    CommandFault,
    ImportedCommand,
    read_gemini_command,
    read_markdown_command,
)
from agentrail.config.imported_permissions import read_claude_settings
from agentrail.config.imported_servers import read_mcp_json
from agentrail.config.key_filter import in_one_line
from agentrail.config.settings import (
    NO_SETTINGS,
    PolicySettings,
    Settings,
    Sourced,
    faults_of_agent_names,
    join_files,
    merge_settings,
    modules_of,
    read_servers,
)
from agentrail.config.skill_set import Skill, SkillSet, join_skills
from agentrail.config.toml_positions import ConfigFault, ConfigPlace
from agentrail.config.trust_limits import NotGranted, narrow_settings
from agentrail.errors import OptionError
from agentrail.logs import Logger
from agentrail.named_modules import NAMED_MODULES, ModuleFile
from agentrail.plugins.permission_policy import LISTS, PermissionPolicy, rules
from agentrail.plugins.permission_warnings import warnings_of
from agentrail.stores.data_directory import expand_home
from agentrail.tools import builtin

LOGGER: Final = Logger("agentrail.blueprints")

_SHOWN: int = 8
_TOOLS: Final = tuple(map(name_of, builtin()))


@frozen(kw_only=True)
class Configuration:
    """The effective configuration.

    Attributes:
        settings: Effective settings.
        faults: Faults, by file and line.
        not_granted: Values of untrusted project files that do not apply.
        files: The files that were found.
        trusted: Whether the project's files are trusted.
        notes: Ignored parts of other programs' files, by file and line.
        commands: Slash commands of other programs, the project's first.
        cwd: Directory where skills are searched.
        environ: Environment variables. Only `HOME` is read.
        trust_project: Whether the project is trusted this time.
    """

    settings: Settings = NO_SETTINGS
    faults: tuple[ConfigFault, ...] = ()
    not_granted: tuple[NotGranted, ...] = ()
    files: FoundFiles = field(default=FoundFiles(), repr=False)
    trusted: bool = False
    notes: tuple[ConfigFault, ...] = ()
    commands: tuple[ImportedCommand, ...] = ()
    cwd: Path = field(default=Path(), repr=False)
    environ: Mapping[str, str] = field(factory=dict, repr=False)
    trust_project: bool = False

    def read_skills(self) -> SkillSet:
        """Read the skills that apply to the directory.

        Raises:
            OptionError: Your move: the trust list cannot be read.
        """
        said = self.settings.skills
        imported = {one.scope for one in _items(said, "import_")}
        home = Path(self.environ["HOME"]) if self.environ.get("HOME") else None
        sources = find_sources(
            cwd=self.cwd,
            home=home,
            directories=[
                (Path(one.folder) / expand_home(one.value), one.scope) for one in _items(said, "directories")
            ],
            import_user="user" in imported,
            import_project="project" in imported,
        )
        trusts = self._trusts_skill()
        found = [
            attrs.evolve(read, skills=tuple(map(trusts, read.skills))) for read in map(read_source, sources)
        ]
        return join_skills(found, disabled=[one.value for one in _items(said, "disable")])

    def _trusts_skill(self) -> Callable[[Skill], Skill]:
        listed = read_trust(self.environ)
        directory = None if self.files.directory is None else self.files.directory.resolve()

        def trusted(skill: Skill) -> Skill:
            if skill.is_trusted:
                return skill
            path = None if directory is None else path_of_skill(skill, directory)
            known = path and listed.directories.get(str(directory), {}).get(path) == skill.digest
            return attrs.evolve(skill, is_trusted=self.trust_project or bool(known))

        return trusted

    def check(self) -> "Configuration":
        """Return itself if there are no faults.

        Raises:
            OptionError: Your move: all faults.
        """
        if self.faults:
            raise OptionError([str(fault) for fault in self.faults])
        return self

    @property
    def notice(self) -> str | None:
        """Notice about an untrusted project, in one line, or None."""
        if self.files.directory is None or self.trusted:
            return None
        said = f"{in_one_line(str(self.files.directory))} is not trusted: its files can only restrict permissions"
        if not self.not_granted:
            return f"{said}, and do only that"
        shown = ", ".join(str(one) for one in self.not_granted[:_SHOWN])
        more = len(self.not_granted) - _SHOWN
        rest = f" and {more} more" if more > 0 else ""
        return f"{said}; agentrail trust would grant: {shown}{rest}"


def read_configuration(  # noqa: PLR0913 - all but the first are options, by name
    environ: Mapping[str, str],
    *,
    cwd: Path | None = None,
    config: Path | None = None,
    trust_project: bool = False,
    files: FoundFiles | None = None,
    to_trust: bool = False,
) -> Configuration:
    """Read all files that apply to a directory.

    Args:
        environ: Environment variables. Only `AGENTRAIL_CONFIG` and `HOME` are read.
        cwd: The directory. None: the process's working directory.
        config: Configuration file to use instead of a search.
        trust_project: Whether the project's files are trusted this time.
        files: Result of `find_files`, instead of a search.
        to_trust: Whether code named by the project is read before the directory is trusted.

    Raises:
        OptionError: Your move: a file cannot be read. Faults in its content are in `faults`.
    """
    where = (cwd or Path.cwd()).absolute()
    if files is None:
        files = find_files(config, environ, where)
    home = Path(environ["HOME"]) if environ.get("HOME") else None
    read_project, read_user = (_read_all(found, {}) for found in (files.project, files.user))
    project, user = join_files(read_project)[0], join_files(read_user)[0]
    files = attrs.evolve(
        files,
        project=(*files.project, *_imported(project, files.directory, where, home)),
        user=(*files.user, *_imported(user, home, where, home)),
    )
    if to_trust or is_listed(files, environ):
        files = attrs.evolve(files, code=_code_of(project))
    trusted = trust_project or is_trusted(files, environ)
    models = merge_settings(project, user).models if trusted else user.models
    named = {name: said.value for name, said in models.items()}
    read_project += _read_all(files.project[len(read_project) :], named)
    read_user += _read_all(files.user[len(read_user) :], named)
    if not trusted:
        read_project = _without_faulty_servers(files, read_project)
    read_project, read_user = _fitting(files, read_project, read_user)
    project, faults = join_files(read_project)
    user, faults_of_user = join_files(read_user)
    not_granted: tuple[NotGranted, ...] = ()
    joined = merge_settings(project, user)
    # Checked before narrowing: an unknown agent name is a fault in an untrusted file too.
    faults = (*faults, *faults_of_user, *faults_of_agent_names(joined))
    if not trusted:
        project, not_granted = narrow_settings(project, user)
        joined = merge_settings(project, user)
    # Read after narrowing: an untrusted project's server is reported as not granted. As a fault it would
    # stop a run.
    joined, faults_of_servers = read_servers(joined)
    notes = tuple(note for one in (*read_project, *read_user) for note in one.notes)
    for note in notes:
        LOGGER.info("not read: %s", note)
    return Configuration(
        settings=joined,
        faults=(*faults, *faults_of_servers),
        not_granted=not_granted,
        files=files,
        trusted=trusted,
        notes=notes,
        commands=tuple(one.command for one in (*read_project, *read_user) if one.command is not None),
        cwd=where,
        environ=dict(environ),
        trust_project=trust_project,
    )


def path_of_skill(skill: Skill, directory: Path) -> str | None:
    """Return a skill's path below a trusted directory, with a final `/`, or None."""
    at = Path(skill.directory)
    return f"{at.relative_to(directory).as_posix()}/" if at.is_relative_to(directory) else None


def digests_of_skills(skills: SkillSet, directory: Path) -> dict[str, str]:
    """Return the digests of a project's skills by path, as in a trust list."""
    found = {path_of_skill(one, directory): one.digest for one in skills.skills if one.scope == "project"}
    return {path: digest for path, digest in found.items() if path is not None}


def _items(values: Mapping[str, Sourced], name: str) -> tuple[Sourced, ...]:
    said = values.get(name)
    items: tuple[Sourced, ...] = () if said is None else said.value
    return items


def _code_of(project: Settings) -> tuple[ModuleFile, ...]:
    """Read the code that a project names. Unreadable code is left out."""
    found: dict[Path, ModuleFile] = {}
    for module, folder in modules_of(project):
        with suppress(OptionError):
            found.update((one.path, one) for one in NAMED_MODULES.trace(module, folder))
    return tuple(found.values())


def _imported(settings: Settings, place: Path | None, cwd: Path, home: Path | None) -> tuple[FoundFile, ...]:
    if place is None or not settings.imports:
        return ()
    kinds = {name: said.plain for name, said in settings.imports.items()}
    scope: Scope = next(iter(settings.imports.values())).scope
    return find_imported(place, kinds, scope=scope, cwd=cwd, home=home)


def _read_all(found: Sequence[FoundFile], models: Mapping[str, str]) -> list[ConfigFile]:
    return [_read(one, models) for one in found]


def _read(found: FoundFile, models: Mapping[str, str]) -> ConfigFile:
    """Read a file. A faulty one of another program is skipped with a note, unless it holds permissions or was named."""
    if found.unread:
        place = ConfigPlace(file=found.name)
        read = ConfigFile(name=found.name, faults=(ConfigFault(place=place, said=found.unread),))
    else:
        read = _read_text(found, models)
    is_ours = found.origin in {"agentrail", "claude settings", "mcp"}
    return read if is_ours or not read.faults else _left_out(read, read.faults)


def _left_out(read: ConfigFile, faults: Sequence[ConfigFault]) -> ConfigFile:
    own = ConfigPlace(file=read.name)
    notes = [
        ConfigFault(
            place=fault.place if fault.place.file == read.name else own,
            said=f"the file is left out: {fault.said}",
        )
        for fault in faults
    ]
    return ConfigFile(name=read.name, folder=read.folder, scope=read.scope, notes=(*read.notes, *notes))


def _without_faulty_servers(files: FoundFiles, read: Sequence[ConfigFile]) -> list[ConfigFile]:
    """Leave out faulty servers of files that an untrusted project imports. They are not granted, and stop no run."""
    names = {one.name for one in files.project if one.origin == "mcp"}
    return [_left_out(one, one.faults) if one.faults and one.name in names else one for one in read]


def _fitting(
    files: FoundFiles, project: list[ConfigFile], user: list[ConfigFile]
) -> tuple[list[ConfigFile], list[ConfigFile]]:
    """Skip other programs' agents with duplicate names or references to unknown agents."""
    foreign = {one.name for one in (*files.project, *files.user) if one.origin in {"claude", "codex"}}
    while True:
        (joined, faults), (joined_user, faults_of_user) = join_files(project), join_files(user)
        found = (*faults, *faults_of_user, *faults_of_agent_names(merge_settings(joined, joined_user)))
        wrong = {fault.place.file for fault in found} & foreign
        if not wrong and found:  # a cycle is reported for one of its agents, which may be ours
            wrong = {one.name for one in (*project, *user) if one.name in foreign and _has_agents(one)}
        if not wrong:
            return project, user
        foreign -= wrong

        def without(
            read: ConfigFile, wrong: set[str] = wrong, found: tuple[ConfigFault, ...] = found
        ) -> ConfigFile:
            own = [fault for fault in found if fault.place.file == read.name] or [*found[:1]]
            return _left_out(read, own) if read.name in wrong else read

        project, user = [*map(without, project)], [*map(without, user)]


def _has_agents(read: ConfigFile) -> bool:
    return any(form.agents for form in read.form.agents.values())


def _read_text(found: FoundFile, models: Mapping[str, str]) -> ConfigFile:
    folder = str(found.folder)
    text, faults = decode_file(found.name, found.data)
    if faults:
        return ConfigFile(name=found.name, folder=folder, scope=found.scope, faults=faults)
    given: dict[str, Any] = {"scope": found.scope, "folder": folder}
    if found.origin == "claude":
        return read_claude_agent(found.name, text, models=models, tools=_TOOLS, **given)
    if found.origin == "codex":
        return read_codex_agent(found.name, text, models=models, **given)
    if found.origin.endswith("command"):
        return _read_command(found, text)
    if found.origin == "claude settings":
        return _with_rules_read(read_claude_settings(found.name, text, **given))
    if found.origin == "mcp":
        return read_mcp_json(found.name, text, **given)
    if found.path.suffix == ".md":
        return read_agent(found.name, found.path.stem, text, scope=found.scope, folder=folder)
    if found.path.name == PERMISSIONS_FILE.name:
        return read_permissions(found.name, text, scope=found.scope, folder=folder)
    return read_toml(found.name, text, scope=found.scope, folder=folder)


def _command(found: FoundFile, text: str) -> ImportedCommand:
    # Relative to the command directory, without the first two names such as `.claude/commands`.
    path = found.key.split("/", 2)[2]
    if found.origin == "gemini command":
        return read_gemini_command(path, text)
    return read_markdown_command("codex" if found.origin == "codex command" else "claude", path, text)


def _read_command(found: FoundFile, text: str) -> ConfigFile:
    place = ConfigPlace(file=found.name)
    made = ConfigFile(name=found.name, folder=str(found.folder), scope=found.scope)
    try:
        command = _command(found, text)
    except CommandFault as fault:
        return attrs.evolve(made, faults=(ConfigFault(place=place, said=str(fault)),))
    notes = tuple(ConfigFault(place=place, said=one) for one in command.notes)
    return attrs.evolve(made, command=command, notes=notes)


def _with_rules_read(read: ConfigFile) -> ConfigFile:
    """Drop, with notes, another program's rules that ours cannot express."""
    policies = join_files([read])[0].policies
    policy = policies[0] if policies else PolicySettings()
    wrong = [*faults_of_policies([policy])]
    if wrong:
        unread = {said.place.path for said, _ in wrong}
        kept: dict[str, Any] = {
            name: tuple(
                rule
                for at, rule in enumerate(getattr(read.form.permissions, name) or ())
                if ("permissions", name, at) not in unread
            )
            or None
            for name in LISTS
        }
        notes = tuple(ConfigFault(place=said.place, said=f"is not read: {fault}") for said, fault in wrong)
        form = attrs.evolve(read.form, permissions=attrs.evolve(read.form.permissions, **kept))
        read = attrs.evolve(read, form=form, notes=(*read.notes, *notes))
    return attrs.evolve(read, notes=(*read.notes, *_stars(read)))


def _stars(read: ConfigFile) -> Iterator[ConfigFault]:
    for rule in read.form.permissions.allow or ():
        for said in warnings_of(PermissionPolicy(allow=rules(rule))):
            place = ConfigPlace(file=read.name, path=("permissions", "allow"), lines=read.lines)
            yield ConfigFault(place=place, said=f"asks where it did not there: {said}")
