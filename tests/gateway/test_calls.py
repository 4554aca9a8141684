"""The calls that routes and sockets share, over a real host: what each says."""

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from agentrail.abc import FileBytes
from agentrail.errors import AgentrailError, Unrevivable
from agentrail.gateway.calls import decision_calls, inspection, session_calls
from agentrail.gateway.calls.session_calls import AskedSessions
from agentrail.gateway.error_responses import CallRefused, answer_to
from agentrail.gateway.request_bodies import AbortBody, CreateSessionBody, ModelBody
from agentrail.gateway.whole_answer import WholeAnswer
from agentrail.host import Host, HostPlugin, Principal, workspace_files
from agentrail.plugins import Action, AfterResponse, Context, Continue, Plugin, on
from agentrail.runtime.journal_inspection import WantedRecords
from agentrail.runtime.session_files import open_files
from agentrail.runtime.session_rows import phase_of
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls as model_calls, says
from agentrail.testing.tools import HangingTool
from agentrail.wire.rows import RowFilter
from tests.host.hosting import ANN, BOB, EVE, answering, asked, hosting, profile
from tests.host.rig import plugin, raising
from tests.runtime.rig import on_bounded_time, on_virtual_time

pytestmark = on_virtual_time

ALL = frozenset({"use", "inspect"})
OPERATOR = Principal(tenant_id="acme", user_id="olga", scopes=ALL)

AnyCall = Callable[[Host, Principal, str], Awaitable[Any]]


def read(answer: WholeAnswer) -> Any:
    return json.loads(answer.body)


async def refused(host: Host, call: AnyCall) -> bytes:
    """How a call of Ann's about the session `main` is answered that is to be refused."""
    with pytest.raises((AgentrailError, CallRefused)) as raised:
        await call(host, ANN, "main")
    answer = answer_to(raised.value)
    return f"{answer.status} {sorted(answer.headers.items())} {answer.encode().decode()}".encode()


def stored(model: Any = None, *plugins: HostPlugin, **options: Any) -> Any:
    """A host that keeps its sessions in a store, which ends with the test."""
    options.setdefault("store", MemoryStore())
    return hosting(model or answering("Hi", "Ho", "Ha", "He"), *plugins, **options)


async def test_a_list_shows_all_sessions_once_on_pages():
    """The newest first, also those asleep or from the store; ended ones on request; a cursor is one that a page gave."""
    store = MemoryStore()
    async with stored(store=store) as host:
        for number in range(5):
            await session_calls.create_session(host, ANN, CreateSessionBody(session_id=f"s{number}"))
            await trio.sleep(1)
        await session_calls.create_session(host, BOB, CreateSessionBody(session_id="bobs"))
    async with stored(store=store) as host:
        await asked(host, session_id="s1")
        await session_calls.delete_session(host, ANN, "s3")
        seen, cursor = [], None
        while True:
            page = read(
                await session_calls.list_own_sessions(host, ANN, AskedSessions(limit=2, cursor=cursor))
            )
            seen += page["sessions"]
            assert len(page["sessions"]) <= 2
            if (cursor := page["next_cursor"]) is None:
                break
        assert [one["session_id"] for one in seen] == ["s4", "s2", "s1", "s0"]
        assert {one["session_id"] for one in seen if one["phase"] == "asleep"} == {"s4", "s2", "s0"}
        awake = next(one for one in seen if one["session_id"] == "s1")
        assert {"model", "usage", "turn"} <= awake.keys()
        only_ended = AskedSessions(wanted=RowFilter(phase="ended"))
        ended = read(await session_calls.list_own_sessions(host, ANN, only_ended))["sessions"]
        assert [one["session_id"] for one in ended] == ["s3"]
        assert read(await session_calls.list_own_sessions(host, EVE))["sessions"] == []
        for given, code in (
            (AskedSessions(cursor="x"), "cursor_invalid"),
            (AskedSessions(wanted=RowFilter(phase="busy")), "field_invalid"),
            (AskedSessions(wanted=RowFilter(outcome="fine")), "field_invalid"),
            (AskedSessions(sort="size"), "field_invalid"),
        ):
            with pytest.raises(CallRefused) as raised:
                await session_calls.list_own_sessions(host, ANN, given)
            assert raised.value.answer.code == code


