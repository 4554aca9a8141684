"""Journal spans as spans of the official SDK, and its exporter for OTLP. Imported by name when telemetry is opened: the library is an extra."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from agentrail.core.journal.spans import JournalSpan
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import FOR_THE_PROCESS, call_guarded

_SCOPE = InstrumentationScope("agentrail")
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status()
_FOR_GOOD = frozenset({"status 400", "status 413"})  # sent again, the same spans would hold up all others
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class _Resource(Resource):
    """A resource that computes its hash once. The official encoder asks for it with each span, and it is that of a JSON text."""

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        super().__init__(attributes)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        return self._hash


class NotExported(Exception):
    """An exporter reported a failure. The spans are exported again later."""


def send_spans(exporter: Any, resource: Mapping[str, Any], spans: Sequence[JournalSpan]) -> None:
    """Give spans to an exporter. Blocks, in a worker thread.

    Raises:
        NotExported: The exporter did not report success.
        Exception: Raised by the exporter.
    """
    common = _Resource(resource)
    try:
        result = exporter.export([_readable(span, common) for span in spans])
    except FOR_THE_PROCESS as error:  # raised by the exporter, as no signal comes to a thread
        raise NotExported(describe_bug(error)) from error
    if result is not SpanExportResult.SUCCESS:
        message = f"{type(exporter).__name__} returned {result!r:.80}"
        raise NotExported(message)


def _readable(span: JournalSpan, resource: Resource) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
        resource=resource,
        attributes=span.attributes,
        events=tuple([Event(name, said, _nano(at_ms)) for name, at_ms, said in span.moments]),
        links=tuple([Link(_context(trace, one), said) for trace, one, said in span.links]),
        kind=_KINDS[span.kind],
        status=_UNSET if span.error is None else Status(StatusCode.ERROR, span.message or None),
        start_time=_nano(span.began_at_ms),
        end_time=_nano(span.ended_at_ms),
        instrumentation_scope=_SCOPE,
    )


@lru_cache(1_024)  # parents share theirs
def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=_SAMPLED)


def _nano(at_ms: int) -> int:
    return max(0, at_ms) * 1_000_000


class _Session(requests.Session):
    """Notes what the exporter does not tell: why a request failed, and how many spans a response rejects."""

    def __init__(self, reject: Callable[[int], None]) -> None:
        super().__init__()
        self._reject = reject
        self.failure: str = ""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        try:
            response = super().send(request, **options)
        except requests.RequestException as error:
            self.failure = type(error).__name__  # its text and the address may hold a key
            raise
        self.failure = f"status {response.status_code}"
        found = call_guarded(lambda _: None, ExportTraceServiceResponse.FromString, response.content)
        if response.ok and found is not None and found.partial_success.rejected_spans:
            self._reject(found.partial_success.rejected_spans)
        return response


class OtlpExporter(OTLPSpanExporter):
    """The official exporter for OTLP over HTTP. What `endpoint` leaves open, it reads from the process's environment."""

    def __init__(self, endpoint: str | None, reject: Callable[[int], None]) -> None:
        self._reject, self._noted = reject, _Session(reject)
        super().__init__(endpoint=endpoint, session=self._noted)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result, half = super().export(spans), len(spans) // 2
        if result is SpanExportResult.SUCCESS:
            return result
        if half and self._noted.failure == "status 413":
            self.export(spans[:half])
            return self.export(spans[half:])
        if self._noted.failure not in _FOR_GOOD:
            raise NotExported(self._noted.failure)
        self._reject(len(spans))
        return SpanExportResult.SUCCESS
