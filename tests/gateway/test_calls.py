"""The calls that routes and sockets share, over a real host: what each says, and that they know no session of another user."""

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from agentrail.abc import FileBytes
from agentrail.errors import AgentrailError
from agentrail.gateway import calls
from agentrail.gateway.calls import AskedSessions, CallAnswer
from agentrail.gateway.calls.decision_calls import AskedSession
from agentrail.gateway.error_responses import CallRefused, answer_to
from agentrail.gateway.request_bodies import (
    AbortBody,
    ApproveBody,
    CancelBody,
    CommandBody,
    CreateSessionBody,
    ForkBody,
    ModelBody,
    ResumeBody,
    RewindBody,
)
from agentrail.host import (
    ChatRequestContext,
    HandledResponse,
    Host,
    HostPlugin,
    Principal,
    RequestContext,
    workspace_files,
)
from agentrail.plugins import HumanApproval
from agentrail.runtime.event_history import PageAsked
from agentrail.runtime.session_files import open_files
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls as model_calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.wire.operations import COMPACT, REJECT, REVOKE_RULE, RULES, STATUS, Operation, RespondBody
from agentrail.wire.rows import RowFilter
from tests.host.hosting import ANN, BOB, EVE, answering, asked, hosting, profile
from tests.runtime.rig import on_bounded_time, on_virtual_time

ALL = frozenset({"use", "inspect"})
OPERATOR = Principal(tenant_id="acme", user_id="olga", scopes=ALL)

AnyCall = Callable[[Host, Principal, str], Awaitable[Any]]


def passed(operation: Operation[Any], asks: AskedSession = "any", **given: Any) -> AnyCall:
    """A call that does nothing but call a session."""
    return lambda host, by, name: calls.call_session(operation, host, by, name, given, asks=asks)


ON_A_SESSION: dict[str, AnyCall] = {
    "snapshot": calls.read_snapshot,
    "status": passed(STATUS),
    "delete": calls.delete_session,
    "purge": lambda host, by, name: calls.delete_session(host, by, name, purge=True),
    "messages": calls.read_messages,
    "model": lambda host, by, name: calls.switch_session_model(host, by, name, ModelBody(model="demo:")),
    "fork": lambda host, by, name: calls.fork_session(host, by, name, ForkBody()),
    "rewind": lambda host, by, name: calls.rewind_session(host, by, name, RewindBody(to=1)),
    "resume": lambda host, by, name: calls.resume_session(host, by, name, ResumeBody(on_drift="go_on")),
    "compact": passed(COMPACT, "root", reason=None),
    "abort": lambda host, by, name: calls.abort_session(host, by, name, AbortBody()),
    "abort of a call": lambda host, by, name: calls.abort_session(host, by, name, AbortBody(call_id="c")),
    "approve": lambda host, by, name: calls.accept_approval(
        host, by, name, ApproveBody(approval_id="main/1")
    ),
    "approve what was shown": lambda host, by, name: calls.accept_approval(
        host, by, name, ApproveBody(approval_id="main/1", arguments_hash="h")
    ),
    "reject": passed(REJECT, "to_decide", approval_id="main/1", reason=None, auto_resume=False),
    "respond": lambda host, by, name: calls.respond_to_question(
        host, by, name, RespondBody(ref="main/1", response="yes")
    ),
    "approval": lambda host, by, name: calls.read_shown_approval(host, by, name, "main/1"),
    "rules": passed(RULES),
    "revoke a rule": passed(REVOKE_RULE, rule_id="rule_1"),
    "request": lambda host, by, name: calls.read_request(host, by, name, "r-1"),
    "waiting for a request": lambda host, by, name: calls.read_request(host, by, name, "r-1", wait=30),
    "cancel": lambda host, by, name: calls.cancel_request(host, by, name, "r-1", CancelBody()),
    "files": calls.list_workspace,
    "file": lambda host, by, name: calls.read_workspace_file(host, by, name, "notes.txt"),
    "trace": calls.inspect_trace,
    "past state": lambda host, by, name: calls.inspect_state(host, by, name, 1, since=1),
    "explanation": lambda host, by, name: calls.inspect_explanation(host, by, name, 1),
    "inspected messages": calls.inspect_messages,
    "events": lambda host, by, name: calls.read_events(host, by, name, PageAsked()),
    "call": lambda host, by, name: calls.read_call_details(host, by, name, "c-1"),
    "context": calls.read_context,
    "spans": calls.inspect_spans,
    "commands": calls.list_commands,
    "run a command": lambda host, by, name: calls.run_slash_command(
        host, by, "status", CommandBody(session_id=name), via="http"
    ),
}
"""Every call that names a session."""

