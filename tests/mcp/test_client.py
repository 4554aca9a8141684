"""Sessions with the tools of MCP servers: attached, called, stopped, lost, restarted and parked."""

import json
import os
import re
import resource
import sys
from functools import partial
from pathlib import Path
from typing import get_args

import attrs
import pytest
import trio

import agentrail
from agentrail import outside
from agentrail.abc import Ok
from agentrail.errors import OptionError, SessionRefused
from agentrail.events import (
    ApprovalRequired,
    ToolExecutionEnd,
    ToolSourceChanged,
    ToolSourceState,
    ToolsUpdated,
)
from agentrail.otp.child_specs import Backoff
from agentrail.plugins import HumanApproval
from agentrail.plugins.permissions import Permissions
from agentrail.runtime import tool_sources
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.tools.mcp import McpServer, source as mcp_source
from tests.mcp.guarded_server import guarded_server

ROOT = Path(__file__).parents[2]
WITHIN_SECONDS = 60
ANY_STATE = get_args(ToolSourceState)


@pytest.fixture
def quick_restarts(monkeypatch):
    """Let a lost server be started again after hundredths of a second."""
    quick = Backoff(initial_seconds=0.01, maximum_seconds=0.02)
    monkeypatch.setattr(tool_sources, "SOURCE_FLAGS", attrs.evolve(tool_sources.SOURCE_FLAGS, backoff=quick))


def server(plain, mode="obedient", argument="", **options):
    """Options of a server of ours, without which no session begins."""
    return McpServer(options.pop("name", "p"), command=plain(mode, argument), **{"required": True, **options})


async def results_of(session, count=1):
    """Prompt a session whose model calls tools, and return their results."""
    found = []
    async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
        await session.ask("go")
        while len(found) < count:
            found.append((await anext(events)).result)
    return found


def called(*names, **arguments):
    """Return a model that calls these tools, each in a turn of its own, and says a word."""
    return ScriptedModel([*[calls((f"mcp__p__{name}", arguments)) for name in names], says("done")])


async def wait_until(is_true):
    """Wait for what happens in another process."""
    while not is_true():  # noqa: ASYNC110 - it sets no event
        await trio.sleep(0.01)


async def state_of(events, *states):
    """Wait until a source reports one of these states, and return the event."""
    async for event in events:
        if isinstance(event, ToolSourceChanged) and event.state in states:
            return event
    pytest.fail("the session ended first")


@pytest.mark.protocol(1)
async def test_tools_are_attached_called_and_gone_with_the_supervisor(plain):
    """P-001: the arguments arrive, the text comes back, and no process is left."""
    with trio.fail_after(WITHIN_SECONDS):
        async with no_orphans(), agentrail.open_supervisor(mcp=[server(plain)]) as supervisor:
            session = await supervisor.start_session(model=called("echo", path="a"))
            (result,) = await results_of(session)
            assert json.loads(result.text)["arguments"] == {"path": "a"}
            assert not result.is_error
            nodes = (await supervisor.tree()).children
            assert [node.id for node in nodes] == [session.session_id, "mcp p"]
            assert [child.id for child in nodes[1].children] == ["p"]


async def test_a_server_of_a_session_ends_with_it(plain):
    """11.3: a server may belong to a session, and stands below it in the tree."""
    with trio.fail_after(WITHIN_SECONDS):
        async with no_orphans(), agentrail.open_supervisor() as supervisor:
            session = await supervisor.start_session(model=called("echo"), mcp=[server(plain)])
            await results_of(session)
            (node,) = (await supervisor.tree()).children
            assert [child.id for child in node.children] == ["mcp p"]
            await supervisor.stop_session(session.session_id)


