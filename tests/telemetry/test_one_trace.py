"""One trace from a client of the official SDK to a tool's own request, and nothing for those whom it does not concern."""

import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import agentrail
from agentrail import ToolContext, tool
from agentrail.telemetry import OpenTelemetry
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools.mcp import McpServer
from agentrail.tools.task import TaskTool
from tests.gateway.nodes import serving_nodes
from tests.gateway.web import serving
from tests.runtime.rig import on_bounded_time
from tests.telemetry.collectors import collecting

pytestmark = on_bounded_time

PLAIN = Path(__file__).parent.parent / "mcp" / "servers" / "plain.py"
ANSWERED = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "ok"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


class Heard:
    """Attributes: headers of the requests that arrived, and the address."""

    def __init__(self):
        self.headers, self.url = [], ""


@contextmanager
def listening():
    """Serve an endpoint that answers as a vendor of chat completions, on a free port, in threads."""
    heard = Heard()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            heard.headers.append({name.lower(): value for name, value in self.headers.items()})
            body = "".join(f"data: {json.dumps(one)}\n\n" for one in ANSWERED) + "data: [DONE]\n\n"
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    heard.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield heard
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def program(exporter):
    """A program with the official SDK, a span of its own and baggage: what it sends would carry both."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("program")
    token = context.attach(baggage.set_baggage("tenant", "secret"))
    try:
        with tracer.start_as_current_span("click") as span:
            yield tracer, span
    finally:
        context.detach(token)


async def post(url, headers):
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.post(url, headers=headers, content=b"{}")


@pytest.mark.operation(24)
@pytest.mark.parametrize("continues", [True, False])
async def test_a_tools_own_request_hangs_below_its_call(continues):
    """O-024: with `ctx.traceparent`, and no baggage of the caller. Without it the tool sends nothing of ours."""
    memory = InMemorySpanExporter()
    with listening() as heard, program(memory) as (tracer, click):

        @tool(thread=False)
        async def order(number: int, ctx: ToolContext) -> str:
            """Look an order up."""
            carried = {"traceparent": ctx.traceparent} if continues else {}
            parent = propagate.extract(carried, context.Context())
            with tracer.start_as_current_span("look up", context=parent) as span:
                headers: dict[str, str] = {}
                if continues:
                    propagate.inject(headers, trace.set_span_in_context(span, context.Context()))
                await post(heard.url, headers)
            return str(number)

        carrier = {}
        propagate.inject(carrier)
        assert "baggage" in carrier
        telemetry = OpenTelemetry(exporter=memory)
        async with agentrail.open_supervisor(environ={}, telemetry=telemetry) as supervisor:
            session = await supervisor.start_session(
                model=ScriptedModel([calls(("order", {"number": 1})), says("done")]), tools=[order]
            )
            await session.prompt("Go", trace=carrier)
            await session.collect_reply()
    spans = {one.name: one for one in memory.get_finished_spans()}
    cycle, call, lookup = (spans[name] for name in ("invoke_agent", "execute_tool order", "look up"))
    assert cycle.parent.span_id == click.get_span_context().span_id
    assert call.parent.span_id == cycle.context.span_id
    (headers,) = heard.headers
    assert "baggage" not in headers
    if continues:
        assert (lookup.context.trace_id, lookup.parent.span_id) == (
            call.context.trace_id,
            call.context.span_id,
        )
        assert headers["traceparent"].split("-")[1] == f"{click.get_span_context().trace_id:032x}"
    else:
        assert lookup.parent is None
        assert "traceparent" not in headers


@pytest.mark.operation(24)
@pytest.mark.parametrize("told", [None, "providers"])
async def test_a_vendors_request_carries_a_trace_only_if_told_to(told):
    """O-024: the cycle's, with the caller's flag, and never its baggage."""
    memory = InMemorySpanExporter()
    with listening() as heard, program(memory):
        carrier = {}
        propagate.inject(carrier)
        telemetry = OpenTelemetry(exporter=memory, propagate=told)
        async with agentrail.open_supervisor(environ={}, telemetry=telemetry) as supervisor:
            session = await supervisor.start_session(
                model="openai-chat:m", provider_opts={"api_key": "k", "base_url": heard.url}
            )
            await session.prompt("Go", trace=carrier)
            await session.collect_reply()
    (headers,) = heard.headers
    (cycle,) = (one for one in memory.get_finished_spans() if one.name == "invoke_agent")
    expected = f"00-{cycle.context.trace_id:032x}-{cycle.context.span_id:016x}-01"
    assert headers.get("traceparent") == (expected if told else None)
    assert not {"baggage", "tracestate"} & set(headers)


@pytest.mark.operation(21)
async def test_a_click_a_tool_a_sub_agent_and_an_mcp_server_are_one_tree():
    """O-021: the client's span is the only root at the collector, and the MCP server is told the span of its call."""
    with collecting() as collector, program(OTLPSpanExporter(collector.url)) as (tracer, click):

        @tool(thread=False)
        async def order(number: int, ctx: ToolContext) -> str:
            """Look an order up."""
            parent = propagate.extract({"traceparent": ctx.traceparent}, context.Context())
            with tracer.start_as_current_span("look up", context=parent):
                return str(number)

        wanted = calls(("order", {"number": 1}), ("task", {"description": "Look."}), ("mcp__p__echo", {}))
        turns = [wanted, calls(("order", {"number": 2})), says("below"), says("done")]
        served = {
            "session_tools": [order, TaskTool()],
            "mcp": [McpServer("p", command=[sys.executable, str(PLAIN)], required=True)],
            "telemetry": OpenTelemetry(exporter=collector.url, content=True),
        }
        carrier = {}
        propagate.inject(carrier)
        async with serving(ScriptedModel(turns), **served) as web:
            answer = await web.post("/chat", {"message": "Go"}, headers=carrier)
            assert answer.status_code == 200
    spans = {one.span_id.hex(): one for one in collector.spans}
    assert {one.trace_id.hex() for one in spans.values()} == {f"{click.get_span_context().trace_id:032x}"}
    assert [one.name for one in spans.values() if one.parent_span_id.hex() not in spans] == ["click"]

    def path_of(span):
        above = spans.get(span.parent_span_id.hex())
        return [*([] if above is None else path_of(above)), span.name]

    paths = [" > ".join(path_of(one)) for one in spans.values()]
    cycle = "click > invoke_agent desk"
    below = f"{cycle} > execute_tool task > invoke_agent > invoke_agent desk"
    for expected in (cycle, below):
        assert f"{expected} > execute_tool order > look up" in paths
    (echo,) = (one for one in spans.values() if one.name == "execute_tool mcp__p__echo")
    told = next(one.value.string_value for one in echo.attributes if one.key == "gen_ai.tool.call.result")
    assert json.loads(told)["meta"]["traceparent"] == f"00-{echo.trace_id.hex()}-{echo.span_id.hex()}-01"


