"""The page on the wire: what a stream and the socket carry, both ways, and how both end. Frames are read from their structs."""

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Final, get_args

import msgspec

from agentrail.gateway.app import ROUTES
from agentrail.gateway.path_endpoint import CallRoute
from agentrail.gateway.response_bodies import SessionItem
from agentrail.gateway.row_watches import ROUND_SECONDS
from agentrail.gateway.socket_calls import SocketCommand, socket_commands
from agentrail.gateway.socket_connection import HELLO_SECONDS, MAX_MALFORMED
from agentrail.gateway.socket_frames import (
    MAX_HEARTBEAT_SECONDS,
    MIN_HEARTBEAT_SECONDS,
    USUAL_HEARTBEAT_SECONDS,
    Hello,
    Ping,
    Subscribe,
    Unsubscribe,
    UnwatchRows,
    WatchRows,
)
from agentrail.gateway.sse_frames import DoneReason, StreamEnd
from agentrail.wire.rows import RowFilter, SessionRow, WaitingRow
from agentrail.wire.server_frames import (
    PROTOCOL,
    REASONS,
    Changed,
    CloseCode,
    Closing,
    Lag,
    Pong,
    RowsWatched,
    SocketReply,
    Subscribed,
    Welcome,
)
from scripts.host_pages import DRAWN, anchor, described_in, first_line, in_json


def wire_page() -> str:
    """Frames of streams and of the socket, both ways, and how both end."""
    return "\n".join([*WIRE_HEAD.splitlines(), *stream_lines(), *socket_lines()])


WIRE_HEAD: Final = f"""# The wire: streams and the socket

{DRAWN}

Clients receive events as **server-sent events**, one session per connection, or over a **WebSocket**, which serves many sessions and accepts commands. Both carry the same events as JSON objects, and both
resume after the number of the last committed event.

[Events](events.md) describes the fields of each event, and [events.json](events.json) is their schema. **Ephemeral** events (`"ephemeral": true`, deltas and progress) carry the number of the last committed event and
are never replayed. Clients must ignore unknown kinds.
"""


def stream_lines() -> Iterator[str]:
    """Server-sent events."""
    yield from STREAMS.splitlines()
    yield from ("", "| reason of `done` | when |", "|---|---|")
    for reason in get_args(DoneReason):
        yield f"| `{reason}` | {DONE[reason]} |"
    yield from (
        "",
        "Fields of `done`:",
        "",
        *struct_rows(StreamEnd),
        "",
        "`context` is a [ContextUse](routes.md#contextuse).",
        "",
    )
    yield from (
        "A `snapshot` has the fields of [SnapshotForm](routes.md#snapshotform), with the last 50 messages. Earlier ones are at `GET /sessions/{id}/messages`.",
        "",
    )


STREAMS: Final = """
## Server-sent events

`POST /stream` sends a message and streams its session until the request ends. `GET /sessions/{id}/events` streams a session until it ends, or with `?request_id=` until that request ends. Both are `text/event-stream`,
are not cached, and name session and request in `X-Session-Id` and `X-Request-Id`.

```text
retry: 1724

event: agent_start
data: {"kind":"agent_start","seq":3,"session_id":"main","at_ms":1795327446796,"ref":"02dc4125-1"}
id: 3

event: message_delta
data: {"kind":"message_delta","seq":5,"session_id":"main","at_ms":1795327446816,"ephemeral":true,"delta":"Hello","attempt":1}

:

event: done
data: {"reason":"completed","session_id":"main","seq":14,"request_id":"r-d9d7ddf0647b5324532d497b"}

```

- Each event is one frame: `event` is the kind, `data` the JSON on one line, and `id` the number. Ephemeral events have no `id`.
- A comment (`:`) is sent after 15 s of silence.
- **Reconnect** with the last number in `Last-Event-ID` or `?after=`. The stream continues without gaps or duplicates. A future number is 409 `cursor_ahead`. A number older than the stored events gives `events_lost` and a
  `snapshot`. Without a number, the stream starts with a `snapshot`.
- For five minutes after the end of a session, a client can still read the rest, unless the session was purged.
- **The last frame is exactly one `done`.** A connection that ends without it was cut, so reconnect.
- A client that shuts down its sending side, as `nc -N` does, looks like one that has left: its stream ends, and `/chat` gets no answer. Other calls have half a second for theirs."""

