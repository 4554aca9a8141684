"""An agent that a session may let work, as a caller says it."""

import re
from collections.abc import Sequence
from typing import Any, Final

from attrs import frozen

from agentrail.abc import Tool
from agentrail.core.policy.budget import Budget
from agentrail.errors import OptionError

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@frozen(kw_only=True)
class Agent:
    """An agent that a session may let work for it. What it does not say is that of the session.

    Attributes:
        name: `[A-Za-z0-9_-]{1,64}`, unique in a session; what the model chooses it by.
        description: What the model reads of it.
        system_prompt: Stands before its conversations.
        model: A model string.
        tools: What it may call. The plugins of the session guard it too.
        max_turns: Model calls in one of its cycles, where it works for the session and not in its place.
        background: Whether it may be started in the background, by `spawn_agent`.
        wake: Whether a cycle of it that ends while the session is idle, and nothing waits for it, starts one of the session.
        handoff: Whether the session may be handed over to it, by `handoff_to`: it goes on with this one's prompt, model and
            tools, and with its own conversation, queue and plugins.
        budget: What each of its cycles in the background may spend; None for a share of what is left.

    Raises:
        OptionError: Your move: every fault, with what came and what it takes.
    """

    name: str
    description: str
    system_prompt: str | None = None
    model: str | None = None
    tools: Sequence[Tool] | None = None
    max_turns: int | None = None
    background: bool = False
    wake: bool = False
    handoff: bool = False
    budget: Budget | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be."""
        faults = [f"agent {self.name!r:.80}: {fault}" for fault in _faults_of(self)]
        if faults:
            raise OptionError(faults)


def _faults_of(agent: Any) -> list[str]:
    faults = []
    if not isinstance(agent.name, str) or not _NAME.fullmatch(agent.name):
        faults.append(f"name is {agent.name!r:.80}: expected 1 to 64 of A-Z a-z 0-9 _ -")
    if not isinstance(agent.description, str) or not agent.description.strip():
        faults.append("description is empty or no text: say what it is for, the model chooses by that")
    for name in ("system_prompt", "model"):
        value = getattr(agent, name)
        if value is not None and not isinstance(value, str):
            faults.append(f"{name} is {value!r:.80}: expected text or None")
    for name in ("background", "wake", "handoff"):
        value = getattr(agent, name)
        if not isinstance(value, bool):
            faults.append(f"{name} is {value!r:.80}: expected True or False")
    if agent.budget is not None and not isinstance(agent.budget, Budget):
        faults.append(f"budget is {agent.budget!r:.80}: expected Budget(max_total_tokens=…), or None")
    turns = agent.max_turns
    if turns is not None and (isinstance(turns, bool) or not isinstance(turns, int) or turns < 1):
        faults.append(f"max_turns is {turns!r:.80}: expected a whole number from 1, or None")
    return faults
