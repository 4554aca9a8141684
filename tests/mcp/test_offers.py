"""What a server may ask of us when it is switched on: the model's words, the workspace, a place in the prompt. And its log."""

import json
import logging
import sys

import pytest
import trio

import agentrail
from agentrail.errors import OptionError
from agentrail.events import SubagentStart, ToolExecutionEnd
from agentrail.messages import UserMessage
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.tools.mcp import McpServer
from tests.conftest import SERVICES
from tests.mcp.conftest import SERVERS

WITHIN_SECONDS = 60
EVERYTHING = str(SERVICES["server-everything"])
SAY = {"role": "user", "content": {"type": "text", "text": "Say a."}}


def server(plain, argument="", **options):
    """Options of a server that asks for everything."""
    return McpServer("p", command=plain("offering", argument), required=True, **options)


def parrot(*called, seen=None):
    """Return a model that makes these calls, and answers a server with `a`."""
    left = list(called)

    def answer(request):
        if seen is not None:
            seen.append(request)
        if not request.tools:
            return says("a")
        return calls(left.pop(0)) if isinstance(request.messages[-1], UserMessage) and left else says("done")

    return FunctionModel(answer)


async def text_of(session):
    """Prompt a session, and return the result of its call."""
    async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
        await session.ask("go")
        return (await anext(events)).result.text


@pytest.mark.parametrize(
    ("options", "offered"),
    [({}, {"elicitation"}), ({"sampling": True, "roots": True}, {"elicitation", "sampling", "roots"})],
)
async def test_only_what_is_switched_on_is_offered(plain, options, offered):
    """11.5: off, neither the model nor the workspace is offered."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, **options)]) as supervisor:
            session = await supervisor.start_session(model=parrot(("mcp__p__capabilities", {})))
            assert set(json.loads(await text_of(session))) == offered


async def test_a_server_asks_the_model_during_its_call(plain):
    """11.5, older revision: one turn of a child without tools, with the session's model; its events are told."""
    seen = []
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, sampling=True)]) as supervisor:
            model = parrot(("mcp__p__sample", {"messages": [SAY]}), seen=seen)
            session = await supervisor.start_session(model=model)
            async with session.subscribe(kinds=[SubagentStart]) as events:
                answer = json.loads(await text_of(session))
                await anext(events)
    assert answer["content"] == {"type": "text", "text": "a"}
    (request,) = [one for one in seen if not one.tools]
    assert request.system == "Be a parrot."
    assert request.messages[0].content[0].text == "Say a."


async def test_a_server_that_cannot_be_answered_is_told_why(plain):
    """Its call goes on."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, sampling=True)]) as supervisor:
            session = await supervisor.start_session(model=parrot(("mcp__p__sample", {"messages": []})))
            error = json.loads(await text_of(session))
    assert error["code"] == -32603
    assert error["message"].startswith("The model gave no answer: ")


@pytest.mark.protocol(12)
async def test_with_two_calls_in_flight_no_model_answers(plain, tmp_path):
    """P-012: in the older revision a sampling names no call, so another session might pay for it."""
    with trio.fail_after(WITHIN_SECONDS):
        note = tmp_path / "note"
        async with agentrail.open_supervisor(mcp=[server(plain, note, sampling=True)]) as supervisor:
            other = await supervisor.start_session(model=parrot(("mcp__p__slow", {"seconds": 30})))
            await other.prompt("go")
            while not (tmp_path / "called").exists():  # noqa: ASYNC110 - of another process
                await trio.sleep(0.01)
            session = await supervisor.start_session(model=parrot(("mcp__p__sample", {"messages": [SAY]})))
            assert (
                json.loads(await text_of(session))["message"]
                == "several calls are in flight, or none, or it asks too much"
            )
            await other.abort("enough")


async def test_a_server_is_told_the_workspace_of_its_session_alone(plain, tmp_path):
    """11.5: each session has a server of its own, because it could reach the files of the others."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server(plain, roots=True)]) as supervisor:
            sessions = []
            for name in ("one", "two"):
                place = tmp_path / name
                place.mkdir()
                model = parrot(("mcp__p__list_roots", {}))
                sessions.append(await supervisor.start_session(model=model, working_dir=place))
            for session, name in zip(sessions, ("one", "two"), strict=True):
                told = json.loads(await text_of(session))["roots"]
                assert told == [{"uri": (tmp_path / name).as_uri()}]
    with pytest.raises(OptionError, match="with roots each session has a server of its own"):
        McpServer("p", command=["p"], roots=True, scope="supervisor")


