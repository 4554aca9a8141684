"""One request from the first hook to the last: what each end means, what fails when, and what is owed to plugins all the same."""

import subprocess
import sys
import weakref
from functools import partial

import msgspec
import pytest
import trio

from agentrail import errors
from agentrail.abc.store import Filters
from agentrail.app import open_supervisor
from agentrail.errors import (
    BadRequest,
    ClientIdReused,
    HostDraining,
    IdInvalid,
    OptionError,
    PrincipalMismatch,
    ProfileMismatch,
    ProfileUnknown,
    PromptError,
    PromptQueueFull,
    PromptRefused,
    RequestOver,
    RequestRefused,
    RequestUnknown,
    SessionDown,
    SessionIsChild,
    SessionUnknown,
    TooLarge,
)
from agentrail.events import AgentEnd, AgentStart, ApprovalRequired
from agentrail.host import (
    AgentProfile,
    Attachment,
    AttachmentText,
    Deny,
    HandledResponse,
    HostRequest,
    open_host,
    requests,
)
from agentrail.host.host_options import HostOptions
from agentrail.host.request_run import RequestRun
from agentrail.host.requests import RequestBook, RequestRecord, RequestTrack, end_track, ended_by_host
from agentrail.messages import PromptRef, SessionId, UserMessage
from agentrail.plugins import HumanApproval
from agentrail.runtime.session_keys import key_of
from agentrail.stores.memory import MemoryStore
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.testing.cancelling import crash
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, fails, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.garbage import without_collector
from tests.host.hosting import (
    ANN,
    BOB,
    EVE,
    FullBox,
    Ledger,
    answering,
    asked,
    hosting,
    profile,
    say,
    sleeping,
)
from tests.host.rig import Reports, hang, plugin, raising, saying
from tests.runtime.rig import on_virtual_time

SLOW = says("So", " it", " is.", pause_seconds=10.0)
FILE = Attachment(name="a.txt", mime_type="text/plain", content=b"a")


@on_virtual_time
@pytest.mark.host("H-015")
@pytest.mark.host("H-016")
@pytest.mark.host("H-057")
@pytest.mark.parametrize("kind", ["chat", "stream"])
async def test_hooks_hear_of_a_request_in_order(kind):
    """Payloads have the documented fields, and the reader reads the session at the end. A failing hook is reported once and stops nothing."""
    ledger, reports = Ledger(), Reports()
    store, seen = MemoryStore(), []

    async def look(_ctx):  # a second reader of the store finds what the request put into the history
        [stored] = store.find(Filters(), limit=10)
        seen.append(stored.events)

    failing = plugin("bad", priority=5, on_request_start=raising(ValueError("no")))
    plugins = (failing, ledger, plugin("look", on_turn_persisted=look))
    async with hosting(answering("Hello."), *plugins, store=store, on_plugin_error=reports.hear) as host:
        request = await asked(host, kind=kind)
        assert await request.outcome() == "completed"
        await host.quiet()
        assert seen == [request.record.end_seq]
        assert ledger.heard == [
            ("start", kind, None),
            ("persisted", kind, "completed"),
            ("end", kind, "completed"),
        ]
        assert ledger.counts == [2]
        assert reports == [("bad", "on_request_start", "ValueError")]

        start, _, end = ledger.contexts
        assert start.reader is None
        around = ("kind", "tenant_id", "user_id", "session_id", "agent_id", "request_id")
        assert set(start.as_dict()) == {*around, "started_at_ms", "outcome"}
        assert (end.tenant_id, end.user_id, end.agent_id) == ("acme", "ann", "desk")
        assert (end.session_id, end.request_id) == (request.session_id, request.request_id)
        record = request.record
        assert (record.text, record.stop_reason) == ("Hello.", "end")
        assert (record.usage.input, record.cost_usd) == (10, 0.0)


@on_virtual_time
@pytest.mark.host("H-021")
@pytest.mark.host("H-022")
@pytest.mark.host("H-023")
@pytest.mark.host("H-025")
@pytest.mark.host("H-027")
async def test_an_interceptor_answers_lets_pass_or_refuses():
    """An answer replaces the session. A failure passes unless the plugin is critical, and only its own refusal is shown."""
    heard, ledger = [], Ledger()
    answer = HandledResponse({"text": "/help"}, 201, {"x-by": "slash"})
    first = plugin("slash", priority=5, intercept_chat_request=saying(answer))
    later = plugin("later", heard=heard, intercept_chat_request=saying(None))
    async with hosting(answering(), first, later, ledger) as host:
        assert await host.submit(say("/help"), ANN) == answer
        assert (heard, ledger.heard, host.supervisor.sessions()) == ([], [], ())

    for fault in (raising(ValueError("no")), saying("Hi"), hang):
        reports = Reports()
        bad = plugin("bad", intercept_chat_request=fault)
        async with hosting(answering("Hello."), bad, on_plugin_error=reports.hear) as host:
            assert await (await asked(host)).outcome() == "completed"
        assert [(name, hook) for name, hook, _ in reports] == [("bad", "intercept_chat_request")]

    for error, status, code in (
        (RequestRefused(429, "too_many", "slowly"), 429, "too_many"),
        (ValueError("db password hunter2"), 503, "plugin_failed"),
        (RequestRefused(418, "teapot", "hunter2"), 503, "plugin_failed"),  # which is none of the statuses
    ):
        ledger = Ledger()
        guard = plugin("guard", critical=True, intercept_chat_request=raising(error))
        async with hosting(answering(), guard, ledger, on_plugin_error=Reports().hear) as host:
            with pytest.raises(RequestRefused) as caught:
                await host.submit(say(), ANN)
            assert (caught.value.status, caught.value.code) == (status, code)
            assert "hunter2" not in str(caught.value)
            assert (ledger.heard, host.supervisor.sessions()) == ([], ())


