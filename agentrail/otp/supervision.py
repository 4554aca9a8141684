"""The supervisor: OTP's supervisor behaviour as a pure function, one `step_supervisor` per signal.

>>> from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
>>> from agentrail.otp.exits import Crashed
>>> async def serve():
...     pass
>>> state, effects = begin_supervisor("top", SupervisorFlags("one_for_one"), [ChildSpec("a", serve)], at_seconds=0.0)
>>> (start,) = effects
>>> state, _ = step_supervisor(state, InstanceStarted(start.token, "handle of a", at_seconds=0.1, draw=0.5))
>>> state.phase
'running'
>>> state, effects = step_supervisor(state, InstanceExited(start.token, Crashed("KeyError", "x"), at_seconds=9.0, draw=0.5))
>>> [type(effect).__name__ for effect in effects]
['Report', 'StartChild']
"""

import re
from collections.abc import Hashable, Iterable
from typing import assert_never

from msgspec import structs

from agentrail import errors
from agentrail.errors import AlreadyStarted, InvalidSpec, SupervisorError
from agentrail.otp.child_specs import (
    NO_ARGUMENTS,
    Arguments,
    ChildSpec,
    Spec,
    SupervisorFlags,
    check_child_specs,
    check_flags,
)
from agentrail.otp.exits import ExitReason
from agentrail.otp.guarded_calls import show
from agentrail.otp.restarts import is_cancelled_start, left_behind
from agentrail.otp.supervision_starts import come_up, end_start
from agentrail.otp.supervision_state import (
    Child,
    ChildPhase,
    SupervisorState,
    Sweep,
    count_children,
    is_to_restart,
    remember_exit,
    which_children,
)
from agentrail.otp.supervision_step import SupervisorStep
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
from agentrail.otp.supervision_sweeps import advance, decide_after_exit, decide_after_failed_start
from agentrail.otp.supervision_types import (
    NO_CALLER,
    AnswerUntaken,
    ByHandle,
    ById,
    ChangingCall,
    ChildKey,
    CountChildrenCall,
    DeleteChildCall,
    GetChildSpecCall,
    InstanceExited,
    InstanceIgnored,
    InstanceStarted,
    InstanceStartFailed,
    InstanceStopped,
    InstanceStuck,
    ReconfigureCall,
    Report,
    RequestCancelled,
    RequestId,
    RestartChildCall,
    RetryDue,
    StartChild,
    StartChildCall,
    Started,
    StartInstanceCall,
    StopCall,
    StopRequested,
    SupervisionEffect,
    SupervisionSignal,
    SupervisorRequest,
    TerminateChildCall,
    Token,
    WhichChildrenCall,
)

# Answers to calls: at once, or when the child in question has started or stopped.
#
# Reading calls and `stop` are answered in every state. Changing calls run one at a time. A call that would
# wait for its own caller is refused, because it would deadlock.


def serve(step: SupervisorStep, request: SupervisorRequest, *, handle: Hashable | None = None) -> None:
    """Answer a request, or queue it until it can be answered."""
    call = request.call
    match call:
        case WhichChildrenCall():
            step.answer(request.request_id, which_children(step.children))
        case CountChildrenCall():
            counts = count_children(step.children.count, step.active, step.supervisors)
            step.answer(request.request_id, counts)
        case GetChildSpecCall(child=key):
            found = _find(step, key)
            if isinstance(found, Child):
                spec = found.spec
                found_spec = spec.without_arguments() if spec.restart == "temporary" else spec
                step.answer(request.request_id, found_spec)
            else:
                step.answer(request.request_id, found)
        case StopCall(reason=reason):
            begin_ending(step, reason, caller=request.request_id)
        case _:
            if step.is_stopping:
                step.answer(request.request_id, stopping(step))
            elif step.is_sweeping:
                _wait_for_sweep(step, request)
            else:
                _change(step, request, call, handle)


def cancel(step: SupervisorStep, request_id: RequestId) -> None:
    """Cancel a request. A start is cancelled with its caller, a stop continues."""
    number = step.requests.get(request_id)
    if number is None:
        step.dropped += 1
        return
    step.requests = step.requests.drop(request_id)
    child = step.children.get(number)
    if child is not None:
        stop_child(step, child)