WITHOUT_A_SESSION = frozenset(
    {
        "create_session",
        "list_own_sessions",
        "inspect_sessions",
        "inspect_tree",
        "inspect_plugins",
        "inspect_cost",
    }
)


ENDED_ONES = AskedSessions(wanted=RowFilter(phase="ended"))


def read(answer: CallAnswer) -> Any:
    """What a call says, as a client reads it."""
    return json.loads(answer.body)


async def refused(host: Host, call: AnyCall, by: Principal, name: str) -> bytes:
    """How a call is answered that is to be refused, with the id taken out."""
    with pytest.raises((AgentrailError, CallRefused)) as raised:
        await call(host, by, name)
    answer = answer_to(raised.value)
    return f"{answer.status} {sorted(answer.headers.items())} {answer.encode().decode()}".replace(
        name, "<id>"
    ).encode()


def stored(model: Any = None, *plugins: HostPlugin, **options: Any) -> Any:
    """A host that keeps its sessions in a store, which ends with the test."""
    options.setdefault("store", MemoryStore())
    return hosting(model or answering("Hi", "Ho", "Ha", "He"), *plugins, **options)


def test_every_call_that_names_a_session_is_tried_on_that_of_another():
    """A new one is missed here until it stands in the table."""
    names = {
        name
        for name in vars(calls)
        if name.split("_")[0]
        in {"abort", "accept", "respond", "cancel", "compact", "create", "delete", "fork", "inspect", "list", "read", "reject", "resume", "revoke", "rewind", "run", "switch"}
        and callable(getattr(calls, name))
    }  # fmt: skip
    again = {"purge", "abort of a call", "approve what was shown", "waiting for a request"}
    passing = {"status", "compact", "reject", "rules", "revoke a rule"}  # all of them through `call_session`
    assert len(names - WITHOUT_A_SESSION) == len(ON_A_SESSION) - len(again | passing)


# --- sessions


@on_virtual_time
async def test_a_list_shows_all_sessions_once_on_pages():
    """The newest first, also those that sleep and those that came back with the store; ended ones when they are asked for."""
    store = MemoryStore()
    async with stored(store=store) as host:
        for number in range(5):
            await calls.create_session(host, ANN, CreateSessionBody(session_id=f"s{number}"))
            await trio.sleep(1)
        await calls.create_session(host, BOB, CreateSessionBody(session_id="bobs"))
    async with stored(store=store) as host:
        await asked(host, session_id="s1")
        await calls.delete_session(host, ANN, "s3")
        seen, cursor = [], None
        while True:
            page = read(await calls.list_own_sessions(host, ANN, AskedSessions(limit=2, cursor=cursor)))
            seen += page["sessions"]
            assert len(page["sessions"]) <= 2
            if (cursor := page["next_cursor"]) is None:
                break
        assert [one["session_id"] for one in seen] == ["s4", "s2", "s1", "s0"]
        assert {one["session_id"]: one["phase"] == "asleep" for one in seen} == {
            "s4": True,
            "s2": True,
            "s1": False,
            "s0": True,
        }
        awake = next(one for one in seen if one["session_id"] == "s1")
        assert {"model", "usage", "turn"} <= awake.keys()
        ended = read(await calls.list_own_sessions(host, ANN, ENDED_ONES))["sessions"]
        assert [one["session_id"] for one in ended] == ["s3"]
        assert read(await calls.list_own_sessions(host, EVE))["sessions"] == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (AskedSessions(cursor="x"), "cursor_invalid"),
        (AskedSessions(wanted=RowFilter(phase="busy")), "field_invalid"),
        (AskedSessions(wanted=RowFilter(outcome="fine")), "field_invalid"),
        (AskedSessions(sort="size"), "field_invalid"),
    ],
)
@on_virtual_time
async def test_a_list_refuses_what_no_page_gave(given: AskedSessions, code: str):
    """A cursor is taken as it was given, and a phase is one that there is."""
    async with stored() as host:
        with pytest.raises(CallRefused) as raised:
            await calls.list_own_sessions(host, ANN, given)
        assert raised.value.answer.code == code


