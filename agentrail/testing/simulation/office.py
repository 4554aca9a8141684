"""The world `office`: sessions that use what the shop leaves out, and an operator who changes them while they work.

Its tools report, ask, detach and answer early, its agents work in the background, a plugin of the host is asked about each call.
"""

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import evolve

from agentrail.abc import AtEnd, Ok, ProviderContext, ToolContext, ToolQuestion, ToolUpdate, UpdateContext
from agentrail.core.policy.budget import Budget
from agentrail.errors import AgentrailError, QuestionDeclined
from agentrail.host import Allow, HostPlugin
from agentrail.messages import JsonObject, Message, Text, UserMessage
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime.agent import Agent
from agentrail.testing.simulation.facts import CallAnswered, CallAsked, CallKind
from agentrail.testing.simulation.people import refusal
from agentrail.tools.client import ClientTool
from agentrail.tools.function import tool
from agentrail.tools.task import TaskTool

if TYPE_CHECKING:
    from agentrail.testing.simulation.world import World

_SECONDS: Final = 5.0
"""Time limit of the operator. A plugin, for example, is exchanged after the batch, which may wait for people."""

_AFTER_THE_END: Final = 40.0
"""Time for which the operator answers what sub-agents ask, in the calm end."""

_WHAT: Final[JsonObject] = {
    "type": "object",
    "properties": {"what": {"type": "string"}},
    "required": ["what"],
}
_BUDGET: Final = Budget(max_total_tokens=10_000_000, allow_unknown_prices=True)
"""Never used up: the world tests that agents borrow from it and return the rest."""

_GUARDED: Final = {"require_approval_for": ("pay",)}


@tool(name="think", effect_class="pure")
async def _think(about: str, ctx: ToolContext) -> str:
    """Think about something."""
    for number in range(3):
        ctx.report_progress(f"{number} of 3")
        ctx.emit("thought", number)
        await trio.sleep(0.4)
    return f"thought about {about}"


@tool(name="watch", effect_class="pure")
async def _watch(what: str, ctx: ToolContext) -> str:
    """Watch something, and report later."""
    ctx.detach("I watch it.")
    await trio.sleep(6)
    return f"{what} has ended"


@tool(name="inquire", effect_class="pure")
async def _inquire(what: str, ctx: ToolContext) -> str:
    """Ask the user, and wait for the answer."""
    try:
        return f"{await ctx.ask_user(f'{what}?', timeout_seconds=20)}"
    except QuestionDeclined:
        return "declined"


@tool(name="offer", effect_class="pure")
async def _offer(what: str, ctx: ToolContext) -> str | ToolQuestion:
    """Ask the user across a restart."""
    await trio.lowlevel.checkpoint()
    return ToolQuestion(question=f"{what}?") if ctx.resumption is None else f"{ctx.resumption.answer}"


@tool(name="delegate", effect_class="pure")
async def _delegate(what: str, ctx: ToolContext) -> str:
    """Let a clerk do it."""
    return await ctx.run_session(f"{what}, please", agent="clerk", max_turns=2)


@tool(name="keep_style", effect_class="pure")
async def _keep_style(style: str) -> ToolUpdate:
    """Keep a style."""
    await trio.lowlevel.checkpoint()
    return ToolUpdate(UpdateContext(key="style", value=style), text="Noted.")


async def _basket(ctx: ProviderContext, said: tuple[Message, ...]) -> AtEnd:  # noqa: ARG001 - a context provider
    await trio.sleep(0.2)
    return AtEnd([UserMessage(content=(Text(text="In the basket: 3 apples."),))])


class Attendant(HostPlugin):
    """A plugin of the host that takes its time with each call, and allows it."""

    name = "attendant"

    async def on_before_tool_call(self, ctx: Any) -> Allow:
        """Take a moment, and allow the call."""
        await trio.sleep(0.1)
        return Allow()

    async def on_after_tool_call(self, ctx: Any) -> None:
        """Take a moment."""
        await trio.sleep(0.1)


def tools_of_office() -> tuple[Any, ...]:
    form = ClientTool(name="form", description="Let the user fill in a form.", parameters=dict(_WHAT))
    return (TaskTool(), _think, _watch, _inquire, _offer, _delegate, _keep_style, form)


