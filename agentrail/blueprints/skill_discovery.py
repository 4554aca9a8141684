"""Skills on disk: where they are searched, how they are read, and how a session uses them.

A skill is cached per names, sizes and times of its files.
"""

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from attrs import frozen

from agentrail.abc import Tool, name_of
from agentrail.blueprints.capability import name_of_plugin, placed, with_options
from agentrail.blueprints.config_discovery import show_path
from agentrail.config.skill_file import MAX_SKILL_BYTES, SkillDialect, SkillReading, faulty, read_skill
from agentrail.config.skill_set import (
    LeftOutSkill,
    Skill,
    SkillScope,
    SkillSet,
    ToolsMode,
    digest_of_skill,
    join_skills,
)
from agentrail.config.toml_positions import ConfigFault
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors.name_guesses import near_name
from agentrail.otp.field_rules import CheckedFields
from agentrail.otp.guarded_calls import repr_of
from agentrail.plugins import SkillGuard, SkillListing
from agentrail.plugins.permission_rules import RuleFault, read_permission_rule
from agentrail.plugins.skill_guard import SKILL_TOOLS
from agentrail.plugins.skill_listing import SkillSelector
from agentrail.plugins.skills_of_agent import AgentSkillGuard, AgentSkillListing
from agentrail.runtime.arguments import refuse
from agentrail.tools.skill import SKILL_FILE, SkillSearch, SkillTool, mount_skills, without_skills
from agentrail.tools.skill_files import (
    FoundSkillFile,
    SkillFileFault,
    find_skill_files,
    hash_skill_file,
    read_skill_file,
)

BUILT_IN_SKILLS: Final = Path(__file__).with_name("built_in_skills")
"""Directory of the bundled skills. Programs get them with `read_skills(BUILT_IN_SKILLS)`."""

MAX_SKILL_DIRECTORIES: Final = 1_000
"""Limit per source. A source with more skills is not read, because it is unlikely to be a skill directory."""

MAX_SOURCE_BYTES: Final = 256 * 1024 * 1024
"""Limit for all files of one source, because all of them are hashed."""

_TOO_LARGE: Final = f"the skills before it already have over {MAX_SOURCE_BYTES >> 20} MiB: remove some files"

_LINKED: Final = "it is a symbolic link, and a project's skills must be real directories"

_OWN: Final = (".agents", ".agentrail")
"""Owners of `skills` directories, in ascending precedence: skills for this program win."""

_KEPT: Final = 1_000
# Per process and not per caller: hosts build a blueprint per session, and would read two hundred skills each
# time.
_CACHE: Final[OrderedDict[tuple[Any, ...], Skill | LeftOutSkill]] = OrderedDict()


@frozen(kw_only=True)
class SkillSource:
    """A directory of skills, each in a subdirectory. Links are followed if the user owns it."""

    directory: Path
    shown: str
    scope: SkillScope
    dialect: SkillDialect = "open"
    is_own: bool = True

    def without(self, name: str, why: object, faults: tuple[ConfigFault, ...] = ()) -> LeftOutSkill:
        """Return a skill of this source that is left out, or without a name the whole source."""
        return LeftOutSkill(name=name, source=self.shown, why=str(why), faults=faults)


