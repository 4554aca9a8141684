"""Calls plugins by hand as a session would: without a session or Trio, one call per hook.

stack, states = load_stack([SecurityGuard])
outcome = run_hook(stack, p.BeforePrompt(text="hello"), states, ctx)
"""

from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import (
    deliver,
    explain_hook,
    resume_hook,
    run_hook,
)
from agentrail.core.stack.plugin_changes import decide_update

__all__ = (
    "decide_update",
    "deliver",
    "explain_hook",
    "load_stack",
    "resume_hook",
    "run_hook",
)