def undo_start(step: SupervisorStep, number: int, *, is_new: bool) -> None:
    """Undo a start whose answer was not taken."""
    child = step.children.get(number)
    if child is None:  # it had nothing to run, and no entry was kept
        return
    child = structs.replace(child, fresh=is_new)
    if child.phase is ChildPhase.IDLE and not child.restarting:
        step.leave(child)
        return
    step.save(child)
    if not step.is_stopping:  # otherwise it stops with the others, in its turn
        stop_child(step, child)


def _change(
    step: SupervisorStep, request: SupervisorRequest, call: ChangingCall, handle: Hashable | None
) -> None:
    match call:
        case StartChildCall():
            _start_child(step, request, call, handle)
        case StartInstanceCall(extra=extra):
            _start_instance(step, request, extra, handle)
        case TerminateChildCall(child=key):
            _terminate(step, request, key)
        case RestartChildCall(child_id=child_id):
            _restart(step, request, child_id)
        case DeleteChildCall(child_id=child_id):
            child = _find_stopped(step, request, child_id)
            if child is not None:
                step.forget(child)
                step.answer(request.request_id, None)
        case ReconfigureCall():
            _reconfigure(step, request, call)
        case _:
            assert_never(call)


# --- starting


def _start_child(
    step: SupervisorStep, request: SupervisorRequest, call: StartChildCall, handle: Hashable | None
) -> None:
    try:
        (spec,) = check_child_specs([call.spec], flags=step.flags)
    except InvalidSpec as refusal:
        # Without its traceback, which would keep the frames' objects alive.
        step.answer(request.request_id, refusal.with_traceback(None))
        return
    if _waits_for_start(step, request):
        return
    number = None if step.is_dynamic else step.numbers.get(spec.id)
    known = None if number is None else step.children.get(number)
    if known is None:
        child = Child(number=step.next_number, spec=spec.accepted(), fresh=True, starter=request.request_id)
        _start_new(step, request, child, handle)
    elif known.phase is ChildPhase.RUNNING:
        message = f"child {show(spec.id)} is already running; use its `handle`"
        step.answer(request.request_id, AlreadyStarted(message, handle=known.handle))
    elif known.phase is ChildPhase.STUCK:
        step.answer(request.request_id, _stuck(known))
    elif _is_restarting(known) or known.phase is ChildPhase.IDLE:
        message = f"child {show(spec.id)} has a spec but no process: restart it with restart_child, or remove it with delete_child"
        step.answer(request.request_id, errors.AlreadyPresent(message))
    else:
        _wait_for_child(step, request, known)


def _start_instance(
    step: SupervisorStep, request: SupervisorRequest, extra: Arguments, handle: Hashable | None
) -> None:
    template = step.template
    if template is None:
        message = (
            f"start_instance needs strategy 'dynamic', here it is {step.flags.strategy!r}: use start_child"
        )
        refusal = InvalidSpec(message, code="invalid_strategy", field="strategy")
        step.answer(request.request_id, refusal)
        return
    child = Child(
        number=step.next_number,
        spec=template,
        from_template=True,
        extra=extra.copied(),
        fresh=True,
        starter=request.request_id,
    )
    _start_new(step, request, child, handle)


def _start_new(
    step: SupervisorStep, request: SupervisorRequest, child: Child, handle: Hashable | None
) -> None:
    most = step.flags.max_children
    if most is not None and step.children.count >= most:
        message = (
            f"there are {step.children.count} children, max_children is {most}: try again when one has ended"
        )
        step.answer(request.request_id, errors.TooManyChildren(message))
        return
    step.enrol(child)
    if handle is None or step.is_grouped:  # in a group, starts run one by one
        _start_for(step, request, child)
    else:
        # One step instead of two when there is nothing to report between them: as if `InstanceStarted`
        # followed at once.
        come_up(step, step.begin(child, handle), handle)


def _start_for(step: SupervisorStep, request: SupervisorRequest, child: Child) -> None:
    if step.is_grouped:
        step.starter = child.number
    if request.request_id != NO_CALLER:
        step.requests = step.requests.put(request.request_id, child.number)
    step.start(child)


