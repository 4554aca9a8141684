"""Where a path leads by links: a call that was judged by the name of a file is judged by the file too, right before its tool runs.

What decides is a plugin of the session; here it is only looked up what is there. A sandbox says it by `leads_to(path)`; in one that
does not there are no links, or none is known.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from agentrail.abc import Sandbox
from agentrail.core.protocol.effects import RunTool
from agentrail.core.session.state import SessionData
from agentrail.core.stack.loading import Member, attempt_as
from agentrail.core.values.foreign import Raised

_BROKEN: Final = "Not run: the plugin that judges where its path leads is broken."
_RAISED: Final = object()


async def refusal_of_links(
    known: SessionData, effect: RunTool, working_dir: str, open_sandbox: Callable[[], Sandbox]
) -> str | None:
    """Say why a call does not run whose path leads elsewhere; None where nothing is wrong with that.

    Args:
        known: What its session knew when it began.
        effect: The call.
        working_dir: What paths of rules begin at.
        open_sandbox: Gives the sandbox of the session.

    Cancellation: Nothing has run by then.
    """
    for member in known.stack.following:
        path = _asked(known, member, "path_of", effect.name, effect.arguments)
        if path is None:
            continue
        if not isinstance(path, str):
            return _BROKEN
        find: Callable[[str], Awaitable[str | None]] | None = getattr(open_sandbox(), "leads_to", None)
        end = None if find is None else await find(path)
        if end is None:
            continue
        below = end if end.startswith("/") else f"{working_dir.rstrip('/')}/{end}"
        given = (known.plugin_states[member.name], effect.name, effect.arguments, working_dir, below)
        refused = _asked(known, member, "refusal_of_end", *given)
        if refused is not None:
            return refused if isinstance(refused, str) else _BROKEN
    return None


def _asked(known: SessionData, member: Member, method: str, *args: Any) -> object:
    """Ask a plugin; one that raises lets nothing run."""
    said = attempt_as(known.stack.ask, getattr(member.plugin, method), *args)
    return _RAISED if isinstance(said, Raised) else said
