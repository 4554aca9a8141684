"""`agentrail demo`: a tour in the terminal, offline and without a key."""

import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Final

import trio
from attrs import define, evolve, field, frozen
from cyclopts import Parameter

from agentrail import outside, plugins as p
from agentrail.abc import Tool, ToolContext, ToolListing
from agentrail.app import open_supervisor
from agentrail.cli.chat_notices import show_receipt
from agentrail.cli.ctrl_c import Interrupts, stop_signals
from agentrail.cli.event_text import ChatStyle, Piece, Transcript, on_one_line
from agentrail.cli.exit_codes import Exit
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.screen import DirectScreen, Screen
from agentrail.cli.stdio import OutputClosed, OutputFailed
from agentrail.cli.terminal.styles import Ink, decide_ink, draw_text, in_ascii
from agentrail.cli.text_output import end_without_output
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Prompt, ResponseCompleted, SignalId
from agentrail.core.values.toolbox import Toolbox
from agentrail.events import (
    AbortReceipt,
    AgentEnd,
    ApprovalRequired,
    Event,
    ToolExecutionStart,
    ToolProgress,
)
from agentrail.messages import AssistantMessage, CallId, PromptRef, SessionId, Text, TokenUsage, ToolCall
from agentrail.plugins import HumanApproval
from agentrail.runtime.session_handle import Session
from agentrail.runtime.tool_specs import ToolSpecs
from agentrail.tools.function import tool

if TYPE_CHECKING:
    from agentrail.testing.checked_run import CounterExample


# Output: the text of a scene, the events of its session, and pauses for reading.
#
# All of it goes to stdout in order, so that a pipe has the whole tour. No decisions are made here.

MAX_WIDTH: Final = 80
"""Longer lines of prose are hard to read, however wide the terminal is."""
READING_SECONDS: Final = 8.0
"""Time to read the introduction of a scene, in seconds."""
WATCH_SECONDS: Final = 6.0
"""Time to look at the result, in seconds."""


@frozen(kw_only=True)
class TourLook:
    ink: Ink
    is_terminal: bool


def decide_demo_look(
    variables: Mapping[str, str], *, is_terminal: bool, columns: int, encoding: str
) -> TourLook:
    """Choose the look of the tour: plain lines without a terminal, no colours with `NO_COLOR`, ASCII where needed."""
    ink = decide_ink(variables, width=min(columns, MAX_WIDTH), encoding=encoding, is_colored=is_terminal)
    return TourLook(ink=ink, is_terminal=is_terminal)


def demo_look_of_process() -> TourLook:
    return decide_demo_look(
        os.environ,
        is_terminal=os.isatty(1),
        columns=shutil.get_terminal_size((MAX_WIDTH, 24)).columns,
        encoding=sys.stdout.encoding or "",
    )


@define(eq=False, kw_only=True)
class TourStage:
    screen: Screen
    look: TourLook
    is_fast: bool = False
    _transcript: Transcript = field(init=False)

    def __attrs_post_init__(self) -> None:
        is_terminal, dims = self.look.is_terminal, self.look.ink.colors is not None
        self._transcript = Transcript(
            ChatStyle(out_is_terminal=is_terminal, err_is_terminal=is_terminal, dims=dims)
        )

    @property
    def model(self) -> str:
        return "demo:fast" if self.is_fast else "demo:"

    async def heading(self, text: str) -> None:
        await self._draw("", "")
        await self._draw(text, "bold")

    async def tell(self, text: str) -> None:
        await self._draw(text, "")

    async def typed(self, text: str) -> None:
        """Show what a user would type or a program would call."""
        mark = "▸" if self.look.ink.is_unicode else ">"
        await self._draw(f"{mark} {text}", "cyan")

    async def page(self, path: str) -> None:
        await self._draw(f"read on: {path}", "dim")

    async def show(self, event: Event) -> None:
        await self._write(self._transcript.feed(event))

    async def quote(self, text: str) -> None:
        for line in text.splitlines():
            await self._draw(f"  {on_one_line(line)}" if not line.startswith(" ") else line, "dim")

    async def pause(self, seconds: float) -> None:
        await trio.sleep(0.0 if self.is_fast else seconds)

    async def _draw(self, text: str, style: str) -> None:
        rows = draw_text(text, self.look.ink, style) or ("",)
        await self._write([*self._transcript.end_words(), *(Piece("out", f"{row}\n") for row in rows)])

    async def _write(self, pieces: Iterable[Piece]) -> None:
        shown = str if self.look.ink.is_unicode else in_ascii
        await self.screen.write([evolve(piece, stream="out", text=shown(piece.text)) for piece in pieces])