@pytest.mark.parametrize(
    ("scope", "above", "below"),
    [("supervisor", 1, 0), ("principal", 2, 0), ("session", 0, 3)],
)
async def test_a_scope_decides_which_sessions_share_a_server(plain, scope, above, below):
    """11.3: three sessions of two principals have one server, one per principal, or one each, which ends with the session."""
    with trio.fail_after(WITHIN_SECONDS):
        async with (
            no_orphans(),
            agentrail.open_supervisor(mcp=[server(plain, scope=scope, start="eager")]) as supervisor,
        ):
            for user in ("ann", "ann", "bob"):
                session = await supervisor.start_session(
                    model=called("echo"), user_data={"tenant_id": "t", "user_id": user}
                )
                (result,) = await results_of(session)
                assert not result.is_error
            nodes = (await supervisor.tree()).children
            assert len([node for node in nodes if node.id.startswith("mcp p")]) == above
            assert sum(child.id == "mcp p" for node in nodes for child in node.children) == below
            if scope == "session":  # nobody uses the one that all would share
                with pytest.raises(OptionError, match="there are none"):
                    supervisor.sources.restart("mcp p")
            await supervisor.stop_session(session.session_id)
            assert len((await supervisor.tree()).children) == len(nodes) - 1


async def test_a_session_names_the_servers_that_it_uses(plain):
    """The others are not started for it, and an unknown name is refused with the known ones."""
    servers = [server(plain, name="p"), server(plain, name="q")]
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=servers) as supervisor:
            session = await supervisor.start_session(model=called("echo"), mcp=["p"])
            assert {one.id for one in (await supervisor.tree()).children} == {session.session_id, "mcp p"}
            none = await supervisor.start_session(model=called("echo"), mcp=[])
            (result,) = await results_of(none)
            assert "Unknown tool" in result.text
            with pytest.raises(OptionError, match="mcp names 'r': there are p, q"):
                await supervisor.start_session(model="demo:", mcp=["r"])


@pytest.mark.parametrize(
    ("servers", "fault"),
    [
        ([McpServer("p", command=["a"]), McpServer("p", command=["b"])], "two servers named 'p'"),
        (["files"], "mcp has 'files': expected McpServer"),
    ],
)
async def test_wrong_servers_of_a_supervisor_are_refused(servers, fault):
    """Nothing is started."""
    with pytest.raises(OptionError, match=fault):
        async with agentrail.open_supervisor(mcp=servers):
            pytest.fail("it was opened")


async def test_a_missing_extra_is_said_before_a_server_is_started(plain, monkeypatch):
    """11.1: with the command that installs it, once, and not as a server that crashes again and again."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(OptionError, match=r"need the extra `mcp`, which is not installed: .*pip install"):
        async with agentrail.open_supervisor(mcp=[server(plain)]):
            pytest.fail("it was opened")


@pytest.mark.at(33)
@pytest.mark.protocol(2)
async def test_an_abort_is_told_to_the_server_and_the_next_call_works(plain, tmp_path):
    """P-002: the handler is cancelled at the server."""
    note = tmp_path / "cancelled"
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, argument=note)]) as supervisor:
            model = ScriptedModel([calls(("mcp__p__slow", {})), calls(("mcp__p__echo", {})), says("done")])
            session = await supervisor.start_session(model=model)
            await session.prompt("go")
            await wait_until((tmp_path / "called").exists)
            receipt = await session.abort("enough")
            assert not receipt.stuck
            await wait_until(note.exists)
            assert not (await results_of(session))[0].is_error


@pytest.mark.protocol(3)
async def test_a_once_tool_whose_server_was_killed_may_have_taken_effect(plain, quick_restarts):
    """P-003: one `restarting`, one `ready`, and the next call works."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain)]) as supervisor:
            session = await supervisor.start_session(
                model=ScriptedModel(
                    [calls(("mcp__p__die", {})), says("dead"), calls(("mcp__p__echo", {})), says("done")]
                )
            )
            async with session.subscribe(kinds=[ToolSourceChanged]) as events:
                (result,) = await results_of(session)
                assert result.text == (
                    'The server "p" went away during this call. It may have taken effect; check before repeating.'
                )
                lost, back = await state_of(events, *ANY_STATE), await state_of(events, *ANY_STATE)
            assert (lost.state, lost.reason, back.state) == (
                "restarting",
                "it was ended by signal 9",
                "ready",
            )
            assert not (await results_of(session))[0].is_error