@pytest.mark.parametrize(
    "name", ["base_url", "api_key", "headers", "extra_body", "verify", "trust_env", "price"]
)
@on_virtual_time
async def test_a_caller_cannot_say_where_a_model_is(name: str):
    """Who could would be sent the operator's key, or reach addresses that only the server can."""
    async with stored() as host:
        await calls.create_session(host, ANN, CreateSessionBody(session_id="main"))
        body = ModelBody(model="openai:gpt-5", provider_opts={"temperature": 1, name: "http://evil"})
        with pytest.raises(CallRefused) as raised:
            await calls.switch_session_model(host, ANN, "main", body)
        assert raised.value.answer.code == "field_invalid"
        assert "evil" not in raised.value.answer.message
        told = read(await calls.switch_session_model(host, ANN, "main", ModelBody(model="demo:")))
        assert told["model"].startswith("demo:")


# --- what runs


@on_virtual_time
async def test_an_abort_answers_at_once_or_with_its_receipt():
    """In idle there is nothing to stop, and it says so; one call alone is named."""
    tool = HangingTool()
    model = ScriptedModel([model_calls(("hang", {})), says("Hi"), model_calls(("hang", {}))])
    async with hosting(model, session_tools=[tool]) as host:
        request = await asked(host, session_id="main")
        await tool.started.wait()
        (running,) = (await request.session.status()).running_tools
        one = AbortBody(call_id=running.call_id, reason="not this")
        assert (await calls.abort_session(host, ANN, "main", one)).status == 202
        assert await request.outcome() == "completed"
        again = await asked(host, session_id="main")
        await trio.sleep(1)
        done = await calls.abort_session(host, ANN, "main", AbortBody(reason="enough"), wait=True)
        assert (done.status, read(done)["settled"]) == (200, True)
        assert await again.outcome() == "aborted"
        soon = await calls.abort_session(host, ANN, "main", AbortBody())
        assert soon.status == 202
        both = AbortBody(call_id="c", clear_queue=True)
        with pytest.raises(CallRefused):
            await calls.abort_session(host, ANN, "main", both)


@on_virtual_time
async def test_an_answer_is_shown_to_interceptors_first():
    """It carries a user's words: what a plugin answers is the answer, and the question still waits."""

    class Guard(HostPlugin):
        name = "guard"

        async def intercept_chat_request(self, ctx: ChatRequestContext) -> HandledResponse | None:
            """Handle answers."""
            return (
                HandledResponse(body={"no": ctx.request.message}, status=409)
                if ctx.kind == "respond"
                else None
            )

    model = ScriptedModel([model_calls(("shell", {"command": "ls"})), says("Done")])
    async with hosting(
        model, Guard(), session_tools=[RecordingTool(name="shell")], session_plugins=[HumanApproval]
    ) as host:
        request = await asked(host, session_id="main")
        record = await request.answered()
        body = RespondBody(ref=record.pending[0].id, response="later")
        made = await calls.respond_to_question(host, ANN, "main", body)
        assert (made.status, read(made)) == (409, {"no": "later"})
        assert request.record.status == "waiting"


# --- files


def reading(path: str) -> AnyCall:
    """A call that reads a file."""
    return lambda host, by, name: calls.read_workspace_file(host, by, name, path)


