"""What a person decides in a chat, as the words of a line: steers, answers, approvals, and which of several is meant."""

import pytest
import trio

from agentrail.cli.chat_answers import decide, rules_of_waiting, show_waiting
from agentrail.cli.chat_notices import notice_of
from agentrail.cli.chat_session import Chat
from agentrail.cli.chat_terminal import Desk
from agentrail.cli.resume_command import asked_again
from agentrail.cli.terminal.key_bindings import Chosen
from agentrail.errors import AnswerNotOffered, InteractionError, OptionError, PromptError, YourMove
from agentrail.events import AgentEnd, ApprovalRequired, AskUser, SteeringApplied
from agentrail.plugins import HumanApproval, Permissions
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools import builtin
from tests.runtime.rig import open_bare, until, wants

WHICH = ("ask_user", {"question": "Which one?", "options": ["left", "right"]})
WHEN = ("ask_user", {"question": "When?"})


@pytest.fixture
async def supervisor():
    """A supervisor; after the test nothing of its sessions is left, or the test fails."""
    async with no_orphans(), open_bare() as opened:
        yield opened


def shell_tool():
    return RecordingTool(
        name="shell", parameters={"type": "object", "properties": {"command": {"type": "string"}}}
    )


async def texts_of(session):
    return [result.text for message in await session.messages() for result in getattr(message, "results", ())]


async def test_a_steer_is_heard_by_the_running_cycle(supervisor):
    """The tool is stopped, and the model reads what was said; without a cycle it begins one, and says so."""
    hang = HangingTool()
    model = ScriptedModel([wants("hang"), says("in French, then"), says("again")])
    session = await supervisor.start_session(model=model, tools=[hang])
    async with session.subscribe() as events:
        await session.prompt("Go")
        await hang.started.wait()
        assert await decide(session, "/steer", "rather in French") == "the model hears it next"
        seen = await until(events, AgentEnd)
        assert SteeringApplied in map(type, seen)
        assert model.requests[1].messages[-1].content[0].text == "rather in French"
        assert await decide(session, "/steer", "and once more") == "it starts a cycle of its own"
        await until(events, AgentEnd)
    assert hang.stopped == 1
    with pytest.raises(PromptError, match="empty"):
        await decide(session, "/steer", "")


async def test_questions_are_answered_by_number_or_in_words(supervisor):
    """Options count from 1 as they are shown; `#2` in front means the second that waits."""
    model = ScriptedModel([calls(WHICH, WHEN), says("Good.")])
    session = await supervisor.start_session(model=model, tools=builtin("ask_user"))
    async with session.subscribe() as events:
        await session.prompt("Go")
        await until(events, AskUser)
        await until(events, AskUser)
        assert show_waiting(await session.status()) == ["#1 Which one? 1) left 2) right", "#2 When?"]
        for wrong in ("0", "3"):
            with pytest.raises(YourMove, match=f"there is no option {wrong}: expected 1 to 2, or text"):
                await decide(session, "/answer", wrong)
        with pytest.raises(InteractionError, match="that is a question: answer it with /answer"):
            await decide(session, "/approve", "")
        with pytest.raises(InteractionError, match="nothing waits at #3"):
            await decide(session, "/answer", "#3 now")
        assert await decide(session, "/answer", "#2 7") == "answered"  # without options a number is words
        assert await decide(session, "/answer", "2") == "answered"
        await until(events, AgentEnd)
    assert await texts_of(session) == ["right", "7"]
    with pytest.raises(InteractionError, match="nothing waits for you"):
        await decide(session, "/answer", "left")


@pytest.mark.parametrize(
    ("line", "said", "result", "runs"),
    [
        ("/approve", "shell runs", "recorded", 1),
        ("/approve #1 always", "shell runs", "recorded", 1),
        ('/edit {"command": "ls -a"}', "shell runs, with your arguments", "recorded", 1),
        ("/reject not today", "shell is refused", "Rejected by the user: not today", 0),
        ("/answer say it ran", "shell is answered in place of running", "say it ran", 0),
    ],
)
async def test_a_call_that_waits_is_decided(supervisor, line, said, result, runs):
    """It runs, is refused with the reason, or is answered in its place; the model goes on in each case."""
    command, _, rest = line.partition(" ")
    shell, model = shell_tool(), ScriptedModel([calls(("shell", {"command": "ls"})), says("done")])
    session = await supervisor.start_session(model=model, tools=[shell], plugins=[HumanApproval])
    async with session.subscribe() as events:
        await session.prompt("Go")
        await until(events, ApprovalRequired)
        assert show_waiting(await session.status())[0].startswith("#1 shell {'command': 'ls'}")
        assert await decide(session, command, rest) == said
        with trio.fail_after(60):
            await until(events, AgentEnd)
    assert await session.collect_reply() == "done"
    assert len(shell.calls) == runs
    assert result in (await texts_of(session))[0]


class Decided:
    """A session of which another client decides the first call when its status is first read."""

    def __init__(self, session, approval):
        self._session, self._approval = session, approval

    def __getattr__(self, name):
        return getattr(self._session, name)

    async def status(self):
        found = await self._session.status()
        if self._approval in found.approvals:
            await self._session.reject(self._approval.id)
        return found


