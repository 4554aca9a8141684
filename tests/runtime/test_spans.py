"""Spans of whole sessions: the same live as from the journal, with the ids that tools and child sessions were given."""

import json

import msgspec
import pytest
import trio

from agentrail.abc import ToolContext
from agentrail.abc.store import Filters
from agentrail.core.journal.spans import SessionSpans
from agentrail.core.values.trace_carriers import UNDECIDED, decision_of
from agentrail.errors import ProviderError
from agentrail.events import ApprovalRequired
from agentrail.messages import TraceContext
from agentrail.plugins import HumanApproval
from agentrail.runtime.agent import Agent
from agentrail.stores.memory import MemoryStore
from agentrail.telemetry import add_trace_ids
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, fails, says
from agentrail.tools.function import tool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import eventually, on_virtual_time, open_over, until
from tests.runtime.test_resumed_sessions import Process, fresh, open_again

IGNORED = TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-00")
CALLER = TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-01", tracestate="rojo=1")


class Listener:
    """Feeds the events of all sessions, as they are published, to one fold for each."""

    def __init__(self):
        self.folds, self.spans = {}, []

    async def listen(self, supervisor, *, task_status):
        async with supervisor.subscribe_all(deltas=False) as events:
            task_status.started()
            async for event in events:
                session = event.meta.session_id
                fold = self.folds.setdefault(session, SessionSpans(session=session, content=True))
                self.spans += fold.feed(event)


def written(data):
    """Return the spans of an export by id, each with the values of its attributes."""
    spans = [
        span
        for line in data.splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for span in resource["scopeSpans"][0]["spans"]
    ]
    return {span["spanId"]: span for span in spans}


def value(span, key):
    found = [one["value"] for one in span["attributes"] if one["key"] == key]
    return next(iter(found[0].values())) if found else None


def tree_of(spans):
    """Return the names of spans as an indented text, in the order in which they began, with what happened within each."""
    lines = []

    def add(span, depth):
        told = {key: value for key, value in span.attributes.items() if key in SHOWN}
        words = [span.name, *(f"{SHOWN[key]}={value}" for key, value in sorted(told.items()))]
        lines.append("  " * depth + " ".join(words))
        lines.extend("  " * depth + f"  * {name.removeprefix('agentrail.')}" for name, _, _ in span.moments)
        for one in spans:
            if one.parent_id == span.span_id:
                add(one, depth + 1)

    known = {one.span_id for one in spans}
    for span in spans:
        if span.parent_id not in known:
            add(span, 0)
    return "\n".join(lines) + "\n"


SHOWN = {
    "agentrail.attempt": "attempt",
    "agentrail.retry_reason": "after",
    "agentrail.approval": "approval",
    "agentrail.outcome": "outcome",
    "error.type": "error",
}

seen: dict[str, list[str]] = {}


async def look_up(name: str, ctx: ToolContext) -> str:
    """Look something up."""
    seen.setdefault(name, []).append(ctx.traceparent)
    return name


TOOLS = [tool(name="look")(look_up), tool(name="record")(look_up), TaskTool()]


async def live_a_day(supervisor, **prompt):
    """A cycle with a retry, two parallel tools, a sub-agent that uses a tool, and an approval."""
    busy = ProviderError("overloaded", retryable=True, retry_after_seconds=1.0)
    work = calls(
        ("look", {"name": "a"}), ("task", {"description": "Look."}), ("record", {"name": "b"}), text="So."
    )
    turns = [fails(busy, after="Half"), work, calls(("look", {"name": "c"})), says("below"), says("done")]
    session = await supervisor.start_session(
        model=ScriptedModel(turns),
        tools=TOOLS,
        plugins=[(HumanApproval, {"require_approval_for": ["record"]})],
        session_id="s-1",
    )
    async with session.subscribe() as events:
        await session.prompt("Go", **prompt)
        asked = (await until(events, ApprovalRequired))[-1]
        await session.approve(asked.approval.id)
        assert await session.collect_reply() == "done"


