"""The workloads of ends: a caller of a chat who leaves, the end of a server with a thousand streams, and aborts over a WebSocket."""

import json
import socket
import statistics
import time
from functools import partial

import trio
from trio_websocket import WebSocketConnection, open_websocket

from benchmarks.bars import target_of
from benchmarks.explain import Explanation
from benchmarks.gateway.fanout import paths_of
from benchmarks.gateway.readers import Load, now_ms
from benchmarks.gateway.serving import BenchProcess, serve_bench
from benchmarks.measure import Effort, Row, Sample, percentile, repeat
from benchmarks.ours import expect

_MANY = 1_000
_LEAVERS = 20
_BUSY = 100
_SETTLE_SECONDS = 0.3


def _leave(server: BenchProcess, number: int) -> tuple[str, float]:
    """Begin a chat that does not come to an end, and leave; gives its session and when that was."""
    session_id = f"left-{number}"
    said = {"message": "Hi", "agent_id": "busy", "session_id": session_id, "on_disconnect": "abort"}
    body = json.dumps(said)
    with socket.create_connection(server.address) as peer:
        peer.sendall(
            f"POST /chat HTTP/1.1\r\nhost: 127.0.0.1:{server.address[1]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}".encode()
        )
        time.sleep(_SETTLE_SECONDS)
        left_at = now_ms()
    return session_id, left_at


def _take_leavers(count: int) -> Sample:
    with serve_bench() as server:
        left = dict(_leave(server, number) for number in range(count))
        time.sleep(_SETTLE_SECONDS)
        ended = server.ask("left")["at_ms"]
        expect("requests that ended because their callers left", sorted(ended), sorted(left))
    return {"left_seconds": statistics.median(ended[one] - left[one] for one in left) / 1e3}


def leavers(effort: Effort) -> list[Row]:
    """A caller of a chat leaves: until its cycle is aborted and its last hook is called."""
    count = effort.of(_LEAVERS)
    rounds = repeat(partial(_take_leavers, count), 1, warm_up=False)
    return [
        rounds.row(
            "gateway-leavers",
            "left_seconds",
            f"a caller of a chat leaves, the median of {count}: until its cycle is aborted, and the last hook has run",
            unit="ms",
            factor=1e3,
            target=target_of("caller left"),
        )
    ]


def _take_shutdown(count: int) -> Sample:
    with serve_bench() as server:
        ids = server.ask("sessions", count=1)["ids"]
        with Load(server.address, paths_of("ours", ids, count)) as load:
            load.open()
            began_at = server.ask("stop")["at_ms"]
            load.run(lambda: all(one.is_done for one in load.readers), "for the last frame of each stream")
            took = now_ms() - began_at
        server.wait()
    return {"closed_seconds": took / 1e3}


def shutdown(effort: Effort) -> list[Row]:
    """A server with a thousand open streams is told to stop."""
    count = effort.of(_MANY)
    rounds = repeat(partial(_take_shutdown, count), 1, warm_up=False)
    return [
        rounds.row(
            "gateway-shutdown",
            "closed_seconds",
            f"{count:,} open streams at a shutdown: until each has its done",
            unit="s",
            target=target_of("streams closed"),
        )
    ]


# --- aborts


async def _abort_all(address: tuple[str, int], ids: list[str]) -> Sample:
    """Abort each of so many sessions that are at work, one after another, and prompt it again."""
    took: list[float] = []
    port = address[1]
    async with open_websocket(
        "127.0.0.1",
        port,
        "/ws",
        use_ssl=False,
        subprotocols=["agentrail.v1"],
        extra_headers=[(b"authorization", b"Bearer anyone")],
        message_queue_size=1_000,
    ) as connection:
        for number, session_id in enumerate(ids):
            await _send(connection, type="subscribe", id=f"s{number}", session_id=session_id)
        subscribed = 0
        while subscribed < len(ids):  # all read before any talks
            subscribed += json.loads(await connection.get_message())["type"] == "subscribed"
        # One after another: a hundred at once are more than a queue holds.
        for number, session_id in enumerate(ids):
            await _send(connection, type="prompt", id=f"p{number}", session_id=session_id, message="Hi")
            event = {"kind": "", "session_id": ""}
            while (event["kind"], event["session_id"]) != ("agent_start", session_id):
                event = await _next_event(connection)
        for number, session_id in enumerate(ids):
            began_at = time.perf_counter()
            await _send(connection, type="abort", id=f"a{number}", session_id=session_id)
            while True:
                event = await _next_event(connection)
                if event["kind"] == "agent_abort" and event["session_id"] == session_id:
                    break
            took.append(time.perf_counter() - began_at)
            await _send(connection, type="prompt", id=f"q{number}", session_id=session_id, message="Hi")
    return {"p50_seconds": percentile(took, 50), "p99_seconds": percentile(took, 99)}


async def _send(connection: WebSocketConnection, **frame: object) -> None:
    await connection.send_message(json.dumps(frame))


async def _next_event(connection: WebSocketConnection) -> dict[str, str]:
    while True:
        frame = json.loads(await connection.get_message())
        if frame["type"] == "event":
            event: dict[str, str] = frame["event"]
            return event
        if frame["type"] == "closing" or (frame["type"] == "reply" and not frame["ok"]):
            message = f"the server said {frame}"
            raise RuntimeError(message)


def _take_aborts(count: int, *, looks: bool = False) -> Sample | Explanation:
    with serve_bench() as server:
        ids = server.ask("sessions", count=count, agent_id="busy")["ids"]
        if looks:
            server.ask("look")
        sample: Sample = trio.run(_abort_all, server.address, ids)
        return server.looked() if looks else sample


def aborts_by_socket(effort: Effort) -> list[Row]:
    """A hundred sessions stream ten words a second each, to one WebSocket, which aborts one after another."""
    count = effort.of(_BUSY)

    def take() -> Sample:
        taken = _take_aborts(count)
        assert not isinstance(taken, Explanation)  # noqa: S101 - it did not look
        return taken

    def explain() -> Explanation:
        found = _take_aborts(count, looks=True)
        assert isinstance(found, Explanation)  # noqa: S101 - it looked
        return found

    rounds = repeat(take, min(effort.rounds, 3), warm_up=False)
    title = f"abort over a WebSocket until agent_abort is back, {count} busy sessions"
    return [
        rounds.row(
            "gateway-aborts",
            "p99_seconds",
            f"{title}: p99",
            unit="ms",
            factor=1e3,
            target=target_of("abort over a WebSocket"),
            explain=explain,
        ),
        rounds.row("gateway-aborts", "p50_seconds", f"{title}: p50", unit="ms", factor=1e3),
    ]
