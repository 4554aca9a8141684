"""Looking into a machine actor while it runs, and changing it: by control messages, so between two steps."""

import math
from collections.abc import Callable
from typing import Any, cast

import trio

from agentrail.actors.handle import ActorHandle, cell_of, check_timeout, late, refuse_self
from agentrail.actors.machine_loop import Inspection, MachineCell, MachineLoop
from agentrail.actors.replies import ReplyTo, down
from agentrail.actors.start import Behaviour, MachineStatus


async def get_state(handle: ActorHandle, *, timeout_seconds: float | None = 5.0) -> tuple[Any, Any]:  # noqa: ASYNC109 - as of `call`
    """Return state and data of a machine as they are: for tests and consoles, nothing is redacted.

    Raises:
        ActorDown: It has ended.
        CallTimeout: It did not get to it in time.
        NoMailbox: Your move: it is no machine.
        CallingSelf: Your move: from its own task.

    Cancellation: Always a checkpoint.
    """
    found = await _look(handle, lambda loop: (loop.engine.state, loop.engine.data), timeout_seconds)
    return cast("tuple[Any, Any]", found)


async def get_status(handle: ActorHandle, *, timeout_seconds: float | None = 5.0) -> MachineStatus:  # noqa: ASYNC109 - as of `call`
    """Return what a machine is at, as its `format_status` shows it.

    Raises:
        ActorDown: It has ended.
        CallTimeout: It did not get to it in time.
        NoMailbox: Your move: it is no machine.

    Cancellation: Always a checkpoint.
    """
    return cast("MachineStatus", await _look(handle, lambda loop: loop.status(), timeout_seconds))


async def replace_state(
    handle: ActorHandle,
    function: Callable[[Any, Any], tuple[Any, Any]],
    *,
    timeout_seconds: float | None = 5.0,  # noqa: ASYNC109 - as of `call`
) -> tuple[Any, Any]:
    """Put what `function(state, data)` returns in their place; no event is handled, nothing is entered or replayed.

    Returns:
        The new state and data.

    Raises:
        Exception: What the function raises; the machine is as it was.
        ActorDown: It has ended.
        CallTimeout: It did not get to it in time; it may still do it.
        NoMailbox: Your move: it is no machine.

    Cancellation: Always a checkpoint; cancelled here it may still happen.
    """

    def replace(loop: MachineLoop) -> tuple[Any, Any]:
        state, data = function(loop.engine.state, loop.engine.data)
        loop.replace(state, data)
        return state, data

    return cast("tuple[Any, Any]", await _look(handle, replace, timeout_seconds))


async def suspend(handle: ActorHandle, *, timeout_seconds: float | None = 5.0) -> None:  # noqa: ASYNC109 - as of `call`
    """Let a machine handle no event until `resume`; stops, kills and introspection go on.

    Raises:
        ActorDown: It has ended.
        CallTimeout: It did not get to it in time.
        NoMailbox: Your move: it is no machine.

    Cancellation: Always a checkpoint; cancelled here it may still happen.
    """
    await _look(handle, MachineLoop.suspend, timeout_seconds)


async def resume(handle: ActorHandle, *, timeout_seconds: float | None = 5.0) -> None:  # noqa: ASYNC109 - as of `call`
    """Let a machine go on: timers that came due first, then what waits, in its order.

    Raises:
        ActorDown: It has ended.
        CallTimeout: It did not get to it in time.
        NoMailbox: Your move: it is no machine.

    Cancellation: Always a checkpoint; cancelled here it may still happen.
    """
    await _look(handle, MachineLoop.resume, timeout_seconds)


async def change_code(
    handle: ActorHandle,
    behaviour: Behaviour[Any, Any],
    old_version: object = None,
    *,
    timeout_seconds: float | None = 5.0,  # noqa: ASYNC109 - as of `call`
) -> None:
    """Put another behaviour in place of the old one; its `code_change` takes over state and data. Timers stay.

    Raises:
        NotSuspended: Your move: suspend it first.
        Exception: What `code_change` raises; the machine is as it was.
        ActorDown: It has ended.
        CallTimeout: It did not get to it in time; it may still do it.
        NoMailbox: Your move: it is no machine.

    Cancellation: Always a checkpoint; cancelled here it may still happen.
    """
    await _look(handle, lambda loop: loop.change_code(behaviour, old_version), timeout_seconds)


async def _look(handle: ActorHandle, look: Callable[[MachineLoop], object], seconds: float | None) -> object:
    check_timeout(seconds)
    cell = cell_of(handle)
    if not isinstance(cell, MachineCell) or cell.mailbox is None:
        raise cell.refuse_messages()
    refuse_self(cell, "look into")
    if cell.exit_reason is not None:
        await trio.lowlevel.checkpoint()
        raise down(handle)
    to = ReplyTo(cell, handle)
    cell.mailbox.put_control(Inspection(to, look))
    try:
        with trio.fail_after(math.inf if seconds is None else seconds):
            return await to.wait()
    except trio.TooSlowError:
        raise late(handle, "introspection", seconds) from None
    finally:
        if to.is_open:
            to.abandon()