@pytest.mark.operation(1)
@on_virtual_time
async def test_a_cycle_is_the_golden_tree_live_and_from_its_journal(nursery):
    """O-001: a retry, two parallel tools, a sub-agent and an approval. The journal gives it again, id for id."""
    seen.clear()
    listener = Listener()
    store = MemoryStore()
    async with open_over(store) as supervisor:
        await nursery.start(listener.listen, supervisor)
        await live_a_day(supervisor, trace=CALLER)
        data = await supervisor.export_session("s-1", format="otlp")
    found = sorted(listener.spans, key=lambda one: (one.attributes["gen_ai.conversation.id"], one.number))
    assert tree_of(found) == GOLDEN
    stored = written(data)
    assert set(stored) == {one.span_id for one in found}
    for one in found:
        same = stored[one.span_id]
        assert (same["name"], same["traceId"], same.get("parentSpanId", "")) == (
            one.name,
            one.trace_id,
            one.parent_id,
        )
        assert int(same["endTimeUnixNano"]) == one.ended_at_ms * 1_000_000
        assert len(same["attributes"]) == len(one.attributes)
        assert (one.trace_id, one.sampled) == ("a" * 32, True)
    assert [fold.first_needed for fold in listener.folds.values()] == [None, None]
    calls_of_looks = [one for one in found if one.name in {"execute_tool look", "execute_tool record"}]
    for one in calls_of_looks:  # each ended with its own result
        looked_up = json.loads(one.attributes["gen_ai.tool.call.arguments"])["name"]
        assert one.attributes["gen_ai.tool.call.result"] == looked_up
    carried = sorted(one for several in seen.values() for one in several)
    assert carried == sorted(f"00-{one.trace_id}-{one.span_id}-01" for one in calls_of_looks)


@pytest.mark.operation(1)
@pytest.mark.operation(24)
@pytest.mark.parametrize(
    ("trace", "ratio", "flag"),
    [(None, 0.0, "00"), (None, 1.0, "01"), (CALLER, 0.0, "01"), (IGNORED, 1.0, "00")],
)
@on_virtual_time
async def test_a_tool_knows_its_span_and_whether_it_is_sampled(trace, ratio, flag):
    """The flag is the caller's, otherwise the ratio's, and none without telemetry. Each attempt has the same span."""
    told = []

    async def flaky(ctx: ToolContext) -> str:
        """Fail once."""
        told.append(ctx.traceparent)
        if len(told) == 1:
            raise ValueError
        return "done"

    tools = [tool(effect_class="idempotent", name="flaky")(flaky)]
    async with open_over(MemoryStore()) as supervisor:
        supervisor._shared.dependencies.traces.ratio = ratio  # noqa: SLF001 - what `telemetry=` sets
        session = await supervisor.start_session(
            model=ScriptedModel([calls(("flaky", {})), says("done")]), tools=tools, session_id="s-1"
        )
        await session.prompt("Go", trace=trace)
        await session.collect_reply()
        spans = written(await supervisor.export_session("s-1", format="otlp"))
    assert len(told) == 2
    (traceparent,) = set(told)
    _, trace_id, span_id, sampled = traceparent.split("-")
    assert spans[span_id]["name"] == "execute_tool flaky"
    assert value(spans[span_id], "agentrail.effect_class") == "idempotent"
    assert value(spans[span_id], "agentrail.attempts") == "2"
    assert (spans[span_id]["traceId"], sampled) == (trace_id, flag)


@on_virtual_time
@pytest.mark.parametrize("threaded", [True, False])
async def test_log_records_of_a_tool_have_the_ids_of_its_span(threaded):
    """Also in a thread. Outside of a call a record stays as it is."""
    found = []

    def look_long(ctx: ToolContext) -> str:
        """Log."""
        found.append((ctx.traceparent, add_trace_ids(None, "info", {"event": "looked"})))
        return "found"

    async def look_here(ctx: ToolContext) -> str:
        """Log."""
        return look_long(ctx)

    tools = [tool(name="look")(look_long if threaded else look_here)]
    async with open_over(MemoryStore()) as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([calls(("look", {})), says("done")]), tools=tools
        )
        await session.ask("Go")
    ((traceparent, record),) = found
    _, trace_id, span_id, _ = traceparent.split("-")
    assert record == {"event": "looked", "trace_id": trace_id, "span_id": span_id}
    assert add_trace_ids(None, "info", {"event": "looked"}) == {"event": "looked"}


