"""Rows of a server as a client has them: begun anew when a connection is lost, and refused where the server says so."""

import gc
import json
from types import TracebackType

import pytest
import trio

import agentrail
from agentrail.errors import CodecError, RemoteRefused, Unauthorized, Unreachable
from agentrail.host.hook_payloads import Principal
from agentrail.remote.dialer import address_of, dial_for
from agentrail.remote.row_watch import WatchedRows, watch_rows
from agentrail.wire.rows import RowFilter, SessionRow, WaitingRow
from tests.gateway.web import serving
from tests.host.hosting import answering

LOCAL = Principal(tenant_id="local", user_id="local")
ROW = {"session_id": "a", "phase": "idle", "waiting": {"approvals": 0, "questions": 0}, "changed_at_ms": 1}


def dial_to(web, token=None):
    """What opens connections to a server of a test."""
    return dial_for(address_of(f"http://{web.address[0]}:{web.address[1]}"), token)


def sessions(dial, **given):
    return watch_rows(dial, "sessions", SessionRow, "session_id", RowFilter(), **given)


async def until(watched, test):
    with trio.fail_after(60):
        while not test(watched):
            await watched.wait_changed(watched.version)


async def test_rows_change_and_begin_anew_when_the_connection_is_lost():
    """What came and went meanwhile is right behind the return."""
    async with serving(answering("words")) as web:
        await web.host.create(LOCAL, session_id="a")
        async with sessions(dial_to(web)) as watched:
            assert set(watched.rows) == {"a"}
            assert watched.is_whole
            session = await web.host.create(LOCAL, session_id="b")
            await until(watched, lambda w: "b" in w.rows)
            for one in tuple(web.served.sockets._open):  # noqa: SLF001 - a failure has no door
                one.cut()
            await until(watched, lambda w: w.line == "lost")
            await session.ask("Hi")
            await until(watched, lambda w: w.line == "live" and w.rows["b"].outcome == "completed")


async def test_what_a_server_refuses_ends_the_watch_with_its_words():
    """A wrong token and an unknown watch end at once; where no server answers, the last attempt is reported in time."""
    async with serving(answering(), auth=lambda _: None) as web:
        with pytest.raises(Unauthorized):
            async with sessions(dial_to(web, "agt_x")):
                pass
    async with serving(answering()) as web:
        with pytest.raises(RemoteRefused, match="moon"):
            async with watch_rows(dial_to(web), "moon", WaitingRow, "key", RowFilter()):
                pass
    dial = dial_for(address_of("http://127.0.0.1:1"), None)
    with pytest.raises(Unreachable, match=r"within 0\.3 s \(.*connect.*"):
        async with sessions(dial, connect_seconds=0.3):
            pass


@pytest.mark.parametrize("how", ["connect", "watch"])
async def test_an_unreachable_server_leaves_nothing_to_the_collector(how):
    """Each attempt left some eighty objects: Trio's frames refer to the errors of addresses, whose tracebacks refer to them."""
    url = "http://127.0.0.1:1"
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(Unreachable) as raised:
            async with (
                agentrail.connect(url, connect_seconds=0.3)
                if how == "connect"
                else sessions(dial_for(address_of(url), None), connect_seconds=0.3)
            ):
                pass
        assert isinstance(raised.value.__cause__, OSError)
        del raised
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert not [one for one in gc.garbage if isinstance(one, BaseException | TracebackType)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_a_newer_server_may_say_more_and_a_lying_one_is_named():
    """Unknown fields and other frames are ignored; a frame that cannot be read raises an error of ours."""
    watched = WatchedRows(None, "sessions", SessionRow, "session_id", RowFilter())
    told = {"type": "watching", "id": 1, "rows": [{**ROW, "added": 1}], "total": 1, "more": 2}
    for frame in (
        told,
        {"type": "weather"},
        {**told, "id": 9, "rows": []},
        {"type": "reply", "id": 5, "ok": False},
    ):
        watched.take(json.dumps(frame))
    assert set(watched.rows) == {"a"}
    changed = {"type": "changed", "id": 1, "rows": [], "gone": [], "total": 1}
    for frame in (
        "no json",
        "[]",
        json.dumps({"type": "watching", "id": 1}),
        json.dumps({**told, "rows": [{}]}),
        json.dumps({**told, "rows": [7]}),
        json.dumps({**changed, "gone": 5}),
        json.dumps({**changed, "total": "x"}),
    ):
        with pytest.raises(CodecError):
            watched.take(frame)


@pytest.mark.parametrize("error", ["no", ["no"], 5, None])
def test_a_refusal_without_an_object_is_a_refusal(error):
    """It may come from a proxy."""
    watched = WatchedRows(None, "sessions", SessionRow, "session_id", RowFilter())
    with pytest.raises(RemoteRefused):
        watched.take(json.dumps({"type": "reply", "id": 1, "ok": False, "error": error}))
