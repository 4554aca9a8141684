"""The page on the wire: what a stream and the socket carry, both ways, and how both end. Frames are read from their structs."""

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Final, get_args

import msgspec

from agentrail import events
from agentrail.gateway.app import ROUTES
from agentrail.gateway.endpoint import CallRoute
from agentrail.gateway.frames import ContextUse, DoneReason, StreamEnd
from agentrail.gateway.open_socket import HELLO_SECONDS, MAX_MALFORMED
from agentrail.gateway.socket_calls import SocketCommand, socket_commands
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
from agentrail.gateway.watches import ROUND_SECONDS
from agentrail.wire.forms import SnapshotForm
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
    return "\n".join([*WIRE_HEAD.splitlines(), *stream_lines(), *socket_lines(), *event_lines()])


WIRE_HEAD: Final = f"""# The wire: streams and the socket

{DRAWN}

What a session publishes reaches clients in two ways: as **server-sent events**, one session for each connection, and over a **WebSocket**, which serves many sessions and takes commands.
Both give the same [events](events.md) in the same JSON, and both take a client back behind the number of the last committed event that it saw.

An event is one JSON object: `kind`, `seq`, `session_id`, `at_ms`, then its own fields; [events.json](events.json) is its schema. **Committed** events have a number of their own,
which rises by one; they are kept and replayed. **Ephemeral** ones (`"ephemeral": true`, deltas and progress) carry the number of the committed one before them, and are never replayed.
A reader has to bear kinds that it does not know.
"""


def stream_lines() -> Iterator[str]:
    """Server-sent events."""
    yield from STREAMS.splitlines()
    yield from ("", "| reason of `done` | when |", "|---|---|")
    for reason in get_args(DoneReason):
        yield f"| `{reason}` | {DONE[reason]} |"
    yield from (
        "",
        "`done` holds:",
        "",
        *struct_rows(StreamEnd),
        "",
        "`context` in it:",
        "",
        *struct_rows(ContextUse),
        "",
    )
    yield from ("`snapshot` holds:", "", *snapshot_rows(), "")


STREAMS: Final = """
## Server-sent events

`POST /stream` sends a message and shows its session from there to the end of the request; `GET /sessions/{id}/events` shows a session until it ends, or with
`?request_id=` until that request does. Both are `text/event-stream`, are never kept by a proxy, and name session and request in `X-Session-Id` and `X-Request-Id`.

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

- One frame for each event: `event` is its kind, `data` its JSON on one line, `id` its number; an ephemeral one has no `id`.
- A comment (`:`) comes after each 15 s of silence.
- **Coming back**: `Last-Event-ID`, or `?after=`, is the number of the last event that was seen. The stream goes on behind it, without gap or duplicate. A number of the
  future is 409 `cursor_ahead`; one older than what is kept gives `events_lost` and a `snapshot`; without one a stream begins with a `snapshot`.
- A reader who comes back within five minutes of a session's end still gets the rest.
- **The last frame is `done`**, exactly one, however the stream ends. A connection that ends without it was cut: come back."""

DONE: Final[Mapping[str, str]] = {
    "completed": "the request is done; `usage` and `context` are there",
    "aborted": "its cycle was aborted; `detail` says why",
    "failed": "its cycle failed, or its session was given up; `error` says why",
    "refused": "a plugin of the session refused the message; `detail` says why",
    "dropped": "its prompt was taken out of the queue",
    "session_ended": "there is nothing more to come",
    "shutdown": "the server goes down: come back with `seq`",
    "moved": "the session goes on at another node: come back with `seq`",
    "slow_reader": "too much waited for this reader: read faster, and come back with `seq`",
    "unauthorized": "the token expired or was revoked: come back with a valid one and `seq`",
    "store_unavailable": "the store takes no records for longer than its patience: the request continues when it is back; come back with `seq`, or ask for the request",
}


