"""The guard and the listing of skills that an agent has of its own. They stand beside those of its session, under names of their own."""

from typing import Final

from agentrail.plugins.skill_guard import SkillGuard
from agentrail.plugins.skill_listing import SkillListing

OF_AGENT: Final = "skills_of_agent"
"""The key of the section."""


class AgentSkillGuard(SkillGuard):
    """Guards the skills of an agent, beside the guard of its session, which stays: of a skill that both have, both rules hold."""


class AgentSkillListing(SkillListing):
    """Lists the skills of an agent: they are part of what it is, so it is told of them beside its task too."""

    sections: tuple[str, ...] = (OF_AGENT,)
