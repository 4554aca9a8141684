"""All promises at once: five long lives, broken off, steered and crashed at every single step.

Whatever the moment: the history is valid, no message that was accepted is lost, each cycle has one end and each call one
result, the numbers have no gap, nobody hangs, and nothing is left. `cancel_everywhere` checks that in every round, and
the last one, which nothing struck, has to tell what the scenario says.

The scenarios go by time and not by events, which may never come once the blow has fallen; their models answer what they
hear and not by a list, for the blow may be one more message.
"""

from contextlib import suppress

import attrs
import pytest
import trio

import agentrail
from agentrail import plugins as p
from agentrail.abc import Ok
from agentrail.errors import CycleEnded, InteractionError, Overloaded, Transport, UnknownCall
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    ApprovalRequired,
    AskUser,
    PluginEvent,
    ToolExecutionStart,
)
from agentrail.messages import Text, ToolMessage, UserMessage
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.cancelling import cancel_everywhere
from agentrail.testing.models import FunctionModel, Turn, calls, fails, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.shell import shell
from tests.runtime.rig import on_virtual_time
from tests.runtime.test_tool_context import alive_in
from tests.thinned import IS_NIGHTLY, paired, sampled

MODES = ("cancel", "close", "abort", "steer", "crash")
STRUCK = MODES if IS_NIGHTLY else ("cancel", "crash")
"""How a life with processes is struck. It waits for them at each step, and in CI the others, in virtual time, are struck in every mode."""


def hearing(**turns: Turn) -> FunctionModel:
    """A model that answers each prompt with its turn, results with what they say, and anything else by repeating it."""

    def answer(request):
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return says(*(f"{result.text}; " for result in last.results))
        text = text_of(last)
        return turns.get(text) or says("heard ", text)

    return FunctionModel(answer)


def text_of(message):
    """All text of a message of the user."""
    return "".join(block.text for block in message.content if isinstance(block, Text))


async def hear(session, prompt):
    """Ask, and give the answer, or how the cycle was broken off."""
    try:
        return await session.ask(prompt)
    except CycleEnded as error:
        return type(error).__name__


# --- streams, tools and retries


async def retries(stage, tell):
    """A response breaks off in its middle and one before its first chunk; a tool crashes and is called again."""
    crashes = iter([True, True])

    def crash_twice(_):
        if next(crashes, False):
            message = "try again"
            raise ValueError(message)
        return "at last"

    script = iter(
        [
            fails(Overloaded("busy"), after="half a sen"),
            Turn(thinking="hm", text=("I ", "look. "), calls=calls(("record", {}), ("flaky", {})).calls),
            fails(Transport("gone")),
            calls(("record", {"again": True}), text="Once more. "),
            says("Found ", "it.", pause_seconds=0.5),
        ]
    )
    model = FunctionModel(lambda request: next(script, None) or says(text_of(request.messages[-1])))
    flaky = RecordingTool(name="flaky", effect_class="pure", answer=crash_twice)
    session = await stage.start_session(model=model, tools=[RecordingTool(), flaky])
    async with trio.open_nursery() as nursery:

        async def ask(prompt):
            tell(await hear(session, prompt))

        nursery.start_soon(ask, "Look")
        await trio.sleep(0.1)
        await session.prompt("second", client_id="second")
        await session.prompt("second", client_id="second")
        tell(await hear(session, "third"))


TOLD_OF_RETRIES = ["Found it.", "third"]


# --- approvals and questions