def options_of_office() -> dict[str, Any]:
    clerk = Agent(name="clerk", description="Does small tasks.", max_turns=4)
    scout = Agent(name="scout", description="Looks around.", background=True, wake=True)
    return {
        "agents": [clerk, scout],
        "plugins": [(HumanApproval, _GUARDED)],
        "context_providers": [_basket],
        "approval_timeout_seconds": 20.0,
        "budget": _BUDGET,
    }


_CHANGES: Final = (
    *("nothing", "abort a tool", "answer", "allow", "attach tools", "change a plugin", "change options", "close agents"),
    *("go on", "prompt agents", "read a snapshot", "read the reply", "revoke"),
)  # fmt: skip
_DEEDS: Final = (*_CHANGES * 4, "stop", "switch")
"""A session that is stopped, or whose new model calls no tools, meets little, so both are rare."""


async def keep_changing(world: "World") -> None:
    """Perform a random action on a random session every second or two. In the calm end, answer pending requests."""
    operator = Operator(world)
    while trio.current_time() < world.calm_at + _AFTER_THE_END:
        await trio.sleep(world.tape.number("operator.pause", 0.5, 2.0))
        owned = world.owned_roots()
        if owned:
            row, index = world.tape.choice("operator.session", owned)
            deed = "answer" if world.is_calm else world.tape.choice("operator.deed", _DEEDS)
            code = await world.on_node(index, partial(operator.act, row.session, row.scope, deed))
            world.note(f"{deed} in {row.session}: {'its node ended' if code is None else code or 'done'}")


class Operator:
    """Calls sessions on the node that owns them. Decisions are written to the log, as those of people are."""

    def __init__(self, world: "World") -> None:
        """Create the operator of a world."""
        self._world = world
        self._decisions = 0

    async def act(self, session_id: str, scope: str, deed: str, host: Any) -> None:
        """Do one thing, within five seconds."""
        session = host.supervisor.session(session_id, scope=scope)
        with trio.move_on_after(_SECONDS):
            await self._do(session, deed)

    async def _do(self, session: Any, deed: str) -> None:
        status = await session.status()
        match deed:
            case "abort a tool":
                for call in status.running_tools:
                    await session.abort_tool(call.call_id, "not now")
            case "answer":
                for call in status.all_client_calls:
                    await self._decide(
                        session, "answer", call.ref, "done", session.answer(call.ref, Ok(text="done"))
                    )
                for asked in status.all_questions:
                    await self._decide(session, "answer", asked.ref, "yes", session.respond(asked.ref, "yes"))
            case "allow":
                for one in status.approvals:
                    await self._decide(
                        session, "approve", one.id, "approved", session.approve(one.id, kind="always")
                    )
            case "attach tools":
                await session.attach_tools(_think)
            case "change a plugin":
                await session.reload_plugin((HumanApproval, _GUARDED))
            case "change options":
                await session.update_plugin_opts("HumanApproval", **_GUARDED)
            case "close agents":
                for agent in await session.agents.list():
                    await session.agents.close(agent.name)
            case "prompt agents":
                for agent in await session.agents.list():
                    await session.agents.send(agent.name, "more")
            case "go on":
                await session.go_on()
            case "read a snapshot":
                await session.snapshot()
            case "read the reply":
                await session.collect_reply()
            case "revoke":
                for rule in await session.rules():
                    await session.revoke_rule(rule.rule_id)
            case "stop":
                await session.stop("by the operator")
            case "switch":
                await session.switch_model("demo:fast")
            case _:
                pass

    async def _decide(
        self, session: Any, request: CallKind, key: str, says: str, call: Awaitable[object]
    ) -> None:
        self._decisions += 1
        name = f"operator/{self._decisions}"
        note = partial(self._world.log.note, "person", session=session.session_id, place="operator")
        note(f"asks {says} {key}", facts=CallAsked(id=name, request=request, key=key, says=says))
        answered = CallAnswered(id=name, outcome="unknown")
        try:
            answered = CallAnswered(id=name, outcome="ok", says=says, value=await call)
        except AgentrailError as error:
            answered = evolve(refusal(name, error), is_final=True)
        finally:
            note(f"is answered {answered.outcome} {answered.code}", facts=answered)