def _restart(step: SupervisorStep, request: SupervisorRequest, child_id: Hashable) -> None:
    if not step.is_dynamic and _waits_for_start(step, request):
        return
    child = _find_stopped(step, request, child_id)
    if child is not None:
        _start_for(step, request, structs.replace(child, starter=request.request_id, in_a_row=0))


# --- stopping


def _terminate(step: SupervisorStep, request: SupervisorRequest, key: ChildKey) -> None:
    child = _find(step, key)
    if not isinstance(child, Child):
        is_dead = isinstance(key, ByHandle) and not key.alive
        step.answer(request.request_id, None if is_dead and step.is_dynamic else child)
        return
    if child.phase in (ChildPhase.STARTING, ChildPhase.RUNNING, ChildPhase.STOPPING):
        if _is_caller(request, child):
            step.answer(request.request_id, _would_deadlock(request, child))
            return
        child = structs.replace(child, joined=(*child.joined, request.request_id))
        if child.phase is not ChildPhase.RUNNING:  # otherwise the stop saves it
            step.save(child)
        stop_child(step, child)
        return
    if step.sweep is not None and step.sweep.trigger == child.number:
        step.sweep = None  # the child whose restart caused the sweep is removed, the others stay as they are
    if child.phase is ChildPhase.IDLE and not child.restarting:
        step.leave(child)
    stop_child(step, child)
    step.answer(request.request_id, None)


# --- reconfiguring


def _reconfigure(step: SupervisorStep, request: SupervisorRequest, call: ReconfigureCall) -> None:
    try:
        specs = _check_reconfigure(step, call)
    except InvalidSpec as refusal:
        step.answer(request.request_id, refusal.with_traceback(None))
        return
    step.flags = call.flags
    for spec in specs:
        if step.is_dynamic:
            step.template = spec.accepted()
        else:
            _reconfigure_child(step, spec)
    step.answer(request.request_id, None)


def _check_reconfigure(step: SupervisorStep, call: ReconfigureCall) -> tuple[ChildSpec, ...]:
    check_flags(call.flags)
    before, after = step.flags.strategy, call.flags.strategy
    if before != after and "dynamic" in (before, after):
        message = f"strategy cannot change from {before!r} to {after!r} while the supervisor runs, since children of a 'dynamic' supervisor have no ids: start another supervisor"
        raise InvalidSpec(message, code="invalid_strategy", field="strategy")
    return check_child_specs(call.children, flags=call.flags)


def _reconfigure_child(step: SupervisorStep, spec: ChildSpec) -> None:
    number = step.numbers.get(spec.id)
    child = None if number is None else step.children.get(number)
    if child is None:
        step.add(Child(number=step.next_number, spec=spec.accepted()))
    elif child.has_process and spec.restart == "temporary":
        step.save(structs.replace(child, spec=spec.without_arguments()))
    else:
        step.save(structs.replace(child, spec=spec.accepted()))


# --- finding


def _find(step: SupervisorStep, key: ChildKey) -> Child | SupervisorError:
    """Return the child with this key, or an error that says why it was not found."""
    if isinstance(key, ById) and step.is_dynamic:
        return wrong_key(key.id)
    index, wanted = (step.numbers, key.id) if isinstance(key, ById) else (step.handles, key.handle)
    try:
        number = index.get(wanted)
    except TypeError:  # not hashable, so it cannot be an id
        number = None
    child = None if number is None else step.children.get(number)
    return no_child(step.name, wanted) if child is None else child


def _find_stopped(step: SupervisorStep, request: SupervisorRequest, child_id: Hashable) -> Child | None:
    """Return a child that has no process and none pending."""
    child = _find(step, ById(child_id))
    if not isinstance(child, Child):
        step.answer(request.request_id, child)
    elif child.phase is ChildPhase.RUNNING:
        message = f"child {show(child.spec.id)} is running: call terminate_child first"
        step.answer(request.request_id, errors.ChildRunning(message))
    elif child.phase is ChildPhase.STUCK:
        step.answer(request.request_id, _stuck(child))
    elif _is_restarting(child):
        message = f"child {show(child.spec.id)} is being restarted: wait for it, or cancel the restart with terminate_child"
        step.answer(request.request_id, errors.ChildRestarting(message))
    elif child.phase is ChildPhase.IDLE:
        return child
    else:
        _wait_for_child(step, request, child)
    return None