async def test_in_the_current_revision_both_are_answers_of_the_call(tmp_path):
    """11.5: and refused if they are not switched on."""
    command = [sys.executable, str(SERVERS / "current.py")]
    for is_on, text in ((True, f"a {[tmp_path.as_uri()]}"), (False, "not offered")):
        given = McpServer("c", command=command, required=True, sampling=is_on, roots=is_on)
        with trio.fail_after(WITHIN_SECONDS):
            async with agentrail.open_supervisor(mcp=[given]) as supervisor:
                model = parrot(("mcp__c__parrot", {}))
                session = await supervisor.start_session(model=model, working_dir=tmp_path)
                assert text in await text_of(session)


@pytest.mark.services("server-everything")
async def test_the_reference_server_samples_and_lists_roots(tmp_path):
    """11.14."""
    given = McpServer("p", command=[EVERYTHING], required=True, sampling=True, roots=True)
    wanted = (
        ("mcp__p__trigger-sampling-request", {"prompt": "Say a.", "maxTokens": 9}),
        ("mcp__p__get-roots-list", {}),
    )
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[given]) as supervisor:
            for one, text in zip(wanted, ('"text": "a"', tmp_path.as_uri()), strict=True):
                session = await supervisor.start_session(model=parrot(one), working_dir=tmp_path)
                assert text in await text_of(session)


@pytest.mark.parametrize("is_on", [True, False])
async def test_instructions_are_a_section_of_the_prompt_if_they_are_wanted(plain, is_on):
    """11.5: named, without hidden characters; gone with the server, and replaced like other sections."""
    seen = []
    given = server(plain, instructions=is_on)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[given]) as supervisor:
            session = await supervisor.start_session(model=parrot(seen=seen), system_prompt="Help.")
            await session.ask("go")
            supervisor.sources.running["p"].source.park()
            await supervisor.wait_for_tools(session.session_id)
            await session.ask("go")
            named = await supervisor.start_session(
                model=parrot(seen=seen), mcp=[], replace_sections={"mcp.p": "Mine."}
            )
            await named.ask("go")
    section = '\n\nInstructions of the server "p":\n\nLook first.' if is_on else ""
    assert [one.system for one in seen[:2]] == [f"Help.{section}", "Help."]


async def test_a_resumed_session_keeps_its_instructions(plain, tmp_path):
    """11.4: they are in its journal, so a prompt before the server is there has them too."""
    store, seen = f"sqlite:{tmp_path / 'store.sqlite'}", []
    with trio.fail_after(WITHIN_SECONDS):
        for mode, required in (("offering", True), ("silent", False)):
            given = McpServer("p", command=plain(mode), required=required, instructions=True)
            scripts = {"m": parrot(seen=seen)}
            async with agentrail.open_supervisor(store=store, scripts=scripts, mcp=[given]) as supervisor:
                if required:
                    session = await supervisor.start_session(model="scripted:m", session_id="s")
                else:
                    session = await supervisor.resume_session("s")
                await session.ask("go")
    assert ["Look first." in one.system for one in seen] == [True, True]


async def test_log_messages_of_a_server_are_ours_at_debug(plain, caplog):
    """11.1: 20 a second at most, without keys, whatever their level is there."""
    with trio.fail_after(WITHIN_SECONDS), caplog.at_level(logging.DEBUG, "agentrail.tools.mcp"):
        async with agentrail.open_supervisor(mcp=[server(plain)]) as supervisor:
            session = await supervisor.start_session(model=parrot(("mcp__p__log", {})))
            assert await text_of(session) == "logged"
    said = [one for one in caplog.records if " says " in one.getMessage()]
    assert {one.levelno for one in said} == {logging.DEBUG}
    assert said[0].getMessage() == "MCP server p says (error): number 0, …"
    assert said[1].getMessage().endswith("{'number': 1}")
    assert 20 <= len(said) < 50
