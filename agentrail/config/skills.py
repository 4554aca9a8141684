"""Skills as values: one skill, all that there are, and which of two with one name counts. Plain functions.

Nothing is read here: `agentrail.blueprints.skills` does that, and `skill_reading` says what a file means.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from attrs import field, frozen

from agentrail.config.keys import in_one_line
from agentrail.config.places import ConfigFault
from agentrail.config.skill_reading import SkillText

MAX_SKILLS: Final = 200
MAX_SEARCHED: Final = 20
_WORD: Final = re.compile(r"[^\W_]+")

SkillScope: TypeAlias = Literal["built_in", "user", "project", "blueprint"]
ToolsMode: TypeAlias = Literal["restrict", "approve", "ignore"]
"""What the tools that an open skill names mean: only these run; these run unasked; nothing."""


@frozen(kw_only=True)
class SkillFile:
    """A file of a skill.

    Attributes:
        path: From its directory, with `/`.
        size: In bytes.
        digest: The SHA-256 of its bytes.
    """

    path: str
    size: int
    digest: str


@frozen(kw_only=True)
class Skill:
    """A skill.

    Attributes:
        text: What its `SKILL.md` says.
        source: The directory that it was found in, as it is shown.
        scope: Whose it is.
        directory: Where its files are; empty where it has none.
        files: Those beside `SKILL.md`.
        digest: Its id: the SHA-256 of all its files.
        is_trusted: Whether the tools that it names may run unasked, where that is wanted.
        warnings: What means nothing here, or was read as it was perhaps not meant.
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
        """What it is called."""
        return self.text.name

    @property
    def description(self) -> str:
        """What it is for, in one line."""
        return in_one_line(" ".join(self.text.description.split()), most=1_100)


@frozen(kw_only=True)
class LeftOutSkill:
    """A skill that is not there, and why.

    Attributes:
        name: Of its directory.
        source: Where it was found.
        why: What is wrong, or what takes its place.
        faults: What is wrong with its `SKILL.md`, each with its line.
    """

    name: str
    source: str
    why: str
    faults: tuple[ConfigFault, ...] = ()


@frozen(kw_only=True)
class SkillSet:
    """All skills that hold somewhere.

    Attributes:
        skills: By name, in order of their names.
        left_out: What was found and does not count.
    """

    skills: tuple[Skill, ...] = ()
    left_out: tuple[LeftOutSkill, ...] = ()

    def find(self, name: str) -> Skill | None:
        """Give the skill of a name."""
        return next((one for one in self.skills if one.name == name), None)

    def only(self, names: Iterable[str]) -> "SkillSet":
        """Give those of some names; `*` is all."""
        wanted = frozenset(names)
        kept = self.skills if "*" in wanted else tuple(one for one in self.skills if one.name in wanted)
        return SkillSet(skills=kept, left_out=self.left_out)


NO_SKILLS: Final = SkillSet()


def digest_of_skill(files: Mapping[str, str]) -> str:
    """Make the id of a skill of the digests of its files, by path.

    Written as JSON, so that no two sets of files are the same text.
    """
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()


def join_skills(found: Sequence[SkillSet], *, disabled: Iterable[str] = ()) -> SkillSet:
    """Let later ones win, and leave out what is disabled or too much."""
    off = frozenset(disabled)
    winners: dict[str, Skill] = {}
    left_out = [one for source in found for one in source.left_out]
    for source in found:
        for skill in source.skills:
            before = winners.get(skill.name)
            if before is not None:
                left_out.append(_left_out(before, f"that of {skill.source} takes its place"))
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
    """Find skills by the words of their names and descriptions, the best first; without words all, up to `MAX_SEARCHED`."""
    wanted = frozenset(_words(query))
    if not wanted:
        return tuple(skills[:MAX_SEARCHED])
    scored = [(_score(one, wanted), one) for one in skills]
    found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
    return tuple(one for _, one in found[:MAX_SEARCHED])


def _score(skill: Skill, wanted: frozenset[str]) -> int:
    name, about = _words(skill.name), _words(skill.description)
    # The beginning of a word counts too: who asks for `table` means `tables`.
    return sum(
        3 * any(word.startswith(one) for word in name) + any(word.startswith(one) for word in about)
        for one in wanted
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))