@pytest.mark.protocol(3)
async def test_a_pure_tool_is_called_again(plain, quick_restarts, tmp_path):
    """P-003: 6.8 repeats it, once the server is back."""
    trusted = server(plain, "dying_once", tmp_path / "died", hints="trust")
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[trusted]) as supervisor:
            session = await supervisor.start_session(model=called("die"))
            (result,) = await results_of(session)
            assert json.loads(result.text)["name"] == "die"


@pytest.mark.protocol(4)
@pytest.mark.parametrize("mode", ["forking", "stubborn"])
async def test_nothing_is_left_of_a_server_and_of_what_it_started(plain, mode):
    """P-004: a grandchild of an obedient server, and a server that ignores its closed input and SIGTERM."""
    with trio.fail_after(WITHIN_SECONDS):
        async with no_orphans(), agentrail.open_supervisor(mcp=[server(plain, mode)]) as supervisor:
            await supervisor.start_session(model=called("echo"))


@pytest.mark.protocol(6)
async def test_a_server_that_leaves_six_times_is_parked_and_sessions_go_on(plain, quick_restarts):
    """P-006: one life more than the restarts that are allowed, with exit code and standard error for people."""
    leaving = server(plain, "leaving", required=False)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[leaving]) as supervisor:
            session = await supervisor.start_session(model=ScriptedModel([says("here"), says("still here")]))
            async with session.subscribe(kinds=[ToolSourceChanged]) as events:
                assert await session.ask("Are you there?") == "here"
                parked = await state_of(events, "parked")
            assert parked.reason == "it exited with code 7"
            source = supervisor.sources.running["p"].source
            assert "no configuration" in source.error_text
            assert "sk-hidden" not in source.error_text
            assert await session.ask("And now?") == "still here"


async def test_a_few_servers_start_at_a_time_and_silent_ones_hold_up_no_other(plain):
    """All others have the processor meanwhile. A server that is not ready soon lets the next one start."""
    silent = [server(plain, "silent", name=f"s{number}", required=False) for number in range(8)]
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[*silent, server(plain)]) as supervisor:
            most = 0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(supervisor.start_session, model=called("echo")))
                source = supervisor.sources.running["p"].source
                while not source.settled.is_set():  # noqa: ASYNC110 - the turns set no event
                    most = max(most, outside.process_turns("starting").borrowed_tokens)
                    await trio.sleep(0.001)
            assert (most, source.state) == (outside.MAX_PROCESS_TURNS, "ready")


@pytest.mark.protocol(7)
async def test_four_changes_at_once_are_one_listing_and_one_event(plain):
    """P-007: a call under way keeps its tool."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain)]) as supervisor:
            session = await supervisor.start_session(model=called("flip"))
            async with session.subscribe(kinds=[ToolsUpdated]) as events:
                (result,) = await results_of(session)
                assert result.text == "flipped"
                seen = []
                with trio.move_on_after(1.0):
                    while True:
                        seen.append(await anext(events))
            (change,) = [one for one in seen if isinstance(one, ToolsUpdated)]
            assert change.attached == ("mcp__p__new3",)
            assert "mcp__p__slow" in change.detached


@pytest.mark.parametrize("fault", ["refuse", "garble", "hang"])
async def test_a_list_that_cannot_be_read_is_asked_for_again(plain, monkeypatch, fault):
    """The server and its tools stay meanwhile."""
    monkeypatch.setattr(mcp_source, "_LAST_PAUSE_SECONDS", 0.01)
    wavering = server(plain, "wavering", fault, timeout_seconds=1.0)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[wavering]) as supervisor:
            session = await supervisor.start_session(model=called("flip"))
            async with session.subscribe(kinds=[ToolsUpdated, ToolSourceChanged]) as events:
                await results_of(session)
                while not isinstance(change := await anext(events), ToolsUpdated):
                    assert not isinstance(change, ToolSourceChanged), change
            assert change.attached == ("mcp__p__new3",)


@pytest.mark.parametrize("kept", ["log_in", ""])
async def test_a_server_may_have_a_tool_named_as_the_one_for_logins(plain, kept):
    """A change of the list removes it only if the server did."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "own_login", kept)]) as supervisor:
            session = await supervisor.start_session(model=called("flip"))
            async with session.subscribe(kinds=[ToolsUpdated, ToolSourceChanged]) as events:
                await results_of(session)
                while not isinstance(change := await anext(events), ToolsUpdated):
                    assert not isinstance(change, ToolSourceChanged), change
            assert change.attached == ("mcp__p__new3",)
            assert ("mcp__p__log_in" in change.detached) == (not kept)


