"""Sessions that a tool lets work, under a budget: lent as those of `task` are, and given back by whatever ends them."""

from contextlib import suppress
from typing import Any

import pytest
import trio

from agentrail.abc import ToolContext
from agentrail.core.policy.budget import Budget
from agentrail.errors import (
    AgentrailError,
    CycleAborted,
    CycleFailed,
    ModelNotFound,
    OptionError,
    PromptError,
    SessionDown,
)
from agentrail.events import SubagentEnd, SubagentEvent, SubagentStart, ToolExecutionEnd
from agentrail.messages import UserMessage
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import HangingTool, StubbornTool
from agentrail.tools.function import tool
from agentrail.tools.task import TaskTool
from tests.runtime.test_children import first_words

PATIENCE_SECONDS = 30
LIMIT = 10_000
TURN = 15
"""What a response of these models uses."""


def tool_of(work, **options):
    """Make a tool named `work` of an async function of its context."""

    @tool(name="work", description="Works.", **options)
    async def made(*, ctx: ToolContext) -> Any:
        return await work(ctx)

    return made


def answering(child, *wanted) -> FunctionModel:
    """A model whose first session calls `work`, or what is wanted, and whose others answer as a function says."""

    def answer(request):
        if first_words(request) == "go":
            called = calls(*(wanted or (("work", {}),)))
            return says("done") if len(request.messages) > 1 else called
        return child(request)

    return FunctionModel(answer)


def echo(request):
    return says(f"<{first_words(request)}>")


async def start(supervisor, model, tools, limit: int = LIMIT, **options):
    budget = Budget(max_total_tokens=limit)
    options = {"session_id": "boss", "max_output_tokens": 100} | options
    return await supervisor.start_session(model=model, tools=tools, budget=budget, **options)


async def check_settled(supervisor, session, limit: int = LIMIT) -> None:
    """Nothing is promised and nothing waits; what was used and what is left is the limit; no session is left below."""
    cell = supervisor._find_cell("", session.session_id)  # noqa: SLF001 - nobody outside may see the ledger of a session
    data = cell.state.data
    assert (data.loans, data.wishes, data.ledger.open) == ((), (), ())
    status = await session.status()
    assert status.budget_left.tokens == limit - status.usage.total
    assert [one.session_id for one in supervisor.sessions()] == [session.session_id]


REFUSED = (
        ({"prompt": 7}, PromptError, "expected text, got 7"),
        ({"prompt": " "}, PromptError, "the prompt is empty"),
        ({"system_prompt": 7}, OptionError, "system_prompt is 7: expected text"),
        ({"tools": 5}, OptionError, "tools is 5: expected a sequence of tool names"),
        ({"tools": "work"}, OptionError, "tools is 'work': expected a sequence of tool names"),
        ({"tools": [tool]}, OptionError, "tools is [<function tool"),
        ({"max_turns": True}, OptionError, "max_turns is True: expected a whole number, 1 or more"),
        ({"max_turns": "many"}, OptionError, "max_turns is 'many': expected a whole number, 1 or more"),
        ({"model": 7}, OptionError, "model is 7: expected a text such as"),
        ({"model": "mine"}, OptionError, "model is 'mine': expected a text such as"),
        ({"model": "opanai:x"}, ModelNotFound, "resolves no model strings"),
        ({"max_turns": 0}, OptionError, "max_turns is 0: expected 1 or more"),
        ({"system_prompt": b"", "max_turns": 1.0}, OptionError,
         "system_prompt is b'': expected text; max_turns is 1.0: expected a whole number, 1 or more"),
)  # fmt: skip


async def test_what_no_session_can_be_made_of_is_said_to_the_tool(supervisor):
    """Before anything is lent or started; the session goes on."""
    refusals = []

    async def work(ctx):
        for arguments, _, _ in REFUSED:
            try:
                await ctx.run_session(**{"prompt": "one"} | arguments)
            except AgentrailError as refusal:
                refusals.append(refusal)
        return "refused"

    session = await start(supervisor, answering(echo), [tool_of(work)])
    assert await session.ask("go") == "done"
    for refusal, (_, error, message) in zip(refusals, REFUSED, strict=True):
        assert type(refusal) is error
        assert message in str(refusal)
    await check_settled(supervisor, session)


async def test_a_session_that_runs_out_of_its_share_fails(supervisor):
    """Its own request is refused, as any that could pass a budget; the tool hears it, and the parent goes on."""
    caught = []

    async def work(ctx):
        try:
            return await ctx.run_session("x " * 2000)
        except CycleFailed as failed:
            caught.append(failed.error.code)
            return "no"

    session = await start(supervisor, answering(echo), [tool_of(work)], limit=1001, max_output_tokens=493)
    assert await session.ask("go") == "done"
    assert caught == ["budget_exceeded"]
    await check_settled(supervisor, session, 1001)


