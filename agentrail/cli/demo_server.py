"""The application of `agentrail serve --demo`: three profiles on the demo model, and sessions that run from the start."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio
from attrs import frozen

from agentrail.abc import Error, ToolContext
from agentrail.actors import ChildSpec, worker
from agentrail.core.policy.budget import Budget
from agentrail.core.protocol.actions import Action, Continue
from agentrail.core.protocol.hooks import AfterTool, BeforePrompt
from agentrail.core.stack.plugin import Context, OnError
from agentrail.errors import AgentrailError
from agentrail.gateway.authorization import ANYONE_HERE
from agentrail.host.agent_profiles import AgentProfile, ProfileContext
from agentrail.host.hook_payloads import AfterToolCall, Allow, BeforeToolCall, ChatRequest, RequestContext
from agentrail.host.host import Host
from agentrail.host.host_plugin import HostPlugin
from agentrail.host.quotas import Limits
from agentrail.host.requests import HostRequest
from agentrail.messages import SessionId
from agentrail.plugins import HumanApproval
from agentrail.plugins.base import Plugin, on
from agentrail.runtime.agent import Agent
from agentrail.runtime.session_options import SessionOptions
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.tools import builtin
from agentrail.tools.function import tool

if TYPE_CHECKING:
    from starlette.applications import Starlette


# The three profiles: their simulated tools, and the plugins shown on the pages.
#
# The machine is not touched: files are in memory, and no command is run.

STEP_SECONDS: Final = 0.25
"""Duration in seconds of one step of a tool that reports progress."""

MAX_ANSWER_TOKENS: Final = 2_000
"""Output limit of the support desk. It bounds the cost of a request, which is checked against its budget."""

SUPPORT_BUDGET_USD: Final = 0.08
"""Budget of a support session, at the demo model's pretended prices, so that the pages show budgets."""

_ORDERS: Final = {17: "a lamp, 25.00 EUR, sent this morning", 4411: "a kettle, 39.90 EUR, arrived broken"}
_TOTALS: Final = '''"""What an invoice adds up to."""

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

from shop.lines import Line

CENT = Decimal("0.01")


def total(lines: Sequence[Line]) -> Decimal:
    """Add up the lines of an invoice."""
    return round(sum(line.price * line.count for line in lines), 2)


def with_tax(lines: Sequence[Line], percent: int) -> Decimal:
    """Add the tax."""
    return total(lines) * (100 + percent) / 100
'''
_TEST: Final = """from shop.totals import total


def test_a_total_is_what_the_lines_show() -> None:
    assert total(LINES) == Decimal("10.02")
"""
_FILES: Final = {
    "README.md": "# shop\n\nA shop that only a demo knows.\n",
    "src/totals.py": _TOTALS,
    "tests/test_totals.py": _TEST,
}


# --- tools


@tool(effect_class="pure")
async def find_order(number: int) -> str | Error:
    """Look up an order."""
    await trio.sleep(STEP_SECONDS)
    return _ORDERS.get(number) or Error(
        text=f"There is no order {number}: ask for the number on the receipt."
    )


@tool
async def refund(number: int, amount_eur: float, reason: str) -> str:
    """Pay an order back. Needs a person's consent."""
    await trio.sleep(STEP_SECONDS)
    return f"Order {number}: {amount_eur:.2f} EUR are paid back ({reason})"


@tool(timeout_seconds=1800)
async def import_addresses(file: str, rows: int, ctx: ToolContext) -> str:
    """Import the addresses of a file, row by row."""
    for row in range(1, rows + 1):
        await trio.sleep(STEP_SECONDS)
        ctx.report_progress(f"row {row} of {rows}\n")
    return f"{file}: {rows} rows are imported."


@tool(name="shell")
async def pretended_shell(command: str, ctx: ToolContext) -> str | Error:
    """Run a command. This one belongs to a demo: it knows how a few commands look, and runs none."""
    lines = _shown_for(command)
    for line in lines:
        await trio.sleep(STEP_SECONDS)
        ctx.report_progress(f"{line}\n")
    return "\n".join(lines)


@tool(effect_class="pure", timeout_seconds=600)
async def run_checks(suite: str, steps: int, ctx: ToolContext) -> str:
    """Run the checks of a suite; it takes a while."""
    for step in range(1, steps + 1):
        await trio.sleep(STEP_SECONDS * 3)
        ctx.report_progress(f"\x1b[32mok\x1b[0m   {suite}/part_{step:02} ({step} of {steps})\n")
    return f"{suite}: {steps} parts are ok."


@tool(effect_class="pure", timeout_seconds=30)
async def search_notes(query: str, ctx: ToolContext) -> str:
    """Search the notes. The service behind it often does not answer at first."""
    await trio.sleep(STEP_SECONDS * 4)
    if ctx.attempt == 1 or "archive" in query:
        message = f"the notes did not answer in time (attempt {ctx.attempt})"
        raise TimeoutError(message)
    return f"Notes on {query!r}: what was said is written down first, and answered then."