def listing(path: str) -> AnyCall:
    """A call that lists a directory."""
    return lambda host, by, name: calls.list_workspace(host, by, name, path)


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
    given = (
        {"session_sandbox": "memory"}
        if sandboxed == "memory"
        else {"session_working_dir": inside, "session_sandbox": None}
    )
    async with hosting(answering("Hi"), **given) as host:
        await calls.create_session(host, ANN, CreateSessionBody(session_id="main"))
        answers = set()
        for path in (
            "../secret.txt", "/etc/passwd", str(tmp_path / "secret.txt"), "link", "up/secret.txt", "pipe", "real", "none", "",
            "a/../../secret.txt", "./link", "x" * 5_000, "a\0b", "real/", "..", ".",
        ):  # fmt: skip
            answers.add(await refused(host, reading(path), ANN, "main"))
        assert len(answers) == 1
        assert b"file_unknown" in answers.pop()
        for path in ("..", "/", "up", "link", "none", "a/.."):
            assert b"file_unknown" in await refused(host, listing(path), ANN, "main")
        names = [one["path"] for one in read(await calls.list_workspace(host, ANN, "main"))["entries"]]
        assert names == ([] if sandboxed == "memory" else ["real"])


@on_virtual_time
async def test_a_file_that_is_too_large_is_not_given_out(monkeypatch: pytest.MonkeyPatch):
    """Nor one of a session that works where the server does."""
    monkeypatch.setattr(workspace_files, "MAX_FILE_BYTES", 4)
    async with stored() as host:
        await calls.create_session(host, ANN, CreateSessionBody(session_id="main"))
        async with open_files(await host.session("main", ANN)) as sandbox:
            await sandbox.upload(
                [FileBytes(path="a", content=b"12345"), FileBytes(path="b", content=b"1234")]
            )
        assert b"413" in await refused(
            host, lambda h, p, s: calls.read_workspace_file(h, p, s, "a"), ANN, "main"
        )
        assert (await calls.read_workspace_file(host, ANN, "main", "b")).content == b"1234"
    async with stored(profiles=[profile(answering("Hi"), sandbox=None)]) as host:
        await calls.create_session(host, ANN, CreateSessionBody(session_id="main"))
        for call in (ON_A_SESSION["files"], ON_A_SESSION["file"]):
            assert b"files_unsupported" in await refused(host, call, ANN, "main")


# --- inspection


@on_virtual_time
async def test_who_inspects_sees_all_of_the_tenant_and_nothing_of_another():
    """Whose sessions are, how the tree stands, and what plugins did; without the scope nothing."""

    class Broken(HostPlugin):
        name = "broken"
        version = "1.2"

        async def on_request_start(self, ctx: RequestContext) -> None:
            """Fail."""
            message = "no"
            raise ValueError(message)

    async with stored(None, Broken()) as host:
        await (await asked(host, session_id="main")).outcome()
        await calls.create_session(host, BOB, CreateSessionBody(session_id="bobs"))
        await calls.create_session(host, EVE, CreateSessionBody(session_id="eves"))
        listed = read(await calls.inspect_sessions(host, OPERATOR))["sessions"]
        assert {(one["session_id"], one["user_id"]) for one in listed} == {("main", "ann"), ("bobs", "bob")}
        tree = read(await calls.inspect_tree(host, OPERATOR))
        assert {one["id"] for one in tree["children"]} == {"main", "bobs"}
        (plugin,) = read(await calls.inspect_plugins(host, OPERATOR))["plugins"]
        assert (plugin["name"], plugin["version"], plugin["failures"], plugin["hooks"]) == (
            "broken",
            "1.2",
            1,
            ["on_request_start"],
        )
        trace = read(await calls.inspect_trace(host, OPERATOR, "main", limit=2))
        assert [one["number"] for one in trace["entries"]] == [1, 2]
        assert trace["next"] == 2
        rest = read(await calls.inspect_trace(host, OPERATOR, "main", after=2, limit=1_000))
        assert rest["entries"][0]["number"] == 3
        assert rest["next"] is None
        assert len(read(await calls.inspect_messages(host, OPERATOR, "main"))["messages"]) == 2
        for call in (
            lambda h, p, _: calls.inspect_sessions(h, p),
            lambda h, p, _: calls.inspect_tree(h, p),
            lambda h, p, _: calls.inspect_plugins(h, p),
            calls.inspect_trace,
            calls.inspect_messages,
            ON_A_SESSION["past state"],
            ON_A_SESSION["explanation"],
        ):
            assert (await refused(host, call, ANN, "main")).startswith(b"403")