@pytest.mark.operation(21)
async def test_a_message_that_another_node_passes_on_is_in_the_same_tree():
    """O-021: the node that owns the session continues the client's trace, and tells its tool."""
    with collecting() as collector, program(OTLPSpanExporter(collector.url)) as (_, click):

        @tool(thread=False)
        async def order(number: int, ctx: ToolContext) -> str:
            """Look an order up."""
            return ctx.traceparent

        carrier = {}
        propagate.inject(carrier)
        model = ScriptedModel([says("Hello"), calls(("order", {"number": 1})), says("done")])
        given = {"session_tools": [order], "telemetry": OpenTelemetry(exporter=collector.url, content=True)}
        async with serving_nodes(2, model, **given) as (owner, other):
            assert (await owner.chat("Hi", session_id="s")).status_code == 200
            said = {"message": "Go", "session_id": "s"}
            assert (await other.post("/chat", said, headers=carrier)).status_code == 200
            assert owner.owner()[0] == owner.id
            assert other.seen.messages == []
    trace_id = f"{click.get_span_context().trace_id:032x}"
    spans = {one.span_id.hex(): one for one in collector.spans if one.trace_id.hex() == trace_id}
    parents = {one.name: spans.get(one.parent_span_id.hex()) for one in spans.values()}
    above = {name: None if one is None else one.name for name, one in parents.items()}
    cycle = "invoke_agent desk"
    assert above == {"click": None, cycle: "click", "chat object": cycle, "execute_tool order": cycle}
    (call,) = (one for one in spans.values() if one.name == "execute_tool order")
    told = next(one.value.string_value for one in call.attributes if one.key == "gen_ai.tool.call.result")
    assert told == f"00-{trace_id}-{call.span_id.hex()}-01"


async def test_a_malformed_traceparent_is_ignored_and_counted():
    """13.7: the cycle begins a trace of its own, and the ratio decides about it."""
    memory = InMemorySpanExporter()
    async with agentrail.open_supervisor(environ={}, telemetry=OpenTelemetry(exporter=memory)) as supervisor:
        session = await supervisor.start_session(model=ScriptedModel([says("done")]))
        await session.prompt("Go", trace={"traceparent": f"00-{'0' * 32}-{'b' * 16}-00"})
        await session.collect_reply()
        assert supervisor.statistics().malformed_traces == 1
    (cycle,) = (one for one in memory.get_finished_spans() if one.name == "invoke_agent")
    assert cycle.parent is None
