"""What telemetry adds to the CPU of a cycle: switched on for an exporter that does nothing, and for a collector; and what spans of a journal cost.

The collector is a process of its own, which answers and decodes nothing: what it costs is not ours.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import process_time
from typing import Any, Final

import trio
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

import agentrail
from agentrail.core.journal.fold import Sources, no_blobs
from agentrail.core.journal.replay import steps
from agentrail.core.journal.spans import SessionSpans
from agentrail.core.protocol.effects import Publish
from agentrail.messages import SessionId
from agentrail.telemetry import OpenTelemetry
from benchmarks.bare import ANSWER
from benchmarks.bars import target_of
from benchmarks.explain import slowest_functions
from benchmarks.folds import journal_of_cycles
from benchmarks.measure import Effort, Row, Sample, interleave, repeat
from benchmarks.ours import StubModel, add, expect

_SESSIONS: Final = 300
_CYCLES: Final = 1_000
_MICROSECONDS: Final = 1e6
_COLLECTOR: Final = """
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *said):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class _Nothing(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def telemetry(effort: Effort) -> list[Row]:
    """Cycles with a tool in fresh sessions, until their supervisor has closed, with telemetry and without."""
    count = effort.of(_SESSIONS)
    off = partial(_cycles, count, lambda: None)
    traced = partial(_cycles, count, lambda: OpenTelemetry(exporter=_Nothing()))
    nothing = interleave(off, traced, effort.rounds)
    with _collector() as url:
        sent = interleave(off, partial(_cycles, count, lambda: OpenTelemetry(exporter=url)), effort.rounds)
    journal = journal_of_cycles(effort.of(_CYCLES))
    spans = repeat(partial(_spans, journal), effort.rounds)
    return [
        nothing.row(
            "telemetry",
            "cycle_seconds",
            "CPU of a cycle whose spans go to an exporter that does nothing; bare: without telemetry",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("telemetry"),
        ),
        sent.row(
            "telemetry",
            "cycle_seconds",
            "the same over OTLP to a collector in another process",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("telemetry over OTLP"),
            explain=partial(slowest_functions, traced),  # the collector has ended by then
        ),
        spans.row(
            "telemetry",
            "record_seconds",
            "spans of a journal, for each record, its fold included: 50 µs are 20,000 records a second",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("spans of a journal"),
        ),
    ]


def _cycles(count: int, make: Callable[[], OpenTelemetry | None]) -> Sample:
    return trio.run(_cycles_async, count, make())


async def _cycles_async(count: int, telemetry: OpenTelemetry | None) -> Sample:
    model = StubModel()
    async with agentrail.open_supervisor(environ={}, telemetry=telemetry) as supervisor:
        sessions = [await supervisor.start_session(model=model, tools=[add]) for _ in range(count)]
        began_at = process_time()
        for session in sessions:
            expect("the answer", await session.ask("please add 2 and 3"), ANSWER)
    return {"cycle_seconds": (process_time() - began_at) / count}


def _spans(records: Any) -> Sample:
    made, found = SessionSpans(session=SessionId("s")), 0
    began_at = process_time()
    for step in steps(records, Sources(blob=no_blobs)):
        for effect in step.walked.effects:
            if isinstance(effect, Publish):
                found += len(made.feed(effect.event))
    took = process_time() - began_at
    expect("spans of a cycle", found % 4, 0)
    return {"record_seconds": took / len(records)}


@contextmanager
def _collector() -> Iterator[str]:
    command = [sys.executable, "-c", _COLLECTOR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:  # noqa: S603 - a command of ours
        try:
            port = running.stdout.readline().strip() if running.stdout is not None else ""
            yield f"http://127.0.0.1:{port}/v1/traces"
        finally:
            running.kill()
