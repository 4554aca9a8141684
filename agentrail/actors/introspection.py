"""Introspection: inspect and change a running machine actor. Control messages do it between two steps."""

import math
from collections.abc import Callable
from typing import Any, cast

import trio

from agentrail.actors.actor_handle import ActorHandle, cell_of, check_timeout, late, refuse_self
from agentrail.actors.actor_types import Behaviour, MachineStatus
from agentrail.actors.machine_loop import Inspection, MachineCell, MachineLoop
from agentrail.actors.reply_slots import ReplyTo, down


async def get_state(handle: ActorHandle, *, timeout_seconds: float | None = 5.0) -> tuple[Any, Any]:  # noqa: ASYNC109 - as in `call`
    """Return state and data of a machine unredacted, for tests and consoles.

    Raises:
        ActorDown: It has ended.
        CallTimeout: It did not answer in time.
        NoMailbox: Your move: it is not a machine.
        CallingSelf: Your move: called from its own task.

    Cancellation: Always a checkpoint.
    """
    found = await _look(handle, lambda loop: (loop.engine.state, loop.engine.data), timeout_seconds)
    return cast("tuple[Any, Any]", found)


async def get_status(handle: ActorHandle, *, timeout_seconds: float | None = 5.0) -> MachineStatus:  # noqa: ASYNC109 - as in `call`
    """Return the status of a machine, as its `format_status` shows it.

    Raises:
        ActorDown: It has ended.
        CallTimeout: It did not answer in time.
        NoMailbox: Your move: it is not a machine.

    Cancellation: Always a checkpoint.
    """
    return cast("MachineStatus", await _look(handle, lambda loop: loop.status(), timeout_seconds))


async def replace_state(
    handle: ActorHandle,
    function: Callable[[Any, Any], tuple[Any, Any]],
    *,
    timeout_seconds: float | None = 5.0,  # noqa: ASYNC109 - as in `call`
) -> tuple[Any, Any]:
    """Replace state and data by the result of `function(state, data)`. No event is handled or replayed, no state is entered.

    Returns:
        The new state and data.

    Raises:
        Exception: The function's own error. The machine is unchanged.
        ActorDown: It has ended.
        CallTimeout: It did not answer in time. The replacement may still happen.
        NoMailbox: Your move: it is not a machine.

    Cancellation: Always a checkpoint. If cancelled, the replacement may still happen.
    """

    def replace(loop: MachineLoop) -> tuple[Any, Any]:
        state, data = function(loop.engine.state, loop.engine.data)
        loop.replace(state, data)
        return state, data

    return cast("tuple[Any, Any]", await _look(handle, replace, timeout_seconds))


async def suspend(handle: ActorHandle, *, timeout_seconds: float | None = 5.0) -> None:  # noqa: ASYNC109 - as in `call`
    """Suspend a machine: it handles no event until `resume`. Stops, kills and introspection still work.

    Raises:
        ActorDown: It has ended.
        CallTimeout: It did not answer in time.
        NoMailbox: Your move: it is not a machine.

    Cancellation: Always a checkpoint. If cancelled, the suspension may still happen.
    """
    await _look(handle, MachineLoop.suspend, timeout_seconds)


async def resume(handle: ActorHandle, *, timeout_seconds: float | None = 5.0) -> None:  # noqa: ASYNC109 - as in `call`
    """Resume a machine: timers that became due come first, then the waiting messages in order.

    Raises:
        ActorDown: It has ended.
        CallTimeout: It did not answer in time.
        NoMailbox: Your move: it is not a machine.

    Cancellation: Always a checkpoint. If cancelled, it may still resume.
    """
    await _look(handle, MachineLoop.resume, timeout_seconds)


async def change_code(
    handle: ActorHandle,
    behaviour: Behaviour[Any, Any],
    old_version: object = None,
    *,
    timeout_seconds: float | None = 5.0,  # noqa: ASYNC109 - as in `call`
) -> None:
    """Replace the behaviour of a machine. The new `code_change` converts state and data. Timers stay.

    Raises:
        NotSuspended: Your move: suspend it first.
        Exception: An error from `code_change`. The machine is unchanged.
        ActorDown: It has ended.
        CallTimeout: It did not answer in time. The change may still happen.
        NoMailbox: Your move: it is not a machine.

    Cancellation: Always a checkpoint. If cancelled, the change may still happen.
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