def socket_lines() -> Iterator[str]:
    """The WebSocket."""
    yield from SOCKET.splitlines()
    yield from ("", "### What a client sends", "")
    for struct, kind in TO_SERVER:
        yield from (f"**`{kind}`**: {first_line(struct)}", "", *struct_rows(struct), "")
    yield from COMMANDS.splitlines()
    yield from (
        "",
        "| command | does | fields beside `id` and `session_id` | waits for earlier ones |",
        "|---|---|---|---|",
    )
    for name, command in socket_commands(ROUTES).items():
        yield f"| `{name}` | {does(command.route)} | {fields_of(command)} | {'yes' if command.is_ordered else 'no'} |"
    yield from (
        "",
        "### What a server sends",
        "",
        "**`event`**: an [event](events.md), in the field `event`.",
        "",
    )
    for struct, kind in TO_CLIENT:
        yield from (f"**`{kind}`**: {first_line(struct)}", "", *struct_rows(struct), "")
    yield from WATCHES.splitlines()
    for struct, what in ROWS:
        yield from ("", what, "", *struct_rows(struct))
    yield from (
        "",
        "### How it closes",
        "",
        "| code | `reason` of `closing` | whose move it is |",
        "|---|---|---|",
    )
    source = inspect.getsource(CloseCode)
    for code in CloseCode:
        (said,) = re.findall(rf"{code.name} = {code.value}  # (.*)", source)
        yield f"| {code.value} | `{REASONS[code]}` | {said} |"
    yield ""


ROWS: Final[tuple[tuple[type, str], ...]] = (
    (RowFilter, "`filter` of `watch`:"),
    (SessionRow, "A row of `sessions`, whose key is `session_id`:"),
    (WaitingRow, "A row of `waiting`, whose key is `key`:"),
)

WATCHES: Final = f"""### Rows that are watched

`watch` with `"what": "sessions"` or `"waiting"` gives rows, and goes on giving those that change: for lists that people look at. A row is whole each time. With the scope
`use` they are those of the caller, with `inspect` those of the tenant.

```text
→ {{"type": "watch", "id": "w", "what": "sessions", "filter": {{"phase": "idle", "limit": 200}}}}
← {{"type": "watching", "id": "w", "what": "sessions", "rows": [{{"session_id": "main", …}}, …], "total": 41}}
← {{"type": "changed", "id": "w", "rows": [{{"session_id": "main", "phase": "running", …}}], "gone": ["old"], "total": 40}}
→ {{"type": "unwatch", "id": "w"}}
← {{"type": "reply", "id": "w", "ok": true, "result": null}}
```

- Changes are merged by key for {ROUND_SECONDS:g} s; a frame says how things are when it is made. A slow reader is told less often, never later, and its socket is not closed for it.
- What is much comes in several frames: `changed` may follow on `watching` at once.
- A `reply` with `ok: false` and the `id` of a watch ends it: watch again."""


def does(route: CallRoute) -> str:
    """Say what a command does: what its route does, where it has one over HTTP."""
    if route not in ROUTES:
        return route.does
    path = f"{route.method} {route.path}"
    return f"{route.does}, as [`{path}`](routes.md#{anchor(route.method, route.path)})"


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

`GET /ws` with the subprotocol `{PROTOCOL}`. Each frame is one JSON object in one text message, and `type` says which.

```text
→ {{"type": "hello", "token": "agt_…"}}
← {{"type": "welcome", "protocol": "{PROTOCOL}", "heartbeat": {USUAL_HEARTBEAT_SECONDS}, "limits": {{…}}}}
→ {{"type": "subscribe", "id": 1, "session_id": "main", "after": 14}}
← {{"type": "subscribed", "id": 1, "session_id": "main", "seq": 14}}
→ {{"type": "prompt", "id": 2, "session_id": "main", "message": "Hello", "client_id": "m-1"}}
← {{"type": "event", "event": {{"kind": "prompt_received", "seq": 15, …}}}}
← {{"type": "reply", "id": 2, "ok": true, "result": {{"request_id": "r-…", "ref": "…", "seq": 15, …}}}}
```

