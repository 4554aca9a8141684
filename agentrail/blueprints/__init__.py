"""Blueprints: values that configure sessions, from Python or from files.

- `blueprint.py`: `Blueprint`. `capability.py`: `Capability`. `capabilities.py`: the built-in capabilities. `prompt.py`:
  layers of the system prompt. `capability_texts.py`: prompt sections of the built-in capabilities.
- `finding.py`: the files of a directory, read from disk. `trusting.py`: the files that the user trusts.
- `skills.py`: skills on disk, and their use in a session.
- `configuration.py`: the result: settings, faults and refused grants. `building.py`: blueprints from settings.

    >>> from agentrail.blueprints import Blueprint
    >>> careful = Blueprint("careful", model="demo:", max_turns=5)
    >>> careful.override(max_turns=9).options()["max_turns"], careful.options()["max_turns"]
    (9, 5)
"""

from agentrail.blueprints.blueprint import Blueprint as Blueprint
from agentrail.blueprints.capabilities import CAPABILITIES as CAPABILITIES
from agentrail.blueprints.capability import Capability as Capability
from agentrail.blueprints.prompt import (
    PromptContext as PromptContext,
    PromptLayers as PromptLayers,
    PromptSection as PromptSection,
)
from agentrail.blueprints.skills import SkillUse as SkillUse, read_skills as read_skills
