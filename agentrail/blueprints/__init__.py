"""Blueprints: values that configure sessions, from Python or from files.

>>> from agentrail.blueprints import Blueprint
>>> careful = Blueprint("careful", model="demo:", max_turns=5)
>>> careful.override(max_turns=9).options()["max_turns"], careful.options()["max_turns"]
(9, 5)
"""

from agentrail.blueprints.blueprint import Blueprint as Blueprint
from agentrail.blueprints.capabilities import CAPABILITIES as CAPABILITIES
from agentrail.blueprints.capability import Capability as Capability
from agentrail.blueprints.skill_discovery import SkillUse as SkillUse, read_skills as read_skills
from agentrail.blueprints.system_prompt import (
    PromptContext as PromptContext,
    PromptLayers as PromptLayers,
    PromptSection as PromptSection,
)
