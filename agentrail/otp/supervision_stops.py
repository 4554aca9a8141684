"""How a supervisor stops: one child, what is left of it, and in the end itself. Nothing in here starts anything."""

from typing import Final, assert_never

from msgspec import structs

from agentrail import errors
from agentrail.otp.edges import show
from agentrail.otp.exits import ExitReason, InitFailed, Killed, Stuck, describe
from agentrail.otp.restarts import is_expected_stop
from agentrail.otp.supervision_ledger import Ledger
from agentrail.otp.supervision_state import Child, Ending, Phase, Sweep
from agentrail.otp.supervision_types import Culprit, End, RequestId, StopSummary
from agentrail.otp.tables import Table

_CANCELLED: Final = InitFailed("cancelled")


def stop_child(ledger: Ledger, child: Child, *, kill: bool = False) -> bool:
    """Let a child end, whatever it does now, and start it no more. Asked again it asks nobody twice.

    Args:
        ledger: Of this step.
        child: As it is on the books.
        kill: Give it no time, also if it was asked before.

    Returns:
        Whether its end has to be waited for.
    """
    how = "brutal_kill" if kill else child.spec.shutdown_seconds
    match child.phase:
        case Phase.RUNNING:
            ledger.stop(child, how)
            return True
        case Phase.STARTING:
            if kill or not child.doomed:
                ledger.cancel_start(child, how)
            return True
        case Phase.STOPPING:
            if kill:
                ledger.stop(child, how)
            return True
        case Phase.EXITED:
            finish_stop(ledger, child, child.exit_reason or Killed(), at_seconds=child.exit_seconds)
        case Phase.IDLE:
            if child.restarting:
                ledger.leave(ledger.cancel_retry(child))
        case Phase.STUCK:
            if child.restarting:
                ledger.save(ledger.cancel_retry(child))
        case _:
            assert_never(child.phase)
    return False


def finish_stop(
    ledger: Ledger,
    child: Child,
    reason: ExitReason,
    *,
    forced: bool = False,
    at_seconds: float | None = None,
) -> None:
    """Note that a child that was to end has ended: report what was not expected, tell who waited.

    Args:
        ledger: Of this step.
        child: As it is on the books.
        reason: How it ended.
        forced: It had to be killed.
        at_seconds: When, if it was not now.
    """
    if forced or not is_expected_stop(child.spec, child.asked, reason):
        ledger.report("shutdown_error", child, reason, at_seconds=at_seconds)
    ending = ledger.ending
    if ending is not None:
        killed = forced or isinstance(reason, Killed)
        ledger.ending = structs.replace(
            ending, ended=ending.ended + (not killed), killed=ending.killed + killed
        )
    tell_who_waits(ledger, child)
    ledger.leave(child)


def finish_stuck(ledger: Ledger, child: Child, seconds: float) -> None:
    """Note that a child did not obey its kill: its id is blocked until it has ended, and everybody else goes on.

    Who waits for its stop is told that it is over: more cannot be done, and its status says `stuck`.
    """
    ledger.report("stuck", child, Stuck(seconds))
    tell_who_waits(ledger, child)
    take_down(ledger, child, Phase.STUCK)


def take_down(ledger: Ledger, child: Child, phase: Phase) -> None:
    """Leave a child without a process; in the phase `STUCK`, with one that did not obey its kill."""
    if phase is not Phase.STUCK:
        ledger.leave(child)
        return
    if ledger.starter == child.number:
        ledger.starter = None
    ledger.save(structs.replace(child, phase=phase, restarting=False, starter=None, joined=()))


def tell_who_waits(ledger: Ledger, child: Child) -> None:
    """Answer who waits for the stop of this child, and who waits in vain for its start."""
    for request_id in child.joined:
        ledger.answer(request_id, None)
    if ledger.is_stopping:
        ledger.answer(child.starter, stopping(ledger))
    else:
        ledger.answer(child.starter, start_failed(child, _CANCELLED))


def start_failed(child: Child, reason: ExitReason) -> errors.ChildStartFailed:
    """Tell a caller why the child it wanted is not there."""
    message = f"child {show(child.spec.id)} did not start ({describe(reason)}): mend that and start it again"
    return errors.ChildStartFailed(message, reason=reason)


def stopping(ledger: Ledger) -> errors.SupervisorStopping:
    """Refuse a call that would change something."""
    message = (
        f"supervisor {show(ledger.name)} has begun to stop and changes nothing any more: wait for its end"
    )
    return errors.SupervisorStopping(message)


# --- the supervisor itself


def begin_ending(
    ledger: Ledger, reason: ExitReason, *, caller: RequestId | None = None, culprit: Culprit | None = None
) -> None:
    """Begin to stop, unless that has begun: one child after the other, or all at once if they are instances.

    Args:
        ledger: Of this step.
        reason: What to end with. `Killed()` kills all that is left at once, also if a stop has begun already.
        caller: Who waits for the summary.
        culprit: Over whom it gives up, if it does.
    """
    if ledger.summary is not None:
        ledger.answer(caller, ledger.summary)
        return
    killing = isinstance(reason, Killed)
    before = ledger.ending
    ending = before or Ending(reason=reason, since_seconds=ledger.now, culprit=culprit)
    if caller is not None:
        ending = structs.replace(ending, callers=(*ending.callers, caller))
    if before is not None and (before.killing or not killing):
        ledger.ending = ending
        return
    ledger.ending = structs.replace(ending, reason=reason, killing=killing)
    ledger.phase = "stopping"
    ledger.starter = None
    ledger.exits = Table()
    if ledger.is_dynamic or killing:
        ledger.sweep = None
        for _, child in [*ledger.children.items()][::-1]:
            stop_child(ledger, child, kill=killing)
    else:
        ledger.sweep = Sweep(course="down", cursor=ledger.next_number)


def finish_ending(ledger: Ledger, ending: Ending) -> None:
    """Note that nothing is left to wait for."""
    for _, report in sorted((entry for _, entry in ending.errors.items()), key=lambda entry: entry[0]):
        ledger.effects.append(report)
    stuck = ledger.stuck.count
    seconds = ledger.now - ending.since_seconds
    summary = StopSummary(ending.reason, ending.ended, ending.killed, stuck, seconds)
    for request_id in ending.callers:
        ledger.answer(request_id, summary)
    ledger.summary = summary
    ledger.phase = "ended"
    ledger.ending = structs.replace(ending, callers=())
    ledger.effects.append(End(ending.reason, stuck, ending.culprit))