@on_virtual_time
@pytest.mark.host("H-026")
async def test_one_guard_sees_each_message_with_a_users_words():
    """Chat, stream, prompt, steer and respond, each under its own kind."""
    seen = []

    async def judge(ctx):
        seen.append((ctx.kind, ctx.request.message, ctx.agent_id))
        if ctx.request.message != "Hi":
            raise RequestRefused(403)

    guard = plugin("guard", critical=True, intercept_chat_request=judge)
    async with hosting(answering("Hello."), guard, on_plugin_error=Reports().hear) as host:
        session_id = (await asked(host)).session_id
        for kind in ("chat", "stream", "prompt"):
            with pytest.raises(RequestRefused):
                await host.submit(say("no", session_id=session_id), ANN, kind=kind)
        with pytest.raises(RequestRefused):
            await host.steer(say("no", session_id=session_id), ANN)
        with pytest.raises(RequestRefused):
            await host.respond(session_id, "q-1", "no", ANN)
    assert seen == [
        ("chat", "Hi", "desk"),
        *((kind, "no", "desk") for kind in ("chat", "stream", "prompt", "steer", "respond")),
    ]


@on_virtual_time
@pytest.mark.host("H-028")
@pytest.mark.host("H-099")
async def test_sessions_of_others_are_as_unknown_as_any():
    """Before any plugin is asked, on every door; of another tenant the id is free."""
    heard = []
    guard = plugin("guard", heard=heard, intercept_chat_request=saying(None))
    async with hosting(answering("Hello.", "Hello."), guard) as host:
        request = await asked(host, session_id="main")
        await request.outcome()
        heard.clear()
        said = []
        for call in (
            lambda by: host.submit(say(by=by, session_id="main"), by),
            lambda by: host.submit(say(by=by, session_id="main"), by, kind="prompt"),
            lambda by: host.steer(say(by=by, session_id="main"), by),
            lambda by: host.respond("main", "q", "a", by),
            lambda by: host.session("main", by),
            lambda by: host.session_to_read("main", by),
            lambda by: host.request("main", request.request_id, by),
            lambda by: host.cancel_request("main", request.request_id, by),
            lambda by: host.create(by, session_id="main"),
        ):
            with pytest.raises(SessionUnknown) as caught:
                await call(BOB)
            said.append(str(caught.value))
        assert heard == []
        assert set(said) == {"there is no session 'main'"}
        with pytest.raises(
            PrincipalMismatch
        ):  # the principal says who is calling, and nothing in the message
            await host.submit(say(by=BOB), ANN)
        with pytest.raises(PrincipalMismatch):
            await host.steer(say(by=EVE, session_id="main"), ANN)
        assert host.sessions_of(BOB) == []
        theirs = await asked(host, by=EVE, session_id="main")
        assert await theirs.outcome() == "completed"
        assert [one.scope for one in host.sessions_of(EVE)] == ["else"]
        assert [one.scope for one in host.sessions_of(ANN)] == ["acme"]


@on_virtual_time
async def test_two_users_who_create_one_id_at_once():
    """One of them has it; to the other it is as unknown as any, and stays as it is."""
    ledger, met = Ledger(), []
    begins = plugin(
        "begins", on_request_start=sleeping(5)
    )  # so that both have looked before either creates it
    async with hosting(answering("Hello."), begins, ledger) as host:

        async def send(by):
            try:
                met.append(await (await asked(host, by=by, session_id="new")).outcome())
            except SessionUnknown:
                met.append("unknown")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, ANN)
            nursery.start_soon(send, BOB)
        await host.quiet()
        assert sorted(met) == ["completed", "unknown"]
        assert len(host.supervisor.sessions()) == 1
    assert sorted(ledger.ends) == ["completed", "not_found"]


@on_virtual_time
async def test_sessions_that_work_for_others_belong_to_whom_those_belong():
    """They are read and answered; what only a root can do is refused, with the id of that one."""

    def answer(request):
        is_child = request.messages[0].content[0].text == "Look."
        return calls(("shell", {})) if is_child else calls(("task", {"description": "Look."}))

    async with hosting(
        FunctionModel(answer),
        session_tools=[TaskTool(), RecordingTool(name="shell")],
        session_plugins=[HumanApproval],
    ) as host:
        request = await asked(host, session_id="boss")
        async with request.events() as events:
            async for event in events:
                if isinstance(getattr(event, "event", event), ApprovalRequired):
                    break
        [child] = (await request.session.status()).children
        assert (await host.session(child.session_id, ANN)).session_id == child.session_id
        for call in (
            lambda: host.submit(say(session_id=child.session_id), ANN),
            lambda: host.submit(say(session_id=child.session_id), ANN, kind="prompt"),
            lambda: host.steer(say(session_id=child.session_id), ANN),
            lambda: host.session(child.session_id, ANN, only_root=True),
        ):
            with pytest.raises(SessionIsChild) as caught:
                await call()
            assert caught.value.root_id == "boss"
        with pytest.raises(SessionUnknown):
            await host.session(child.session_id, BOB)
        assert [one.session_id for one in host.sessions_of(ANN)] == ["boss"]