DONE: Final[Mapping[str, str]] = {
    "completed": "the request finished, with `usage` and `context`",
    "aborted": "its cycle was aborted. `detail` has the reason",
    "failed": "its cycle failed, or its session gave up. `error` has the reason",
    "refused": "a session plugin refused the message. `detail` has the reason",
    "dropped": "its prompt was removed from the queue",
    "session_ended": "the session ended",
    "shutdown": "the server is shutting down. Reconnect with `seq`",
    "moved": "the session moved to another node. Reconnect with `seq`",
    "slow_reader": "the reader was too slow. Reconnect with `seq`",
    "unauthorized": "the token expired or was revoked. Reconnect with a valid one and `seq`",
    "store_unavailable": "the store has failed for longer than `store_patience`. The request continues later. Reconnect with `seq`, or get the request",
}


def socket_lines() -> Iterator[str]:
    """The WebSocket."""
    yield from SOCKET.splitlines()
    yield from ("", "### Client frames", "")
    for struct, kind in TO_SERVER:
        yield from (f"**`{kind}`**: {first_line(struct)}", "", *struct_rows(struct), "")
    yield from COMMANDS.splitlines()
    yield from (
        "",
        "| command | action | fields besides `id` and `session_id` | ordered |",
        "|---|---|---|---|",
    )
    for name, command in socket_commands(ROUTES).items():
        yield f"| `{name}` | {does(command.route)} | {fields_of(command)} | {'yes' if command.offer.is_ordered else 'no'} |"
    yield from (
        "",
        "### Server frames",
        "",
        "**`event`**: an [event](events.md), in the field `event`. `subscribe` can limit the kinds.",
        "",
    )
    for struct, kind in TO_CLIENT:
        yield from (f"**`{kind}`**: {first_line(struct)}", "", *struct_rows(struct), "")
    yield from WATCHES.splitlines()
    for struct, what in ROWS:
        yield from ("", what, "", *row_lines(struct))
    yield from (
        "",
        "### Close codes",
        "",
        "| code | `reason` of `closing` | meaning |",
        "|---|---|---|",
    )
    source = inspect.getsource(CloseCode)
    for code in CloseCode:
        (said,) = re.findall(rf"{code.name} = {code.value}  # (.*)", source)
        yield f"| {code.value} | `{REASONS[code]}` | {said} |"
    yield ""


ROWS: Final[tuple[tuple[type, str], ...]] = (
    (RowFilter, "`filter` of `watch`:"),
    (SessionRow, "A row of `sessions` (key `session_id`):"),
    (WaitingRow, "A row of `waiting` (key `key`):"),
)

WATCHES: Final = f"""### Rows that are watched

`watch` with `"what": "sessions"` or `"waiting"` returns rows, and then complete rows for every change. With the scope `use` they belong to the caller, with `inspect` to the tenant.

```text
→ {{"type": "watch", "id": "w", "what": "sessions", "filter": {{"phase": "idle", "limit": 200}}}}
← {{"type": "watching", "id": "w", "what": "sessions", "rows": [{{"session_id": "main", …}}, …], "total": 41}}
← {{"type": "changed", "id": "w", "rows": [{{"session_id": "main", "phase": "running", …}}], "gone": ["old"], "total": 40}}
→ {{"type": "unwatch", "id": "w"}}
← {{"type": "reply", "id": "w", "ok": true, "result": null}}
```

- Changes are merged by key for {ROUND_SECONDS:g} s, and a frame has the current rows. Slow clients receive fewer frames, and their socket stays open.
- Large results come in several frames: `changed` can follow `watching` at once.
- A `reply` with `ok: false` and the `id` of a watch ends it. Watch again."""


def row_lines(struct: type) -> Iterator[str]:
    """The fields of a row, without those that a session in a list over HTTP has too, with the same type and meaning."""
    known, said = described_in(SessionItem), described_in(struct)
    types, listed = types_of(struct), types_of(SessionItem)
    same = [name for name in said if (types[name], said[name]) == (listed.get(name), known.get(name))]
    lines = zip(said, struct_rows(struct), strict=True)
    yield from (line for name, line in lines if name not in same)
    if same:
        yield f"- {', '.join(f'`{name}`' for name in same)}: as in [SessionItem](routes.md#sessionitem)."