@pytest.mark.protocol(8)
async def test_two_servers_may_have_tools_of_one_name(plain):
    """P-008."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain), server(plain, name="q")]) as supervisor:
            model = ScriptedModel([calls(("mcp__p__echo", {}), ("mcp__q__echo", {})), says("done")])
            session = await supervisor.start_session(model=model)
            assert [one.is_error for one in await results_of(session, 2)] == [False, False]


@pytest.mark.protocol(9)
async def test_a_tool_that_is_hinted_read_only_is_asked_about(plain):
    """P-009: the permission mode `default` takes no server's word."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain)]) as supervisor:
            session = await supervisor.start_session(model=called("environ"), plugins=[Permissions])
            async with session.subscribe(kinds=[ApprovalRequired, ToolExecutionEnd]) as events:
                await session.prompt("go")
                asked = await anext(events)
                assert isinstance(asked, ApprovalRequired)
                await session.reject(asked.approval.id, reason="no")
                assert "no" in (await anext(events)).result.text


async def test_an_error_of_the_server_is_shown_whatever_its_code(plain):
    """Also -32000, which the library gives to a lost connection, and those that stand for a missing login here."""
    codes = (-32000, -32098, -32099, -32700)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "more")]) as supervisor:
            turn = calls(*[("mcp__p__fail", {"code": code}) for code in codes])
            session = await supervisor.start_session(model=ScriptedModel([turn, says("done")]))
            found = {one.text for one in await results_of(session, len(codes))}
    assert found == {f"The server refused the call ({code}): no such city" for code in codes}


@pytest.mark.protocol(16)
async def test_a_changed_tool_makes_an_always_ask_again(plain, tmp_path, quick_restarts):
    """P-016: it was given to another text. What was allowed for another tool stays allowed."""
    word = tmp_path / "word"
    word.write_text("Says it back.")
    renaming = server(plain, "renaming", word, pins=tmp_path / "pins.json")
    turns = [calls(("mcp__p__echo", {})), calls(("mcp__p__environ", {})), says("done")]
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[renaming]) as supervisor:
            session = await supervisor.start_session(
                model=ScriptedModel([*turns, calls(("mcp__p__die", {})), says("dead"), *turns]),
                plugins=[(HumanApproval, {"require_approval_for": ["mcp__*"]})],
            )
            kinds = [ApprovalRequired, ToolSourceChanged, ToolExecutionEnd]

            async def asked_for(count):
                """Prompt, allow always what is asked about, and return the names."""
                names = []
                async with session.subscribe(kinds=kinds) as events:
                    await session.prompt("go")
                    while count:
                        event = await anext(events)
                        count -= isinstance(event, ToolExecutionEnd)
                        if isinstance(event, ApprovalRequired):
                            names.append(event.approval.tool)
                            await session.approve(event.approval.id, kind="always")
                return names

            assert await asked_for(2) == ["mcp__p__echo", "mcp__p__environ"]
            word.write_text("Says it back, and to others.")
            async with (
                session.subscribe(kinds=kinds) as events,
                session.subscribe(kinds=[ToolsUpdated]) as tools,
            ):
                assert await asked_for(1) == ["mcp__p__die"]
                while not isinstance(await anext(tools), ToolsUpdated):
                    pass
                allowed = {rule.tool for rule in await session.rules()}
                assert allowed == {"mcp__p__environ", "mcp__p__die"}
                changed = await state_of(events, "changed")
            assert changed.reason == "'echo' has changed since it was first used"
            await supervisor.wait_for_tools(session.session_id)
            assert await asked_for(2) == ["mcp__p__echo"]