@on_virtual_time
async def test_what_cannot_be_is_refused_before_any_plugin_hears_of_it():
    """Typed, and without repeating an id that is none."""
    heard, ledger = [], Ledger()
    guard = plugin("guard", heard=heard, intercept_chat_request=saying(None))
    async with hosting(answering("Hello."), guard, ledger) as host:
        await (await asked(host, session_id="mine")).outcome()
        await host.quiet()
        heard.clear()
        ledger.heard.clear()
        for given, error in (
            ({"session_id": "no/such"}, IdInvalid),
            ({"session_id": "a..b"}, IdInvalid),
            ({"client_id": "x y"}, IdInvalid),
            ({"agent_id": "../desk"}, IdInvalid),
            ({"session_id": "s-0", "kind": "prompt"}, SessionUnknown),
            ({"kind": "prompt"}, SessionUnknown),
            ({"session_id": "cid-" + "0" * 40}, SessionUnknown),
            ({"agent_id": "other", "session_id": "mine"}, ProfileMismatch),
            ({"message": ""}, PromptError),
            ({"message": "x" * 300_000}, TooLarge),
        ):
            kind = given.pop("kind", "chat")
            with pytest.raises(error) as caught:
                await host.submit(say(**given), ANN, kind=kind)
            assert "x y" not in str(caught.value)
            assert "no/such" not in str(caught.value)
            assert (heard, ledger.heard) == ([], [])


@on_virtual_time
@pytest.mark.host("H-058")
@pytest.mark.parametrize("kind", ["chat", "stream"])
async def test_an_unknown_profile_is_not_found(kind):
    """Both hooks once each, no session left."""
    ledger = Ledger()
    async with hosting(answering(), ledger) as host:
        with pytest.raises(ProfileUnknown, match="expected one of desk"):
            await host.submit(say(agent_id="other"), ANN, kind=kind)
        await host.quiet()
        assert ledger.heard == [("start", kind, None), ("end", kind, "not_found")]
        assert host.supervisor.sessions() == ()


@on_virtual_time
@pytest.mark.host("H-059")
async def test_only_a_session_that_was_created_for_a_request_that_fails_is_removed():
    """The workspace refuses the upload: `failed`, once; nothing of the session is left, in the store neither. One that was there stays."""
    for store in (None, "memory:"):
        ledger = Ledger()
        async with hosting(answering(), ledger, store=store, session_sandbox=FullBox()) as host:
            with pytest.raises(errors.UploadFailed):
                await host.submit(say(session_id="new"), ANN, attachments=[FILE])
            await host.quiet()
            assert ledger.heard == [("start", "chat", None), ("end", "chat", "failed")]
            assert ledger.contexts[-1].reader is None
            assert host.supervisor.sessions() == ()
            assert await host.supervisor.facts_of("new", scope="acme") is None

    ledger = Ledger()
    async with hosting(None, ledger, profiles=[profile(answering("Hello."), sandbox=None)]) as host:
        await (await asked(host, session_id="mine")).outcome()
        for session_id in ("mine", "new"):
            with pytest.raises(errors.AttachmentsUnsupported):
                await host.submit(say(session_id=session_id), ANN, attachments=[FILE])
        await host.quiet()
        assert ledger.ends == ["completed", "refused", "refused"]
        assert [one.session_id for one in host.supervisor.sessions()] == ["mine"]


@on_virtual_time
async def test_a_session_that_others_were_given_meanwhile_is_not_removed():
    """The message that created it fails; another one is worked on there, or was."""
    ledger = Ledger()
    slow = plugin("slow", attachment_handler=hang)  # so that the second message is faster

    class Late(FullBox):
        async def upload(self, files):
            await trio.sleep(60)
            return await super().upload(files)

    async with hosting(answering("Hello."), slow, ledger, session_sandbox=Late()) as host:
        async with trio.open_nursery() as nursery:

            async def fail():
                with pytest.raises(errors.UploadFailed):
                    await host.submit(say(session_id="new"), ANN, attachments=[FILE])

            nursery.start_soon(fail)
            await trio.sleep(5)
            request = await asked(host, session_id="new")
            assert await request.outcome() == "completed"
        await host.quiet()
        assert len(await request.session.messages()) == 2
    assert ledger.ends == ["completed", "failed"]


@on_virtual_time
@pytest.mark.host("H-034")
async def test_files_and_what_handlers_say_of_them_stand_before_the_words():
    """Trimmed, blank ones left out; the same on every kind of request."""
    noting = plugin("note", priority=1, attachment_handler=saying(AttachmentText("  Two pages.  ")))
    blank = plugin("blank", attachment_handler=saying(AttachmentText(" ")))
    bad = plugin("bad", attachment_handler=raising(ValueError("no")))
    reports = Reports()
    async with hosting(answering("a", "b"), noting, blank, bad, on_plugin_error=reports.hear) as host:
        await host.create(ANN, session_id="main")
        for kind in ("chat", "stream", "prompt"):
            request = await asked(host, "Look.", session_id="main", attachments=[FILE], kind=kind)
            await request.outcome()
        told = await request.session.messages()
        said = [one.content[0].text for one in told if isinstance(one, UserMessage)]
        alone = await asked(host, "", session_id="main", attachments=[FILE])
        await alone.outcome()
    assert said == ["Two pages.\n\n---\n\nLook."] * 3
    assert [name for name, _, _ in reports] == ["bad"] * 4


