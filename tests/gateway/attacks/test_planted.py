"""A token that is planted at every door: HTTP, a WebSocket, a crash, a caller who breaks the protocol, the shutdown. It is found nowhere.

And files whose names, and whose place in a workspace, were chosen by one who wants to be taken for something else.
"""

import json
import logging
import os
import re
import threading
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.errors import FileUnknown
from agentrail.gateway.app import ROUTES
from agentrail.gateway.calls.session_calls import answer_download
from agentrail.gateway.tokens import decode_tokens, make_token
from agentrail.host.workspace_files import read_workspace
from agentrail.stores.memory import MemoryStore
from tests.gateway.attacks.test_other_peoples import body_of
from tests.gateway.attacks.wire import FREE, HOST, UPGRADE, at_once, frame, head, tell
from tests.gateway.socket_client import socket_of
from tests.gateway.web import serving
from tests.host.hosting import ANN, answering, hosting
from tests.host.rig import plugin
from tests.runtime.rig import on_bounded_time

MADE = make_token("acme", "ann", scopes=("use", "inspect"), now=0.0)
SECRET = MADE.token[4:]
"""Without what each of them begins with."""


async def crash(ctx):
    """Crash, with what a hook was given in its hands."""
    message = f"crashed on {ctx!r} {ctx.as_dict()}"
    raise ValueError(message)


@pytest.mark.host("H-082", "H-088")
@on_bounded_time
async def test_a_token_is_in_no_log_answer_event_journal_or_page(caplog, capfd):
    """Whatever it was sent as, and whatever breaks meanwhile."""
    store = MemoryStore()
    breaks = plugin("breaks", intercept_chat_request=crash, on_request_start=crash, on_request_end=crash)
    found: list[bytes] = []
    token = MADE.token.encode()
    auth = decode_tokens(MADE.lines.encode(), "f")
    with caplog.at_level(logging.DEBUG):
        async with serving(answering(*"ab" * 9), breaks, auth=auth, limits=FREE, store=store) as web:
            web.client.headers["authorization"] = f"Bearer {MADE.token}"
            await web.chat(session_id="s-1")
            for route in ROUTES:
                path = route.path.replace("{session_id}", "s-1")
                path = path.replace("{request_id}", "r").replace("{path:path}", "a")
                is_end = (route.method, path) == ("DELETE", "/sessions/s-1")
                if route.is_stream or path == "/stream" or is_end:
                    continue
                said = {**body_of(route), "session_id": "s-2"} if path == "/chat" else body_of(route)
                sent = {"json": said} if route.method == "POST" else {}
                answer = await web.client.request(route.method, path, **sent)
                found += [answer.content, repr(answer.headers.raw).encode()]
            own = b"Authorization: Bearer " + token
            sent = (
                head(b"GET /sessions?token=" + token, HOST),
                head(b"GET /sessions?limit=" + token, HOST),
                head(b"GET /sessions/" + token, HOST, own + b"\r\n"),
                head(b"GET /sessions", HOST, own + b"x\r\n"),
                head(b"GET /sessions", HOST, b"Authorization: Basic " + token + b"\r\n"),
                head(
                    b"GET /sessions", HOST, own + b"\r\nUpgrade: h2c\r\nHTTP2-Settings: A" + token + b"\r\n"
                ),
                head(b"GET /ws?token=" + token, HOST, UPGRADE),
                head(b"GET /ws", HOST, own + b"\r\n", UPGRADE) + frame(1, token),
                head(b"GET /ws", HOST, UPGRADE, b"Sec-WebSocket-Protocol: \xff" + token + b"\r\n"),
                token + b"\r\n\r\n",
                b"GET / HTTP/1.1\r\n" + token + b"\r\n\r\n",
            )

            async def check(place):
                found.append((await tell(web, sent[int(place)], seconds=0.2))[0])

            await at_once(map(str, range(len(sent))), check)
            async with socket_of(web) as client:
                await client.send(type="hello", token=MADE.token, heartbeat="soon")
                await client.send(type="hello", tokn=MADE.token)
                await client.send(type="prompt", id=1, session_id="s-1", message="Hi")
                await client.greet(MADE.token)
                await client.ask("prompt", session_id="s-1", message="Hi")
                await client.ask("snapshot", session_id="s-1")
                found.append(json.dumps(client.seen).encode())
            async with socket_of(web) as client:
                await client.connection.send_message(f'{{"type": "hello", "token": "{MADE.token}"')
                await client.next()
                await client.greet(f"{MADE.token}x")
                found.append(json.dumps(client.seen).encode())
        # Closed: what its shutdown said is in the log, and what it wrote is in the store.
        kept = repr(vars(store)).encode()
    said = (caplog.text + "".join(capfd.readouterr())).encode()
    assert len(found) > 50
    assert b"breaks" in said
    for place, held in enumerate((said, kept, *found)):
        assert SECRET.encode() not in held, (place, held[:200])


@pytest.mark.host("H-112")
@given(
    name=st.text(min_size=1, max_size=40) | st.from_regex(r'[a-z]*[\r\n"\\;=/\0]+[a-zA-Z: ]*', fullmatch=True)
)
def test_the_name_of_a_file_can_say_nothing_else_in_its_header(name):
    """No second header, no other parameter, no path: whatever a session calls its files."""
    answer = answer_download(b"", etag='"x"', name=name)
    given_name = answer.headers["content-disposition"]
    assert re.fullmatch(
        r"""attachment; filename="[A-Za-z0-9._-]+"; filename\*=UTF-8''[A-Za-z0-9._~%-]*""", given_name
    ), given_name


@pytest.mark.check
@pytest.mark.host("H-112")
@on_bounded_time
async def test_a_file_that_is_swapped_for_a_link_while_it_is_read_leads_nowhere(tmp_path: Path):
    """However often: what is outside of the workspace is never given out."""
    inside = tmp_path / "work"
    inside.mkdir()
    outside = tmp_path / "secret.txt"
    outside.write_text("secret")
    (inside / "plain").write_text("plain")
    is_over = threading.Event()

    def swap() -> None:
        target = inside / "file"
        while not is_over.is_set():
            for make in (
                lambda: os.link(inside / "plain", inside / "next"),
                lambda: (inside / "next").symlink_to(outside),
            ):
                make()
                (inside / "next").replace(target)
                (inside / "next").unlink(missing_ok=True)

    seen: set[bytes | None] = set()
    async with hosting(answering("Hi"), session_working_dir=inside, session_sandbox=None) as host:
        session = await host.create(ANN, session_id="s-1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, swap)
            for _ in range(150):
                try:
                    seen.add((await read_workspace(session, "file")).content)
                except FileUnknown:
                    seen.add(None)
            is_over.set()
    assert seen <= {b"plain", None}
    assert b"plain" in seen
