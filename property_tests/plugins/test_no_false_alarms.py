"""`check-plugins` finds nothing in the built-in plugins, alone and two at a time: each of its promises is one that they keep."""

import pytest

from agentrail.plugins.auto_checkpoint import AutoCheckpoint
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
from agentrail.plugins.planning import Planning
from agentrail.plugins.prompt_cache import PromptCache
from agentrail.plugins.recovery import Recovery
from agentrail.plugins.reflection import Reflection
from agentrail.plugins.security_guard import SecurityGuard
from agentrail.plugins.skill_guard import SkillGuard
from agentrail.testing import stacks

BUILT_INS = (
    (SecurityGuard, {"audit": True}),
    SkillGuard,
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
    MemoryFlush,
    (ContentPolicy, {"brand_keywords": ["a"]}),
    (Reflection, {"criteria": ["short"]}),
    EpisodicMemory,
    AutoCheckpoint,
)


@pytest.mark.parametrize(
    "plugin", BUILT_INS, ids=lambda one: getattr(one, "__name__", None) or one[0].__name__
)
def test_a_built_in_alone_is_not_reported(plugin):
    """Each built-in, by itself, in fifty sessions."""
    found = stacks.check_stack(stacks.stack_machine([plugin]), examples=50, seed=3).found
    assert found is None, str(found)


@pytest.mark.parametrize("seed", range(4))
def test_no_pair_of_built_ins_is_reported(seed):
    """Pairs, in any order of registration."""
    machine = stacks.stack_machine(BUILT_INS, max_size=2)
    found = stacks.check_stack(machine, examples=100, seed=seed).found
    assert found is None, str(found)