@frozen(kw_only=True)
class SkillUse(CheckedFields):
    """The skills of a blueprint, the effect of their tool lists, and the selector of each prompt (None lists all)."""

    skills: SkillSet
    tools: ToolsMode = "restrict"
    selector: SkillSelector | None = None

    def equip(
        self, tools: Sequence[Tool], plugins: Sequence[PluginEntry]
    ) -> tuple[tuple[Tool, ...], tuple[PluginEntry, ...]]:
        """Return an agent's tools and plugins with these skills.

        Its skills replace those of its session, and can only narrow permissions: `approve` has no effect.

        Args:
            tools: Its own, or its session's.
            plugins: Its own, or its session's.
        """
        return self.with_tools(without_skills(tools)), with_skills_of_agent(plugins, self)

    def with_tools(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Return the tools, with tools to open, search and read these skills, if any."""
        if not self.skills.skills:
            return tools
        own = (SkillTool(skills=self.skills, tools=self.tools), SkillSearch(skills=self.skills))
        return mount_skills(placed((*tools, *own), name_of), self.skills)


def read_skills(*directories: str | Path) -> SkillSet:
    """Read the skills of the given directories. Later directories win.

    Args:
        directories: Directories with each skill in a subdirectory. A missing one is empty.

    Returns:
        The skills, and the excluded ones with reasons.

    Raises:
        OptionError: Your move: one of them is not a path.
    """
    given: tuple[object, ...] = directories  # annotations cannot be trusted here
    wrong = [one for one in given if not isinstance(one, str) and not hasattr(one, "__fspath__")]
    refuse(*[f"directories has {repr_of(one):.200}: expected paths" for one in wrong])
    sources = [
        SkillSource(directory=Path(one).absolute(), shown=str(one), scope="blueprint") for one in directories
    ]
    return join_skills([read_source(one) for one in sources])


def find_sources(
    *,
    cwd: Path,
    home: Path | None,
    directories: Iterable[tuple[Path, SkillScope]] = (),
    import_user: bool = False,
    import_project: bool = False,
) -> tuple[SkillSource, ...]:
    """Return the skill sources in ascending precedence, bundled skills first."""
    found: dict[Path, SkillSource] = {
        BUILT_IN_SKILLS: SkillSource(directory=BUILT_IN_SKILLS, shown="built in", scope="built_in")
    }

    def add(place: Path, scope: SkillScope, *, imported: bool) -> None:
        for owner in ((".claude",) if imported else ()) + _OWN:
            directory = place / owner / "skills"
            source = SkillSource(
                directory=directory,
                shown=show_path(directory, cwd, home),
                scope=scope,
                dialect="claude" if owner == ".claude" else "open",
                is_own=scope != "project",
            )
            found.setdefault(directory, source)

    if home is not None:
        add(home, "user", imported=import_user)
    for place in _places(cwd, home):
        add(place, "project", imported=import_project)
    named = [
        SkillSource(directory=one, shown=show_path(one, cwd, home), scope=scope, is_own=scope != "project")
        for one, scope in directories
    ]
    return (*found.values(), *named)


def _places(cwd: Path, home: Path | None) -> tuple[Path, ...]:
    """Return a project's directories, from its repository root down, otherwise the working directory."""
    above: list[Path] = []
    for place in (cwd, *cwd.parents):
        if place == home:
            break
        above.append(place)
        if (place / ".git").exists():
            return tuple(reversed(above))
    return () if cwd == home else (cwd,)


def read_source(source: SkillSource) -> SkillSet:
    skills: list[Skill] = []
    left_out: list[LeftOutSkill] = []
    try:
        if not source.is_own and any(one.is_symlink() for one in (source.directory, source.directory.parent)):
            return SkillSet(left_out=(source.without(source.directory.name, _LINKED),))
        names = sorted(one.name for one in source.directory.iterdir() if (one / SKILL_FILE).is_file())
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return SkillSet()
        return SkillSet(left_out=(source.without("", f"it cannot be read: {error.strerror}"),))
    if len(names) > MAX_SKILL_DIRECTORIES:
        why = f"it has {len(names)} skills: expected at most {MAX_SKILL_DIRECTORIES}"
        return SkillSet(left_out=(source.without("", why),))
    left = MAX_SOURCE_BYTES
    for name in names:
        read = read_one(source, name) if left > 0 else source.without(name, _TOO_LARGE)
        left -= sum(file.size for file in read.files) if isinstance(read, Skill) else 0
        if isinstance(read, Skill):
            skills.append(read)
        else:
            left_out.append(read)
    return SkillSet(skills=tuple(skills), left_out=tuple(left_out))


def read_one(source: SkillSource, name: str) -> Skill | LeftOutSkill:
    """Read one skill, or return why it is excluded."""
    at = source.directory / name
    try:
        if at.is_symlink() and not source.is_own:
            return source.without(name, _LINKED)
        directory = os.path.realpath(at)
        files = find_skill_files(directory)
        key = (directory, name, source, tuple((one.path, one.mark) for one in files))
        kept = _CACHE.get(key)
        if kept is None:
            kept = _read(source, name, directory, files)
            _CACHE[key] = kept
            while len(_CACHE) > _KEPT:
                _CACHE.popitem(last=False)
    except SkillFileFault as fault:
        return source.without(name, fault)
    except OSError as error:
        return source.without(name, f"it cannot be read: {error.strerror}")
    return kept


def _read(
    source: SkillSource, name: str, directory: str, files: Sequence[FoundSkillFile]
) -> Skill | LeftOutSkill:
    shown = f"{source.shown}/{name}/{SKILL_FILE}"
    read = _text_of(source, name, directory, shown, files)
    read = _with_rules_read(read, shown)
    if read.text is None:
        return source.without(name, read.faults[0], read.faults)
    known = tuple(hash_skill_file(directory, one) for one in files)
    return Skill(
        text=read.text,
        source=source.shown,
        scope=source.scope,
        directory=directory,
        files=known,
        digest=digest_of_skill({one.path: one.digest for one in known}),
        is_trusted=source.scope != "project",
        warnings=read.warnings,
    )


def _text_of(
    source: SkillSource, name: str, directory: str, shown: str, files: Sequence[FoundSkillFile]
) -> SkillReading:
    size = next((one.size for one in files if one.path == SKILL_FILE), None)
    if size is None:
        return faulty(shown, "it is a symbolic link: replace it with the file itself")
    if size > MAX_SKILL_BYTES:
        said = f"expected at most {MAX_SKILL_BYTES // 1024} KiB, got {size // 1024}: move some of it into other files of the skill"
        return faulty(shown, said)
    try:
        text = read_skill_file(directory, SKILL_FILE, most=MAX_SKILL_BYTES).decode()
    except UnicodeDecodeError:
        return faulty(shown, "expected UTF-8: save the file as UTF-8")
    return read_skill(shown, name, text, dialect=source.dialect)


def _with_rules_read(read: SkillReading, shown: str) -> SkillReading:
    """Drop, with warnings, tool rules that permissions cannot parse."""
    if read.text is None:
        return read
    wrong: list[str] = []

    def sound(rules: Iterable[str]) -> tuple[str, ...]:
        kept = []
        for rule in rules:
            try:
                read_permission_rule(rule)
            except RuleFault as fault:
                wrong.append(f"the rule {rule!r:.120} cannot be read: at character {fault.at}: {fault.why}")
            else:
                kept.append(rule)
        return tuple(kept)

    allowed = None if read.text.allowed is None else sound(read.text.allowed)
    text = attrs.evolve(read.text, allowed=allowed, disallowed=sound(read.text.disallowed))
    said = [fault for one in wrong for fault in faulty(shown, one).faults]
    return attrs.evolve(read, text=text, warnings=(*read.warnings, *said))


def no_such_skill(name: str, known: Iterable[str]) -> str:
    listed = sorted(known)
    some = f"the skills are: {', '.join(listed[:20]) or 'none'};"
    guess = near_name(name, listed, "did you mean {!r}?", some)
    return f"there is no skill {name!r:.80}: {guess} agentrail skills list names the searched directories"


# --- skills in a session


def rules_while_open(skill: Skill, mode: ToolsMode) -> tuple[str, ...] | None:
    """Return the tool rules while a skill is open, or None without restriction."""
    if mode == "ignore" or (mode == "approve" and skill.is_trusted):
        return None
    return skill.text.allowed


def with_skill_plugins(plugins: Sequence[PluginEntry], use: SkillUse) -> tuple[PluginEntry, ...]:
    """Return a stack that guards and lists skills, keeping existing options."""
    skills = use.skills.skills
    guard = _rules_of(use)
    found = [*with_options(plugins, "SkillGuard", lambda own: _joined(guard, own))]
    if not any(name_of_plugin(one) == "SkillGuard" for one in plugins):
        found.append((SkillGuard, guard))
    approved = {
        one.name: one.text.allowed
        for one in skills
        if use.tools == "approve" and one.is_trusted and one.text.allowed
    }
    pure = {"pure_tools": sorted(SKILL_TOOLS)} | ({"skills": approved} if approved else {})
    found = [*with_options(found, "Permissions", lambda own: _joined(pure, own))]
    listed = {"skills": _listed(use)}
    if any(name_of_plugin(one) == "SkillListing" for one in found):
        return tuple(with_options(found, "SkillListing", lambda own: _joined(listed, own)))
    # A class rather than an instance where possible: the stored session names the plugin by its class.
    listing = SkillListing if use.selector is None else SkillListing(selector=use.selector)
    return (*found, (listing, listed))


def with_skills_of_agent(plugins: Sequence[PluginEntry], use: SkillUse) -> tuple[PluginEntry, ...]:
    """Return the plugins of an agent with its own skills. The session's guards stay."""
    gone = {"SkillListing", "AgentSkillListing", "AgentSkillGuard"}
    kept = tuple(one for one in plugins if name_of_plugin(one) not in gone)
    if not use.skills.skills:
        return kept
    listing = AgentSkillListing if use.selector is None else AgentSkillListing(selector=use.selector)
    return (*kept, (AgentSkillGuard, _rules_of(use)), (listing, {"skills": _listed(use)}))


def with_skill_tools(plugins: Sequence[PluginEntry]) -> tuple[PluginEntry, ...]:
    """Return the stack of a session where only agents have skills."""
    pure = {"pure_tools": sorted(SKILL_TOOLS)}
    return tuple(with_options(plugins, "Permissions", lambda own: _joined(pure, own)))


def _rules_of(use: SkillUse) -> dict[str, Any]:
    skills = use.skills.skills
    return {
        "skills": {one.name: rules_while_open(one, use.tools) for one in skills},
        "denied": {one.name: one.text.disallowed for one in skills if one.text.disallowed},
    }


def _listed(use: SkillUse) -> dict[str, str]:
    return {one.name: one.description for one in use.skills.skills if one.text.for_model}


def _joined(made: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {**made, **own}
    for key in [one for one in made if one in own]:
        both = made[key], own[key]
        found[key] = {**both[0], **both[1]} if isinstance(both[0], Mapping) else [*both[1], *both[0]]
    return found