async def test_a_caller_cannot_say_where_a_model_is():
    """Who could would be sent the operator's key, or reach addresses that only the server can."""
    async with stored() as host:
        await session_calls.create_session(host, ANN, CreateSessionBody(session_id="main"))
        for name in ("base_url", "api_key", "headers", "extra_body", "verify", "trust_env", "price"):
            body = ModelBody(model="openai:gpt-5", provider_opts={"temperature": 1, name: "http://evil"})
            with pytest.raises(CallRefused) as raised:
                await session_calls.switch_session_model(host, ANN, "main", body)
            assert raised.value.answer.code == "field_invalid"
            assert "evil" not in raised.value.answer.message
        told = read(await session_calls.switch_session_model(host, ANN, "main", ModelBody(model="demo:")))
        assert told["model"].startswith("demo:")


async def test_an_abort_answers_at_once_or_with_its_receipt():
    """In idle there is nothing to stop, and it says so; one call alone is named."""
    tool = HangingTool()
    model = ScriptedModel([model_calls(("hang", {})), says("Hi"), model_calls(("hang", {}))])
    async with hosting(model, session_tools=[tool]) as host:
        request = await asked(host, session_id="main")
        await tool.started.wait()
        (running,) = (await request.session.status()).running_tools
        one = AbortBody(call_id=running.call_id, reason="not this")
        assert (await decision_calls.abort_session(host, ANN, "main", one)).status == 202
        assert await request.outcome() == "completed"
        again = await asked(host, session_id="main")
        await trio.sleep(1)
        done = await decision_calls.abort_session(host, ANN, "main", AbortBody(reason="enough"), wait=True)
        assert (done.status, read(done)["settled"]) == (200, True)
        assert await again.outcome() == "aborted"
        soon = await decision_calls.abort_session(host, ANN, "main", AbortBody())
        assert soon.status == 202
        both = AbortBody(call_id="c", clear_queue=True)
        with pytest.raises(CallRefused):
            await decision_calls.abort_session(host, ANN, "main", both)


def reading(path: str) -> AnyCall:
    return lambda host, by, name: session_calls.read_workspace_file(host, by, name, path)


def listing(path: str) -> AnyCall:
    return lambda host, by, name: session_calls.list_workspace(host, by, name, path)


@pytest.mark.host("H-112")
@pytest.mark.parametrize("sandboxed", ["memory", "local"])
@pytest.mark.check
@on_bounded_time
async def test_what_is_outside_a_workspace_is_not_there(tmp_path: Path, sandboxed: str):
    """By `..`, by an absolute name, by a link, as a device or a directory: one answer."""
    inside = tmp_path / "work"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (inside / "link").symlink_to(tmp_path / "secret.txt")
    (inside / "up").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")
    (inside / "real").mkdir()
    given: dict[str, Any] = {"session_sandbox": "memory"}
    if sandboxed != "memory":
        given = {"session_working_dir": inside, "session_sandbox": None}
    async with hosting(answering("Hi"), **given) as host:
        await session_calls.create_session(host, ANN, CreateSessionBody(session_id="main"))
        answers = set()
        for path in (
            "../secret.txt", "/etc/passwd", str(tmp_path / "secret.txt"), "link", "up/secret.txt", "pipe", "real", "none", "",
            "a/../../secret.txt", "./link", "x" * 5_000, "a\0b", "real/", "..", ".",
        ):  # fmt: skip
            answers.add(await refused(host, reading(path)))
        assert len(answers) == 1
        assert b"file_unknown" in answers.pop()
        for path in ("..", "/", "up", "link", "none", "a/.."):
            assert b"file_unknown" in await refused(host, listing(path))
        names = [
            one["path"] for one in read(await session_calls.list_workspace(host, ANN, "main"))["entries"]
        ]
        assert names == ([] if sandboxed == "memory" else ["real"])


@pytest.mark.parametrize(("size", "here"), [(1 << 20, 1), ((1 << 20) + 1, 0)])
async def test_a_large_file_is_hashed_in_a_thread(size, here):
    """25 MiB take a sixteenth of a second."""
    called: list[str] = []
    async with stored() as host:
        await session_calls.create_session(host, ANN, CreateSessionBody(session_id="main"))
        async with open_files(await host.session("main", ANN)) as sandbox:
            await sandbox.upload([FileBytes(path="a", content=bytes(size))])
        sys.setprofile(lambda frame, kind, _: called.append(frame.f_code.co_name) if kind == "call" else None)
        try:
            answer = await session_calls.read_workspace_file(host, ANN, "main", "a")
        finally:
            sys.setprofile(None)
    assert len(answer.body) == size
    assert called.count("file_of_transfer") == here


