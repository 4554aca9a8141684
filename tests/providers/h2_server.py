"""A server that speaks HTTP/2 over TLS, and only that: what the provider option `http2` is tested with."""

import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import trio
from attrs import define, field


@define
class Served:
    """What the server has seen.

    Attributes:
        url: Where it listens.
        certificate: The file to trust.
        connections: How many were accepted.
        requests: The headers of each request.
        left: Set when a client closed a connection.
    """

    url: str
    certificate: str
    connections: int = 0
    requests: list[dict[str, str]] = field(factory=list)
    left: trio.Event = field(factory=trio.Event)


def _certified(folder: Path) -> tuple[ssl.SSLContext, str]:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",  # for RSA it would look for primes, which takes longer than most tests
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    tls.set_alpn_protocols(["h2"])
    return tls, str(certificate)


@asynccontextmanager
async def open_h2_server(
    folder: Path, pieces: Sequence[bytes], *, ends: bool = True
) -> AsyncIterator[Served]:
    """Answer every request with these events, each in a frame of its own.

    Args:
        folder: Where key and certificate may be written.
        pieces: The body.
        ends: Whether the response ends; else it falls silent.
    """
    tls, certificate = _certified(folder)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    served = Served(f"https://127.0.0.1:{listener.socket.getsockname()[1]}", certificate)
    async with trio.open_nursery() as nursery:
        serve = partial(_serve, served, tls, pieces, ends)
        await nursery.start(partial(trio.serve_listeners, serve, [listener]))
        yield served
        nursery.cancel_scope.cancel()


async def _serve(
    served: Served,
    tls: ssl.SSLContext,
    pieces: Sequence[bytes],
    ends: bool,  # noqa: FBT001 - of a handler
    plain: trio.SocketStream,
) -> None:
    served.connections += 1
    connection = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
    )
    async with trio.SSLStream(plain, tls, server_side=True) as stream:
        connection.initiate_connection()
        await stream.send_all(connection.data_to_send())
        while received := await _received(stream):
            try:
                events = connection.receive_data(received)
            except h2.exceptions.ProtocolError:  # whoever that is speaks something else
                return
            for event in events:
                match event:
                    case h2.events.RequestReceived(headers=headers):
                        served.requests.append({str(name): str(text) for name, text in headers})
                    case h2.events.DataReceived(flow_controlled_length=length, stream_id=stream_id):
                        connection.acknowledge_received_data(length, stream_id)
                    case h2.events.StreamEnded(stream_id=stream_id):
                        head = [(":status", "200"), ("content-type", "text/event-stream")]
                        connection.send_headers(stream_id, head)
                        for place, piece in enumerate(pieces, start=1):
                            is_last = ends and place == len(pieces)
                            connection.send_data(stream_id, piece, end_stream=is_last)
            await stream.send_all(connection.data_to_send())
        served.left.set()


async def _received(stream: trio.SSLStream[trio.SocketStream]) -> bytes:
    try:
        return bytes(await stream.receive_some())
    except trio.BrokenResourceError:
        return b""
