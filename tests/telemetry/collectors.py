"""A stand-in for a collector: what arrives over HTTP is decoded by the official types."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector:
    """Attributes: `requests` that arrived, `statuses` of the next answers, then 200, and how many spans each rejects.

    It answers while `is_open` is set, and clears that after `closes_after` requests. It takes requests of up to `max_bytes`.
    """

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.statuses: list[int] = []
        self.rejects = 0
        self.is_open = threading.Event()
        self.is_open.set()
        self.closes_after: int | None = None
        self.max_bytes = 1 << 30
        self.url = ""

    @property
    def spans(self):
        return [
            span
            for request in self.requests
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    @property
    def resources(self):
        return [
            {one.key: one.value.string_value for one in of_resource.resource.attributes}
            for request in self.requests
            for of_resource in request.resource_spans
        ]


@contextmanager
def collecting() -> Iterator[Collector]:
    """Serve a collector on a free port of this machine, in threads."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                data = gzip.decompress(data)
            collector.is_open.wait()
            status = collector.statuses.pop(0) if collector.statuses else 200
            status = 413 if len(data) > collector.max_bytes else status
            if status == 200:
                collector.requests.append(ExportTraceServiceRequest.FromString(data))
                if len(collector.requests) == collector.closes_after:
                    collector.is_open.clear()
            answer = ExportTraceServiceResponse()
            answer.partial_success.rejected_spans = collector.rejects
            body = answer.SerializeToString() if status == 200 else b""
            self.send_response(status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_said: object) -> None:
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
    try:
        yield collector
    finally:
        collector.is_open.set()
        server.shutdown()
        server.server_close()
        thread.join()