# The scenes, in order. Each explains its subject, shows it on a real session, and names the page to read.
#
# The model is the demo model and the tools are simulated. Supervisor, session, abort, approval, crash and property test
# are real.

TOUR_STEP_SECONDS: Final = 0.25
"""Duration of one step of a tool, in seconds."""
STEPS_SEEN: Final = 2
"""Number of tool steps to show before a steer or an abort."""
EXAMPLES: Final = 200
"""Maximum sessions of the property test. It finds the planted bug in the first few."""
SEED: Final = 1


# --- simulated tools of a small railway


@tool(effect_class="pure")
async def find_train(city: str) -> str:
    """Find the next train to a city."""
    await trio.sleep(TOUR_STEP_SECONDS)
    return f"The next train to {city} leaves at 9:12."


@tool
async def book_seat(city: str) -> str:
    """Book a seat. Needs a person's consent."""
    await trio.sleep(TOUR_STEP_SECONDS)
    return f"A seat to {city} is booked."


@tool(timeout_seconds=3600)
async def watch_platforms(ctx: ToolContext) -> str:
    """Watch the platforms, until the user has seen enough."""
    number = 0
    while True:
        number += 1
        await trio.sleep(TOUR_STEP_SECONDS)
        ctx.report_progress(f"platform {number}: nothing\n")


TOOLS: Final[tuple[Tool, ...]] = (find_train, book_seat, watch_platforms)


# --- plugins of the property test, which have a bug in combination


@p.plugin(priority=500, init=int, hooks=(p.BeforeTool,))
def ask_for_first_class(event: p.HookEvent, asked: int, ctx: p.Context) -> p.Action[int]:  # noqa: ARG001 - a hook's signature
    """Ask for approval before booking a first-class seat."""
    if isinstance(event, p.BeforeTool) and event.arguments.get("city") == "Porto, first class":
        return p.RequireApproval("first class?", asked)
    return p.Continue(asked)


@p.plugin(priority=600, init=int, hooks=(p.BeforeTool,))
def upgrade(event: p.HookEvent, upgraded: int, ctx: p.Context) -> p.Action[int]:  # noqa: ARG001 - a hook's signature
    """Book first class instead of the requested seat, after the other plugin has run."""
    if isinstance(event, p.BeforeTool) and event.name == "book_seat":
        return p.ReplaceToolArgs({"city": "Porto, first class"}, upgraded)
    return p.Continue(upgraded)


# --- scenes


@frozen(kw_only=True)
class TourScene:
    title: str
    about: str
    play: Callable[[TourStage, Session], Awaitable[None]]
    page: str


async def _watch(
    stage: TourStage, session: Session, prompt: str, meanwhile: Callable[[], Awaitable[None]] | None
) -> None:
    """Prompt, show the cycle to its end, and call `meanwhile` after a few steps of a tool."""
    await stage.typed(prompt)
    steps = 0
    async with session.stream(prompt) as events:
        async for event in events:
            await stage.show(event)
            if isinstance(event, ToolProgress):
                steps += 1
                if steps <= STEPS_SEEN:  # later steps, during the stop, add nothing
                    await stage.quote(event.text)
                if steps == STEPS_SEEN and meanwhile is not None:
                    await meanwhile()


async def _call_a_tool(stage: TourStage, session: Session) -> None:
    await _watch(stage, session, "Find the next train to Porto", None)