def _shown_for(command: str) -> list[str]:
    if "pytest" in command:
        return [
            "\x1b[1mcollected 3 items\x1b[0m",
            "tests/test_totals.py \x1b[32m...\x1b[0m",
            "\x1b[32m3 passed\x1b[0m in 0.04s",
        ]
    if "build" in command:
        return ["removed 'build'", "removed 'dist'", "\x1b[32mbuilt\x1b[0m dist/shop-1.4.0.whl"]
    return [f"$ {command}", "(a demo runs nothing)"]


# --- plugins


class Audit(HostPlugin):
    """Observes all calls and requests and allows them, so that the pages show a host plugin."""

    name = "audit"
    version = "1.2.0"
    priority = 100

    async def on_request_start(self, ctx: RequestContext) -> None:
        await trio.sleep(0.001)

    async def on_before_tool_call(self, event: BeforeToolCall) -> Allow:
        await trio.sleep(0.002)
        return Allow()

    async def on_after_tool_call(self, event: AfterToolCall) -> None:
        await trio.sleep(0.001)


class Bookkeeper(HostPlugin):
    """Records requests and fails at intervals, so that the pages show a failure."""

    name = "ledger"
    version = "2.0.1"
    _seen = 0

    async def on_request_end(self, ctx: RequestContext) -> None:
        await trio.sleep(0.004)
        self._seen += 1
        if self._seen % 4 == 0:
            message = "the books are closed at the moment"
            raise RuntimeError(message)


@frozen
class Noted:
    calls: int = 0


class NoteTaker(Plugin[Noted]):
    """Counts calls and fails on a prompt about an archive, so that the pages show a failing session plugin."""

    priority = 300
    on_error: OnError | None = "open"  # a session continues without its notes

    def init(self) -> Noted:
        return Noted()

    @on(BeforePrompt)
    def look(self, event: BeforePrompt, state: Noted, ctx: Context) -> Action[Noted]:
        if "archive" in event.text:
            message = "no note can be taken of an archive"
            raise ValueError(message)
        return Continue(state)

    @on(AfterTool)
    def count(self, event: AfterTool, state: Noted, ctx: Context) -> Action[Noted]:
        return Continue(attrs.evolve(state, calls=state.calls + 1))


# --- profiles


def demo_profiles() -> list[AgentProfile]:
    """Return the three profiles: a support desk, a coder with files in memory, and a reader with sub-agents."""
    support = SessionOptions(
        model="demo:support",
        system_prompt="You answer questions on orders.",
        tools=[find_order, refund, import_addresses, *builtin("ask_user", "write_todos")],
        plugins=[_asking("refund")],
        approval_timeout_seconds=900,
        max_output_tokens=MAX_ANSWER_TOKENS,
        budget=Budget(max_cost_usd=SUPPORT_BUDGET_USD),
    )
    reader = SessionOptions(
        model="demo:reader",
        system_prompt="You read, compare and write.",
        tools=[search_notes, *builtin("task", "write_todos")],
        agents=[
            Agent(
                name="reader", description="Reads about one thing and says it briefly.", tools=[search_notes]
            )
        ],
        plugins=[NoteTaker],
    )
    return [
        AgentProfile(
            id="support",
            name="Support desk",
            options=support,
            description="Questions on orders, refunds with consent",
        ),
        AgentProfile(
            id="coder", name="Coder", options=_coder, description="Reads and edits files that are in memory"
        ),
        AgentProfile(
            id="reader", name="Reader", options=reader, description="Compares and writes, with helpers"
        ),
    ]


async def _coder(_context: ProfileContext) -> SessionOptions:
    """Give each session its own files: an edit in one does not affect another."""
    await trio.lowlevel.checkpoint()
    return SessionOptions(
        model="demo:coder",
        system_prompt="You work on a small shop.",
        sandbox=MemorySandbox(_FILES),
        tools=[pretended_shell, run_checks, *builtin("edit_file", "list_dir", "read_file", "write_todos")],
        plugins=[_asking("edit_file", "shell"), NoteTaker],
    )


def _asking(*tools: str) -> tuple[type[HumanApproval], dict[str, object]]:
    return HumanApproval, {"require_approval_for": list(tools)}


# The application and the script of its sessions.

FIRST_FALL_SECONDS: Final = 5.0
"""Time until the background worker of a session first fails, in seconds, so that a viewer of the tree sees it soon."""

FALL_SECONDS: Final = 45.0
"""Time between later failures, in seconds. The tree shows a restart for a minute."""

DAY_BUDGET_USD: Final = 20.0
"""Daily cost limit of the demo, at pretended prices, so that the pages show a budget."""

MAX_REPEATS: Final = 100
"""How often a message is repeated, so that a demo left running overnight becomes idle."""


