"""The supervisor: OTP's supervisor behaviour as a pure function, one `step` per signal.

The door and nothing else: what is said here is named in `supervision_types`, what is known in `supervision_state`.
`supervision_requests` answers calls, `supervision_sweeps` starts and restarts, `supervision_stops` stops. No clock, no
chance and no process in here: both come with each signal, and who carries out the effects owns the processes.

    >>> from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
    >>> from agentrail.otp.exits import Crashed
    >>> async def serve():
    ...     pass
    >>> state, effects = begin("top", SupervisorFlags("one_for_one"), [ChildSpec("a", serve)], at_seconds=0.0)
    >>> (start,) = effects
    >>> state, _ = step(state, ChildStarted(start.token, "handle of a", at_seconds=0.1, draw=0.5))
    >>> state.phase
    'running'
    >>> state, effects = step(state, ChildExited(start.token, Crashed("KeyError", "x"), at_seconds=9.0, draw=0.5))
    >>> [type(effect).__name__ for effect in effects]
    ['Report', 'StartChild']
"""

from collections.abc import Hashable, Iterable

from msgspec import structs

from agentrail import errors
from agentrail.otp.child_specs import NO_ARGUMENTS, Spec, SupervisorFlags, check_child_specs, check_flags
from agentrail.otp.exits import ExitReason
from agentrail.otp.restarts import admit_restart, is_cancelled_start, left_behind
from agentrail.otp.supervision_ledger import Ledger
from agentrail.otp.supervision_requests import cancel, serve, undo_start
from agentrail.otp.supervision_state import Child, Phase, SupervisorState, Sweep
from agentrail.otp.supervision_stops import (
    begin_ending,
    finish_ending,
    finish_stop,
    finish_stuck,
    start_failed,
    stop_child,
    stopping,
    take_down,
    tell_who_waits,
)
from agentrail.otp.supervision_sweeps import advance, judge_exit, judge_failed_start
from agentrail.otp.supervision_types import (
    NOBODY,
    AnswerUntaken,
    ChildExited,
    ChildIgnored,
    ChildStarted,
    ChildStartFailed,
    ChildStopped,
    ChildStuck,
    Request,
    RequestCancelled,
    RetryDue,
    Started,
    StopRequested,
    SupervisionEffect,
    SupervisionSignal,
    Token,
)

__all__ = ["admit_restart", "begin", "step"]


def begin(
    name: Hashable, flags: SupervisorFlags, specs: Iterable[Spec], *, at_seconds: float
) -> tuple[SupervisorState, tuple[SupervisionEffect, ...]]:
    """Begin a supervisor: check everything, then start the first child.

    Args:
        name: For reports.
        flags: How it treats its children.
        specs: Its initial children, in start order; of a dynamic supervisor the one template.
        at_seconds: The time, on the monotonic clock of the signals.

    Returns:
        The state, and the effects to carry out. It is up when `state.phase` is `running`. If a child does not start
        it stops the others, and its `End` says `InitFailed("child", …)`.

    Raises:
        InvalidSpec: Your move: see `check_child_specs`. Nothing was started.

    Source: OTP, supervisor:init/1.
    """
    check_flags(flags)
    checked = check_child_specs(specs, flags=flags)
    ledger = Ledger(SupervisorState(name=name, flags=flags), at_seconds, 0.0)
    if ledger.is_dynamic:
        (ledger.template,) = (spec.accepted() for spec in checked)
    else:
        for number, spec in enumerate(checked):
            ledger.add(Child(number=number, spec=spec.accepted()))
    ledger.sweep = Sweep(course="up", cursor=0)
    _settle(ledger)
    return ledger.result()