@pytest.mark.protocol(16)
async def test_an_always_for_the_changed_text_holds_when_the_session_wakes_up(plain, tmp_path):
    """P-016: a change is asked about once, although each instance of the session attaches the tool again."""
    word = tmp_path / "word"
    renaming = server(plain, "renaming", word, pins=tmp_path / "pins.json")
    asking = [(HumanApproval, {"require_approval_for": ["mcp__*"]})]
    with trio.fail_after(WITHIN_SECONDS):
        for text in ("Says it back.", "Says it back, and to others."):
            word.write_text(text)
            sleepy = agentrail.open_supervisor(mcp=[renaming], store="memory:", hibernate_after=0.05)
            async with sleepy as supervisor:
                model = ScriptedModel([calls(("mcp__p__echo", {})), says("done")] * 2)
                session = await supervisor.start_session(model=model, plugins=asking)
                async with session.subscribe(kinds=[ApprovalRequired]) as events:
                    await session.prompt("go")
                    await session.approve((await anext(events)).approval.id, kind="always")
                await wait_until(lambda: supervisor.statistics().asleep == 1)
                assert await session.ask("again") == "done"


@pytest.mark.protocol(11)
@pytest.mark.parametrize(
    ("answer", "action"),
    [({"which": "the left one"}, "accept"), (None, "decline")],
)
async def test_a_question_of_a_server_is_put_to_the_user_of_the_call(plain, answer, action):
    """P-011, older revision: the server's name stands in front."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "asking")]) as supervisor:
            session = await supervisor.start_session(model=called("ask"))
            async with session.subscribe(kinds=[agentrail.events.AskUser, ToolExecutionEnd]) as events:
                await session.prompt("go")
                asked = await anext(events)
                assert asked.question == "p: Which?"
                if answer is None:
                    await session.decline(asked.ref)
                else:
                    await session.respond(asked.ref, answer)
                result = json.loads((await anext(events)).result.text)
            assert result["action"] == action
            assert result.get("content") == answer


@pytest.mark.protocol(12)
async def test_a_question_that_names_no_call_is_declined_where_two_are_in_flight(plain):
    """P-012: neither session sees it."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "asking")]) as supervisor:
            slow = await supervisor.start_session(model=called("slow", seconds=1.5))
            asking = await supervisor.start_session(model=called("ask"))
            await slow.prompt("go")
            await trio.sleep(0.5)
            with trio.fail_after(15):  # if it is put to somebody else, nobody answers
                (result,) = await results_of(asking)
            assert json.loads(result.text) == {"action": "decline"}
            assert not (await slow.status()).questions