@frozen(kw_only=True)
class ScriptLine:
    """A scripted message of a user.

    Attributes:
        again_seconds: Delay between its end and the next repetition, or None to send it once.
        abort_seconds: Delay before its session is aborted, or None not to abort.
        feed: Name of a background worker that its session then runs and that fails at times, or None.
    """

    session_id: str
    agent_id: str
    message: str
    after_seconds: float = 0.0
    again_seconds: float | None = None
    abort_seconds: float | None = None
    feed: str | None = None


SCRIPT: Final[tuple[ScriptLine, ...]] = (
    ScriptLine(session_id="order-17", agent_id="support", message="Where is order 17?", feed="carrier-feed"),
    ScriptLine(session_id="order-23", agent_id="support", message="Where is order 23?"),
    ScriptLine(
        session_id="weekly-report", agent_id="reader", message="Write the weekly report.", again_seconds=5
    ),
    ScriptLine(
        session_id="nightly-checks", agent_id="coder", message="Run the nightly checks.", again_seconds=4
    ),
    ScriptLine(session_id="refund-4411", agent_id="support", message="Refund order 4411, it arrived broken."),
    ScriptLine(
        session_id="import-q3", agent_id="support", message="Import the addresses of the third quarter."
    ),
    ScriptLine(
        session_id="rounding", agent_id="coder", message="Totals are off by a cent: mend the rounding."
    ),
    ScriptLine(session_id="clean-build", agent_id="coder", message="Make a clean build.", after_seconds=1),
    ScriptLine(session_id="export", agent_id="support", message="Export all orders.", abort_seconds=2),
    ScriptLine(
        session_id="compare",
        agent_id="reader",
        message="Compare the ways in which sessions are kept.",
        again_seconds=20,
    ),
    ScriptLine(session_id="archive", agent_id="reader", message="What does the archive say?"),
)
"""The messages in order. All are sent within a second."""


@contextmanager
def demo_directory() -> Iterator[Path]:
    """Provide a directory for the sessions of a demo, deleted on exit. Blocks."""
    with TemporaryDirectory(prefix="agentrail-demo-") as name:
        yield Path(name)


def make_demo_application(directory: Path, **options: Any) -> "Starlette":
    """Create the application of a demo, with other options of `create_app`."""
    from agentrail.gateway.app import ServedHost, create_app

    app = create_app(
        profiles=demo_profiles(),
        plugins=[Audit(), Bookkeeper()],
        store=f"sqlite:{directory / 'demo.db'}",
        data_dir=directory,
        idle_after=None,  # hibernation would lose the files in memory
        limits=Limits(tenant_cost_per_day_usd=DAY_BUDGET_USD),
        drain_timeout=1.0,  # a short drain, because no caller waits for the demo's reports
        **options,
    )
    served: ServedHost = app.state.host
    served.gateway.is_demo = True

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with served.open() as host, trio.open_nursery() as nursery:
            nursery.start_soon(play_script, host)
            yield
            nursery.cancel_scope.cancel(reason="the demo ends")

    app.router.lifespan_context = lifespan
    return app


async def play_script(host: Host, script: tuple[ScriptLine, ...] = SCRIPT) -> None:
    """Send the messages of a script, until all repetitions have been sent.

    Cancellation: No more are sent. Sent messages continue.
    """
    async with trio.open_nursery() as nursery:
        for line in script:
            await trio.sleep(line.after_seconds)
            nursery.start_soon(_play_line, host, line)


async def _play_line(host: Host, line: ScriptLine) -> None:
    """Send one message and its repetitions. A host that refuses or a deleted session ends it: viewers may delete sessions."""
    try:
        for _ in range(1 if line.again_seconds is None else MAX_REPEATS):
            sent = await _send(host, line)
            if line.feed is not None:
                await _start_feed(host, line.session_id, line.feed)
            if line.abort_seconds is not None:
                await trio.sleep(line.abort_seconds)
                await sent.session.abort()
            await sent.outcome()
            await trio.sleep(line.again_seconds or 0.0)
    except AgentrailError:
        return


async def _start_feed(host: Host, session_id: str, name: str) -> None:
    """Start a background worker of a session, such as a connection. Its supervisor restarts it, and the tree shows it."""
    falls = iter(range(MAX_REPEATS))

    async def feed() -> None:
        number = next(falls, None)
        if number is None:
            await trio.sleep_forever()
        await trio.sleep(FALL_SECONDS if number else FIRST_FALL_SECONDS)
        message = "the carrier closed the connection"
        raise ConnectionResetError(message)

    spec = ChildSpec(name, worker(feed))
    await host.supervisor.start_behind(session_id, spec, scope=ANYONE_HERE.tenant_id)


async def _send(host: Host, line: ScriptLine) -> HostRequest:
    request = ChatRequest(
        message=line.message,
        tenant_id=ANYONE_HERE.tenant_id,
        user_id=ANYONE_HERE.user_id,
        agent_id=line.agent_id,
        session_id=SessionId(line.session_id),
    )
    sent = await host.submit(request, ANYONE_HERE)
    assert isinstance(sent, HostRequest)  # noqa: S101 - no plugin of the demo replaces the session's answer
    return sent
