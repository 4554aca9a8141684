"""A help desk that knows the handbook, remembers who it speaks with, and hands over to the one who may pay back."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import trio
from agentrail import (
    Agent,
    AgentrailError,
    ApprovalRequired,
    Blueprint,
    Error,
    Provider,
    Session,
    open_supervisor,
    tool,
)
from agentrail.plugins import Permissions
from agentrail.stores.knowledge_sqlite import SqliteKnowledge
from agentrail.tools import builtin
from offline import Offline

ORDERS = {17: ("a kettle", 39.90), 18: ("a lamp", 25.00)}
HANDBOOK = Path(__file__).parent / "handbook"


@tool(effect_class="pure")
async def find_order(number: int) -> str | Error:
    """Look up an order."""
    if number not in ORDERS:
        return Error(text=f"No order {number}: ask for the number on the receipt.")
    what, euros = ORDERS[number]
    return f"Order {number}: {what}, {euros:.2f} EUR."


@tool
async def refund(number: int, euros: float) -> str | Error:
    """Pay an order back, or a part of it."""
    if number not in ORDERS or not 0 < euros <= ORDERS[number][1]:
        return Error(text=f"Order {number} was not {euros:.2f} EUR: look it up first.")
    return f"{euros:.2f} EUR of order {number} are on their way."


# The one who may pay: a prompt and tools of its own, and no way to look things up in the handbook.
BILLING = Agent(
    name="billing",
    description="Pays orders back. Hand over to it when a customer wants money.",
    system_prompt="You pay orders back. Look the order up first.",
    tools=[find_order, refund],
    handoff=True,
)

DESK = Blueprint(
    "desk",
    system_prompt="You help customers. Answer from the handbook, and name the source. Remember what customers tell you of themselves.",
    tools=[find_order, *builtin("kb_search", "kb_read", "remember", "recall")],
    agents=[BILLING],
    # Other calls with effects wait for the user. These rules hold for the agent that takes over, too.
    plugins=[
        (Permissions, {"pure_tools": ["find_order"], "allow": ["remember", "handoff_to"], "ask": ["refund"]})
    ],
)


def read_handbook(data: Path) -> None:
    """Put the pages into the knowledge base. Unchanged pages are skipped."""
    store = SqliteKnowledge(data / "knowledge")
    try:
        store.open_base("", "handbook", readers=["*"])
        for page in sorted(HANDBOOK.glob("*.md")):
            store.add("", "handbook", page.name, page.read_bytes())
    finally:
        store.close()


async def answer(session: Session, question: str, confirm: Callable[[str], str]) -> str:
    """Ask the desk. Approvals are requested from `confirm`, in a thread."""
    async with session.stream(question, raise_on_failure=True) as events:
        async for event in events:
            if isinstance(event, ApprovalRequired):
                asked = f"{event.approval.tool} {dict(event.approval.arguments)}? "
                yes = await trio.to_thread.run_sync(confirm, asked, abandon_on_cancel=True)
                await (session.approve if yes == "yes" else session.reject)(event.approval.id)
    who = (await session.status()).agent or "desk"
    return f"{who}: {events.reply.text or 'A person said no; nothing was done.'}"


async def serve(
    questions: Callable[[], str | None],
    confirm: Callable[[str], str],
    user: str,
    data: Path,
    model: str | Provider | None = None,
) -> None:
    """Answer one question after the other, until there are no more."""
    await trio.to_thread.run_sync(read_handbook, data)
    memories, knowledge = f"sqlite:{data / 'memories'}", f"sqlite:{data / 'knowledge'}"
    async with open_supervisor(memories=memories, knowledge=knowledge) as supervisor:
        session = await supervisor.start_session(DESK, model=model or Offline(), user_data={"user_id": user})
        while (question := await trio.to_thread.run_sync(questions, abandon_on_cancel=True)) is not None:
            try:
                print(await answer(session, question, confirm))
            except AgentrailError as why:
                print(f"No answer, {type(why).__name__}: {why}")


def main(arguments: list[str] | None = None) -> None:
    """Answer the typed questions, one per line. Ctrl-D ends the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", required=True, help="the user; each has separate memories")
    parser.add_argument("--data", type=Path, default=Path("help-desk-data"), help="where things are kept")
    parser.add_argument("--model", help="a real model, such as anthropic:claude-sonnet-4-5 (default: rules)")
    given = parser.parse_args(arguments)

    def next_question() -> str | None:
        print("> ", end="", flush=True)
        line = sys.stdin.readline()
        return line.strip() if line else None

    def confirm(asked: str) -> str:
        print(asked, end="", flush=True)
        return sys.stdin.readline().strip()

    given.data.mkdir(parents=True, exist_ok=True)
    trio.run(serve, next_question, confirm, given.user, given.data, given.model)
    print()


if __name__ == "__main__":
    main()