@on_virtual_time
async def test_a_session_is_created_without_a_message():
    """Once of each id; with the next free one where none is given."""
    async with hosting(answering()) as host:
        session = await host.create(ANN, session_id="mine")
        assert session.facts.user_data == {"tenant_id": "acme", "user_id": "ann", "agent_id": "desk"}
        assert (await host.create(ANN)).session_id != (await host.create(ANN)).session_id
        with pytest.raises(errors.AlreadyExists):
            await host.create(ANN, session_id="mine")
        with pytest.raises(ProfileUnknown):
            await host.create(ANN, agent_id="other")
        with pytest.raises(IdInvalid):
            await host.create(ANN, session_id="no/such")
        assert len(host.sessions_of(ANN)) == 3


@on_virtual_time
async def test_a_host_over_a_supervisor_that_is_open():
    """Its hooks judge the calls of sessions that it starts; the supervisor stays open, takes one host, and has its own memories."""
    denying = plugin("no", on_before_tool_call=saying(Deny("not here")))
    tool = RecordingTool(name="shell")
    async with open_supervisor() as supervisor:
        model = ScriptedModel([calls(("shell", {})), says("Done.")])
        async with hosting(model, denying, supervisor=supervisor, session_tools=[tool]) as host:
            assert await (await asked(host)).outcome() == "completed"
            with pytest.raises(OptionError, match="another host"):
                async with hosting(answering(), denying, supervisor=supervisor):
                    raise AssertionError
        assert tool.calls == []
        assert not supervisor.is_closing
        said = "memories, notes, knowledge, an embedder, telemetry, an audit log or MCP servers cannot be combined with supervisor"
        with pytest.raises(OptionError, match=said):
            HostOptions(profiles=[profile(answering())], supervisor=supervisor, memories=InMemoryRecall())


@on_virtual_time
@pytest.mark.host("H-061")
@pytest.mark.host("H-065")
async def test_what_fails_is_no_empty_answer():
    """A provider that fails for good, and a session that crashes: `failed`, with the error; it takes the next message, and its numbers go on."""
    ledger = Ledger()
    model = ScriptedModel([fails(BadRequest("no such model"), after="Well, "), SLOW, says("Again.")])
    async with hosting(model, ledger) as host:
        request = await asked(host, session_id="main")
        assert await request.outcome() == "failed"
        assert request.record.error.code == "bad_request"
        request = await asked(host, session_id="main")
        await trio.sleep(1)
        crash(request.session)
        assert await request.outcome() == "failed"
        assert request.record.error.code == "session_restarted"
        again = await asked(host, session_id="main")
        assert await again.outcome() == "completed"
        assert again.receipt.seq > request.record.end_seq
        await host.quiet()
    assert ledger.ends == ["failed", "failed", "completed"]


@on_virtual_time
@pytest.mark.host("H-061")
async def test_a_session_that_is_given_up_ends_all_its_requests_as_failed():
    """The running one and those that wait; `on_request_end` once for each."""
    ledger = Ledger()
    async with hosting(ScriptedModel([SLOW]), ledger, session_restart="temporary") as host:
        running = await asked(host)
        waiting = await asked(host, session_id=running.session_id)
        await trio.sleep(1)
        crash(running.session)
        assert await running.outcome() == "failed"
        assert await waiting.outcome() == "failed"
        await host.quiet()
        with pytest.raises((SessionDown, SessionUnknown)):
            await host.submit(say(session_id=running.session_id), ANN, kind="prompt")
    assert sorted(ledger.ends) == ["failed", "failed"]


@on_virtual_time
@pytest.mark.host("H-062")
async def test_one_of_two_callers_of_a_request_leaves():
    """A repeat joins the request, which is aborted only when both have left."""
    async with hosting(ScriptedModel([SLOW, SLOW])) as host:
        request, repeat = [
            await host.submit(say(client_id="one"), ANN, kind="stream", on_disconnect="abort")
            for _ in range(2)
        ]
        assert repeat.request_id == request.request_id
        await request.caller_left()
        await request.caller_left()
        assert await repeat.outcome() == "completed"
        request, repeat = [
            await host.submit(say(client_id="two"), ANN, kind="stream", on_disconnect="abort")
            for _ in range(2)
        ]
        await repeat.caller_left()
        await request.caller_left()
        assert await request.outcome() == "aborted"


@on_virtual_time
@pytest.mark.host("H-062")
@pytest.mark.parametrize(("on_disconnect", "outcome"), [("continue", "completed"), ("abort", "aborted")])
async def test_a_caller_that_leaves(on_disconnect, outcome):
    """The cycle completes, or is aborted; then the hooks, once each. So it is with one that leaves before its message is accepted."""
    ledger = Ledger()
    async with hosting(ScriptedModel([SLOW]), ledger) as host:
        request = await asked(host, kind="stream", on_disconnect=on_disconnect)
        await trio.sleep(15)
        await request.caller_left()
        assert await request.outcome() == outcome
        await host.quiet()
        await request.caller_left()  # again if you like
        assert request.record.text == ("So it is." if outcome == "completed" else "So")
    assert [hook for hook, _, _ in ledger.heard] == ["start", "persisted", "end"]
    assert ledger.ends == [outcome]

    ledger = Ledger()
    slow = plugin("slow", priority=1, on_request_start=sleeping(5))
    async with hosting(ScriptedModel([SLOW]), slow, ledger) as host:
        with trio.move_on_after(2) as scope:
            await asked(host, on_disconnect=on_disconnect)
        assert scope.cancelled_caught
        await host.quiet()
    assert ledger.ends == [outcome]


