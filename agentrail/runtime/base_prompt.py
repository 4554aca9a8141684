"""The default system prompt: how work is done in a session. It contains no application policy."""

from typing import Final

from agentrail.core.session.state import PromptMode

BASE_PROMPT: Final = (
    "You work in a session: messages of a user come in, and your last answer to each is what they read. "
    "Where you have tools, use them instead of guessing, and go on until what was asked for is done. "
    "Then say what you did and what came of it, and not what you would do; what failed or was not done, say so. "
    "Where it is unclear what is wanted, and a wrong guess would do harm, ask first."
)
"""Short and equal for all models: it starts every request and every provider's prompt cache."""


def decide_system_prompt(own: str | None, mode: PromptMode, *, base_prompt: bool) -> str | None:
    is_wanted = own is None and mode == "full" and base_prompt
    return BASE_PROMPT if is_wanted else own


def decide_inherited(prompt: str | None) -> str | None:
    """Return the part of a prompt that sub-sessions inherit: without the base prompt, which does not belong to a task."""
    return None if prompt == BASE_PROMPT else prompt and prompt.removeprefix(f"{BASE_PROMPT}\n\n")