async def _steer(stage: TourStage, session: Session) -> None:
    async def steer() -> None:
        await stage.typed('await session.steer("Platform 2 is enough")')
        await session.steer("Platform 2 is enough")

    await _watch(stage, session, "Watch the platforms", steer)


async def _abort(stage: TourStage, session: Session) -> None:
    receipts: list[AbortReceipt] = []

    async def abort() -> None:
        await stage.typed('receipt = await session.abort("enough")')
        receipts.append(await session.abort("enough"))

    await _watch(stage, session, "Watch the platforms again", abort)
    await stage.tell(f"The receipt: {show_receipt(receipts[0])}.")


async def _approve(stage: TourStage, session: Session) -> None:
    prompt = "Book a seat to Porto"
    await stage.typed(prompt)
    async with session.stream(prompt) as events:
        async for event in events:
            await stage.show(event)
            if isinstance(event, ApprovalRequired):
                await stage.pause(WATCH_SECONDS)
                await stage.typed("await session.approve(approval.id)")
                await session.approve(event.approval.id)


async def _crash(stage: TourStage, session: Session) -> None:
    # Imported here, with the rest of the test kit: no other command needs it.
    from agentrail.testing.cancelling import crash

    async with session.subscribe() as events:
        await stage.typed("Watch the platforms once more")
        await session.prompt("Watch the platforms once more")
        await stage.typed("Find the next train to Lisbon")
        await session.prompt("Find the next train to Lisbon")
        async for event in events:
            await stage.show(event)
            if isinstance(event, ToolExecutionStart) and event.name == "watch_platforms":
                await stage.typed("(its actor crashes in the middle of the call)")
                crash(session, "a cosmic ray")
            elif isinstance(event, AgentEnd):  # of the queued prompt: the other cycle ended with an error
                break
    status = await session.status()
    await stage.tell(f"The handle is the same; restarts: {status.restarts}, messages: {status.messages}.")


async def _find_a_bug(stage: TourStage, _session: Session) -> None:
    await stage.typed("stacks.check_stack(machine)")
    try:
        # In a thread, so that Ctrl-C works. Cancellation abandons the thread.
        found, runs = await outside.offload(_check_the_plugins, abandon_on_cancel=True)
    except ModuleNotFoundError:
        await stage.tell("Without hypothesis only short conversations are tried, which find this bug too.")
        found, runs = await outside.offload(_try_short_conversations, abandon_on_cancel=True)
    if found is None:
        await stage.tell(f"Nothing was found in {runs} sessions: please report it.")
        return
    await stage.tell(f"Broken in session {runs + 1}: {found.rule}")
    await stage.quote(found.why)
    lines = found.scenario.splitlines()
    await stage.tell(f"The shortest example, from a scenario of {len(lines)} lines that a test can replay:")
    await stage.quote("\n".join(line for line in lines if line.startswith("@")))


def _check_the_plugins() -> "tuple[CounterExample | None, int]":
    # Imported here: it takes 0.3 s and needs hypothesis, which users of the command may not have installed.
    from agentrail.testing.stacks import check_stack, stack_machine

    machine = stack_machine(plugins=[ask_for_first_class, upgrade], tools=[book_seat])
    tally = check_stack(machine, examples=EXAMPLES, seed=SEED)
    return tally.found, tally.runs


def _try_short_conversations() -> "tuple[CounterExample | None, int]":
    """Call the tool once with each city that the plugins name: the first attempts of `check_stack`, without hypothesis."""
    from agentrail.testing.checked_run import CounterExample, Run, Setup

    listing = ToolListing(session_id=SessionId("demo"), model="scripted:model", working_dir=".", user_data={})
    seat = ToolSpecs().of(book_seat, lambda: listing)
    setup = Setup(entries=(ask_for_first_class, upgrade), tools=Toolbox([seat]))
    cities = ("Porto, first class", "Porto")
    for tried, city in enumerate(cities):
        run = Run(setup)
        call = ToolCall(call_id=CallId("c1"), name=book_seat.name, arguments={"city": city})
        message = AssistantMessage(content=(call,), model="scripted:model", stop_reason="tool_use")
        try:
            run.say(
                Prompt(
                    at_ms=0, signal_id=SignalId(""), ref=PromptRef(""), content=(Text(text=f"Book {city}"),)
                )
            )
            run.say(
                ResponseCompleted(
                    at_ms=0,
                    effect_id=EffectId("0"),
                    message=message,
                    usage=TokenUsage(),
                    stop_reason="tool_use",
                )
            )
        except CounterExample as found:
            return found, tried
    return None, len(cities)


