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
from agentrail.otp.supervision_ledger import Ledger
from agentrail.otp.supervision_state import Child, Phase, count_children, is_to_restart, which_children
from agentrail.otp.supervision_stops import begin_ending, stop_child, stopping
from agentrail.otp.supervision_types import (
    NOBODY,
    ByHandle,
    ById,
    ChangingCall,
    ChildKey,
    CountChildrenCall,
    DeleteChildCall,
    GetChildSpecCall,
    ReconfigureCall,
    Request,
    RequestId,
    RestartChildCall,
    StartChildCall,
    StartInstanceCall,
    StopCall,
    TerminateChildCall,
    WhichChildrenCall,
)


def serve(ledger: Ledger, request: Request) -> None:
    """Answer a request that somebody waits for, or put it where it will be looked at again."""
    call = request.call
    match call:
        case WhichChildrenCall():
            ledger.answer(request.request_id, which_children(ledger.children))
        case CountChildrenCall():
            counts = count_children(ledger.children.count, ledger.active, ledger.supervisors)
            ledger.answer(request.request_id, counts)
        case GetChildSpecCall(child=key):
            found = _find(ledger, key)
            if isinstance(found, Child):
                spec = found.spec
                found_spec = spec.without_arguments() if spec.restart == "temporary" else spec
                ledger.answer(request.request_id, found_spec)
            else:
                ledger.answer(request.request_id, found)
        case StopCall(reason=reason):
            begin_ending(ledger, reason, caller=request.request_id)
        case _:
            if ledger.is_stopping:
                ledger.answer(request.request_id, stopping(ledger))
            elif ledger.is_sweeping:
                _wait_for_sweep(ledger, request)
            else:
                _change(ledger, request, call)


def cancel(ledger: Ledger, request_id: RequestId) -> None:
    """Forget who waited. Only a start goes with its caller; what stops goes on."""
    number = ledger.requests.get(request_id)
    if number is None:
        ledger.dropped += 1
        return
    ledger.requests = ledger.requests.drop(request_id)
    child = ledger.children.get(number)
    if child is not None:
        stop_child(ledger, child)


def undo_start(ledger: Ledger, number: int, *, is_new: bool) -> None:
    """Let nothing remain of a start whose answer nobody took: what came with the call goes, what was there stays stopped.

    Args:
        ledger: Of this step.
        number: Of the child.
        is_new: Whether it came to the books with the call.
    """
    child = ledger.children.get(number)
    if child is None:  # there was nothing to run, and nothing was kept
        return
    child = structs.replace(child, fresh=is_new)
    if child.phase is Phase.IDLE and not child.restarting:
        ledger.leave(child)
        return
    ledger.save(child)
    if not ledger.is_stopping:  # else it goes with all others, in its turn
        stop_child(ledger, child)


def _change(ledger: Ledger, request: Request, call: ChangingCall) -> None:
    match call:
        case StartChildCall():
            _start_child(ledger, request, call)
        case StartInstanceCall(extra=extra):
            _start_instance(ledger, request, extra)
        case TerminateChildCall(child=key):
            _terminate(ledger, request, key)
        case RestartChildCall(child_id=child_id):
            _restart(ledger, request, child_id)
        case DeleteChildCall(child_id=child_id):
            child = _find_stopped(ledger, request, child_id)
            if child is not None:
                ledger.forget(child)
                ledger.answer(request.request_id, None)
        case ReconfigureCall():
            _reconfigure(ledger, request, call)
        case _:
            assert_never(call)


# --- starting


def _start_child(ledger: Ledger, request: Request, call: StartChildCall) -> None:
    try:
        (spec,) = check_child_specs([call.spec], flags=ledger.flags)
    except InvalidSpec as refusal:
        # Without its traceback, which would keep what stands in these frames.
        ledger.answer(request.request_id, refusal.with_traceback(None))
        return
    if _waits_for_start(ledger, request):
        return
    number = None if ledger.is_dynamic else ledger.numbers.get(spec.id)
    known = None if number is None else ledger.children.get(number)
    if known is None:
        _start_new(ledger, request, Child(number=ledger.next_number, spec=spec.accepted(), fresh=True))
    elif known.phase is Phase.RUNNING:
        message = f"child {show(spec.id)} runs already: go on with its `handle`"
        ledger.answer(request.request_id, AlreadyStarted(message, handle=known.handle))
    elif known.phase is Phase.STUCK:
        ledger.answer(request.request_id, _stuck(known))
    elif _is_restarting(known) or known.phase is Phase.IDLE:
        message = f"child {show(spec.id)} has a spec and no process: restart_child starts it, delete_child takes it away"
        ledger.answer(request.request_id, errors.AlreadyPresent(message))
    else:
        _wait_for_child(ledger, request, known)