def _is_restarting(child: Child) -> bool:
    return child.restarting or (child.phase is ChildPhase.EXITED and is_to_restart(child))


# --- waiting


def _wait_for_child(step: SupervisorStep, request: SupervisorRequest, child: Child) -> None:
    if _is_caller(request, child):
        step.answer(request.request_id, _would_deadlock(request, child))
    else:
        step.save(structs.replace(child, waiting=(*child.waiting, request)))


def _waits_for_start(step: SupervisorStep, request: SupervisorRequest) -> bool:
    starter = None if step.starter is None else step.children.get(step.starter)
    if starter is None:
        return False
    if _is_caller(request, starter):
        step.answer(request.request_id, _would_deadlock(request, starter))
    else:
        step.starts = step.starts.put(step.place(), request)
    return True


def _wait_for_sweep(step: SupervisorStep, request: SupervisorRequest) -> None:
    caller = step.children.get(request.caller_path[0].child) if request.caller_path else None
    if caller is not None and _is_caller(request, caller) and _is_awaited(step, caller):
        step.answer(request.request_id, _would_deadlock(request, caller))
    else:
        step.pending = step.pending.put(step.place(), request)


def _is_awaited(step: SupervisorStep, child: Child) -> bool:
    """Return whether the sweep waits for the start or stop of this child, now or later."""
    sweep = step.sweep
    if sweep is None or child.number < sweep.low:
        return False
    return child.phase in (ChildPhase.STARTING, ChildPhase.STOPPING) or sweep.course == "down"


def _is_caller(request: SupervisorRequest, child: Child) -> bool:
    return bool(request.caller_path) and child.attempt != 0 and request.caller_path[0] == child.token


# --- refusals


def _would_deadlock(request: SupervisorRequest, child: Child) -> errors.WouldDeadlock:
    name = re.sub("(?!^)(?=[A-Z])", "_", type(request.call).__name__.removesuffix("Call")).lower()
    does = "being started" if child.phase is ChildPhase.STARTING else "being stopped, or about to be"
    message = (
        f"{name} would wait for child {show(child.spec.id)}, which is {does} and waits for this call: "
        f"make it from another task, or later"
    )
    return errors.WouldDeadlock(message)


def _stuck(child: Child) -> errors.ChildStuck:
    message = f"child {show(child.spec.id)} did not stop when killed; its id becomes free when it ends"
    return errors.ChildStuck(message)


def wrong_key(child_id: Hashable) -> errors.WrongChildKey:
    """Return the error for an id where children have none."""
    message = (
        f"children of a 'dynamic' supervisor are identified by their handles, got the id {show(child_id)}"
    )
    return errors.WrongChildKey(message)


def no_child(supervisor: Hashable, wanted: Hashable) -> errors.ChildNotFound:
    """Return the error for an unknown child."""
    message = f"supervisor {show(supervisor)} has no child {show(wanted)}: see which_children"
    return errors.ChildNotFound(message)


def begin_supervisor(
    name: Hashable, flags: SupervisorFlags, specs: Iterable[Spec], *, at_seconds: float
) -> tuple[SupervisorState, tuple[SupervisionEffect, ...]]:
    """Start a supervisor: check the flags and all specs, then start the first child.

    Raises:
        InvalidSpec: Your move: a flag or a child spec is invalid.

    Source: OTP, supervisor:init/1.
    """
    check_flags(flags)
    checked = check_child_specs(specs, flags=flags)
    step = SupervisorStep(SupervisorState(name=name, flags=flags), at_seconds, 0.0)
    if step.is_dynamic:
        (step.template,) = (spec.accepted() for spec in checked)
    else:
        for number, spec in enumerate(checked):
            step.add(Child(number=number, spec=spec.accepted()))
    step.sweep = Sweep(course="up", cursor=0)
    _settle(step)
    return step.result()


