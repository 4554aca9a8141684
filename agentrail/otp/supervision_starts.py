"""The end of a start: the child is up, and its caller is answered. Nothing in here starts anything."""

from collections.abc import Hashable

from msgspec import structs

from agentrail import errors
from agentrail.otp.child_specs import NO_ARGUMENTS
from agentrail.otp.supervision_state import Child, ChildPhase
from agentrail.otp.supervision_step import SupervisorStep
from agentrail.otp.supervision_stops import stop_child, stopping
from agentrail.otp.supervision_types import Started


def come_up(step: SupervisorStep, child: Child, handle: Hashable, info: object = None) -> None:
    """Mark a child as running."""
    if child.handle is not None:
        step.handles = step.handles.drop(child.handle)
    step.handles = step.handles.put(handle, child.number)
    doomed, spec = child.doomed, child.spec
    is_last = spec.restart == "temporary" and not doomed  # it is never restarted
    up = structs.replace(
        child,
        spec=spec.without_arguments() if is_last and not child.from_template else spec,
        extra=NO_ARGUMENTS if is_last else child.extra,
        handle=handle,
        incarnation=child.incarnation + 1,
        started_seconds=step.now,
        restarting=False,
        phase=ChildPhase.RUNNING,
        fresh=child.fresh and doomed,
        starter=child.starter if doomed else None,
    )
    if doomed:  # it was cancelled too late
        step.save(up)
        stop_child(step, up)
        return
    step.report("progress", up)
    end_start(step, child, Started(handle, info))
    step.save(up)


def end_start(step: SupervisorStep, child: Child, outcome: Started | errors.ChildStartFailed) -> None:
    """Answer the caller of a finished start, and let the next start begin."""
    if step.is_stopping:
        step.answer(child.starter, stopping(step))
    else:
        step.answer(child.starter, outcome, started=child if isinstance(outcome, Started) else None)
    if step.starter == child.number:
        step.starter = None
