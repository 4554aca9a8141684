"""Asks plugins by hand what a session would ask them: no session, no Trio, one call for each hook.

    stack, states = load_stack([SecurityGuard])
    outcome = run_hook(stack, p.BeforePrompt(text="hello"), states, ctx)

`check_plugin` holds a plugin to its contract; this is for looking at what it answers.
"""

from agentrail.core.stack.loading import load_stack
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