TOUR: Final[tuple[TourScene, ...]] = (
    TourScene(
        title="A tool",
        about="The model asks for a tool; its result goes back to the model, which answers. A tool is a function with annotations.",
        play=_call_a_tool,
        page="docs/tutorial/first-session.md",
    ),
    TourScene(
        title="A steer",
        about="A tool runs without end. You steer: the tool is stopped, and the model reads your message at once.",
        play=_steer,
        page="docs/how-to/steer-and-decide.md",
    ),
    TourScene(
        title="An abort, and its receipt",
        about="The same tool, stopped for good. The abort returns when nothing of it is left, with a receipt of the outcome. The history stays valid.",
        play=_abort,
        page="docs/explanation/promises.md",
    ),
    TourScene(
        title="An approval",
        about="Booking needs your approval. The call waits with its exact arguments, and exactly that call runs. The tour approves it for you.",
        play=_approve,
        page="docs/how-to/steer-and-decide.md",
    ),
    TourScene(
        title="A crash, and the recovery",
        about="A bug kills the session's actor while a tool runs and another prompt waits. Its supervisor restarts it: the outcome of the call is reported as unknown, and the prompt that waited is answered. The log says it too, on stderr.",
        play=_crash,
        page="docs/explanation/durability.md",
    ),
    TourScene(
        title="A property test",
        about="Two plugins, each fine by itself: one asks before first class is booked, the other books first class behind its back. Drawn conversations find that without a model, and make it short.",
        play=_find_a_bug,
        page="docs/how-to/test-a-plugin-stack.md",
    ),
)
"""The scenes in order."""


async def give_tour(stage: TourStage) -> None:
    """Show all scenes on one session, which ends with the tour.

    Cancellation: The session ends, and its running work is stopped.
    """
    await stage.tell(
        "agentrail in two minutes: supervisor, session and plugins are real, the model is the built-in demo. Ctrl-C leaves."
    )
    asks = (HumanApproval, {"require_approval_for": ["book_seat"]})
    async with open_supervisor(environ={}) as supervisor:
        session = await supervisor.start_session(model=stage.model, tools=TOOLS, plugins=[asks])
        for number, scene in enumerate(TOUR, 1):
            await stage.heading(f"{number} of {len(TOUR)}: {scene.title}")
            await stage.tell(scene.about)
            await stage.pause(READING_SECONDS)
            await scene.play(stage, session)
            await stage.page(scene.page)
            await stage.pause(WATCH_SECONDS)
    await stage.heading("That was all")
    await stage.tell(
        "Chat with it: agentrail chat. See it in a browser: agentrail serve --demo. Build on it: docs/README.md"
    )


# The command.


def demo(
    *,
    fast: Annotated[bool, Parameter(help="Skip the pauses for reading.")] = False,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    stage = TourStage(screen=DirectScreen(), look=demo_look_of_process(), is_fast=fast)
    return trio.run(show_tour, stage)


async def show_tour(stage: TourStage) -> Exit:
    end = Exit.DONE
    with trio.open_signal_receiver(signal.SIGINT, *stop_signals()) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Interrupts(nursery.cancel_scope.cancel).receive, signals)
            try:
                await give_tour(stage)
            except OutputFailed as error:
                end = end_without_output(error)
            except OutputClosed:  # its reader closed the pipe (`| head`)
                pass
            finally:
                nursery.cancel_scope.cancel(reason="the tour is over")
    return end
