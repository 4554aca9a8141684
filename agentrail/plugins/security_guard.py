"""`SecurityGuard`: refuses calls that touch protected files or run destructive commands, and asks about command lines that are not read.

It reads names and words, so it stops accidents. It does not look inside programs. The sandbox must confine those.
"""

import shlex
from collections.abc import Sequence
from typing import Final

from agentrail.core.protocol.actions import Action, BlockTool, Continue, RequireApproval
from agentrail.core.protocol.hooks import BeforeTool
from agentrail.core.stack.plugin import Context
from agentrail.plugins.base import Plugin, on
from agentrail.plugins.guarded_arguments import Rules, objections
from agentrail.plugins.protected_paths import DEFAULT_PATHS

_POLICY: Final = "Permissions"
_PLAINLY: Final = (
    "Only plain commands are judged: write them with && ; or | between them, "
    "without $, `, \\, redirections and programs that run other programs"
)


class SecurityGuard(Plugin[Rules]):
    """Refuses calls that touch protected files or run destructive commands."""

    priority = 10

    def init(
        self,
        *,
        blocked_paths: Sequence[str] = (),
        blocked_commands: Sequence[str] = (),
        defaults: bool = True,
        audit: bool = False,
    ) -> Rules:
        """Set patterns and commands to refuse, in addition to the defaults or in place of them."""
        return Rules(
            paths=(*(DEFAULT_PATHS if defaults else ()), *blocked_paths),
            commands=tuple(tuple(shlex.split(command)) for command in blocked_commands),
            defaults=defaults,
            audit=audit,
        )

    @on(BeforeTool)
    def check(self, event: BeforeTool, rules: Rules, ctx: Context) -> Action[Rules]:
        """Check every path and every command line of a call."""
        unread: list[str] = []
        why = next(objections(event.arguments, rules, ctx.working_dir, unread), None)
        # A permission policy decides about these itself.
        asks = unread[0] if unread and why is None and _POLICY not in ctx.plugins else None
        verdict = {
            "tool": event.name,
            "call_id": event.call_id,
            "allowed": why is None,
            "reason": why or asks,
        }
        emits = (("security_audit", verdict),) if rules.audit else ()
        if why is not None:
            return BlockTool(f"Not run: {why}", rules, emits=emits)
        if asks is not None:
            return RequireApproval(f"{asks}. {_PLAINLY}", rules, emits=emits)
        return Continue(rules, emits=emits)
