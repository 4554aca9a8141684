"""The two gates of the host, carried out: a hook is asked about a call, or told of one, each in a task that its session stops.

What a hook raises, or gives that is no verdict, is a bug of the host. Before a call that denies it; behind one it goes to the log.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import trio

from agentrail.abc import HostCall, HostCallEnd, HostVerdict
from agentrail.core.protocol.effects import AskHost, TellHost
from agentrail.core.protocol.signals import HostJudged
from agentrail.errors import ErrorInfo
from agentrail.frozen import not_json, thawed, too_large
from agentrail.otp.exits import keep
from agentrail.otp.leaving import describe_bug
from agentrail.runtime.clock import now_ms
from agentrail.runtime.crashes import PortCrashed, crash_edge
from agentrail.runtime.ports import Ports
from agentrail.runtime.scrubbing import Scrub
from agentrail.runtime.tool_calls import clean_text


class Turnstile:
    """Lets tasks begin in the order in which they were numbered. Trio starts those of one pass in any order."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        """Begin with none."""
        self._last: trio.Event | None = None

    def number(self) -> "Ticket":
        """Give the next ticket; tasks begin in the order of these calls."""
        ticket = Ticket(self._last)
        self._last = ticket.begun
        return ticket


class Ticket:
    """The right of one task to begin. It has to be used or given up, or no later one would begin.

    Attributes:
        begun: Set when the next one may begin.
    """

    __slots__ = ("_before", "begun")

    def __init__(self, before: trio.Event | None) -> None:
        """Take what has to come first."""
        self._before = None if before is None or before.is_set() else before
        self.begun: trio.Event = trio.Event()

    async def use(self) -> None:
        """Wait until the one before has begun; what runs up to the next checkpoint runs before all that comes later."""
        if self._before is not None:
            await self._before.wait()
        self.begun.set()

    def give_up(self) -> None:
        """Let the next one begin; again if you like."""
        self.begun.set()


async def ask_host(
    effect: AskHost, ports: Ports, scope: trio.CancelScope, ticket: Ticket, scrub: Scrub = keep
) -> HostJudged | None:
    """Ask the host about a call.

    Args:
        effect: The question.
        ports: What the session was given to work with.
        scope: Of this question alone; code that cancels it takes the question back.
        ticket: When it may be asked.
        scrub: Takes secrets out of what is said of a crash.

    Returns:
        What the host says; None when the question was taken back.
    """
    hook = ports.host.before_tool
    assert hook is not None  # noqa: S101 - a session asks only where there is one
    decide = partial(_decide_crash, f'Not run: the host could not judge this call of "{effect.name}"')
    try:
        with scope:
            await ticket.use()
            try:
                with crash_edge(decide, scrub=scrub):
                    return decide_verdict(effect, await hook(_call_of(effect, ports)))
            except PortCrashed as crashed:
                return decide_verdict(effect, HostVerdict(deny=crashed.error.message))
    finally:
        ticket.give_up()
    return None


async def tell_host(effect: TellHost, ports: Ports, scope: trio.CancelScope, scrub: Scrub = keep) -> None:
    """Tell the host what a call came to. What it raises is in the log, and the result stands.

    Args:
        effect: What to tell.
        ports: What the session was given to work with.
        scope: Of this report alone.
        scrub: Takes secrets out of what is said of a crash.
    """
    hook = ports.host.after_tool
    assert hook is not None  # noqa: S101 - a session tells only where there is one
    decide = partial(_decide_crash, f'the host failed over the end of a call of "{effect.name}"')
    call = _call_of(effect, ports)
    end = HostCallEnd(
        session_id=call.session_id,
        root_session_id=call.root_session_id,
        call_id=call.call_id,
        tool_name=call.tool_name,
        input=call.input,
        user_data=call.user_data,
        request_id=call.request_id,
        result=effect.result.text,
        is_error=effect.result.is_error,
        duration_ms=effect.ran_ms,
    )
    with suppress(PortCrashed), crash_edge(decide, scrub=scrub), scope:
        await hook(end)


def decide_verdict(effect: AskHost, returned: object) -> HostJudged:
    """Take what a hook returned, if it is a verdict.

    Raises:
        TypeError: The host's move: it is none, or its input is no JSON object.
        ValueError: The host's move: its input is too large.
    """
    if not isinstance(returned, HostVerdict):
        message = f"before_tool returned {type(returned).__name__}, expected HostVerdict: HostVerdict() lets the call run"
        raise TypeError(message)
    if returned.input is not None:
        _check_input(returned.input)
    return HostJudged(
        at_ms=now_ms(),
        effect_id=effect.effect_id,
        deny=None if returned.deny is None else clean_text(returned.deny),
        arguments=returned.input,
        by=clean_text(returned.by),
    )


def _check_input(given: Mapping[str, Any]) -> None:
    size = too_large(given)
    if size is not None:
        message = f"before_tool wants to run an input of {size}: write it to a file, and give its path"
        raise ValueError(message)
    fault = not_json(given)
    if fault is not None:
        message = f"before_tool wants to run an input that is no JSON: {fault}"
        raise TypeError(message)


def _call_of(effect: AskHost | TellHost, ports: Ports) -> HostCall:
    return HostCall(
        session_id=ports.session_id,
        root_session_id=effect.path[0],
        call_id=effect.call_id,
        tool_name=effect.name,
        input=thawed(effect.arguments),
        user_data=ports.user_data,
        request_id=effect.request_id,
    )


def _decide_crash(what: str, error: BaseException) -> ErrorInfo:
    return ErrorInfo(code="host_crashed", message=clean_text(f"{what} ({describe_bug(error)})."))