def step_supervisor(
    state: SupervisorState, signal: SupervisionSignal
) -> tuple[SupervisorState, tuple[SupervisionEffect, ...]]:
    """Process one signal, with everything that follows from it until the next signal.

    Source: OTP, supervisor.
    """
    if isinstance(signal, SupervisorRequest) and signal.handle is not None:
        simple = _simple_start_of(state, signal)
        if simple is not None:
            return _start_at_once(state, simple, signal.handle, signal.at_seconds)
    step = SupervisorStep(state, signal.at_seconds, signal.draw)
    match signal:
        case SupervisorRequest():
            if signal.request_id != NO_CALLER:
                step.requests = step.requests.put(signal.request_id, -1)
            serve(step, signal, handle=signal.handle)
        case RequestCancelled(request_id=request_id):
            cancel(step, request_id)
        case AnswerUntaken(child=number, is_new=is_new):
            undo_start(step, number, is_new=is_new)
        case StopRequested(reason=reason):
            begin_ending(step, reason)
        case RetryDue(token=token):
            _on_retry(step, token)
        case _:
            child = step.owner(signal.token)
            if child is None or not _on_process(step, child, signal):
                step.dropped += 1
    _settle(step)
    return step.result()


# A start that meets nothing else, such as that of each session: the same state and effects in half the time.


def _simple_start_of(state: SupervisorState, request: SupervisorRequest) -> ChildSpec | None:
    call, flags = request.call, state.flags
    if (
        not isinstance(call, StartChildCall)
        or request.request_id != NO_CALLER
        or state.phase != "running"
        or state.sweep is not None
        or flags.strategy != "dynamic"
        or flags.max_children is not None
    ):
        return None
    spec = call.spec
    return spec if isinstance(spec, ChildSpec) and spec.kind == "worker" and not spec.significant else None


def _start_at_once(
    state: SupervisorState, given: ChildSpec, handle: Hashable, now: float
) -> tuple[SupervisorState, tuple[SupervisionEffect, ...]]:
    number, attempt, spec = state.next_number, state.attempts + 1, given.accepted()
    child = Child(
        number=number,
        spec=spec.without_arguments() if spec.restart == "temporary" else spec,
        phase=ChildPhase.RUNNING,
        attempt=attempt,
        handle=handle,
        incarnation=1,
        started_seconds=now,
    )
    after = structs.replace(
        state,
        children=state.children.add(number, child),
        handles=state.handles.put(handle, number),
        active=state.active + 1,
        open=state.open + 1,
        attempts=attempt,
        next_number=number + 1,
    )
    up = Report(
        kind="progress",
        supervisor=state.name,
        child_id=spec.id,
        incarnation=1,
        child_kind=spec.kind,
        restart=spec.restart,
        at_seconds=now,
    )
    return after, (StartChild(child.token, spec, NO_ARGUMENTS, 1, handle), up)


# --- signals from processes


def _on_process(
    step: SupervisorStep,
    child: Child,
    signal: InstanceStarted
    | InstanceIgnored
    | InstanceStartFailed
    | InstanceExited
    | InstanceStopped
    | InstanceStuck,
) -> bool:
    """Handle a signal of a child's process. Return False if the child's phase does not expect it."""
    match child.phase, signal:
        case ChildPhase.STARTING, InstanceStarted():
            come_up(step, child, signal.handle, signal.info)
        case ChildPhase.STARTING, InstanceIgnored():
            _on_ignored(step, child)
        case ChildPhase.STARTING, InstanceStartFailed(reason=reason):
            _on_failed(step, child, reason)
        case ChildPhase.RUNNING, InstanceExited(reason=reason):
            _on_exit(step, child, reason)
        case ChildPhase.STOPPING, InstanceStopped(reason=reason, forced=forced):
            finish_stop(step, child, reason, forced=forced)
        case ChildPhase.STOPPING, InstanceExited(reason=reason):  # it had ended before it was asked to stop
            finish_stop(step, child, reason)
        case ChildPhase.STOPPING, InstanceStuck():
            finish_stuck(step, child, step.flags.stuck_after_seconds)
        case ChildPhase.STUCK, InstanceExited(reason=reason) | InstanceStopped(reason=reason):
            _on_late_end(step, child, reason)
        case _:
            return False
    return True