- **Who calls** is said by `Authorization` of the upgrade, or by `hello` within {HELLO_SECONDS:g} s, before all else. Without a token a socket needs the `Origin` of this server or a listed one.
- **Heartbeat**: the client asks for one from {MIN_HEARTBEAT_SECONDS:g} to {MAX_HEARTBEAT_SECONDS:g} s; who is not heard of for twice as long is closed.
- **Each command is judged by itself**; one that is refused gets a `reply` with `ok: false` and the error that HTTP would give, and the socket stays open. The frame
  number {MAX_MALFORMED} that is none closes it.
- **A slow reader** misses deltas first, and a `lag` says how many. When a committed event does not fit, the socket closes, and `closing` has a number for each session to come back with.
- **Repeat after a break**: a command with a `client_id` that was sent before gives the receipt of the first one."""

COMMANDS: Final = """**A command** is the name of a method of `Session`, with `id`, `session_id`, and side by side its fields. One that does what a route does has those of its body, query and path, and answers as it does. Commands of one session are done in order, but for those that read, stop, or decide."""


def snapshot_rows() -> Iterator[str]:
    """The fields of a snapshot, whose schema is on the page of routes."""
    yield from ("| field | meaning |", "|---|---|")
    for field in msgspec.structs.fields(SnapshotForm):
        yield f"| `{field.name}` | {SNAPSHOT[field.name]} |"


SNAPSHOT: Final[Mapping[str, str]] = {
    "seq": "the number that events follow on",
    "status": "how the session stands: phase, model, what runs and what waits for people; [Status](routes.md#status)",
    "queued": "prompts that wait",
    "todos": "the list of what is to be done",
    "text": "what the running response has said so far",
    "messages": "the last 50 messages",
    "before": "how many stand in front of them: `GET /sessions/{id}/messages` gives those",
    "title": "what the model called the conversation, or null",
    "agent_id": "the profile that it was started with, or null",
    "first_words": "what was said to it first, up to 80 characters; left out where that is not known",
    "first_seq": "the number of the first event that can still be read, as far as that is known",
    "children": "the sessions that work for it",
    "live": "what was said in passing and not yet for good, with the attempt that it belongs to; null where that is nothing",
    "context": "how full the window of the model is",
    "effects": "by tool, what it promises about being run twice; one that is not named is `once`",
    "metadata": "what its caller said of it when it was created; left out where that is nothing",
}


def struct_rows(struct: type) -> Iterator[str]:
    """The fields of a struct, with the words of its docstring."""
    said = described_in(struct)
    yield from ("| field | meaning |", "|---|---|")
    for field in msgspec.structs.fields(struct):
        default = (
            ""
            if field.required or field.default in (None, msgspec.UNSET, msgspec.NODEFAULT)
            else f" Default: `{field.default!r}`."
        )
        optional = "" if field.required else ", optional"
        yield f"| `{field.name}`{optional} | {in_json(said[field.name])}{default.replace('True', 'true').replace('False', 'false')} |"


def event_lines() -> Iterator[str]:
    """Each event: what its frames are called and hold."""
    yield from EVENTS.splitlines()
    yield from ("", "| `event:` and `kind` | `id:` | its own fields |", "|---|---|---|")
    for event, kind in events.KINDS.items():
        fields = ", ".join(f"`{one.name}`" for one in msgspec.structs.fields(event) if one.name != "meta")
        number = "–" if event in events.EPHEMERAL else "its number"
        yield f"| `{kind}` | {number} | {fields or '–'} |"
    yield ""


EVENTS: Final = """## Every event

Over SSE the frame has the kind in `event:`, over the socket it is `{"type": "event", "event": {…}}`; the object is the same. What the fields mean and when an event comes stands on
[the page of events](events.md), and the session's own stream may leave kinds out that `subscribe` did not name."""
