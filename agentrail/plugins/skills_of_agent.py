"""The guard and the list for the skills of an agent, in addition to those of its session, under separate names."""

from typing import Final

from agentrail.plugins.skill_guard import SkillGuard
from agentrail.plugins.skill_listing import SkillListing

OF_AGENT: Final = "skills_of_agent"
"""The key of the section."""


class AgentSkillGuard(SkillGuard):
    """Guards the skills of an agent, in addition to the guard of its session. For a skill of both, both rules apply."""


class AgentSkillListing(SkillListing):
    """Lists the skills of an agent. They are part of the agent, so they are also listed for its tasks."""

    sections: tuple[str, ...] = (OF_AGENT,)