def _start_instance(ledger: Ledger, request: Request, extra: Arguments) -> None:
    template = ledger.template
    if template is None:
        message = (
            f"start_instance needs strategy 'dynamic', here it is {ledger.flags.strategy!r}: use start_child"
        )
        refusal = InvalidSpec(message, code="invalid_strategy", field="strategy")
        ledger.answer(request.request_id, refusal)
        return
    child = Child(
        number=ledger.next_number, spec=template, from_template=True, extra=extra.copied(), fresh=True
    )
    _start_new(ledger, request, child)


def _start_new(ledger: Ledger, request: Request, child: Child) -> None:
    most = ledger.flags.max_children
    if most is not None and ledger.children.count >= most:
        message = f"there are {ledger.children.count} children, max_children is {most}: try again when one has ended"
        ledger.answer(request.request_id, errors.TooManyChildren(message))
        return
    ledger.enrol(child)
    _start_for(ledger, request, child)


def _start_for(ledger: Ledger, request: Request, child: Child) -> None:
    """Start an idle child, for a caller that waits for it."""
    if ledger.is_grouped:
        ledger.starter = child.number
    if request.request_id != NOBODY:
        ledger.requests = ledger.requests.put(request.request_id, child.number)
    ledger.start(structs.replace(child, starter=request.request_id, in_a_row=0))


def _restart(ledger: Ledger, request: Request, child_id: Hashable) -> None:
    if not ledger.is_dynamic and _waits_for_start(ledger, request):
        return
    child = _find_stopped(ledger, request, child_id)
    if child is not None:
        _start_for(ledger, request, child)


# --- stopping


def _terminate(ledger: Ledger, request: Request, key: ChildKey) -> None:
    child = _find(ledger, key)
    if not isinstance(child, Child):
        is_dead = isinstance(key, ByHandle) and not key.alive
        ledger.answer(request.request_id, None if is_dead and ledger.is_dynamic else child)
        return
    if child.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
        if _is_caller(request, child):
            ledger.answer(request.request_id, _would_deadlock(request, child))
            return
        child = structs.replace(child, joined=(*child.joined, request.request_id))
        ledger.save(child)
        stop_child(ledger, child)
        return
    if ledger.sweep is not None and ledger.sweep.trigger == child.number:
        ledger.sweep = None  # nobody is left whose group this was; the others stay as they are
    if child.phase is Phase.IDLE and not child.restarting:
        ledger.leave(child)
    stop_child(ledger, child)
    ledger.answer(request.request_id, None)


# --- reconfiguring


def _reconfigure(ledger: Ledger, request: Request, call: ReconfigureCall) -> None:
    try:
        specs = _check_reconfigure(ledger, call)
    except InvalidSpec as refusal:
        ledger.answer(request.request_id, refusal.with_traceback(None))
        return
    ledger.flags = call.flags
    for spec in specs:
        if ledger.is_dynamic:
            ledger.template = spec.accepted()
        else:
            _reconfigure_child(ledger, spec)
    ledger.answer(request.request_id, None)


def _check_reconfigure(ledger: Ledger, call: ReconfigureCall) -> tuple[ChildSpec, ...]:
    check_flags(call.flags)
    before, after = ledger.flags.strategy, call.flags.strategy
    if before != after and "dynamic" in (before, after):
        message = (
            f"strategy cannot change from {before!r} to {after!r} while the supervisor runs, since children of a "
            f"'dynamic' one have no ids: start another supervisor"
        )
        raise InvalidSpec(message, code="invalid_strategy", field="strategy")
    return check_child_specs(call.children, flags=call.flags)


