"""The three profiles of `agentrail serve --demo`: their simulated tools, and the plugins shown on the pages.

The machine is not touched: files are in memory, and no command is run. `demo_server` scripts the sessions.
"""

from typing import Final

import attrs
import trio
from attrs import frozen

from agentrail.abc import Error, ToolContext
from agentrail.core.policy.budget import Budget
from agentrail.core.protocol.actions import Action, Continue
from agentrail.core.protocol.hooks import AfterTool, BeforePrompt
from agentrail.core.stack.plugin import Context, OnError
from agentrail.host.payloads import AfterToolCall, Allow, BeforeToolCall, RequestContext
from agentrail.host.plugin import HostPlugin
from agentrail.host.profiles import AgentProfile, ProfileContext
from agentrail.plugins import HumanApproval
from agentrail.plugins.base import Plugin, on
from agentrail.runtime.agent import Agent
from agentrail.runtime.session_options import SessionOptions
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.tools import builtin
from agentrail.tools.function import tool

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
        """Observe a request."""
        await trio.sleep(0.001)

    async def on_before_tool_call(self, event: BeforeToolCall) -> Allow:
        """Observe a call."""
        await trio.sleep(0.002)
        return Allow()

    async def on_after_tool_call(self, event: AfterToolCall) -> None:
        """Observe the end of a call."""
        await trio.sleep(0.001)


class Bookkeeper(HostPlugin):
    """Records requests and fails at intervals, so that the pages show a failure."""

    name = "ledger"
    version = "2.0.1"
    _seen = 0

    async def on_request_end(self, ctx: RequestContext) -> None:
        """Record the end of a request. Every fourth call fails."""
        await trio.sleep(0.004)
        self._seen += 1
        if self._seen % 4 == 0:
            message = "the books are closed at the moment"
            raise RuntimeError(message)


@frozen
class Noted:
    """The state of a note taker."""

    calls: int = 0


class NoteTaker(Plugin[Noted]):
    """Counts calls and fails on a prompt about an archive, so that the pages show a failing session plugin."""

    priority = 300
    on_error: OnError | None = "open"  # a session continues without its notes

    def init(self) -> Noted:
        """Return the initial state."""
        return Noted()

    @on(BeforePrompt)
    def look(self, event: BeforePrompt, state: Noted, ctx: Context) -> Action[Noted]:
        """Inspect a prompt."""
        if "archive" in event.text:
            message = "no note can be taken of an archive"
            raise ValueError(message)
        return Continue(state)

    @on(AfterTool)
    def count(self, event: AfterTool, state: Noted, ctx: Context) -> Action[Noted]:
        """Count a call."""
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
