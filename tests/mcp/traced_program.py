"""A program with its own OpenTelemetry, or with none, that logs in to an MCP server and calls one over HTTP and one over stdio.

    python traced_program.py DIRECTORY traced|plain

It prints what the servers saw, and the spans that the library of MCP began: each with the trace that it belongs to.
"""

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio
from opentelemetry import baggage, context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

import agentrail
from agentrail import outside
from agentrail.events import ToolExecutionEnd
from agentrail.sandboxes.server_process import open_server_process
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.source import log_in, login_file_of
from tests.mcp.guarded_server import ScriptedBrowser, guarded_server

PLAIN = Path(__file__).parent / "servers" / "plain.py"
SPANS: list[Any] = []


class Recorder(trace.Tracer, trace.TracerProvider):
    """A tracer as the official one: a span belongs to the trace of the current one, or begins its own."""

    def get_tracer(self, *_, **__):
        return self

    def start_span(self, name, context=None, **_):
        above = trace.get_current_span(context).get_span_context()
        SPANS.append({"name": name, "begins": not above.is_valid})
        number = above.trace_id if above.is_valid else int(outside.ids(16), 16)
        return NonRecordingSpan(SpanContext(number, int(outside.ids(8), 16), False, TraceFlags(1)))  # noqa: FBT003

    @contextmanager
    def start_as_current_span(self, name, context=None, **_):
        with trace.use_span(self.start_span(name, context)) as span:
            yield span


async def main(directory):
    """Log in, and call both servers in one session, all below a span and baggage of the program."""
    tracer = trace.get_tracer("program")
    with tracer.start_as_current_span("program"):
        context.attach(baggage.set_baggage("tenant", "secret"))
        async with guarded_server() as guarded:
            far = McpServer("g", url=f"{guarded.origin}/mcp", auth="oauth", required=True)
            near = McpServer("p", command=[sys.executable, str(PLAIN)], required=True)
            await log_in(far, open_server_process, login_file_of(far, directory), ScriptedBrowser())
            async with agentrail.open_supervisor(mcp=[far, near], data_dir=directory) as supervisor:
                model = ScriptedModel(
                    [calls(("mcp__g__echo", {})), calls(("mcp__p__echo", {})), says("done")]
                )
                session = await supervisor.start_session(model=model, session_id="s")
                async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
                    await session.ask("go")
                    await anext(events)
                    near_text = (await anext(events)).result.text
    seen = {"near": json.loads(near_text)["meta"], "far": guarded.metas, "headers": sorted(guarded.headers)}
    sys.stdout.write(json.dumps({**seen, "spans": SPANS}))


if sys.argv[2] == "traced":
    trace.set_tracer_provider(Recorder())
trio.run(main, Path(sys.argv[1]))