def _reconfigure_child(ledger: Ledger, spec: ChildSpec) -> None:
    number = ledger.numbers.get(spec.id)
    child = None if number is None else ledger.children.get(number)
    if child is None:
        ledger.add(Child(number=ledger.next_number, spec=spec.accepted()))
    elif child.has_process and spec.restart == "temporary":
        ledger.save(structs.replace(child, spec=spec.without_arguments()))
    else:
        ledger.save(structs.replace(child, spec=spec.accepted()))


# --- finding


def _find(ledger: Ledger, key: ChildKey) -> Child | SupervisorError:
    """Return the child that a caller means, or why there is none."""
    if isinstance(key, ById) and ledger.is_dynamic:
        return _wrong_key(key.id)
    index, wanted = (ledger.numbers, key.id) if isinstance(key, ById) else (ledger.handles, key.handle)
    try:
        number = index.get(wanted)
    except TypeError:  # not hashable, so nobody's id
        number = None
    child = None if number is None else ledger.children.get(number)
    if child is None:
        message = f"supervisor {show(ledger.name)} has no child {show(wanted)}: see which_children"
        return errors.ChildNotFound(message)
    return child


def _find_stopped(ledger: Ledger, request: Request, child_id: Hashable) -> Child | None:
    """Return a child that has no process and gets none by itself; else answer, or let the request wait."""
    child = _find(ledger, ById(child_id))
    if not isinstance(child, Child):
        ledger.answer(request.request_id, child)
    elif child.phase is Phase.RUNNING:
        message = f"child {show(child.spec.id)} runs: terminate_child first"
        ledger.answer(request.request_id, errors.ChildRunning(message))
    elif child.phase is Phase.STUCK:
        ledger.answer(request.request_id, _stuck(child))
    elif _is_restarting(child):
        message = (
            f"child {show(child.spec.id)} is being restarted: wait for it, or end that with terminate_child"
        )
        ledger.answer(request.request_id, errors.ChildRestarting(message))
    elif child.phase is Phase.IDLE:
        return child
    else:
        _wait_for_child(ledger, request, child)
    return None


def _is_restarting(child: Child) -> bool:
    return child.restarting or (child.phase is Phase.EXITED and is_to_restart(child))


# --- waiting


def _wait_for_child(ledger: Ledger, request: Request, child: Child) -> None:
    """Look at a request again when the start or stop of this child is over."""
    if _is_caller(request, child):
        ledger.answer(request.request_id, _would_deadlock(request, child))
    else:
        ledger.save(structs.replace(child, waiting=(*child.waiting, request)))


def _waits_for_start(ledger: Ledger, request: Request) -> bool:
    """Under a group strategy starts go one at a time: look at this one again when the other is over."""
    starter = None if ledger.starter is None else ledger.children.get(ledger.starter)
    if starter is None:
        return False
    if _is_caller(request, starter):
        ledger.answer(request.request_id, _would_deadlock(request, starter))
    else:
        ledger.starts = ledger.starts.put(ledger.place(), request)
    return True


def _wait_for_sweep(ledger: Ledger, request: Request) -> None:
    """Look at a request again when the initial start or the group restart is over."""
    caller = ledger.children.get(request.caller_path[0].child) if request.caller_path else None
    if caller is not None and _is_caller(request, caller) and _is_awaited(ledger, caller):
        ledger.answer(request.request_id, _would_deadlock(request, caller))
    else:
        ledger.pending = ledger.pending.put(ledger.place(), request)


def _is_awaited(ledger: Ledger, child: Child) -> bool:
    """Tell whether the sweep waits for the start or stop of this child, now or later."""
    sweep = ledger.sweep
    if sweep is None or child.number < sweep.low:
        return False
    return child.phase in (Phase.STARTING, Phase.STOPPING) or sweep.course == "down"


def _is_caller(request: Request, child: Child) -> bool:
    """Tell whether the caller is this very instance, or lives below it."""
    return bool(request.caller_path) and child.attempt != 0 and request.caller_path[0] == child.token


# --- refusals


def _would_deadlock(request: Request, child: Child) -> errors.WouldDeadlock:
    name = re.sub("(?!^)(?=[A-Z])", "_", type(request.call).__name__.removesuffix("Call")).lower()
    does = "being started" if child.phase is Phase.STARTING else "being stopped, or about to be"
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