async def test_a_session_that_cannot_start_gives_all_back(supervisor):
    """Another one has its id already: the tool hears it, and nothing is promised any more."""
    caught = []

    async def work(ctx):
        taken = f"boss.{ctx.call_id}.3"  # behind the request and the call
        await supervisor.start_session(model=FunctionModel(echo), session_id=taken)
        try:
            await ctx.run_session("x")
        except SessionDown as down:
            caught.append(str(down))
        await supervisor.stop_session(taken)
        return await ctx.run_session("y")

    session = await start(supervisor, answering(echo), [tool_of(work)])
    async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
        assert await session.ask("go") == "done"
        assert (await anext(events)).result.text == "<y>"
    assert len(caught) == 1
    assert "a session with this id is already alive" in caught[0]
    await check_settled(supervisor, session)


async def side_by_side(ctx):
    """Let one session hang, and another one wait for what that has been lent."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ctx.run_session, "hang")
        nursery.start_soon(ctx.run_session, "wait")


@pytest.mark.at(14, 127)
@pytest.mark.parametrize(
    "end", ["abort", "abort_tool", "steer", "raise", "timeout", "cancel", "child aborted"]
)
async def test_whatever_ends_a_tool_ends_its_sessions_and_gives_the_rest_back(supervisor, end):
    """Also the one that waits for its share still; what they had used by then is counted once."""
    hanging = HangingTool(name="hang")
    fail = trio.Event()

    async def give_up() -> None:
        await fail.wait()
        message = "enough"
        raise ValueError(message)

    async def work(ctx):
        match end:
            case "raise":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(give_up)
                    await side_by_side(ctx)
            case "cancel":
                with trio.CancelScope() as scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(_cancel_when, fail, scope)
                        await side_by_side(ctx)
            case "child aborted":
                with pytest.raises(CycleAborted):
                    await ctx.run_session("hang")
            case _:
                await side_by_side(ctx)
        return "over"

    options = {"timeout_seconds": 0.5} if end == "timeout" else {}
    tools = [tool_of(work, effect_class="once", **options), hanging]
    session = await start(supervisor, answering(lambda _: calls(("hang", {}))), tools)
    with trio.fail_after(PATIENCE_SECONDS):
        await session.prompt("go")
        await hanging.started.wait()
        assert (await session.status()).budget_left.tokens == 0
        match end:
            case "abort":
                receipt = await session.abort()
                assert (receipt.tasks_ended, receipt.stuck) == (2, ())
            case "abort_tool":
                (running,) = (await session.status()).running_tools
                await session.abort_tool(running.call_id)
            case "steer":
                await session.steer("something else")
            case "child aborted":
                below = next(one for one in supervisor.sessions() if one.session_id != "boss")
                await below.abort()
            case _:
                fail.set()
        if end != "abort":
            await session.collect_reply()
    assert hanging.stopped == 1
    used = (1 if end == "abort" else 2) + 1
    assert (await session.status()).usage.total == used * TURN
    await check_settled(supervisor, session)


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def test_a_tool_that_waits_no_longer_has_no_session(supervisor):
    """It was lent a share when nobody waited for it any more: the share is given back, and nothing was started."""
    hanging = HangingTool(name="hang")

    async def work(ctx):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ctx.run_session, "hang")
            await hanging.started.wait()
            with trio.move_on_after(0.05):
                await ctx.run_session("not to be")
            nursery.cancel_scope.cancel()
        return await ctx.run_session("y")

    def child(request):
        return calls(("hang", {})) if first_words(request) == "hang" else echo(request)

    session = await start(supervisor, answering(child), [tool_of(work), hanging])
    with trio.fail_after(PATIENCE_SECONDS):
        async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
            assert await session.ask("go") == "done"
            assert (await anext(events)).result.text == "<y>"
    assert supervisor.statistics().started == 3
    await check_settled(supervisor, session)


@pytest.mark.parametrize("budget", [None, Budget(max_total_tokens=LIMIT)])
async def test_a_session_that_somebody_else_runs_ends_with_the_call_too(supervisor, budget):
    """A task that is not the tool's own has the context: what it runs ends with the call, and then it gets no more."""
    hanging = HangingTool(name="hang")
    caught = []

    async with trio.open_nursery() as nursery:

        async def run(ctx) -> None:
            for _ in range(2):
                try:
                    await ctx.run_session("hang")
                except CycleAborted as aborted:
                    caught.append(str(aborted))

        async def work(ctx):
            nursery.start_soon(run, ctx)
            await hanging.started.wait()
            return "over"

        model = answering(lambda _: calls(("hang", {})))
        session = await supervisor.start_session(
            model=model, tools=[tool_of(work), hanging], budget=budget, max_output_tokens=100
        )
        with trio.fail_after(PATIENCE_SECONDS):
            assert await session.ask("go") == "done"
    assert caught == ["the cycle was aborted: the calling tool call has ended"] * 2
    assert hanging.stopped == 1
    assert (await session.status()).usage.total == 3 * TURN
    assert len(supervisor.sessions()) == 1