class Said:
    """A view that keeps what is said."""

    def __init__(self):
        self.lines = []

    async def say(self, *lines):
        self.lines += lines


async def test_a_key_decides_the_call_that_was_shown(supervisor):
    """Also if another client decides an earlier one meanwhile, so that the numbers change."""
    shell = shell_tool()
    model = ScriptedModel([calls(*[("shell", {"command": line}) for line in "abc"]), says("done")])
    session = await supervisor.start_session(model=model, tools=[shell], plugins=[HumanApproval])
    async with session.subscribe() as events:
        await session.prompt("Go")
        first, second, third = [(await until(events, ApprovalRequired))[-1].approval for _ in range(3)]
    view = Said()
    desk = Desk(lines=view, view=view, in_order=False)
    async with trio.open_nursery() as nursery:
        chat = Chat(session=Decided(session, first), supervisor=None, desk=desk, nursery=nursery)
        for _ in range(2):
            await chat._take(Chosen(choice="approve", approval=second))  # noqa: SLF001 - a key of the dialogue
    await session.reject(third.id, auto_resume=True)
    assert await session.collect_reply() == "done"
    assert [one["command"] for one in shell.calls] == ["b"]
    assert (view.lines[0], "already decided: approved" in view.lines[1]) == ("shell runs", True)


async def test_answers_that_are_not_offered_are_refused(supervisor):
    """What waits says which are; edited arguments are a JSON object, and nothing that is refused decides."""
    shell = shell_tool()
    model = ScriptedModel([calls(("shell", {"command": "ls"})), says("done")])
    session = await supervisor.start_session(
        model=model, tools=[shell], plugins=[(HumanApproval, {"permission_options": ["edit", "reject"]})]
    )
    async with session.subscribe() as events:
        await session.prompt("Go")
        await until(events, ApprovalRequired)
        assert show_waiting(await session.status())[0].endswith(
            "shell {'command': 'ls'}: each call of shell needs an approval (/edit or /reject)"
        )
        for command, rest in (("/approve", ""), ("/approve", "always"), ("/answer", "it ran")):
            with pytest.raises(AnswerNotOffered, match="it takes edit, reject; the call still waits"):
                await decide(session, command, rest)
        with pytest.raises(InteractionError, match="these arguments are not JSON"):
            await decide(session, "/edit", "ls -a")
        with pytest.raises(InteractionError, match="arguments are a JSON object"):
            await decide(session, "/edit", '["ls"]')
        with pytest.raises(AnswerNotOffered, match="does not take 'approve'"):  # nothing is edited here
            await decide(session, "/edit", '{"command": "ls"}')
        assert await decide(session, "/edit", '{"command": "ls -a"}') == "shell runs, with your arguments"
        with trio.fail_after(60):
            await until(events, AgentEnd)
    assert shell.calls == [{"command": "ls -a"}]


async def test_always_is_kept_where_the_user_keeps_rules(supervisor):
    """G-017: the narrowest rules, which hold in the session from its next cycle on; one that cannot be written is said."""
    kept = []
    tool = shell_tool()
    wanted = [("shell", {"command": one}) for one in ("wc -l x", "wc -l x", "git log", "bash x")]
    turns = [turn for one in wanted for turn in (calls(one), says("done"))]
    session = await supervisor.start_session(
        model=ScriptedModel(turns), tools=[tool], plugins=[(Permissions, {"allow": ["shell(ls)"]})]
    )

    def keep(rules):
        kept.append(rules)
        if len(kept) > 1:
            raise OptionError(["the disk is full"])
        return "rules.toml"

    async with session.subscribe() as events:
        await session.prompt("Count")
        seen = await until(events, ApprovalRequired)
        notices = [said for one in seen if (said := notice_of(one)) is not None]
        assert notices[0] == "/approve always would keep: shell(wc -l x)"
        said = await decide(session, "/approve", "always", keep)
        assert said == "shell runs; from now on by shell(wc -l x), kept in rules.toml"
        await until(events, AgentEnd)
        await session.prompt("Once more")
        assert ApprovalRequired not in map(type, await until(events, AgentEnd))
        await session.prompt("Look")
        await until(events, ApprovalRequired)
        status = await session.status()
        rules = await rules_of_waiting(session, status, keep)
        (line,) = show_waiting(status, rules)  # as in /status
        assert "(always: shell(git log *); that also allows git log with any other words" in line
        notices = [notice_of(one) for one in asked_again(status, rules)]  # as in a chat that comes back
        assert notices[0].startswith("/approve always would keep: shell(git log *); that also allows")
        assert notices[1].startswith("may shell run with")
        assert await rules_of_waiting(session, status, None) == {}
        assert "this is not kept: the disk is full" in await decide(session, "/approve", "always", keep)
        await until(events, AgentEnd)
        await session.prompt("Run")
        await until(events, ApprovalRequired)
        with pytest.raises(AnswerNotOffered):
            await decide(session, "/approve", "always", keep)
        await decide(session, "/approve", "")
        await until(events, AgentEnd)
    assert kept == [("shell(wc -l x)",), ("shell(git log *)",)]
    assert [one["command"] for one in tool.calls] == ["wc -l x", "wc -l x", "git log", "bash x"]
    (plugin,) = (await session.status()).plugins
    assert plugin.options["allow"] == ["shell(ls)", "shell(wc -l x)"]
