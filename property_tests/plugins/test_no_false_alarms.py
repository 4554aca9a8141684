"""`check-plugins` finds nothing in the built-in plugins, alone and two at a time: each of its promises is one that they keep.

The seeds are fixed, so what is green stays green. How many sessions are run depends on the profile: in `ci` 10 for each
built-in and 37 for each of four seeds of pairs, 328 in all, in some 30 s of one core. `nightly` runs 333 and 1,250, and begins
with the tours: every tool called with every word that the code of the plugin mentions.
"""

import pytest
from hypothesis import settings

from agentrail.plugins.auto_checkpoint import AutoCheckpoint
from agentrail.plugins.auto_recall import AutoRecall
from agentrail.plugins.content_policy import ContentPolicy
from agentrail.plugins.cost_guard import CostGuard
from agentrail.plugins.episodic_memory import EpisodicMemory
from agentrail.plugins.event_logger import EventLogger
from agentrail.plugins.human_approval import HumanApproval
from agentrail.plugins.large_result_offload import LargeResultOffload
from agentrail.plugins.memory_flush import MemoryFlush
from agentrail.plugins.memory_loader import MemoryLoader
from agentrail.plugins.model_router import ModelRouter
from agentrail.plugins.output_filter import OutputFilter
from agentrail.plugins.patch_tool_calls import PatchToolCalls
from agentrail.plugins.permissions import Permissions
from agentrail.plugins.planning import Planning
from agentrail.plugins.prompt_cache import PromptCache
from agentrail.plugins.recovery import Recovery
from agentrail.plugins.reflection import Reflection
from agentrail.plugins.security_guard import SecurityGuard
from agentrail.plugins.skill_guard import SkillGuard
from agentrail.plugins.skill_listing import SkillListing
from agentrail.plugins.working_notes import WorkingNotes
from agentrail.testing import stacks

BUILT_INS = (
    (Permissions, {"deny": ["shell(rm *)"], "allow": ["*"]}),
    (SecurityGuard, {"audit": True}),
    SkillGuard,
    (SkillListing, {"skills": {"a": "b"}}),
    (HumanApproval, {"confirm_prefix": "/ok:"}),
    EventLogger,
    (OutputFilter, {"keywords": ["a"]}),
    MemoryLoader,
    (CostGuard, {"max_cost_usd": 1.0}),
    PatchToolCalls,
    PromptCache,
    Recovery,
    Planning,
    (ModelRouter, {"default_model": "scripted:other"}),
    (LargeResultOffload, {"token_limit": 1}),
    WorkingNotes,
    MemoryFlush,
    AutoRecall,
    (ContentPolicy, {"brand_keywords": ["a"]}),
    (Reflection, {"criteria": ["short"]}),
    EpisodicMemory,
    AutoCheckpoint,
)

EXAMPLES = settings().max_examples
LIVES_ALONE = max(EXAMPLES // 15, 5)
LIVES_OF_PAIRS = max(EXAMPLES // 4, 5)
TOURS = EXAMPLES > 1000


@pytest.mark.parametrize(
    "plugin", BUILT_INS, ids=lambda one: getattr(one, "__name__", None) or one[0].__name__
)
def test_a_built_in_alone_is_not_reported(plugin):
    """Each built-in, by itself; all of them in every profile."""
    machine = stacks.stack_machine([plugin])
    found = stacks.check_stack(machine, examples=LIVES_ALONE, seed=3, tours=TOURS).found
    assert found is None, str(found)


@pytest.mark.parametrize("seed", range(4))
def test_no_pair_of_built_ins_is_reported(seed):
    """Pairs, drawn anew for each run, in any order of registration."""
    machine = stacks.stack_machine(BUILT_INS, max_size=2)
    found = stacks.check_stack(machine, examples=LIVES_OF_PAIRS, seed=seed).found
    assert found is None, str(found)