async def test_a_file_that_is_too_large_is_not_given_out(monkeypatch: pytest.MonkeyPatch):
    """Nor one of a session that works where the server does."""
    monkeypatch.setattr(workspace_files, "MAX_FILE_BYTES", 4)
    async with stored() as host:
        await session_calls.create_session(host, ANN, CreateSessionBody(session_id="main"))
        async with open_files(await host.session("main", ANN)) as sandbox:
            await sandbox.upload(
                [FileBytes(path="a", content=b"12345"), FileBytes(path="b", content=b"1234")]
            )
        assert b"413" in await refused(host, reading("a"))
        assert (await session_calls.read_workspace_file(host, ANN, "main", "b")).body == b"1234"
    async with stored(profiles=[profile(answering("Hi"), sandbox=None)]) as host:
        await session_calls.create_session(host, ANN, CreateSessionBody(session_id="main"))
        for call in (session_calls.list_workspace, reading("notes.txt")):
            assert b"files_unsupported" in await refused(host, call)


async def test_who_inspects_sees_all_of_the_tenant_and_nothing_of_another():
    """Whose sessions are, how the tree stands, and what plugins did; without the scope nothing."""
    async with stored(None, plugin("broken", version="1.2", on_request_start=raising(ValueError()))) as host:
        await (await asked(host, session_id="main")).outcome()
        await session_calls.create_session(host, BOB, CreateSessionBody(session_id="bobs"))
        await session_calls.create_session(host, EVE, CreateSessionBody(session_id="eves"))
        listed = read(await inspection.inspect_sessions(host, OPERATOR))["sessions"]
        assert {(one["session_id"], one["user_id"]) for one in listed} == {("main", "ann"), ("bobs", "bob")}
        tree = read(await inspection.inspect_tree(host, OPERATOR))
        assert {one["id"] for one in tree["children"]} == {"main", "bobs"}
        (row,) = read(await inspection.inspect_plugins(host, OPERATOR))["plugins"]
        assert (row["name"], row["version"], row["failures"]) == ("broken", "1.2", 1)
        assert row["hooks"] == ["on_request_start"]
        trace = read(await inspection.inspect_trace(host, OPERATOR, "main", WantedRecords(limit=2)))
        assert [one["number"] for one in trace["entries"]] == [1, 2]
        assert trace["next"] == 2
        rest = read(
            await inspection.inspect_trace(host, OPERATOR, "main", WantedRecords(after=2, limit=1_000))
        )
        assert rest["entries"][0]["number"] == 3
        assert rest["next"] is None
        assert len(read(await inspection.inspect_messages(host, OPERATOR, "main"))["messages"]) == 2
        for look in (inspection.inspect_sessions, inspection.inspect_tree, inspection.inspect_plugins):
            assert (await refused(host, lambda h, by, _, look=look: look(h, by))).startswith(b"403")
        for call in (inspection.inspect_trace, inspection.inspect_messages):
            assert (await refused(host, call)).startswith(b"403")


async def test_one_that_sleeps_beside_its_handle_sleeps_on():
    """Idle for long enough it has left memory; a look reads its journal."""
    async with hosting(answering("One."), store="memory:", idle_after=60.0) as host:
        request = await asked(host, session_id="main")
        await request.outcome()
        await host.quiet()
        awake = read(await inspection.inspect_messages(host, OPERATOR, "main"))
        await trio.sleep(200)
        assert phase_of(request.session) == "asleep"
        assert read(await inspection.inspect_messages(host, OPERATOR, "main")) == awake
        assert read(await inspection.inspect_trace(host, OPERATOR, "main"))["entries"]
        assert phase_of(request.session) == "asleep"


class Counts(Plugin[int]):
    """Counts answers; made with an argument, so that no journal could make it again."""

    def __init__(self, word: str) -> None:
        self.name = f"counts-{word}"
        self._word = word

    def init(self) -> int:
        return 0

    @on(AfterResponse)
    def after(self, event: AfterResponse, state: int, ctx: Context) -> Action[int]:
        return Continue(state + (self._word in event.message.text))


async def test_a_look_finds_the_plugins_of_its_profile():
    """Their code stands in no journal; where the profile is gone that is said, and no caller's fault."""
    store, model = MemoryStore(), answering("One.")
    profiles = [profile(model, plugins=[Counts("One")]), profile(model, "other")]
    async with hosting(None, store=store, profiles=profiles) as host:
        await (await asked(host, session_id="main")).outcome()
    async with hosting(None, store=store, profiles=profiles) as host:
        assert len(read(await inspection.inspect_messages(host, OPERATOR, "main"))["messages"]) == 2
    async with hosting(None, store=store, profiles=profiles[1:]) as host:
        with pytest.raises(Unrevivable, match="counts-One"):
            await inspection.inspect_messages(host, OPERATOR, "main")
        assert read(await inspection.inspect_trace(host, OPERATOR, "main"))["entries"]