async def people(stage, tell):
    """Cycles wait for a person: who approves, edits, refuses, answers, is late, or says something else instead."""
    guard = PuppetPlugin((read_rule("BeforeTool.record", "approve:may it?"),), name="guard")
    ways = ("approve", "edit", "reject", "respond", "late", "supersede")
    turns = {way: calls(("record", {"way": way}), ("plain", {})) for way in ways}
    model = hearing(**turns, ask=calls(("ask_user", {"question": "Which?", "options": ["left", "right"]})))
    tools = [
        RecordingTool(answer=lambda given: f"did {given['way']}"),
        RecordingTool(name="plain"),
        RecordingTool(name="ask_user", answered_by="user"),
    ]
    session = await stage.start_session(model=model, tools=tools, plugins=[guard], approval_timeout_seconds=9)
    async with (
        session.subscribe(kinds=[ApprovalRequired, AskUser]) as waiting,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(decide, session, waiting)
        for prompt in (*ways, "ask"):
            tell(await hear(session, prompt))
        nursery.cancel_scope.cancel()


async def decide(session, waiting):
    """Be the person: do with each call what is written in it, unless it is too late for that."""
    async for event in waiting:
        await trio.sleep(1)
        with suppress(InteractionError):
            match event:
                case AskUser(ref=ref):
                    await session.respond(ref, 1)
                case ApprovalRequired(approval=approval):
                    await decide_call(session, approval)


async def decide_call(session, approval):
    """Decide a call as its arguments say."""
    match approval.arguments["way"]:
        case "approve":
            await session.approve(approval.id)
        case "edit":
            await session.approve(approval.id, arguments={"way": "something else"})
        case "reject":
            await session.reject(approval.id, "too dear", auto_resume=True)
        case "respond":
            await session.respond(approval.id, "I did it myself")
        case "supersede":
            await session.prompt("never mind")


TOLD_OF_PEOPLE = [
    "did approve; recorded; ",
    '[The user changed the arguments. What ran: {"way":"something else"}]\ndid something else; recorded; ',
    "Rejected by the user: too dear; recorded; ",
    "I did it myself; recorded; ",
    "Not run: nobody approved this call within 9 s.; recorded; ",
    "",
    "right; ",
]


# --- steers and immune tools


class Slow(HangingTool):
    """Takes two seconds."""

    async def execute(self, arguments, ctx):
        """Wait, and answer."""
        ctx.report_progress("begun")
        await trio.sleep(2)
        return Ok(text="slowly")


async def steers(stage, tell):
    """Steers meet tools that they stop, tools that they may not, an idle session and an abort with survivors."""
    work = calls(("hang", {}), ("slow", {}))
    session = await stage.start_session(
        model=hearing(work=work), tools=[HangingTool(), Slow(name="slow")], immune_tools=["slow"]
    )
    await session.prompt("work")
    await trio.sleep(0.5)
    await session.steer("left")
    await session.steer("right", client_id="right")
    await session.steer("right", client_id="right")
    await trio.sleep(5)
    await session.steer("by itself")
    await trio.sleep(5)
    await session.prompt("work")
    await trio.sleep(0.5)
    for running in (await session.status()).running_tools:
        if running.name == "hang":
            with suppress(UnknownCall):
                await session.abort_tool(running.call_id, "not you")
    await session.abort("enough")
    await session.prompt("meanwhile")
    await trio.sleep(5)
    tell(await hear(session, "last"))
    said = [message for message in await session.messages() if isinstance(message, UserMessage)]
    for message in said:
        tell((message.origin, text_of(message)))


TOLD_OF_STEERS = [
    "heard last",
    ("prompt", "work"),
    ("steer", "left\n\nright"),
    ("prompt", "by itself"),
    ("prompt", "work"),
    ("prompt", "meanwhile"),
    ("note", "[The call of slow that was still running at the abort has ended: slowly]"),
    ("prompt", "last"),
]


# --- threads and processes


@agentrail.tool
def spin() -> str:
    """Work in a thread until somebody says that it is enough."""
    while True:
        trio.from_thread.check_cancelled()


async def threads_and_processes(stage, tell, root):
    """Commands with children in the background, and a thread; the end of a short one, the abort of long ones."""
    turns = {
        "short": calls(("shell", {"command": "sleep 1000 & echo short"})),
        "long": calls(("shell", {"command": "sleep 1000 & sleep 1000"}), ("spin", {})),
    }
    session = await stage.start_session(model=hearing(**turns), tools=[shell, spin], working_dir=root)
    tell("short" in await hear(session, "short"))
    over = [AgentAbort, AgentError, AgentEnd, ToolExecutionStart]
    async with session.subscribe(kinds=over) as events:
        await session.prompt("long")
        async for event in events:
            if not isinstance(event, ToolExecutionStart) or event.name == "spin":
                break
    receipt = await session.abort()
    tell((receipt.tasks_ended, receipt.stuck))


TOLD_OF_THREADS_AND_PROCESSES = [True, (2, ())]


# --- plugins at every hook


@attrs.frozen
class Seen:
    """What the listener remembers."""

    hooks: int = 0
    word: str = "seen"


class Listener(p.Plugin[Seen]):
    """Says of each hook that it was there, and has options."""

    priority = 900
    hooks = frozenset(p.HOOKS)

    def init(self) -> Seen:
        """Begin."""
        return Seen()

    def handle(self, event, state, ctx):
        """Say so."""
        del ctx
        after = attrs.evolve(state, hooks=state.hooks + 1)
        return p.Emit(state.word, type(event).__name__, after)


def stack():
    """Plugins that between them give every answer that a plugin can give."""
    rules = {
        "guard": {
            "BeforeTool.danger": "block:not today",
            "BeforeTool.shell": "approve:may it?",
            "BeforeSteering": "intervene:by the way",
        },
        "editor": {
            "BeforeTool.record": 'args:{"edited": true}',
            "AfterTool.record": "result:hidden",
            "BeforeRequest": "section:It is Friday.",
            "BeforeFinish": "intervene:think again",
        },
        "reader": {"BeforePrompt": "wait:notes.txt", "AfterTurn": "read:notes.txt"},
        "broken": {"AfterToolBatch": "raise:oops"},
    }
    puppets = [
        PuppetPlugin(tuple(read_rule(*rule) for rule in said.items()), name=name, priority=100 * number)
        for number, (name, said) in enumerate(rules.items())
    ]
    return [*puppets, Listener, Listener(name="another", priority=950)]


async def plugins(stage, tell):
    """Every hook is heard and answered: blocked, rewritten, hidden, asked for, failed; and the stack changes meanwhile."""
    work = calls(("record", {}), ("danger", {}), ("flaky", {}))

    def crash(_):
        message = "never works"
        raise ValueError(message)

    tools = [
        RecordingTool(answer=lambda given: f"did {given}"),
        RecordingTool(name="danger"),
        RecordingTool(name="flaky", effect_class="pure", answer=crash),
    ]
    session = await stage.start_session(
        model=hearing(work=work),
        tools=tools,
        plugins=stack(),
        sandbox=MemorySandbox({"notes.txt": "buy milk"}),
    )
    async with (
        session.subscribe(kinds=[PluginEvent], buffer=10_000) as events,
        trio.open_nursery() as nursery,
    ):
        heard = set()

        async def listen():
            async for event in events:
                if isinstance(event, PluginEvent):
                    heard.add(event.payload)

        nursery.start_soon(listen)
        await session.prompt("work")
        await trio.sleep(0.1)
        await session.steer("left")
        await session.update_plugin_opts("Listener", word="noticed")
        await trio.sleep(60)
        await session.detach_plugin("broken")
        await session.attach_plugin(PuppetPlugin((), name="late"))
        tell(await hear(session, "last"))
        nursery.cancel_scope.cancel()
    unheard = {hook.__name__ for hook in p.HOOKS} - heard
    tell(sorted(unheard))


# Nothing is compacted here; and whoever listens to the end of the session is told behind the scenario.
TOLD_OF_PLUGINS = ["heard last", ["BeforeCompact", "SessionEnding"]]


async def strike(life, mode, expected, **options):
    """Play a life, struck at every step; undisturbed it tells what is expected."""
    told = []

    async def scenario(stage):
        told.clear()
        await life(stage, told.append)

    rounds = await cancel_everywhere(scenario, mode=mode, **options)
    assert told == expected
    assert rounds > 50


LIVES = {
    "retries": (retries, TOLD_OF_RETRIES),
    "people": (people, TOLD_OF_PEOPLE),
    "steers": (steers, TOLD_OF_STEERS),
    "plugins": (plugins, TOLD_OF_PLUGINS),
}


@on_virtual_time
@pytest.mark.at(3, 6, 23, 30, 39)
@pytest.mark.parametrize(("name", "mode"), sampled(paired([*LIVES], MODES)))
async def test_a_long_life(name, mode):
    """Struck at its n-th step, for every n: nothing is left or lost, and all that was begun has one end."""
    life, expected = LIVES[name]
    await strike(life, mode, expected, round_seconds=1_000)


@pytest.mark.at(18, 29)
@pytest.mark.parametrize("mode", STRUCK)
async def test_a_life_of_threads_and_processes(mode, tmp_path):
    """The same on the real clock, which threads and processes need; and no grandchild is left of any command."""
    env = {"TEST_TREE": str(tmp_path)}

    def make_sandbox(name, root):
        return LocalSandbox(root, shell_fallback="unconfined", env=env)

    async def life(stage, tell):
        await threads_and_processes(stage, tell, tmp_path)

    await strike(life, mode, TOLD_OF_THREADS_AND_PROCESSES, round_seconds=30, make_sandbox=make_sandbox)
    assert alive_in(tmp_path) == 0
