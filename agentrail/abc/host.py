"""What puts sessions behind a product may see of their calls: before one runs, and when its code has ended.

One value for all sessions of a supervisor. How several plugins of a host become one verdict, and how long each of them may take,
is the affair of the code that makes it. The rules stand in docs/explanation/tools.md, "The gates of one call".
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from attrs import field, frozen

from agentrail.errors import OptionError
from agentrail.messages import CallId, JsonObject, SessionId
from agentrail.otp.edges import is_async


@frozen(kw_only=True)
class HostCall:
    """A call that may run if the host lets it.

    Attributes:
        session_id: Whose call it is.
        root_session_id: The session that no other one started, above that one or that one itself.
        call_id: The call.
        tool_name: The tool.
        input: Its arguments as they would run, a JSON object: a copy of this hook's own, whose changes reach no other code.
        user_data: The application's own data, read-only.
        request_id: What the host called the request whose prompt the session works on, with `prompt(…, request_id=)`; None
            without one, in sessions that work for others, and at the end of a call whose cycle is over.
    """

    session_id: SessionId
    root_session_id: SessionId
    call_id: CallId
    tool_name: str
    input: dict[str, Any]
    user_data: JsonObject = field(factory=dict, repr=False)
    request_id: str | None = None


@frozen(kw_only=True)
class HostCallEnd(HostCall):
    """A call whose code returned, raised, or ran out of time for the last time.

    Attributes:
        result: What the call was answered with, as plugins left it.
        is_error: Whether it failed.
        duration_ms: How long the code of the last attempt took, in milliseconds.
    """

    result: str
    is_error: bool
    duration_ms: int


@frozen(kw_only=True)
class HostVerdict:
    """What the host says of a call.

    Attributes:
        deny: Why it does not run; what the model reads. None lets it run.
        input: A JSON object that is to run instead; None for what was asked about. It is validated again, and judged again
            by the session's safety plugins; what a person wrote is shown to that person again.
        by: Who denied or changed it, such as the name of a host plugin; for events and for the model.
    """

    deny: str | None = None
    input: Mapping[str, Any] | None = None
    by: str = "host"

    def __attrs_post_init__(self) -> None:
        """Refuse what is no verdict, where it is made.

        Raises:
            OptionError: The host's move; all faults at once.
        """
        given: Any = self  # mypy takes the annotations at their word, and those are in doubt here
        faults = []
        if not isinstance(given.deny, str | None):
            faults.append(
                f"deny is {given.deny!r:.200}: expected the reason as text, or None to let the call run"
            )
        if not isinstance(given.input, Mapping | None):
            faults.append(
                f"input is {given.input!r:.200}: expected a JSON object, or None to run what was asked about"
            )
        if not isinstance(given.by, str):
            faults.append(f"by is {given.by!r:.200}: expected the name of who decided")
        if faults:
            raise OptionError(faults)


BeforeToolHook: TypeAlias = Callable[[HostCall], Awaitable[HostVerdict]]
"""Asked about each call behind the plugins of its session, and before any person. The calls of one batch reach it in the order
of the model, each in a task of its own. What it raises, or anything but a verdict, denies the call."""

AfterToolHook: TypeAlias = Callable[[HostCallEnd], Awaitable[None]]
"""Told of each call whose code has ended; it changes nothing. The batch waits for it, an abort does not. What it raises goes
to the log."""


@frozen(kw_only=True)
class HostHooks:
    """The hooks of a host. Sessions ask and tell only where there is one.

    Cancellation: A call that is stopped while `before_tool` is asked about it cancels that hook, and does not wait for it; an
    abort waits for it as for a tool. `after_tool` is cancelled with its session alone.

    Attributes:
        before_tool: Or None.
        after_tool: Or None.
    """

    before_tool: BeforeToolHook | None = None
    after_tool: AfterToolHook | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse hooks that cannot be awaited.

        Raises:
            OptionError: Your move; all faults at once.
        """
        hooks: tuple[tuple[str, Any], ...] = (
            ("before_tool", self.before_tool),
            ("after_tool", self.after_tool),
        )
        faults = [
            f"{name} is {hook!r:.200}: expected an async function (`async def`), or None"
            for name, hook in hooks
            if hook is not None and not is_async(hook)
        ]
        if faults:
            raise OptionError(faults)


NO_HOST = HostHooks()
"""Nothing is asked, and nothing told."""