@on_virtual_time
async def test_the_end_of_a_request_is_told_by_a_cancelled_task_too():
    """The text of an aborted answer is read, and a session that was created in vain is removed."""
    async with hosting(ScriptedModel([SLOW])) as host:
        request = await asked(host, session_id="main")
        await trio.sleep(15)
        await request.cancel()
        assert await request.outcome() == "aborted"
        track = RequestTrack(msgspec.structs.replace(request.record, text=""))
        track.stand(request._track.standing)  # noqa: SLF001 - what its task has heard
        in_vain = await host.create(ANN, session_id="in-vain")
        host._parts.sessions._fresh[key_of("acme", "in-vain")] = in_vain  # noqa: SLF001
        run = RequestRun(host._parts, None, lambda: None)  # noqa: SLF001 - no message is needed to remove
        with trio.CancelScope() as scope:
            scope.cancel()
            await end_track(request.session, track)
            await run._remove(in_vain)  # noqa: SLF001
        assert (track.record.status, track.record.text) == ("aborted", "So")
        assert [one.session_id for one in host.supervisor.sessions()] == ["main"]


@on_virtual_time
@pytest.mark.host("H-064")
@pytest.mark.host("H-103")
async def test_a_cycle_that_waits_for_people_answers_for_now():
    """Then an approval, a confirming prompt or another prompt ends it, and the hooks run once."""
    ledger, shell = Ledger(), calls(("shell", {}))
    model = ScriptedModel([shell, says("Done."), shell, says("Done."), shell, says("As you like.")])
    options = {
        "session_tools": [RecordingTool(name="shell")],
        "session_plugins": [(HumanApproval, {"confirm_prefix": "confirm"})],
    }
    async with hosting(model, ledger, **options) as host:
        request = await asked(host, session_id="main")
        record = await request.answered(300)
        assert record.status == "waiting"
        [waits] = record.pending
        assert (waits.kind, ledger.ends) == ("approval", [])
        await (await host.session("main", ANN)).approve(waits.id)
        assert await request.outcome() == "completed"
        await host.quiet()
        assert ledger.ends == ["completed"]
        assert (request.record.text, request.record.pending) == ("Done.", ())

        first = await asked(host, session_id="main")
        [waits] = (await first.answered()).pending
        second = await asked(host, f"confirm {waits.id}", session_id="main", kind="prompt")
        assert (await second.outcome(), await first.outcome()) == ("completed", "completed")
        assert (first.record.text, second.record.text) == ("Done.", "Done.")
        await host.quiet()
        assert ledger.ends == ["completed"] * 3

        first = await asked(host, session_id="main")
        await first.answered()
        second = await asked(host, "Tell me a story instead.", session_id="main")
        assert (await first.outcome(), await second.outcome()) == ("aborted", "completed")
        assert second.record.text == "As you like."


@on_virtual_time
@pytest.mark.host("H-104")
async def test_of_three_that_wait_the_middle_one_is_cancelled():
    """`dropped` for it alone; the others end with their own cycles."""
    ledger = Ledger()
    model = ScriptedModel([SLOW, says("Two."), says("Four.")])
    async with hosting(model, ledger) as host:
        first = await asked(host)
        three = [await asked(host, session_id=first.session_id) for _ in range(3)]
        assert [one.record.status for one in three] == ["queued"] * 3
        await host.cancel_request(first.session_id, three[1].request_id, ANN)
        assert await three[1].outcome() == "dropped"
        outcomes = [await one.outcome() for one in (first, *three)]
        assert outcomes == ["completed", "completed", "dropped", "completed"]
        assert [one.record.text for one in (first, *three)] == ["So it is.", "Two.", "", "Four."]
        with pytest.raises(RequestOver):
            await host.cancel_request(first.session_id, three[1].request_id, ANN)
        await host.quiet()
    assert ("persisted", "chat", "dropped") not in ledger.heard
    assert sorted(ledger.ends) == ["completed"] * 3 + ["dropped"]


@on_virtual_time
@pytest.mark.host("H-016")
async def test_a_message_may_be_a_steer_while_its_session_is_at_work():
    """A steer ends with the cycle that read it, else with its own. In an idle session it is a request of kind `prompt`."""
    ledger = Ledger()
    model = ScriptedModel([calls(("hang", {})), says("Left it is."), SLOW, says("Late."), says("One."), SLOW])
    async with hosting(model, ledger, session_tools=[HangingTool(name="hang")]) as host:
        first = await asked(host, session_id="main")
        await trio.sleep(1)
        steered = await asked(host, "Left.", session_id="main", when_busy="steer")
        assert await steered.outcome() == "completed"
        assert await first.outcome() == "completed"
        assert (first.record.text, first.record.end_seq) == ("Left it is.", steered.record.end_seq)
        second = await asked(host, session_id="main")
        await trio.sleep(1)
        unheard = await asked(host, "Right.", session_id="main", when_busy="steer")
        await second.cancel()
        assert await second.outcome() == "aborted"
        assert await unheard.outcome() == "completed"
        assert unheard.record.end_seq > second.record.end_seq

        await host.quiet()
        ledger.heard.clear()
        request = await host.steer(say("Left.", session_id="main"), ANN)
        assert isinstance(request, HostRequest)
        assert await request.outcome() == "completed"
        await asked(host, session_id="main")
        await trio.sleep(1)
        receipt = await host.steer(say("Right.", session_id="main"), ANN)
        assert receipt.status == "queued"  # which is none, and no hook of requests hears of it
        await host.quiet()
    assert [kind for hook, kind, _ in ledger.heard if hook == "start"] == ["prompt", "chat"]