@pytest.mark.parametrize(("times", "words", "shown"), [(11, 1, 10), (1, 300_000, 0)])
async def test_a_call_of_the_older_revision_asks_ten_times_at_most_and_not_at_length(
    plain, times, words, shown
):
    """All further questions are declined at once, and the user never sees them."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "asking")]) as supervisor:
            session = await supervisor.start_session(model=called("insist", times=times, words=words))
            kinds = [agentrail.events.AskUser, ToolExecutionEnd]
            async with session.subscribe(kinds=kinds) as events:
                await session.prompt("go")
                seen = [await anext(events) for _ in range(shown + 1)]
            assert [type(one) for one in seen] == [agentrail.events.AskUser] * shown + [ToolExecutionEnd]
            assert json.loads(seen[-1].result.text) == {"action": "decline"}


@pytest.mark.protocol(13)
async def test_a_lying_server_costs_no_time_and_fetches_nothing(plain):
    """P-013, 11.13: what cannot be used is left out, what is hidden is removed, what explodes is judged by its cost."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "lying")]) as supervisor:
            evil = {"a": "a" * 40 + "!"}
            model = ScriptedModel(
                [calls(("mcp__p__pattern", evil)), calls(("mcp__p__pattern", {})), says("done")]
            )
            session = await supervisor.start_session(model=model)
            source = supervisor.sources.running["p"].source
            described = {one.name: one.description for one in source.tools}
            assert described["mcp__p__good"] == "Good.ly hidden"
            # The schema {} takes all, and the revision has no such schemas.
            assert "mcp__p__bare" in described
            assert "'bad' is left out" in source.listing.faults[0]
            assert "'worse' is left out" in source.listing.faults[1]
            refused, misfit = await results_of(session, 2)
            assert refused.text.startswith("Invalid arguments")
            assert "does not fit" in misfit.details["note"]


@pytest.mark.protocol(71)
async def test_servers_see_our_trace_and_nothing_of_a_program_with_opentelemetry(tmp_path):
    """P-071: over stdio, HTTP and in a login, with a tracer and without one."""
    found = {}
    for mode in ("traced", "plain"):
        place = tmp_path / mode
        place.mkdir()
        command = [sys.executable, "-m", "tests.mcp.traced_program", place, mode]
        with trio.fail_after(WITHIN_SECONDS):
            done = await trio.run_process(command, capture_stdout=True, cwd=ROOT)
        found[mode] = json.loads(done.stdout)
    traced, untraced = found["traced"], found["plain"]
    assert {one["name"] for one in traced["spans"] if one["begins"]} == {"program"}
    assert {"MCP send initialize", "MCP send tools/call echo"} < {one["name"] for one in traced["spans"]}
    assert untraced["spans"] == []
    for seen in (traced, untraced):
        metas = [
            ("near", seen["near"]),
            *[one for one in seen["far"] if not one[0].startswith("notifications")],
        ]
        names = {
            name for _, meta in metas for name in meta if not name.startswith("io.modelcontextprotocol/")
        }
        assert names == {"traceparent", "progressToken"}
        assert all(meta["traceparent"][:3] == "00-" for _, meta in metas)
        assert not {"baggage", "traceparent", "tracestate"} & set(seen["headers"])
        assert [method for method, _ in seen["far"]].count("tools/call") == 1
        of_far = next(meta for method, meta in seen["far"] if method == "tools/call")
        assert of_far["traceparent"][3:35] == seen["near"]["traceparent"][3:35]  # one cycle, one trace
    # A tracer adds a span of the library between ours and the server's. All else is byte for byte.
    assert [one for one, _ in traced["far"]] == [one for one, _ in untraced["far"]]
    assert {**traced["near"], "traceparent": ""} == {**untraced["near"], "traceparent": ""}


