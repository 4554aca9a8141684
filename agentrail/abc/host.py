"""The hooks of a host into tool calls: before and after the call.

See docs/explanation/tools.md, "The gates of one call".
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeAlias

from attrs import field, frozen

from agentrail.errors import OptionError
from agentrail.messages import CallId, JsonObject, SessionId
from agentrail.otp.guarded_calls import is_async, repr_of


@frozen(kw_only=True)
class HostCall:
    """A call that runs if the host allows it.

    Attributes:
        session_id: Id of the call's session.
        root_session_id: Root of that session's tree.
        call_id: Id of the call.
        tool_name: Name of the tool.
        input: Arguments that would run, a JSON object. A copy for this hook.
        user_data: The application's own data, read-only.
        request_id: The host's request id, from `prompt(…, request_id=)`. None without one, in child sessions, and after the cycle.
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
    """A call whose code has returned, raised, or timed out for the last time.

    Attributes:
        result: Result of the call, after changes by plugins.
        is_error: Whether it failed.
        duration_ms: Duration of the last attempt, in milliseconds.
    """

    result: str
    is_error: bool
    duration_ms: int


@frozen(kw_only=True)
class HostVerdict:
    """The host's decision about a call.

    Attributes:
        deny: Reason of the refusal, shown to the model. None lets the call run.
        input: JSON object to run instead, or None for the original. Validated, and checked again by the session's safety plugins. Edited arguments are shown to
            their user again.
        by: Author of the decision, for events and the model.
    """

    deny: str | None = None
    input: Mapping[str, Any] | None = None
    by: str = "host"

    def __attrs_post_init__(self) -> None:
        OptionError.raise_for([*self._faults()])

    def _faults(self) -> Iterator[str]:
        given: Any = self  # mypy trusts the annotations, which are in doubt here
        if not isinstance(given.deny, str | None):
            yield f"deny is {repr_of(given.deny):.200}: expected the reason as text, or None to let the call run"
        if not isinstance(given.input, Mapping | None):
            yield f"input is {repr_of(given.input):.200}: expected a JSON object, or None to run the original call"
        if not isinstance(given.by, str):
            yield f"by is {repr_of(given.by):.200}: expected the name of the decider"


BeforeToolHook: TypeAlias = Callable[[HostCall], Awaitable[HostVerdict]]
"""Called for each call after the session's plugins, and before any user is asked.

The calls of a batch reach it in the model's order, each in its own task. An exception, or a result other than a verdict,
denies the call.
"""

AfterToolHook: TypeAlias = Callable[[HostCallEnd], Awaitable[None]]
"""Called for each call whose code has ended. It changes nothing. The batch waits for it, but an abort does not. Exceptions are logged."""


@frozen(kw_only=True)
class HostHooks:
    """The hooks of a host.

    Cancellation: Stopping a call cancels `before_tool` without waiting, while an abort waits for it. `after_tool` is cancelled only with its session.

    Attributes:
        before_tool: Hook before each call, or None.
        after_tool: Hook after each call, or None.
    """

    before_tool: BeforeToolHook | None = None
    after_tool: AfterToolHook | None = None

    def __attrs_post_init__(self) -> None:
        hooks = (("before_tool", self.before_tool), ("after_tool", self.after_tool))
        faults = [
            f"{name} is {repr_of(hook):.200}: expected an async function (`async def`), or None"
            for name, hook in hooks
            if hook is not None and not is_async(hook)
        ]
        OptionError.raise_for(faults)


NO_HOST = HostHooks()
"""A host without hooks."""
