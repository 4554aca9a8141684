"""`cancel_everywhere`: repeats a scenario, cancelled at its first step, its second step, and so on.

async def scenario(stage: CancelledStage) -> None:
    session = await stage.start_session(model=ScriptedModel([calls(("hang", {})), says("done")]), tools=[HangingTool()])
    await session.ask("Go", timeout_seconds=1)

await cancel_everywhere(scenario)
await cancel_everywhere(scenario, mode="abort")
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any, Final, Literal, TypeAlias, assert_never

import trio
from attrs import define

from agentrail import events as e
from agentrail.abc import HostHooks
from agentrail.actors.mailbox import Mailbox
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import AbortCycle, ChunksArrived, Signal, SignalId, Steer
from agentrail.core.session.step_context import is_ephemeral
from agentrail.errors import CycleEnded, SessionDown
from agentrail.messages import AssistantMessage, CallId, Message, SteerRef, Text, ToolMessage, UserMessage
from agentrail.runtime.chunk_buffer import ChunkBuffer
from agentrail.runtime.event_subscription import Subscription
from agentrail.runtime.fan_in import EventReader
from agentrail.runtime.interpreter import MailboxItem
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_sandbox import MakeSandbox
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.testing.orphans import no_orphans
from agentrail.testing.rule_failures import require_assertions
from agentrail.testing.supervisors import open_nameless

# Rules for every session at any time.


def check_history(messages: Sequence[Message]) -> None:
    """Check that every call has exactly one result, directly after it and in order, and that every result has a call.

    Args:
        messages: A conversation between two cycles, from `Session.messages`.

    Raises:
        AssertionError: A provider would refuse it. The message has the place.
    """
    asked: tuple[str, ...] = ()
    for position, message in enumerate(messages):
        came = tuple(result.call_id for result in message.results) if isinstance(message, ToolMessage) else ()
        assert came == asked, f"message {position}: expected results for {asked}, got {came}"
        asked = tuple(call.call_id for call in message.calls) if isinstance(message, AssistantMessage) else ()
    assert not asked, f"the last message asks for {asked}, but there is no answer"


def check_events(events: Iterable[e.Event]) -> None:
    """Check all events of a session: numbers, cycles, calls, nesting, and the end.

    Args:
        events: All events of one ended session, from the first.

    Raises:
        AssertionError: A number is missing, a cycle has no end or two, a call does not have exactly one result, an event is
            outside of its cycle, request or call, or an event follows the last one. The message says which.
    """
    seen = list(events)
    _check_numbers(seen)
    _check_cycles(seen)
    _check_calls(seen)
    nesting = _Nesting()
    for event in seen:
        assert nesting.takes(event), f"{event!r} is outside the part that it belongs to"
    ends = [position for position, event in enumerate(seen) if isinstance(event, e.SessionEnd)]
    assert ends == [len(seen) - 1], f"SessionEnd is at {ends} of {len(seen)} events; expected once, last"


def check_nothing_lost(events: Iterable[e.Event], messages: Sequence[Message] | None = None) -> None:
    """Check that every accepted message was read exactly once, or explicitly discarded.

    `AgentStart` names the prompt that a cycle reads, `SteeringApplied` the steer that a turn reads.

    Args:
        events: All events of one ended session, from the first.
        messages: Its whole conversation, after all waiting messages were read. None if it is not available.

    Raises:
        AssertionError: A message was lost, read twice, or both read and discarded. The error has its ref.
    """
    fates = _Fates()
    for event in events:
        fates.take(event)
    came = Counter([*fates.started, *fates.applied, *fates.gone])
    accepted = sorted(fates.accepted)
    assert came == Counter(accepted), f"expected one outcome for each of {accepted}, got {dict(came)}"
    if messages is None:
        return
    said = [message for message in messages if isinstance(message, UserMessage)]
    heard = [message.ref for message in said if message.origin == "prompt"]
    assert heard == fates.started, f"expected the prompts {fates.started} in the history, got {heard}"
    steered = [
        block.text
        for message in said
        if message.origin == "steer"
        for block in message.content
        if isinstance(block, Text)
    ]
    lost = [ref for ref in fates.applied if not any(fates.steers[ref] in text for text in steered)]
    assert not lost, f"the steers {lost} were applied, but the history has only {steered}"


class _Fates:
    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.started: list[str] = []
        self.applied: list[str] = []
        self.gone: list[str] = []
        self.steers: dict[str, str] = {}

    def take(self, event: e.Event) -> None:
        match event:
            # This includes a steer that arrived at the end of its cycle.
            case e.PromptReceived(ref=ref) | e.PromptQueued(ref=ref):
                self.accepted.add(ref)
            case e.SteeringReceived(ref=ref, text=text, status="queued"):
                self.accepted.add(ref)
                self.steers[ref] = text
            case e.AgentStart(ref=ref, goes_on=False):
                self.started.append(ref)
            case e.SteeringApplied(refs=refs):
                self.applied += refs
            case e.PromptDropped(ref=ref) | e.PromptRejected(ref=ref) | e.PromptTaken(ref=ref):
                self.gone.append(ref)
            case _:
                pass


def _check_numbers(events: Sequence[e.Event]) -> None:
    last = 0
    for event in events:
        assert event.meta is not None, f"{event!r} has no envelope: was it published?"
        expected = last if is_ephemeral(event) else last + 1
        assert event.meta.seq == expected, f"{event!r} has number {event.meta.seq}, expected {expected}"
        last = expected


def _check_cycles(events: Sequence[e.Event]) -> None:
    running: e.AgentStart | None = None
    for event in events:
        if isinstance(event, e.AgentStart):
            assert running is None, f"{event!r} came before the end of {running!r}"
            running = event
        elif type(event) in e.TERMINAL:
            # An abort is reported in idle too, where no cycle ends.
            assert running is not None or isinstance(event, e.AgentAbort), f"{event!r} does not end a cycle"
            assert isinstance(event, e.AgentEnd | e.AgentAbort | e.AgentError)
            named = None if running is None else running.ref
            assert event.ref in (named, None), f"{event!r} does not name the prompt of its cycle, {named!r}"
            running = None
    assert running is None, f"{running!r} has no terminal event"


def _check_calls(events: Sequence[e.Event]) -> None:
    asked = Counter(
        call.call_id
        for event in events
        if isinstance(event, e.ResponseComplete)
        for call in event.message.calls
    )
    for kind in (e.ToolExecutionStart, e.ToolExecutionEnd):
        came = Counter(event.call_id for event in events if isinstance(event, kind))
        assert came == asked, f"{kind.__name__} per call: expected {dict(asked)}, got {dict(came)}"


class _Nesting:
    """The open parts while events pass: a cycle, its request or batch of calls, and calls that an abort left running."""

    def __init__(self) -> None:
        self._in_cycle = False
        self._in_request = False
        self._running: set[CallId] = set()
        self._spared: set[CallId] = set()

    def takes(self, event: e.Event) -> bool:
        match event:
            case e.AgentStart():
                self._in_cycle = True
            case e.AgentEnd() | e.AgentError() | e.AgentAbort():
                fits = not self._running or isinstance(event, e.AgentAbort)
                self._spared |= self._running
                self._in_cycle, self._in_request, self._running = False, False, set()
                return fits
            case e.RequestStart():
                fits = self._in_cycle and not self._in_request and not self._running
                self._in_request = True
                return fits
            case e.MessageStart() | e.MessageDelta() | e.ThinkingStart() | e.ThinkingDelta():
                return self._in_request
            case e.ResponseComplete() | e.StreamError():
                fits, self._in_request = self._in_request, False
                return fits
            case e.Retry() | e.ContextOverflow() | e.ModelSwitched(by="fallback"):
                # The end of a request that failed before its first chunk, or that ended with `StreamError`.
                self._in_request = False
                return self._in_cycle
            case _:
                return self._takes_of_a_call(event)
        return True

    def _takes_of_a_call(self, event: e.Event) -> bool:
        match event:
            case e.ToolExecutionStart(call_id=call_id):
                self._running.add(call_id)
                return self._in_cycle and not self._in_request
            case e.ToolExecutionEnd(call_id=call_id):
                fits = call_id in self._running | self._spared
                self._running.discard(call_id)
                self._spared.discard(call_id)
                return fits
            case (
                e.ToolBlocked(call_id=call_id)
                | e.ToolCallUnknown(call_id=call_id)
                | e.ToolKilled(call_id=call_id)
                | e.ToolSkippedForSteering(call_id=call_id)
            ):
                return call_id in self._running | self._spared
            case _:
                return True


Mode: TypeAlias = Literal["cancel", "close", "abort", "steer", "crash"]
MAX_ROUNDS: Final = 2_000

_EVERYTHING: Final = 1 << 20
_STRUCK: Final = SignalId("struck")


@define(eq=False)
class _Watched:
    session: Session
    subscription: Subscription
    history: tuple[Message, ...] | None = None


class CancelledStage:
    """The stage of a scenario: starts sessions whose events are all kept, and checked at the end of the round.

    Attributes:
        supervisor: For other needs of a scenario.
    """

    def __init__(self, supervisor: SessionSupervisor) -> None:
        """Created by `cancel_everywhere`, one for each round."""
        self.supervisor = supervisor
        self._watched: list[_Watched] = []

    async def start_session(self, **options: Any) -> Session:
        """Start a session like `SessionSupervisor.start_session`. `model` is an object, such as a `ScriptedModel`."""
        session = await self.supervisor.start_session(**options)
        subscription = session.subscribe(buffer=_EVERYTHING)
        await subscription.__aenter__()  # never exited: it ends with the session, which ends with the round
        self._watched.append(_Watched(session, subscription))
        return session

    async def check_alive(self) -> None:
        """Check that every living session answers, stops its work, and then has a valid history."""
        for watched in self._watched:
            session = watched.session
            with suppress(SessionDown):
                await session.status()
                await session.abort(kill_tools="all", clear_queue=True)
                watched.history = await session.messages()
                check_history(watched.history)
                assert (await session.status()).phase == "idle", f"{session!r} is not idle after an abort"

    async def check_ended(self) -> None:
        """Check all events of every session, and that no message was lost."""
        for watched in self._watched:
            events: list[e.Event] = [event async for event in watched.subscription]
            check_events(events)
            check_nothing_lost(events, watched.history)


CancelledScenario: TypeAlias = Callable[[CancelledStage], Awaitable[None]]

_OpenSupervisor: TypeAlias = Callable[[], AbstractAsyncContextManager[SessionSupervisor]]


async def cancel_everywhere(  # noqa: PLR0913 - the event, and its position
    scenario: CancelledScenario,
    *,
    mode: Mode = "cancel",
    round_seconds: float = 10.0,
    within_seconds: float = 5.0,
    make_sandbox: MakeSandbox | None = None,
    make_host: Callable[[], HostHooks] = HostHooks,
    make_reader: Callable[[], EventReader | None] = lambda: None,
) -> int:
    """Run a scenario, strike at its n-th step, and check the state afterwards, for every n until it completes.

    A round is over when the supervisor is closed. Each time, no tasks or processes are left (`no_orphans`), every call has one
    result, every cycle one terminal event, the numbers have no gap, every accepted message was read or explicitly discarded,
    and no caller hangs. Except with `close`, sessions must also answer afterwards, and have a valid history.

    Args:
        scenario: Runs on the given stage, with new models and tools each time.
        mode: The event at the n-th step. `cancel` cancels the scenario, which is a caller of its sessions. `close` closes the
            supervisor with all its sessions. `abort` aborts the work of all sessions, `steer` steers them, and `crash` crashes
            their actors. The end of the cycle after an abort or a crash (`CycleEnded`) is not a failure. A scenario that
            continues after it must catch it. With `steer`, a scenario finds one message more than it sent.
        round_seconds: Time limit of one round, and then of reading the events of its sessions.
        within_seconds: Time limit for tasks and processes that are ending, as in `no_orphans`.
        make_sandbox: Creates the sandboxes of sessions without one. By default a `LocalSandbox` in their `working_dir`.
        make_host: Creates, for each round, the host hooks that judge and observe the calls of sessions. By default there
            are none.
        make_reader: Creates, for each round, the reader of all events. By default there is none.

    Returns:
        The number of rounds.

    Raises:
        AssertionError: A check failed after a strike. A note has the mode and the step.
        Exception: An exception of the scenario, with the same note.
    """
    require_assertions()
    for step in range(1, MAX_ROUNDS + 1):
        blow = _Blow(mode, step)
        try:
            await _play(
                scenario,
                blow,
                partial(open_nameless, make_sandbox, host=make_host(), reader=make_reader()),
                round_seconds=round_seconds,
                within_seconds=within_seconds,
            )
        except BaseException as error:
            error.add_note(f"cancel_everywhere, mode {mode!r}: struck at step {step}")
            raise
        if not blow.struck:
            return step
    message = f"still running after {MAX_ROUNDS} rounds; shorten the scenario"
    raise AssertionError(message)


def crash(session: Session, reason: str = "crashed on purpose") -> None:
    """Crash a session's actor, with a message that it cannot process. Its supervisor sees an ordinary crash.

    Args:
        session: The session. An ended session is not affected.
        reason: Text of the exception, repeated by `SessionRestarted`.
    """
    _mailbox_of(session).put_notice(_LetterBomb(reason))


class _LetterBomb(ChunkBuffer):
    def __init__(self, reason: str) -> None:
        super().__init__(EffectId("bomb"))
        self._reason = reason

    def take(self) -> ChunksArrived:
        raise RuntimeError(self._reason)


class _Blow(trio.abc.Instrument):
    """Counts the steps of all tasks, and strikes once."""

    def __init__(self, mode: Mode, step: int) -> None:
        self.mode = mode
        self._steps_left = step
        self.is_armed = True
        self.strike: Callable[[], None] = lambda: None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._steps_left -= self.is_armed
        if self._steps_left == 0 and self.is_armed:
            self.strike()

    @property
    def struck(self) -> bool:
        """False at the end means that the round has fewer steps, and the test is complete."""
        return self._steps_left <= 0


async def _play(
    scenario: CancelledScenario,
    blow: _Blow,
    open_supervisor: _OpenSupervisor,
    *,
    round_seconds: float,
    within_seconds: float,
) -> None:
    # Not one deadline around all of it: while `no_orphans` pauses, a virtual clock finds all tasks waiting and jumps to it.
    async with no_orphans(within_seconds=within_seconds):
        trio.lowlevel.add_instrument(blow)
        try:
            with trio.fail_after(round_seconds):
                stage = await _play_on_stage(scenario, blow, open_supervisor)
        finally:
            trio.lowlevel.remove_instrument(blow)
    if stage is not None:
        with trio.fail_after(round_seconds):
            await stage.check_ended()


async def _play_on_stage(
    scenario: CancelledScenario, blow: _Blow, open_supervisor: _OpenSupervisor
) -> CancelledStage | None:
    mode = blow.mode
    stage: CancelledStage | None = None
    with trio.CancelScope() as everything:
        async with open_supervisor() as supervisor:
            stage = CancelledStage(supervisor)
            with trio.CancelScope() as caller:
                blow.strike = _decide_strike(mode, supervisor, caller=caller, everything=everything)
                await _play_until_it_ends(scenario, stage, mode)
            if mode == "steer":  # a message that arrives during the check would not have been seen
                blow.is_armed = False
            if mode != "close":
                await stage.check_alive()
    return stage


async def _play_until_it_ends(scenario: CancelledScenario, stage: CancelledStage, mode: Mode) -> None:
    try:
        await scenario(stage)
    except CycleEnded:
        if mode not in {"abort", "crash"}:
            raise


def _decide_strike(
    mode: Mode, supervisor: SessionSupervisor, *, caller: trio.CancelScope, everything: trio.CancelScope
) -> Callable[[], None]:
    match mode:
        case "cancel":
            return caller.cancel
        case "close":
            return everything.cancel
        case "abort":
            abort = partial(AbortCycle, signal_id=_STRUCK, reason="struck")
            return lambda: _notify_all(supervisor, abort(at_ms=now_ms()))
        case "steer":
            steer = partial(Steer, signal_id=_STRUCK, ref=SteerRef(_STRUCK), text="struck")
            return lambda: _notify_all(supervisor, steer(at_ms=now_ms()))
        case "crash":
            return lambda: _crash_all(supervisor)
        case _:
            assert_never(mode)


def _crash_all(supervisor: SessionSupervisor) -> None:
    for session in supervisor.sessions():
        crash(session)


def _notify_all(supervisor: SessionSupervisor, signal: Signal) -> None:
    # The signal alone, without a waiting caller: it must arrive in this very step.
    for session in supervisor.sessions():
        _mailbox_of(session).put_notice(signal)


def _mailbox_of(session: Session) -> Mailbox[MailboxItem]:
    # Bypasses the handle: no caller of a session can do this, and the product has no option for it.
    return session._cell.mailbox  # noqa: SLF001