def step(
    state: SupervisorState, signal: SupervisionSignal
) -> tuple[SupervisorState, tuple[SupervisionEffect, ...]]:
    """Decide what follows from one signal, until only another one could bring more. Total: no signal makes it raise.

    Args:
        state: What the call before returned. It is not changed.
        signal: From a process of a child, a caller, or whoever owns the supervisor. One with a token or a request
            that is not open any more is dropped, and counted in `dropped`.

    Returns:
        The next state, and the effects to carry out, in order. `End` comes once, when nothing is left to wait for.

    Source: OTP, supervisor.
    """
    ledger = Ledger(state, signal.at_seconds, signal.draw)
    match signal:
        case Request():
            if signal.request_id != NOBODY:
                ledger.requests = ledger.requests.put(signal.request_id, -1)
            serve(ledger, signal)
        case RequestCancelled(request_id=request_id):
            cancel(ledger, request_id)
        case AnswerUntaken(child=number, is_new=is_new):
            undo_start(ledger, number, is_new=is_new)
        case StopRequested(reason=reason):
            begin_ending(ledger, reason)
        case RetryDue(token=token):
            _on_retry(ledger, token)
        case _:
            child = ledger.owner(signal.token)
            if child is None or not _on_process(ledger, child, signal):
                ledger.dropped += 1
    _settle(ledger)
    return ledger.result()


# --- what a process says


def _on_process(
    ledger: Ledger,
    child: Child,
    signal: ChildStarted | ChildIgnored | ChildStartFailed | ChildExited | ChildStopped | ChildStuck,
) -> bool:
    """Take what the process of a child says; `False` if that is nothing it can say now."""
    match child.phase, signal:
        case Phase.STARTING, ChildStarted():
            _on_started(ledger, child, signal)
        case Phase.STARTING, ChildIgnored():
            _on_ignored(ledger, child)
        case Phase.STARTING, ChildStartFailed(reason=reason):
            _on_failed(ledger, child, reason)
        case Phase.RUNNING, ChildExited(reason=reason):
            _on_exit(ledger, child, reason)
        case Phase.STOPPING, ChildStopped(reason=reason, forced=forced):
            finish_stop(ledger, child, reason, forced=forced)
        case Phase.STOPPING, ChildExited(reason=reason):  # it had ended before it was asked
            finish_stop(ledger, child, reason)
        case Phase.STOPPING, ChildStuck():
            finish_stuck(ledger, child, ledger.flags.stuck_after_seconds)
        case Phase.STUCK, ChildExited(reason=reason) | ChildStopped(reason=reason):
            _on_late_end(ledger, child, reason)
        case _:
            return False
    return True


def _on_started(ledger: Ledger, child: Child, signal: ChildStarted) -> None:
    if child.handle is not None:
        ledger.handles = ledger.handles.drop(child.handle)
    ledger.handles = ledger.handles.put(signal.handle, child.number)
    child = structs.replace(
        child,
        handle=signal.handle,
        incarnation=child.incarnation + 1,
        started_seconds=ledger.now,
        restarting=False,
        phase=Phase.RUNNING,
    )
    if child.doomed:  # it was cancelled too late
        ledger.save(child)
        stop_child(ledger, child)
        return
    ledger.report("progress", child)
    _end_start(ledger, child, Started(signal.handle, signal.info))
    child = structs.replace(child, fresh=False, starter=None)
    if child.spec.restart == "temporary":  # it is never started again
        spec = child.spec if child.from_template else child.spec.without_arguments()
        child = structs.replace(child, spec=spec, extra=NO_ARGUMENTS)
    ledger.save(child)


def _on_ignored(ledger: Ledger, child: Child) -> None:
    if child.doomed:
        tell_who_waits(ledger, child)
        ledger.leave(child)
        return
    _end_start(ledger, child, Started(None))
    ledger.leave(structs.replace(child, fresh=False))


def _on_failed(ledger: Ledger, child: Child, reason: ExitReason) -> None:
    stuck = left_behind(reason)
    if child.doomed:
        if stuck is not None:
            finish_stuck(ledger, child, stuck.seconds)
            return
        if not is_cancelled_start(reason):
            ledger.report("shutdown_error", child, reason)
        tell_who_waits(ledger, child)
        ledger.leave(child)
        return
    ledger.report("start_error", child, reason)
    if stuck is not None:
        ledger.report("stuck", child, stuck)
    phase = Phase.IDLE if stuck is None else Phase.STUCK
    if child.starter is not None or ledger.is_stopping:
        _end_start(ledger, child, start_failed(child, reason))
        take_down(ledger, child, phase)
    else:
        judge_failed_start(ledger, child, reason, phase)


