"""Permission rules that users made in a session and its descendants: list and revoke. Also the details of a pending approval."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Generic, Literal, TypeVar

from attrs import frozen

from agentrail.abc import Tool
from agentrail.actors.carried_work import carry_through
from agentrail.core.protocol.signals import RevokeRule
from agentrail.core.session.approval_details import (
    ApprovalForm,
    ApprovalRule,
    form_of_approval,
    rule_id_of,
    rules_of,
)
from agentrail.core.session.approval_rules import sorted_rules
from agentrail.core.session.state import Rule
from agentrail.core.session.views import first_words_in
from agentrail.core.stack.loaded_stack import attempt_as
from agentrail.errors import OptionError, SessionDown, UnknownApproval, UnknownRule
from agentrail.errors.name_guesses import near_name
from agentrail.messages import SessionId
from agentrail.runtime.arguments import fault_of, refuse
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_queries import AskingHandle, change_below


class RulingHandle(AskingHandle):
    """A handle with access to the rules that users made."""

    __slots__ = ()

    async def _do_rules(self) -> tuple[ApprovalRule, ...]:
        await self._look()
        return tuple([rule for cell in self._cell.below() for rule in rules_of(cell.visible.data)])

    async def _do_revoke_rule(self, rule_id: str) -> None:
        if not await self._end(lambda rule: rule_id_of(rule) == rule_id):
            message = f"rule {rule_id!r:.80} does not exist in this session or its sub-sessions; rules() lists the existing ones"
            raise UnknownRule(message)

    async def _do_break_on(self, tool: str) -> None:
        await self._look()
        names = ["*", *dict.fromkeys(name for one in self._cell.below() for name in _tools_of(one))]
        if tool not in names:
            guess = near_name(tool, names, "did you mean {!r}", "* is every tool")
            raise OptionError([f"tool is {tool!r:.80}: the session has no such tool; {guess}"])
        rule = Rule(tool=tool, family=None, breaks=True)
        await carry_through(partial(_everywhere, self._cell, partial(_change, rule=rule, to="set")))

    async def _do_unbreak(self, tool: str) -> None:
        if not await self._end(lambda rule: rule.breaks and tool in {rule.tool, "*"}):
            message = f"there is no breakpoint at {tool!r:.80}; rules() lists the existing ones"
            raise UnknownRule(message)

    async def _end(self, is_meant: Callable[[Rule], bool]) -> bool:
        """End these rules in this session and in those below it. Return whether one of them had one."""
        await self._look()
        return await carry_through(partial(_everywhere, self._cell, partial(_end_in, is_meant=is_meant)))


RulingT = TypeVar("RulingT", bound=RulingHandle)


@frozen(kw_only=True)
class WaitingCall(Generic[RulingT]):
    form: ApprovalForm
    tool: Tool | None
    session: RulingT
    path: tuple[tuple[SessionId, str | None, str | None], ...]


async def read_waiting_call(session: RulingT, approval_id: str) -> WaitingCall[RulingT]:
    refuse(fault_of("approval_id", approval_id, str))
    await session._look()  # noqa: SLF001 - same module
    owner = session._cell.owner_of(approval_id)  # noqa: SLF001 - internal access to the cell of a handle
    form = form_of_approval(owner.visible.data, approval_id)
    if form is None:
        message = (
            f"there is no pending approval {approval_id!r:.200}: it was already decided, or never existed"
        )
        raise UnknownApproval(message)
    state = owner.state.data.batch.find(form.approval.call_id)
    return WaitingCall(
        form=form,
        tool=None if state is None else owner.ports.tools.get((state.call.name, state.generation)),
        session=type(session)(owner),
        path=tuple([(one, *step_of(owner, one)) for one in form.approval.path]),
    )


async def read_always_rules(session: RulingHandle, approval_id: str) -> tuple[str, ...]:
    waiting = await read_waiting_call(session, approval_id)
    data, asked = waiting.session._cell.visible.data, waiting.form.approval  # noqa: SLF001 - same module
    for member in data.stack.members:
        say = getattr(member.plugin, "always_rules", None)
        if say is None:
            continue
        given = (data.plugin_states[member.name], asked.tool, asked.arguments, data.config.working_dir)
        found = attempt_as(data.stack.ask, say, *given)
        if isinstance(found, tuple):
            return tuple([one for one in found if isinstance(one, str)])
    return ()


def step_of(above: SessionCell, session_id: SessionId) -> tuple[str | None, str | None]:
    is_own = session_id == above.ports.session_id
    cell = above if is_own else above.find(above.ports.scope, session_id)
    if cell is None or cell.is_asleep:
        return None, None
    return cell.visible.data.title, first_words_in(cell.visible.data.history.messages)


def _tools_of(cell: SessionCell) -> tuple[str, ...]:
    """Return the names of a session's tools and of those of its agents."""
    data = cell.state.data
    agents = [one.tools.names for one in data.config.agents if one.tools is not None]
    return (*data.tools.names, *chain.from_iterable(agents))


async def _everywhere(cell: SessionCell, change: Callable[[SessionCell], Awaitable[bool]]) -> bool:
    is_changed = await change(cell)
    return await change_below(cell, change) or is_changed


async def _end_in(cell: SessionCell, is_meant: Callable[[Rule], bool]) -> bool:
    meant = filter(is_meant, sorted_rules(cell.state.data.rules))
    return any([await _change(cell, rule, "end" if rule.breaks else None) for rule in meant])


async def _change(cell: SessionCell, rule: Rule, to: Literal["set", "end"] | None) -> bool:
    """Revoke a rule, or set or end a breakpoint. Return whether the session had it."""
    signal = RevokeRule(
        at_ms=now_ms(),
        signal_id=cell.pending_calls.mint(),
        tool=rule.tool,
        command_family=rule.family,
        exact=rule.exact,
        breakpoint=to,
    )
    try:
        with suppress(SessionDown):  # it has ended, and its rules with it
            await AskingHandle(cell)._ask(signal)  # noqa: SLF001 - base class of this module's handle
    except UnknownRule:  # another call was faster, and the rule is already revoked
        return False
    return True
