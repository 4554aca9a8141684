"""Blueprints: values that say how sessions are configured, from Python or from files.

- `blueprint.py`: `Blueprint`. `capability.py`: `Capability`. `capabilities.py`: those that are built in. `prompt.py`: the layers of the
  system prompt. `capability_texts.py`: what it says of capabilities that are built in.
- `finding.py`: which files hold for a directory, read from disk. `trusting.py`: which of them the user trusts.
- `skills.py`: skills on disk, and what a session gets of them.
- `configuration.py`: all of it: what holds, what is wrong, what is not granted. `building.py`: what files say becomes blueprints.

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