async def test_a_server_gets_the_variables_of_commands_and_its_own(plain, monkeypatch):
    """6.14: an allow list, and `env`."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers")
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(
            mcp=[server(plain, env={"TRACKER": agentrail.Secret("t0k3n")})]
        ) as supervisor:
            session = await supervisor.start_session(model=called("environ"))
            seen = json.loads((await results_of(session))[0].text)
    assert seen["TRACKER"] == "t0k3n"
    assert seen["PATH"] == os.environ["PATH"]
    assert "OPENAI_API_KEY" not in seen


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("silent", "did not answer within 1 s"),
        ("leaving", "exited with code 7"),
        ("babbling", "100 lines in a row that are no JSON"),
        ("nameless", "its answer is invalid: serverInfo: Input should be a valid dictionary[^\\n]*$"),
        ("foreign", r"Unsupported protocol version from the server: 1 \?2"),
    ],
)
async def test_a_required_server_that_is_not_there_keeps_its_session_from_starting(plain, mode, reason):
    """11.13: with the reason, and nothing is left of either."""
    with trio.fail_after(WITHIN_SECONDS):
        options = {"mcp": [server(plain, mode, connect_timeout=1)]}
        async with no_orphans(), agentrail.open_supervisor(**options) as supervisor:
            with pytest.raises(SessionRefused, match=reason):
                await supervisor.start_session(model="demo:")
            assert not supervisor.sessions()


async def test_a_missing_program_a_missing_address_and_a_missing_token_say_so():
    """11.13."""
    missing = [
        (McpServer("p", command=["no-such-program"], required=True), "'no-such-program' was not found"),
        (McpServer("p", url="http://127.0.0.1:9/mcp", required=True), "connect"),
    ]
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            # Without a login there is nothing to log in to: its configuration lacks a token.
            closed = McpServer("p", url=f"{guarded.origin}/mcp", required=True)
            missing.append((closed, "it answered HTTP 401: check auth and headers"))
            for one, reason in missing:
                async with agentrail.open_supervisor(mcp=[one]) as supervisor:
                    with pytest.raises(SessionRefused, match=reason):
                        await supervisor.start_session(model="demo:")


async def test_a_progress_that_no_number_holds_costs_no_call(plain):
    """It is dropped, and the server stays."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "boundless")]) as supervisor:
            session = await supervisor.start_session(model=called("echo"))
            (result,) = await results_of(session)
            assert json.loads(result.text)["name"] == "echo"


async def test_a_chatty_server_works_and_a_flooding_one_holds_up_nobody(plain):
    """11.3, 11.13: lines that are no JSON are dropped; a change every millisecond is at most twenty listings a minute."""
    servers = [server(plain, "chatty", name="p"), server(plain, "flooding", name="q")]
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=servers) as supervisor:
            session = await supervisor.start_session(model=called("echo"))
            assert not (await results_of(session))[0].is_error
            await trio.sleep(1.5)
            assert len(supervisor.sources.running["q"].source._listed_at) <= 8  # noqa: SLF001 - counts listings


async def test_an_endless_list_ends_after_a_hundred_pages(plain):
    """11.3."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "endless")]) as supervisor:
            await supervisor.start_session(model="demo:")
            assert len(supervisor.sources.running["p"].source.tools) == 100


async def test_a_message_beyond_the_limit_restarts_the_server(plain, quick_restarts):
    """11.13."""
    small = server(plain, max_message_bytes=100_000)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[small]) as supervisor:
            session = await supervisor.start_session(model=called("wide", bytes=200_000))
            async with session.subscribe(kinds=[ToolSourceChanged]) as events:
                (result,) = await results_of(session)
                assert "went away during this call" in result.text
                lost = await state_of(events, "restarting")
            assert lost.reason == "it sent a message of over 100,000 bytes"


@pytest.mark.parametrize(
    ("levels", "result", "state"), [(50, "deep", "ready"), (64, "went away during this call", "restarting")]
)
async def test_a_message_of_over_64_levels_restarts_the_server(plain, quick_restarts, levels, result, state):
    """11.13."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "more")]) as supervisor:
            session = await supervisor.start_session(model=called("deep", levels=levels))
            async with session.subscribe(kinds=[ToolSourceChanged], after=0) as events:
                assert result in (await results_of(session))[0].text
                assert (await state_of(events, "ready")).state == "ready"
                if state == "restarting":
                    assert (await state_of(events, state)).reason == "it sent a message of over 64 levels"