def _on_ignored(step: SupervisorStep, child: Child) -> None:
    if child.doomed:
        tell_who_waits(step, child)
        step.leave(child)
        return
    end_start(step, child, Started(None))
    step.leave(structs.replace(child, fresh=False))


def _on_failed(step: SupervisorStep, child: Child, reason: ExitReason) -> None:
    stuck = left_behind(reason)
    if child.doomed:
        if stuck is not None:
            finish_stuck(step, child, stuck.seconds)
            return
        if not is_cancelled_start(reason):
            step.report("shutdown_error", child, reason)
        tell_who_waits(step, child)
        step.leave(child)
        return
    step.report("start_error", child, reason)
    if stuck is not None:
        step.report("stuck", child, stuck)
    phase = ChildPhase.IDLE if stuck is None else ChildPhase.STUCK
    child = remember_exit(child, reason, step.now)
    if child.starter is not None or step.is_stopping:
        end_start(step, child, start_failed(child, reason))
        take_down(step, child, phase)
    else:
        decide_after_failed_start(step, child, reason, phase)


def _on_exit(step: SupervisorStep, child: Child, reason: ExitReason) -> None:
    if step.is_stopping:
        finish_stop(step, child, reason)
        return
    child = remember_exit(child, reason, step.now)
    if step.is_sweeping or step.starter is not None:
        # As in OTP, where the supervisor would not have read it yet: the running sweep or start finishes
        # first.
        exited = structs.replace(child, phase=ChildPhase.EXITED, exit_reason=reason, exit_seconds=step.now)
        step.save(exited)
        step.exits = step.exits.put(step.place(), child.number)
    else:
        decide_after_exit(step, child, reason, step.now)


def _on_late_end(step: SupervisorStep, child: Child, reason: ExitReason) -> None:
    if step.phase != "ended":  # otherwise the instance reports it, to its parent or at the end of its block
        step.report("late_end", child, reason)
    if not child.restarting:
        step.leave(child)
        return
    child = structs.replace(child, phase=ChildPhase.IDLE, attempt=0)
    step.save(child)
    _retry(step, child)


# --- continuing


def _on_retry(step: SupervisorStep, token: Token) -> None:
    child = step.children.get(token.child)
    if child is None or child.retry != token.attempt:
        step.dropped += 1
        return
    child = structs.replace(child, retry=0)
    step.save(child)
    _retry(step, child)


def _retry(step: SupervisorStep, child: Child) -> None:
    """Restart a waiting child, unless it waits for something else too or restarts with its group."""
    is_trigger = step.sweep is not None and step.sweep.trigger == child.number
    if child.phase is ChildPhase.IDLE and not child.retry and not is_trigger and not step.is_stopping:
        step.start(child)


def _settle(step: SupervisorStep) -> None:
    """Do everything that needs no further signal, in this order: sweeps, pending exits, queued calls."""
    while _go_on(step):
        pass


def _go_on(step: SupervisorStep) -> bool:
    if step.sweep is not None and advance(step, step.sweep):
        return True
    if step.is_sweeping and not step.is_stopping:
        return False
    if step.starter is None and (waiting := step.exits.first()) is not None:
        place, number = waiting
        step.exits = step.exits.drop(place)
        child = step.children.get(number)
        if child is not None and child.phase is ChildPhase.EXITED and child.exit_reason is not None:
            decide_after_exit(step, child, child.exit_reason, child.exit_seconds)
        return True
    if (entry := step.pending.first()) is not None:
        step.pending = step.pending.drop(entry[0])
        _serve_if_wanted(step, entry[1])
        return True
    if step.starter is None and (entry := step.starts.first()) is not None:
        step.starts = step.starts.drop(entry[0])
        _serve_if_wanted(step, entry[1])
        return True
    if step.phase == "stopping" and step.ending is not None and step.sweep is None and not step.open:
        finish_ending(step, step.ending)
    return False


def _serve_if_wanted(step: SupervisorStep, request: SupervisorRequest) -> None:
    if request.request_id == NO_CALLER or step.requests.get(request.request_id) is not None:
        serve(step, request)