async def test_a_session_that_will_not_end_does_not_hold_its_parent(supervisor, autojump_clock):
    """It is left behind as that of a call is, named in the receipt, and what it was lent is settled all the same."""
    stubborn = StubbornTool(deaf_seconds=60)

    async def work(ctx):
        return await ctx.run_session("x", tools=["stubborn"])

    model = answering(lambda _: calls(("stubborn", {})))
    session = await start(supervisor, model, [tool_of(work), stubborn])
    await session.prompt("go")
    await stubborn.started.wait()
    receipt = await session.abort()
    assert [left.name for left in receipt.stuck] == ["stubborn"]
    data = supervisor._find_cell("", "boss").state.data  # noqa: SLF001 - as above
    assert (data.loans, data.ledger.open) == ((), ())


@pytest.mark.at(91)
async def test_both_origins_give_the_same(supervisor):
    """A session that answers a call and one that a tool asks for: the same loan, events, receipt and sums, but for names (G-033)."""

    async def work(ctx):
        return await ctx.run_session("Count the files.")

    seen = {}
    for name, called in (("call", ("task", {"description": "Count the files."})), ("tool", ("work", {}))):
        lent = []

        def child(request, lent=lent, name=name):
            below = next(one for one in supervisor.sessions() if one.session_id != name)
            lent.append(supervisor._find_cell("", below.session_id).state.data.config.budget)  # noqa: SLF001 - as above
            return echo(request)

        session = await start(
            supervisor, answering(child, called), [TaskTool(), tool_of(work)], session_id=name
        )
        async with session.subscribe(
            kinds=[SubagentStart, SubagentEvent, SubagentEnd, ToolExecutionEnd]
        ) as events:
            assert await session.ask("go") == "done"
            heard = []
            while not isinstance(event := await anext(events), ToolExecutionEnd):
                assert event.child_id.startswith(f"{name}.")
                assert getattr(event, "event", event).meta.path == (
                    (name, event.child_id) if isinstance(event, SubagentEvent) else (name,)
                )
                heard.append(
                    (type(event), type(getattr(event, "event", None)), getattr(event, "description", ""))
                )
        seen[name] = (lent, heard, event.result.text, (await session.status()).budget_left)
        await check_settled(supervisor, session)
        await session.stop()
    assert seen["call"] == seen["tool"]
    assert seen["tool"][0] == [Budget(max_total_tokens=LIMIT - TURN)]


async def test_nothing_of_them_stays_over_many_cycles(supervisor):
    """Twenty cycles, each with sessions that answer, fail, are cancelled or never begin: the ledger is as after the first."""

    async def work(ctx):
        async def ask(prompt: str) -> None:
            with trio.move_on_after(0.001 if prompt == "cut" else PATIENCE_SECONDS):
                with suppress(CycleFailed, CycleAborted):
                    await ctx.run_session(prompt)

        async with trio.open_nursery() as nursery:
            for prompt in ("a", "b", "fail", "cut", "c"):
                nursery.start_soon(ask, prompt)
        return "ok"

    def answer(request):
        last = request.messages[-1]
        words = last.content[0].text if isinstance(last, UserMessage) else ""
        if words == "fail":
            message = "no"
            raise ValueError(message)
        if words == "go":
            return calls(("work", {}))
        return says("ok")

    session = await start(supervisor, FunctionModel(answer), [tool_of(work)], limit=10**7, max_retries=0)
    with trio.fail_after(60):
        for _ in range(20):
            assert await session.ask("go") == "ok"
            cell = supervisor._find_cell("", "boss")  # noqa: SLF001 - as above
            data = cell.state.data
            assert (data.loans, data.wishes, data.ledger.open) == ((), (), ())
            assert len(supervisor.sessions()) == 1
            assert not cell.pending_calls._waiting  # noqa: SLF001 - as above
    status = await session.status()
    assert status.budget_left.tokens <= 10**7 - status.usage.total
