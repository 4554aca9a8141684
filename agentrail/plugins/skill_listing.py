"""`SkillListing`: names the skills in the system prompt, one line each, within a hundredth of the context window."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

import attrs

from agentrail.core.policy.request_context import BYTES_PER_TOKEN
from agentrail.core.protocol.actions import Action, Continue
from agentrail.core.protocol.hooks import BeforePrompt, BeforeRequest
from agentrail.core.stack.plugin import Context
from agentrail.plugins.base import Plugin, on

SKILLS_SECTION: Final = "skills"
"""The key of the section."""

SHARE_OF_WINDOW: Final = 100
SHORTEST_DESCRIPTION: Final = 40
"""Minimum length of a description. Rather than shorten it further, a skill is left to `skill_search`."""

_HEAD: Final = "Skills. Open one with the tool `skill` before you do what it is for:"


@attrs.frozen
class ListedSkill:
    name: str
    description: str


@attrs.frozen
class Listing:
    """The list of skills.

    Attributes:
        chosen: Names of the skills listed for this prompt. None for all.
    """

    skills: tuple[ListedSkill, ...]
    chosen: tuple[str, ...] | None = None


SkillSelector: TypeAlias = Callable[[tuple[ListedSkill, ...], str], Iterable[ListedSkill]]
"""A pure function of the skills and the text of a prompt: returns the skills listed for it."""


class SkillListing(Plugin[Listing]):
    """Names the skills in the system prompt."""

    priority = 116
    sections: tuple[str, ...] = (SKILLS_SECTION,)

    def __init__(
        self, *, selector: SkillSelector | None = None, name: str | None = None, priority: int | None = None
    ) -> None:
        """Create the plugin.

        Args:
            selector: Chooses the listed skills for each prompt. None lists all.
            name: The same as in `Plugin`.
            priority: The same as in `Plugin`.
        """
        super().__init__(name=name, priority=priority)
        self._selector = selector

    def init(self, *, skills: Mapping[str, str] | None = None) -> Listing:
        """Set the description of each skill, by its name."""
        return Listing(skills=tuple(ListedSkill(name, text) for name, text in (skills or {}).items()))

    @on(BeforePrompt)
    def choose(self, event: BeforePrompt, listing: Listing, ctx: Context) -> Action[Listing]:
        """Call the selector."""
        if self._selector is None:
            return Continue(listing)
        chosen: Any = self._selector(listing.skills, event.text)
        names = frozenset(one.name for one in chosen)
        return Continue(
            attrs.evolve(listing, chosen=tuple(one.name for one in listing.skills if one.name in names))
        )

    @on(BeforeRequest)
    def show(self, event: BeforeRequest, listing: Listing, ctx: Context) -> Action[Listing]:
        """Return the section with each request, because a `Skip` of another plugin may have removed the last one."""
        names = listing.chosen
        # Without the tool, skills are of no use. A sub-agent may have other tools.
        has_tool = "skill" in ctx.tools
        listed = [one for one in listing.skills if has_tool and (names is None or one.name in names)]
        most = ctx.context_window * BYTES_PER_TOKEN // SHARE_OF_WINDOW
        return Continue(listing, context={self.sections[0]: write_listing(listed, most) or None})


def write_listing(skills: Sequence[ListedSkill], most: int) -> str:
    """Format the list. First all descriptions are shortened to the same length, then skills are left to `skill_search`."""
    if not skills:
        return ""
    longest = max(len(one.description) for one in skills)
    text = _written(skills, longest)
    if _size(text) <= most:
        return text
    # Binary search for the longest length that fits.
    low, high = min(SHORTEST_DESCRIPTION, longest), longest
    if _size(_written(skills, low)) <= most:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _size(_written(skills, middle)) <= most else (low, middle)
        return _written(skills, low)
    left = most - _size(_more(len(skills))) - _size(_HEAD) - 1
    lines = [_line(one, low) for one in skills]
    fitting = sum(size <= left for size in accumulate(_size(line) + 1 for line in lines))
    return "\n".join((_HEAD, *lines[:fitting], _more(len(skills) - fitting)))


def _written(skills: Iterable[ListedSkill], most: int) -> str:
    return "\n".join((_HEAD, *(_line(one, most) for one in skills)))


def _line(skill: ListedSkill, most: int) -> str:
    text = skill.description
    return f"- {skill.name}: {text if len(text) <= most else text[: most - 1].rstrip() + '…'}"


def _more(count: int) -> str:
    return f"{count} more: find them with the tool `skill_search`."


def _size(text: str) -> int:
    return len(text.encode())
