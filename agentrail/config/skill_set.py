"""Skills as values."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from attrs import field, frozen

from agentrail.config.key_filter import in_one_line
from agentrail.config.skill_file import SkillText
from agentrail.config.toml_positions import ConfigFault

MAX_SKILLS: Final = 200
MAX_SEARCHED: Final = 20
_WORD: Final = re.compile(r"[^\W_]+")

SkillScope: TypeAlias = Literal["built_in", "user", "project", "blueprint"]
ToolsMode: TypeAlias = Literal["restrict", "approve", "ignore"]
"""Effect of an open skill's tool list: only these tools run, these run without asking, or no effect."""


@frozen(kw_only=True)
class SkillFile:
    path: str
    size: int
    digest: str


@frozen(kw_only=True)
class Skill:
    """A skill.

    Attributes:
        source: Display name of the directory it was found in.
        directory: Directory of its files. Empty if it has none.
        digest: Its id: SHA-256 over all its files.
        is_trusted: Whether its listed tools may run without asking in `approve` mode.
        warnings: Fields without effect or of doubtful meaning.
    """

    text: SkillText
    source: str = ""
    scope: SkillScope = "blueprint"
    directory: str = field(default="", repr=False)
    files: tuple[SkillFile, ...] = field(default=(), repr=False)
    digest: str = ""
    is_trusted: bool = True
    warnings: tuple[ConfigFault, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        return self.text.name

    @property
    def description(self) -> str:
        return in_one_line(" ".join(self.text.description.split()), most=1_100)


@frozen(kw_only=True)
class LeftOutSkill:
    name: str
    source: str
    why: str
    faults: tuple[ConfigFault, ...] = ()


@frozen(kw_only=True)
class SkillSet:
    skills: tuple[Skill, ...] = ()
    left_out: tuple[LeftOutSkill, ...] = ()

    def find(self, name: str) -> Skill | None:
        return next((one for one in self.skills if one.name == name), None)

    def only(self, names: Iterable[str]) -> "SkillSet":
        """Return the subset of these names. `*` means all."""
        wanted = frozenset(names)
        kept = self.skills if "*" in wanted else tuple(one for one in self.skills if one.name in wanted)
        return SkillSet(skills=kept, left_out=self.left_out)


NO_SKILLS: Final = SkillSet()


def digest_of_skill(files: Mapping[str, str]) -> str:
    """Return a skill's id, from the digests of its files by path."""
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()


def join_skills(found: Sequence[SkillSet], *, disabled: Iterable[str] = ()) -> SkillSet:
    """Merge skill sets. Later ones win. Disabled and excess skills are excluded."""
    off = frozenset(disabled)
    winners: dict[str, Skill] = {}
    left_out = [one for source in found for one in source.left_out]
    for source in found:
        for skill in source.skills:
            before = winners.get(skill.name)
            if before is not None:
                left_out.append(_left_out(before, f"the one of {skill.source} replaces it"))
            winners[skill.name] = skill
    left_out += [_left_out(winners.pop(name), "it is disabled") for name in sorted(off & winners.keys())]
    names = sorted(winners)
    left_out += [
        _left_out(winners[name], f"there are {len(names)} skills: expected at most {MAX_SKILLS}")
        for name in names[MAX_SKILLS:]
    ]
    return SkillSet(skills=tuple(winners[name] for name in names[:MAX_SKILLS]), left_out=tuple(left_out))


def _left_out(skill: Skill, why: str) -> LeftOutSkill:
    return LeftOutSkill(name=skill.name, source=skill.source, why=why)


def search_skills(skills: Sequence[Skill], query: str) -> tuple[Skill, ...]:
    """Find skills by words of names and descriptions, best first. Without words, the first `MAX_SEARCHED`."""
    wanted = frozenset(_words(query))
    if not wanted:
        return tuple(skills[:MAX_SEARCHED])
    scored = [(_score(one, wanted), one) for one in skills]
    found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
    return tuple(one for _, one in found[:MAX_SEARCHED])


def _score(skill: Skill, wanted: frozenset[str]) -> int:
    name, about = _words(skill.name), _words(skill.description)
    # Word prefixes count too: `table` matches `tables`.
    return sum(
        3 * any(word.startswith(one) for word in name) + any(word.startswith(one) for word in about)
        for one in wanted
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))
