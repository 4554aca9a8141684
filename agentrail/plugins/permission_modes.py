"""Texts for the model about the modes of `Permissions`."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from agentrail.plugins.permission_policy import PermissionPolicy
from agentrail.plugins.permission_verdict import EXIT_PLAN

MODE_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "plan": (
            "# Mode: plan\nOnly look, and change nothing: calls that change something are refused. Find out what there is, then write a plan "
            "and hand it in with exit_plan; a person approves it, and then you carry it out."
        ),
        "strict": (
            "# Mode: strict\nWhat no rule allows is refused, and no person is asked. Work with what is allowed, and say what was not possible."
        ),
        "dont_ask": (
            "# Mode: dont_ask\nNo person is there to be asked: what would need a person's word is refused. Work with what is allowed, and say "
            "what was not possible."
        ),
    }
)
"""Text for the model per mode. Other modes need no text."""

_LOOKING: Final = (
    "# Mode: plan\nOnly look, and change nothing: calls that change something are refused. Find out what there is, and say what you found, and what "
    "you would do."
)


def text_of_mode(policy: PermissionPolicy, tools: Collection[str]) -> str | None:
    """Return the text for the model about the mode of a policy. None if it needs none."""
    if policy.mode == "plan" and not (policy.ends_plan and EXIT_PLAN in tools):
        return _LOOKING
    return MODE_TEXTS.get(policy.mode)