@on_virtual_time
async def test_a_full_queue_and_a_prompt_that_a_plugin_refuses():
    """Both are told at once, as `refused`."""
    ledger = Ledger()
    rude = PuppetPlugin((read_rule("BeforePrompt", "abort:be polite"),), name="polite")
    async with hosting(answering(), ledger, session_plugins=[rude]) as host:
        with pytest.raises(PromptRefused, match="be polite"):
            await asked(host)
        await host.quiet()
        assert host.supervisor.sessions() == ()
    async with hosting(ScriptedModel([SLOW]), ledger, session_max_prompt_queue=0) as host:
        first = await asked(host)
        with pytest.raises(PromptQueueFull):
            await asked(host, session_id=first.session_id)
        await host.quiet()
    assert ledger.ends == ["refused", "refused", "completed"]


@on_virtual_time
async def test_the_error_of_a_refused_request_is_freed_without_the_collector():
    """Each refused message of a client would leave its error in memory, with the run of its request."""
    async with hosting(answering()) as host:
        known = None
        with without_collector():
            try:
                await asked(host, agent_id="none")
            except ProfileUnknown as error:
                known = weakref.ref(error)
            await host.quiet()
            assert known is not None
            assert known() is None


@on_virtual_time
@pytest.mark.host("H-063")
@pytest.mark.host("H-101")
async def test_a_message_that_is_sent_again_attaches_to_its_request():
    """The same receipt, no second cycle, no hook but the interceptors; other content is refused. What handlers make of files is none."""
    heard, ledger, texts = [], Ledger(), iter(["one", "two"])

    async def note(_files):
        return AttachmentText(next(texts))

    guard = plugin("guard", heard=heard, intercept_chat_request=saying(None))
    noting = plugin("note", attachment_handler=note)
    async with hosting(ScriptedModel([SLOW, says("Hello.")]), guard, noting, ledger) as host:
        first = await asked(host, session_id="main", client_id="web-1")
        again = await asked(host, session_id="main", client_id="web-1")
        assert (again.receipt, again.request_id, again.is_repeat) == (first.receipt, first.request_id, True)
        with pytest.raises(ClientIdReused):
            await asked(host, "Bye", session_id="main", client_id="web-1")
        assert await again.outcome() == "completed"
        late = await asked(host, session_id="main", client_id="web-1")
        assert (late.record.text, late.record.status) == ("So it is.", "completed")
        await host.quiet()
        assert len(heard) == 4
        assert [hook for hook, _, _ in ledger.heard] == ["start", "persisted", "end"]

        other = Attachment(name="a.txt", mime_type="text/plain", content=b"b")
        first = await asked(host, client_id="order-5", attachments=[FILE])
        again = await asked(host, client_id="order-5", attachments=[FILE])
        assert first.receipt == again.receipt
        with pytest.raises(ClientIdReused):
            await asked(host, client_id="order-5", attachments=[other])


@on_virtual_time
@pytest.mark.host("H-100")
async def test_a_creating_message_that_is_sent_five_times_at_once_and_after_a_restart():
    """One session, one cycle, one receipt."""
    ledger, store = Ledger(), MemoryStore()
    model = ScriptedModel([SLOW])
    requests = []

    async def send(host):
        requests.append(await asked(host, client_id="order-5"))

    async with hosting(model, ledger, store=store) as host:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(send, host)
        assert [await one.outcome() for one in requests] == ["completed"] * 5
        await host.quiet()
    async with hosting(model, ledger, store=store) as host:
        await send(host)
        assert await requests[-1].outcome() == "completed"
        assert requests[-1].record.text == "So it is."
        await host.quiet()
    assert len({one.session_id for one in requests}) == 1
    assert len({one.receipt.ref for one in requests}) == 1
    assert len({one.request_id for one in requests}) == 1
    assert ledger.ends == ["completed"]
    assert len(model.requests) == 1


@on_virtual_time
async def test_one_that_failed_is_tried_by_the_next_of_its_name():
    """Nothing is remembered of what was not accepted."""
    ledger = Ledger()
    failing = iter([True, False])

    async def options(_context):
        if next(failing):
            await raising(ValueError("not yet"))()
        return profile(answering("Hello.")).options

    desk = AgentProfile(id="desk", name="desk", options=options)
    async with hosting(None, ledger, profiles=[desk]) as host:
        with pytest.raises(errors.ProfileFailed):
            await asked(host, client_id="order-5")
        assert await (await asked(host, client_id="order-5")).outcome() == "completed"
        await host.quiet()
    assert ledger.ends == ["failed", "completed"]