def types_of(struct: type) -> dict[str, frozenset[type]]:
    """Return the types that each field of a struct can have, without those of a missing value."""
    absent = {type(None), msgspec.UnsetType}
    return {
        field.name: frozenset(get_args(field.type) or [field.type]) - absent
        for field in msgspec.structs.fields(struct)
    }


def does(route: CallRoute) -> str:
    """Say what a command does: what its route does, where it has one over HTTP."""
    if route not in ROUTES:
        return route.does
    path = f"{route.method} {route.path}"
    return f"[`{path}`](routes.md#{anchor(route.method, route.path)})"


def fields_of(command: SocketCommand) -> str:
    """Name the fields that a command may have."""
    route = command.route
    body = () if route.body is None else route.body.__struct_fields__
    names = dict.fromkeys((*(one for one in command.params if one != "session_id"), *body, *route.query))
    return ", ".join(f"`{name}`" for name in names) or "–"


TO_SERVER: Final[tuple[tuple[type, str], ...]] = (
    (Hello, "hello"),
    (Subscribe, "subscribe"),
    (Unsubscribe, "unsubscribe"),
    (WatchRows, "watch"),
    (UnwatchRows, "unwatch"),
    (Ping, "ping"),
)
TO_CLIENT: Final[tuple[tuple[type, str], ...]] = (
    (Welcome, "welcome"),
    (Subscribed, "subscribed"),
    (SocketReply, "reply"),
    (RowsWatched, "watching"),
    (Changed, "changed"),
    (Pong, "pong"),
    (Lag, "lag"),
    (Closing, "closing"),
)

SOCKET: Final = f"""
## WebSocket

`GET /ws` with the subprotocol `{PROTOCOL}`. Each frame is one JSON object in one text message, with its `type`.

```text
→ {{"type": "hello", "token": "agt_…"}}
← {{"type": "welcome", "protocol": "{PROTOCOL}", "heartbeat": {USUAL_HEARTBEAT_SECONDS}, "limits": {{…}}}}
→ {{"type": "subscribe", "id": 1, "session_id": "main", "after": 14}}
← {{"type": "subscribed", "id": 1, "session_id": "main", "seq": 14}}
→ {{"type": "prompt", "id": 2, "session_id": "main", "message": "Hello", "client_id": "m-1"}}
← {{"type": "event", "event": {{"kind": "prompt_received", "seq": 15, …}}}}
← {{"type": "reply", "id": 2, "ok": true, "result": {{"request_id": "r-…", "ref": "…", "seq": 15, …}}}}
```

- **Authentication**: `Authorization` in the upgrade, or `hello` as the first frame, within {HELLO_SECONDS:g} s. Without a token, the `Origin` must be this server's or a listed one.
- **Heartbeat**: the client chooses {MIN_HEARTBEAT_SECONDS:g} to {MAX_HEARTBEAT_SECONDS:g} s. After twice that time without a frame, the socket is closed.
- **Refused commands** get a `reply` with `ok: false` and the error of the HTTP route. The socket stays open. It is closed after {MAX_MALFORMED} malformed frames.
- **Slow clients** miss deltas first, counted in `lag`. If a committed event does not fit, the socket closes, and `closing` has a number per session to resume from.
- **Repeated commands** with the same `client_id` return the receipt of the first."""

COMMANDS: Final = """**A command** is named after a method of `Session`, with `id`, `session_id` and its fields. A command with a route has the fields of its body, query and path, and the same result. Commands of one session run in order, except those that read, stop or decide."""


def struct_rows(struct: type) -> Iterator[str]:
    """The fields of a struct, with the words of its docstring."""
    said = described_in(struct)
    for field in msgspec.structs.fields(struct):
        default = (
            ""
            if field.required
            or field.default in (None, msgspec.UNSET, msgspec.NODEFAULT)
            or isinstance(field.default, msgspec.Struct)
            else f" Default: `{field.default!r}`."
        )
        optional = "" if field.required else ", optional"
        yield f"- `{field.name}`{optional}: {in_json(said[field.name])}{default.replace('True', 'true').replace('False', 'false')}"