async def test_second_and_unknown_answers_are_dropped_and_counted(plain):
    """11.13: the call has its first answer, and the next call its own."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "more")]) as supervisor:
            session = await supervisor.start_session(model=called("twice", "echo"))
            twice, echo = await results_of(session, 2)
            assert (twice.text, json.loads(echo.text)["name"]) == ("answer 0", "echo")
            connection = supervisor.sources.running["p"].source.connection
            await wait_until(lambda: connection.dropped == 3)  # the last one may come behind the result


async def test_a_server_that_asks_and_reads_no_answers_is_not_answered_without_limit(plain, monkeypatch):
    """Each answer that cannot be sent is a task."""
    monkeypatch.setattr(await outside.offload(mcp_source.load_library), "_MAX_UNSENT", 10)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "more")]) as supervisor:
            session = await supervisor.start_session(model=called("deaf", "echo"))
            deaf, echo = await results_of(session, 2)
            assert (deaf.text, json.loads(echo.text)["name"]) == ("heard nothing", "echo")
            assert supervisor.sources.running["p"].source.connection.dropped > 0


async def test_a_list_of_5_000_tools_and_40_megabytes_is_cut(plain):
    """11.13: a thousand tools, a description of 4 KB, a name without control characters; the rest is named. No loop is held."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, "huge", connect_timeout=50)]) as supervisor:
            session = await supervisor.start_session(model="demo:", event_buffer_size=3_000)
            tools = {one.name: one for one in supervisor.sources.running["p"].source.tools}
            async with session.subscribe(kinds=[ToolSourceChanged], after=0) as events:
                changed = await state_of(events, "changed")
    assert len(tools) == 1_000
    assert tools["mcp__p__t0_0"].description == "y" * 4_096
    (odd,) = [name for name in tools if name.startswith("mcp__p__a")]
    assert re.fullmatch(r"mcp__p__a__b_[0-9a-f]{8}", odd)
    twice = "'t0_0' is listed twice, the first one counts"
    assert changed.reason == f"{twice}; {twice}; 4,001 tools beyond the first 1,000 are left out"


async def test_a_server_that_gets_no_descriptor_is_restarting_and_nothing_else_is(plain, quick_restarts):
    """11.13: another server and the session go on, and it is there when there are descriptors again."""
    servers = [server(plain, name="q"), server(plain, required=False)]
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=servers) as supervisor:
            session = await supervisor.start_session(
                model=ScriptedModel([calls(("mcp__q__echo", {})), says("done")]), mcp=["q"]
            )
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            free = os.dup(0)  # the next one, and the first that is too high
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
            try:
                other = await supervisor.start_session(model="demo:", mcp=["p"])
                async with other.subscribe(kinds=[ToolSourceChanged], after=0) as events:
                    lost = await state_of(events, "restarting")
                assert not (await results_of(session))[0].is_error
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert "Too many open files" in lost.reason
            async with other.subscribe(kinds=[ToolSourceChanged], after=lost.meta.seq) as events:
                await state_of(events, "ready")


async def test_a_tool_is_called_without_a_model(plain):
    """K8, with a tool of a source."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain)]) as supervisor:
            await supervisor.start_session(model="demo:")
            tools = supervisor.sources.running["p"].source.tools
            outcome = await supervisor.call_tool("mcp__p__echo", {"a": 1}, tools=tools)
            assert isinstance(outcome, Ok)


async def test_a_program_without_servers_loads_nothing_of_this(plain):
    """11.15: `import mcp` never happens without a server."""
    code = (
        "import sys, trio, agentrail\n"
        "async def main():\n"
        "    async with agentrail.open_session(model='demo:') as session:\n"
        "        await session.ask('hi')\n"
        "trio.run(main)\n"
        "print([one for one in sys.modules if one.split('.')[0] in {'mcp', 'mcp_types', 'pydantic', 'httpx2'}"
        " or one.startswith(('agentrail.tools.mcp', 'agentrail.sandboxes.server'))])\n"
    )
    done = await trio.run_process([plain()[0], "-c", code], capture_stdout=True)
    assert done.stdout.strip() == b"[]"