@on_virtual_time
async def test_one_of_them_that_comes_to_a_closing_host_is_refused():
    """Also where it waited for an earlier one of its name; and one whose interceptor is slow."""
    refused = []

    async def send(host, **given):
        try:
            await asked(host, **given)
        except HostDraining:
            refused.append(given)

    slow = plugin("slow", intercept_chat_request=sleeping(5))
    begins = plugin("begins", on_request_start=sleeping(9))
    async with hosting(ScriptedModel([SLOW]), slow, begins) as host, trio.open_nursery() as nursery:
        nursery.start_soon(send, host)
        await trio.sleep(1)
        host.close_door()
    assert refused == [{}]
    refused.clear()
    async with (
        hosting(ScriptedModel([says("a", pause_seconds=3)]), begins) as host,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(send, host)
        for _ in range(2):
            nursery.start_soon(partial(send, host, client_id="order-5"))
        await trio.sleep(1)
        host.close_door()
    assert refused == [{"client_id": "order-5"}]


def test_the_last_thousand_requests_of_a_session_are_known(monkeypatch):
    """Those that are open in any case; of an ended one what it came to, and not what it was read from."""
    monkeypatch.setattr(requests, "MAX_KEPT_REQUESTS", 3)
    monkeypatch.setattr(requests, "MAX_KEPT_IN_ALL", 5)
    book = RequestBook()

    def track_of(name):
        record = RequestRecord(request_id=f"r-{name}", session_id=SessionId("s"), agent_id="a", kind="chat")
        return RequestTrack(record, PromptRef("p"))

    def ended(key, number):
        track = track_of(number)
        book.open(key, track)
        track.stand(ended_by_host(track.standing, "dropped", "no"))
        track.end("")
        book.close(key, track)
        return track

    waiting = track_of("open")
    book.open("a/s", waiting)
    tracks = [ended("a/s", number) for number in range(5)]
    found = [book.find("a/s", f"r-{number}") for number in range(5)]
    assert [one is not None for one in found] == [False, False, True, True, True]
    assert found[4] is not tracks[4]
    assert found[4].record.status == "dropped"
    assert book.find("a/s", "r-open") is waiting
    assert book.find("b/s", "r-4") is None
    for number in range(3):
        ended("b/s", number)
    assert [book.find("a/s", f"r-{number}") is not None for number in range(5)] == [False] * 3 + [True] * 2
    book.forget_session("a/s")
    assert book.find("a/s", "r-4") is None
    assert book.find("b/s", "r-2") is not None
    assert book.find("a/s", "r-open") is waiting


@on_virtual_time
async def test_a_session_recalls_a_request_that_others_pushed_out(monkeypatch):
    """The limit for all sessions together is memory, and no promise to a client whose session is there."""
    monkeypatch.setattr(requests, "MAX_KEPT_IN_ALL", 1)
    async with hosting(ScriptedModel([says("One."), says("Two.")])) as host:
        first = await asked(host)
        await first.outcome()
        await (await asked(host, session_id="other")).outcome()
        again = await host.request(first.session_id, first.request_id, ANN)
        assert (again, again.text) == (first.record, "One.")


@on_virtual_time
async def test_events_of_a_request_end_with_it():
    """From the event that its receipt names; also the rest of a cycle that it waits for; read late, they are the same."""
    async with hosting(ScriptedModel([SLOW, says("Two.")])) as host:
        first = await asked(host)
        second = await asked(host, session_id=first.session_id)
        async with second.events() as events:
            seen = [event async for event in events]
        assert seen[0].meta.seq == second.receipt.seq
        kinds = [type(event) for event in seen if isinstance(event, AgentStart | AgentEnd)]
        assert kinds == [AgentEnd, AgentStart, AgentEnd]
        assert seen[-1].ref == second.receipt.ref
        async with first.events(deltas=False) as events:
            late = [event async for event in events]
        assert (late[0].meta.seq, late[-1].ref) == (first.receipt.seq, first.receipt.ref)


@on_virtual_time
@pytest.mark.host("H-109")
async def test_what_a_request_came_to_is_known_after_a_restart():
    """The store has its outcome and text, and a cycle continues. A waiting caller is told when the host closes."""
    store, told = MemoryStore(), []
    model = ScriptedModel([says("One."), SLOW, SLOW, says("Two.", pause_seconds=5.0)])
    async with hosting(model, store=store, drain_timeout=0) as host:
        first = await asked(host, session_id="main")
        await first.outcome()
        second = await asked(host, session_id="main", client_id="order-5")
        await trio.sleep(1)

    async def wait(again):
        told.append(await again.outcome())

    # It is no request of this host's own, and yet no caller waits for ever.
    async with trio.open_nursery() as nursery, hosting(model, store=store, drain_timeout=0) as host:
        again = await asked(host, session_id="main", client_id="order-5")
        assert again.request_id == second.request_id
        nursery.start_soon(wait, again)
        await trio.sleep(1)
    assert told == ["shutdown"]
    async with hosting(model, store=store) as host:
        record = await host.request("main", first.request_id, ANN)
        assert (record.status, record.text) == ("completed", "One.")
        assert record == first.record
        goes_on = await host.request("main", second.request_id, ANN)
        assert (goes_on.status, goes_on.seq, goes_on.kind) == ("running", second.receipt.seq, second.kind)
        later = await host.wait_for_request("main", second.request_id, ANN, within=300)
        assert later.has_ended
        assert later.outcome == "completed"
        with pytest.raises(RequestUnknown):
            await host.request("main", "r-0", ANN)


@on_virtual_time
@pytest.mark.host("H-105")
async def test_a_reader_comes_back_three_minutes_after_the_end_and_after_six():
    """It gets the rest; then the session is as unknown as any."""
    async with hosting(answering("Hello.")) as host:
        request = await asked(host, session_id="main")
        await request.outcome()
        await host.quiet()
        await request.session.stop()
        del request
        await trio.sleep(180)
        session = await host.session_to_read("main", ANN)
        with pytest.raises(SessionUnknown):
            await host.session_to_read("main", BOB)
        async with session.subscribe(after=0) as events:
            assert len([event async for event in events]) > 3
        del session, events
        await trio.sleep(180)
        with pytest.raises(SessionUnknown):
            await host.session_to_read("main", ANN)


@on_virtual_time
async def test_a_body_that_raises_or_is_cancelled_owes_no_hook_either():
    """Cycles are not waited for, and the error leaves unchanged. An interrupt in a hook closes the host in order."""
    for leave in ("raise", "cancel"):
        ledger, stopped = Ledger(), []
        began = trio.current_time()
        other = plugin("other", heard=stopped, stop=saying(None))
        with trio.CancelScope() as scope:
            try:
                async with hosting(ScriptedModel([SLOW]), ledger, other) as host:
                    await asked(host)
                    if leave == "raise":
                        await raising(KeyError("mine"))()
                    scope.cancel()
                    await trio.sleep_forever()
            except KeyError:
                assert leave == "raise"
        assert (ledger.ends, stopped) == (["shutdown"], [("other", "stop")])
        assert trio.current_time() - began == 0

    ledger = Ledger()
    bad = plugin("bad", priority=1, on_request_end=raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it comes out of the block
        async with hosting(ScriptedModel([says("a"), SLOW]), ledger, bad) as host:
            await asked(host)
            await trio.sleep_forever()
    assert host.supervisor.is_closing
    assert host.is_draining


@on_virtual_time
async def test_opening_and_closing_have_their_time():
    """Who cancels the opening waits for no `start`; `shutdown_timeout` cuts the hooks that are owed."""
    began = trio.current_time()
    with trio.move_on_after(3):
        async with hosting(answering(), plugin("slow", start=hang)):
            raise AssertionError
    assert trio.current_time() - began == 3
    slow = plugin("slow", on_request_end=hang, timeouts={"on_request_end": 1000})
    async with hosting(ScriptedModel([SLOW]), slow, drain_timeout=0, shutdown_timeout=20) as host:
        await asked(host)
    assert trio.current_time() - began == 23


@on_virtual_time
async def test_a_host_that_closes_at_any_step_of_a_message_leaves_nothing_behind():
    """It is refused, or ends as it may; no hook is owed, and no task is begun in a host that is gone."""
    outcomes = []
    for steps in range(16):
        ledger = Ledger()

        async def send(host):
            try:
                request = await asked(host, client_id="order-5", session_id="new")
            except HostDraining:
                outcomes.append("refused")
            else:
                outcomes.append(await request.outcome())

        opened = hosting(ScriptedModel([SLOW]), ledger, drain_timeout=0)
        async with trio.open_nursery() as nursery, opened as host:
            nursery.start_soon(send, host)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
        assert len(outcomes) == steps + 1
        heard = [hook for hook, _, _ in ledger.heard]
        assert (heard.count("start"), heard.count("end")) in ((0, 0), (1, 1))
    assert set(outcomes) == {"refused", "shutdown"}


@on_virtual_time
async def test_sessions_that_had_work_are_there_again_when_a_host_is_opened():
    """With their owner and their profile; their cycle goes on. One whose profile is gone keeps no host from opening."""
    store = MemoryStore()
    model = ScriptedModel([SLOW, SLOW, says("Again."), says("Again.")])
    both = [profile(model), profile(model, "old")]
    async with hosting(None, store=store, profiles=both, drain_timeout=0) as host:
        for session_id, agent_id in (("main", "desk"), ("lost", "old")):
            await asked(host, session_id=session_id, agent_id=agent_id)
        await trio.sleep(1)
    async with hosting(None, store=store, profiles=both[:1]) as host:
        [session] = host.sessions_of(ANN)
        assert session.session_id == "main"
        assert host.sessions_of(BOB) == []
        assert await session.collect_reply() in ("Again.", "So it is.")
        with pytest.raises(ProfileUnknown):
            await host.session("lost", ANN)
        with pytest.raises(SessionUnknown):
            await host.session("lost", BOB)


@on_virtual_time
async def test_options_that_cannot_be():
    """Refused before anything starts."""
    for given, said in (
        ({"profiles": []}, "there is no profile"),
        ({"hook_timeout": 0}, "hook_timeout is 0"),
        ({"on_disconnect": "stop"}, "on_disconnect is 'stop'"),
        ({"idle_after": -1}, "idle_after is -1"),
        ({"profile": []}, "there is no option 'profile'"),
        ({"readiness_checks": {"store": hang}}, "readiness_checks have 'store'"),
        ({"readiness_checks": {"db": lambda: None}}, "'db'.* expected an async function .`async def`"),
        ({"context_providers": [lambda context, past: []]}, "expected a sequence of async functions"),
        ({"resolve_profile": lambda context: None}, "resolve_profile is <function .* expected an async"),
        ({"plugins": [plugin("a"), plugin("a")]}, "the name 'a'"),
        ({"supervisor": 7}, "supervisor is 7"),
    ):
        with pytest.raises(OptionError, match=said):
            async with open_host(**{"profiles": [profile(answering())], **given}):
                raise AssertionError


@on_virtual_time
@pytest.mark.host("H-087")
async def test_readiness_says_of_each_check_how_it_is():
    """A check that hangs, and one that raises, fail under their own names; the others are told."""
    checks = {"mail": raising(RuntimeError("down")), "disk": hang, "fine": sleeping(1)}
    async with hosting(answering(), store="memory:", readiness_checks=checks) as host:
        began = trio.current_time()
        results = {one.name: one.error for one in await host.ready()}
        assert trio.current_time() - began == 2
        well = dict.fromkeys(("store", "supervisor", "plugins", "fine"))
        assert results == {**well, "mail": "failed", "disk": "timeout"}
        host.fail_readiness()
        assert {one.name for one in await host.ready() if not one.is_ready} == {"supervisor", "mail", "disk"}
        assert isinstance(await asked(host), HostRequest)  # for a while all goes on


@pytest.mark.check
@pytest.mark.host("H-107")
def test_a_host_needs_no_server():
    """Importing it loads neither Starlette nor Hypercorn."""
    code = "import sys, agentrail.host; print([n for n in ('starlette', 'hypercorn') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