@on_virtual_time
@pytest.mark.parametrize("caller", [None, CALLER])
async def test_sessions_of_a_tree_carry_the_trace_in_their_prompts(caller):
    """A background agent has a trace of its own, which is linked. The caller's flag is passed on; where none decided, that is."""
    store = MemoryStore()
    scout = Agent(
        name="scout", description="Finds files.", system_prompt="You look.", tools=(), background=True
    )
    turns = [calls(("task", {"description": "Look."}), ("spawn_agent", {"agent": "scout", "task": "Scout."}))]
    turns += [calls(("wait_agents", {})), says("done")]

    def answer(request):
        below = request.system == "You look." or "Look." in request.messages[0].content[0].text
        return says("below") if below else turns.pop(0)

    async with open_over(store) as supervisor:
        session = await supervisor.start_session(
            model=FunctionModel(answer), tools=[TaskTool()], agents=[scout], session_id="s-1"
        )
        await session.prompt("Go", trace=caller)
        await session.collect_reply()
        data = await supervisor.export_session("s-1", format="otlp")
    spans = written(data)
    cycles = {
        value(one, "gen_ai.conversation.id"): one
        for one in spans.values()
        if value(one, "agentrail.outcome") is not None
    }
    root, agent = cycles.pop("s-1"), cycles.pop("s-1:agent-1")
    (child,) = cycles.values()
    of_task = spans[child["parentSpanId"]]
    assert value(of_task, "agentrail.child") == value(child, "gen_ai.conversation.id")
    assert spans[of_task["parentSpanId"]]["name"] == "execute_tool task"
    assert child["traceId"] == of_task["traceId"] == root["traceId"]
    of_agent = spans[agent["parentSpanId"]]
    assert of_agent["traceId"] == agent["traceId"] != root["traceId"]
    (link,) = of_agent["links"]
    assert spans[link["spanId"]]["name"] == "execute_tool spawn_agent"
    assert link["traceId"] == root["traceId"]
    prompts = [
        one.body
        for found in store.find(Filters())
        if found.session != "s-1"
        for one in store.read("", found.session)
        if one.kind == "prompt"
    ]
    carried = [msgspec.json.decode(one)["trace"] for one in prompts]
    assert len(carried) == 2
    for one in carried:
        assert decision_of(TraceContext(**one)) is (None if caller is None else True)
        assert one["tracestate"] == (UNDECIDED if caller is None else caller.tracestate)


@pytest.mark.operation(21)
@on_virtual_time
async def test_a_cycle_that_was_taken_over_goes_on_in_its_trace_with_a_link():
    """O-021: its process is killed during a call. The call has one span, and its tool was told the same one both times."""
    inner = fresh()
    told = []

    async def look_long(ctx: ToolContext) -> str:
        """Wait for ever, the first time."""
        told.append(ctx.traceparent)
        if len(told) == 1:
            await trio.sleep_forever()
        return "found"

    tools = [tool(name="look", effect_class="pure")(look_long)]
    async with Process(inner) as supervisor:
        turns = [calls(("look", {})), says("never")]
        session = await supervisor.start_session(model=ScriptedModel(turns), tools=tools, session_id="s-1")
        await session.prompt("Go", trace=CALLER)
        await eventually(lambda: bool(told))
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=ScriptedModel([says("done")]), tools=tools)
        assert await session.collect_reply() == "done"
        spans = written(await supervisor.export_session("s-1", format="otlp"))
    before, after = (one for one in spans.values() if one["name"] == "invoke_agent")
    (link,) = after["links"]
    assert (link["spanId"], link["traceId"]) == (before["spanId"], "a" * 32)
    assert after["traceId"] == before["traceId"] == "a" * 32
    assert after["parentSpanId"] == before["parentSpanId"] == "b" * 16
    assert value(before, "agentrail.incomplete") is True
    assert value(after, "agentrail.outcome") == "done"
    (call,) = (one for one in spans.values() if one["name"] == "execute_tool look")
    assert told == [f"00-{call['traceId']}-{call['spanId']}-01"] * 2


@on_virtual_time
async def test_a_background_agent_keeps_its_trace_over_a_restart():
    """Its cycles are below one span, whichever process prompts it."""
    inner = fresh()
    scout = Agent(
        name="scout", description="Finds files.", system_prompt="You look.", tools=(), background=True
    )
    spawn, more = (
        ("spawn_agent", {"agent": "scout", "task": "Go."}),
        ("send_input", {"name": "agent-1", "text": "On."}),
    )
    turns = [
        calls(spawn),
        calls(("wait_agents", {})),
        says("ok"),
        calls(more),
        calls(("wait_agents", {})),
        says("done"),
    ]

    def answer(request):
        return says("below") if request.system == "You look." else turns.pop(0)

    given = {"model": FunctionModel(answer), "agents": [scout]}
    async with open_again(inner) as supervisor:
        session = await supervisor.start_session(session_id="s-1", **given)
        await session.ask("Go")
        await supervisor.rest("s-1")
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", **given)
        assert await session.ask("On") == "done"
        spans = written(await supervisor.export_session("s-1", format="otlp"))
    cycles = [one for one in spans.values() if value(one, "gen_ai.conversation.id") == "s-1:agent-1"]
    of_agent = [one for one in cycles if one["name"] == "invoke_agent"]
    assert len(of_agent) == 2
    assert len({(one["traceId"], one["parentSpanId"]) for one in of_agent}) == 1
    assert spans[of_agent[0]["parentSpanId"]]["name"] == "invoke_agent"


GOLDEN = """\
invoke_agent outcome=done
  * retry
  * approval.required
  * approval.resolved
  chat object attempt=1 error=provider_error
  chat object attempt=2 after=provider_error
  execute_tool look
  execute_tool task
    invoke_agent
      invoke_agent outcome=done
        chat object attempt=1
        execute_tool look
        chat object attempt=1
  execute_tool record approval=approved
  chat object attempt=1
"""
