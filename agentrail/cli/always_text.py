"""Text for the "always" choice of an approval. Not in `chat_notices`: it needs the core, which loads after the chat's editor."""

from collections.abc import Sequence

from agentrail.core.session.approval_rules import rule_of
from agentrail.events import Approval
from agentrail.plugins.permission_always import what_else


def words_of_always(approval: Approval, rules: Sequence[str] = ()) -> str:
    """Return what "always" would allow, including the other calls that its rules cover."""
    if not rules:
        is_exact = rule_of(approval.tool, approval.arguments).exact
        every = f"every call of {approval.tool}, whatever its arguments are"
        return f"always, in this session: {'exactly this command' if is_exact else every}"
    return f"always: {with_others(rules)}"


def with_others(rules: Sequence[str]) -> str:
    """Return rules as text, with the other calls that each of them would allow."""
    others = dict.fromkeys(other for other in map(what_else, rules) if other)
    return f"{', '.join(rules)}; that also allows {' and '.join(others)}" if others else ", ".join(rules)
