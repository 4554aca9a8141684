"""What a supervisor answers to a call: now, or when the child in question has started or stopped.

Reading calls and `stop` are answered in every state. A changing call is carried out in its turn; one that would wait
for its own caller is refused, since neither of the two would ever go on.
"""

import re
from collections.abc import Hashable
from typing import assert_never

from msgspec import structs

from agentrail import errors
from agentrail.errors import AlreadyStarted, InvalidSpec, SupervisorError
from agentrail.otp.child_specs import Arguments, ChildSpec, check_child_specs, check_flags
from agentrail.otp.edges import show
from agentrail.otp.supervision_starts import come_up
from agentrail.otp.supervision_state import Child, ChildPhase, count_children, is_to_restart, which_children
from agentrail.otp.supervision_step import SupervisorStep
from agentrail.otp.supervision_stops import begin_ending, stop_child, stopping
from agentrail.otp.supervision_types import (
    NO_CALLER,
    ByHandle,
    ById,
    ChangingCall,
    ChildKey,
    CountChildrenCall,
    DeleteChildCall,
    GetChildSpecCall,
    ReconfigureCall,
    RequestId,
    RestartChildCall,
    StartChildCall,
    StartInstanceCall,
    StopCall,
    SupervisorRequest,
    TerminateChildCall,
    WhichChildrenCall,
)


def serve(step: SupervisorStep, request: SupervisorRequest, *, handle: Hashable | None = None) -> None:
    """Answer a request whose caller waits, or put it where it will be looked at again."""
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
    """Forget who waited. Only a start goes with its caller; what stops goes on."""
    number = step.requests.get(request_id)
    if number is None:
        step.dropped += 1
        return
    step.requests = step.requests.drop(request_id)
    child = step.children.get(number)
    if child is not None:
        stop_child(step, child)


def undo_start(step: SupervisorStep, number: int, *, is_new: bool) -> None:
    """Let nothing remain of a start whose answer was not taken: what came with the call goes, what was there stays stopped."""
    child = step.children.get(number)
    if child is None:  # there was nothing to run, and nothing was kept
        return
    child = structs.replace(child, fresh=is_new)
    if child.phase is ChildPhase.IDLE and not child.restarting:
        step.leave(child)
        return
    step.save(child)
    if not step.is_stopping:  # else it goes with all others, in its turn
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
        # Without its traceback, which would keep what stands in these frames.
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
        message = f"child {show(spec.id)} runs already: go on with its `handle`"
        step.answer(request.request_id, AlreadyStarted(message, handle=known.handle))
    elif known.phase is ChildPhase.STUCK:
        step.answer(request.request_id, _stuck(known))
    elif _is_restarting(known) or known.phase is ChildPhase.IDLE:
        message = f"child {show(spec.id)} has a spec and no process: restart_child starts it, delete_child takes it away"
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
    if handle is None or step.is_grouped:  # in a group the next one begins behind this one's first step
        _start_for(step, request, child)
    else:
        # One step and not two, for what has nothing to say between them: as if `InstanceStarted` came directly behind.
        come_up(step, step.begin(child, handle), handle)


def _start_for(step: SupervisorStep, request: SupervisorRequest, child: Child) -> None:
    """Start an idle child, for a caller that waits for it and is its `starter`."""
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
        if child.phase is not ChildPhase.RUNNING:  # else the stop saves it
            step.save(child)
        stop_child(step, child)
        return
    if step.sweep is not None and step.sweep.trigger == child.number:
        step.sweep = None  # no child is left whose group this was; the others stay as they are
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
        message = (
            f"strategy cannot change from {before!r} to {after!r} while the supervisor runs, since children of a "
            f"'dynamic' one have no ids: start another supervisor"
        )
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
    """Return the child that a caller means, or why there is none."""
    if isinstance(key, ById) and step.is_dynamic:
        return _wrong_key(key.id)
    index, wanted = (step.numbers, key.id) if isinstance(key, ById) else (step.handles, key.handle)
    try:
        number = index.get(wanted)
    except TypeError:  # not hashable, so the id of no child
        number = None
    child = None if number is None else step.children.get(number)
    if child is None:
        message = f"supervisor {show(step.name)} has no child {show(wanted)}: see which_children"
        return errors.ChildNotFound(message)
    return child


def _find_stopped(step: SupervisorStep, request: SupervisorRequest, child_id: Hashable) -> Child | None:
    """Return a child that has no process and gets none by itself; else answer, or let the request wait."""
    child = _find(step, ById(child_id))
    if not isinstance(child, Child):
        step.answer(request.request_id, child)
    elif child.phase is ChildPhase.RUNNING:
        message = f"child {show(child.spec.id)} runs: terminate_child first"
        step.answer(request.request_id, errors.ChildRunning(message))
    elif child.phase is ChildPhase.STUCK:
        step.answer(request.request_id, _stuck(child))
    elif _is_restarting(child):
        message = (
            f"child {show(child.spec.id)} is being restarted: wait for it, or end that with terminate_child"
        )
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
    """Look at a request again when the start or stop of this child is over."""
    if _is_caller(request, child):
        step.answer(request.request_id, _would_deadlock(request, child))
    else:
        step.save(structs.replace(child, waiting=(*child.waiting, request)))


def _waits_for_start(step: SupervisorStep, request: SupervisorRequest) -> bool:
    """Under a group strategy starts go one at a time: look at this one again when the other is over."""
    starter = None if step.starter is None else step.children.get(step.starter)
    if starter is None:
        return False
    if _is_caller(request, starter):
        step.answer(request.request_id, _would_deadlock(request, starter))
    else:
        step.starts = step.starts.put(step.place(), request)
    return True


def _wait_for_sweep(step: SupervisorStep, request: SupervisorRequest) -> None:
    """Look at a request again when the initial start or the group restart is over."""
    caller = step.children.get(request.caller_path[0].child) if request.caller_path else None
    if caller is not None and _is_caller(request, caller) and _is_awaited(step, caller):
        step.answer(request.request_id, _would_deadlock(request, caller))
    else:
        step.pending = step.pending.put(step.place(), request)


def _is_awaited(step: SupervisorStep, child: Child) -> bool:
    """Tell whether the sweep waits for the start or stop of this child, now or later."""
    sweep = step.sweep
    if sweep is None or child.number < sweep.low:
        return False
    return child.phase in (ChildPhase.STARTING, ChildPhase.STOPPING) or sweep.course == "down"


def _is_caller(request: SupervisorRequest, child: Child) -> bool:
    """Tell whether the caller is this very instance, or lives below it."""
    return bool(request.caller_path) and child.attempt != 0 and request.caller_path[0] == child.token


# --- refusals


def _would_deadlock(request: SupervisorRequest, child: Child) -> errors.WouldDeadlock:
    name = re.sub("(?!^)(?=[A-Z])", "_", type(request.call).__name__.removesuffix("Call")).lower()
    does = "being started" if child.phase is ChildPhase.STARTING else "being stopped, or about to be"
    message = (
        f"{name} would wait for child {show(child.spec.id)}, which is {does} and waits for this call: "
        f"make it from a task of its own, or later"
    )
    return errors.WouldDeadlock(message)


def _stuck(child: Child) -> errors.ChildStuck:
    message = f"child {show(child.spec.id)} did not obey its kill: its id is free when it has really ended"
    return errors.ChildStuck(message)


def _wrong_key(child_id: Hashable) -> errors.WrongChildKey:
    message = f"children of a 'dynamic' supervisor are known by their handles, got the id {show(child_id)}"
    return errors.WrongChildKey(message)