def _on_exit(ledger: Ledger, child: Child, reason: ExitReason) -> None:
    if ledger.is_stopping:
        finish_stop(ledger, child, reason)
    elif ledger.is_sweeping or ledger.starter is not None:
        # As in OTP, where the supervisor would not have looked yet: what is under way comes to its end first.
        exited = structs.replace(child, phase=Phase.EXITED, exit_reason=reason, exit_seconds=ledger.now)
        ledger.save(exited)
        ledger.exits = ledger.exits.put(ledger.place(), child.number)
    else:
        judge_exit(ledger, child, reason, ledger.now)


def _on_late_end(ledger: Ledger, child: Child, reason: ExitReason) -> None:
    if ledger.phase != "ended":  # else it says so itself, to its parent or by the end of its block
        ledger.report("late_end", child, reason)
    if not child.restarting:
        ledger.leave(child)
        return
    child = structs.replace(child, phase=Phase.IDLE, attempt=0)
    ledger.save(child)
    _retry(ledger, child)


# --- going on


def _on_retry(ledger: Ledger, token: Token) -> None:
    child = ledger.children.get(token.child)
    if child is None or child.retry != token.attempt:
        ledger.dropped += 1
        return
    child = structs.replace(child, retry=0)
    ledger.save(child)
    _retry(ledger, child)


def _retry(ledger: Ledger, child: Child) -> None:
    """Start a child again that waited for it, unless it waits for more than that, or with its group."""
    is_trigger = ledger.sweep is not None and ledger.sweep.trigger == child.number
    if child.phase is Phase.IDLE and not child.retry and not is_trigger and not ledger.is_stopping:
        ledger.start(child)


def _settle(ledger: Ledger) -> None:
    """Do all that needs no further signal, in this order: sweeps, ends that wait for judgement, calls that wait."""
    while _go_on(ledger):
        pass


def _go_on(ledger: Ledger) -> bool:
    if ledger.sweep is not None and advance(ledger, ledger.sweep):
        return True
    if ledger.is_sweeping and not ledger.is_stopping:
        return False
    if ledger.starter is None and (waiting := ledger.exits.first()) is not None:
        place, number = waiting
        ledger.exits = ledger.exits.drop(place)
        child = ledger.children.get(number)
        if child is not None and child.phase is Phase.EXITED and child.exit_reason is not None:
            judge_exit(ledger, child, child.exit_reason, child.exit_seconds)
        return True
    if (entry := ledger.pending.first()) is not None:
        ledger.pending = ledger.pending.drop(entry[0])
        _serve_if_wanted(ledger, entry[1])
        return True
    if ledger.starter is None and (entry := ledger.starts.first()) is not None:
        ledger.starts = ledger.starts.drop(entry[0])
        _serve_if_wanted(ledger, entry[1])
        return True
    if ledger.phase == "stopping" and ledger.ending is not None and ledger.sweep is None and not ledger.open:
        finish_ending(ledger, ledger.ending)
    return False


def _serve_if_wanted(ledger: Ledger, request: Request) -> None:
    if request.request_id == NOBODY or ledger.requests.get(request.request_id) is not None:
        serve(ledger, request)


def _end_start(ledger: Ledger, child: Child, outcome: Started | errors.ChildStartFailed) -> None:
    """Answer who waits for a start that is over, and let the next one begin."""
    if ledger.is_stopping:
        ledger.answer(child.starter, stopping(ledger))
    else:
        ledger.answer(child.starter, outcome, started=child if isinstance(outcome, Started) else None)
    if ledger.starter == child.number:
        ledger.starter = None
