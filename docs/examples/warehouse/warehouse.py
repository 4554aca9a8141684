"""A clerk of a warehouse that survives its process: started again after kill -9, it continues."""

import os
import sys

from agentrail import (
    AgentEnd,
    AgentrailError,
    ApprovalRequired,
    AssistantMessage,
    Message,
    Provider,
    Session,
    SessionSupervisor,
    Text,
    ToolExecutionEnd,
    UserMessage,
    open_supervisor,
    tool,
)
from agentrail.plugins import HumanApproval
from trio import run, sleep, to_thread

PROMISE = "Order 17 is lost: ship it anew, and pay the postage back."
GUARD = [(HumanApproval, {"require_approval_for": ["refund"]})]


@tool(effect_class="pure")
async def find_order(number: int) -> str:
    """Look up an order."""
    return f"order {number}: a kettle, postage 4.90 EUR"


@tool
async def ship(number: int) -> str:
    """Hand an order to the carrier. Nothing says that it may be done twice, so it never is."""
    print(f"ship {number}", flush=True)
    await sleep(float(os.environ.get("CARRIER_SECONDS", "0")))
    return f"order {number} is on its way"


@tool
async def refund(number: int, euros: float) -> str:
    """Refund an amount, after approval."""
    return f"{euros:.2f} EUR of order {number} are paid back"


TOOLS = (find_order, ship, refund)


def shown(message: Message) -> str:
    """Return a message as one line, with its author."""
    if isinstance(message, UserMessage):
        return f"user: {' '.join(block.text for block in message.content if isinstance(block, Text))}"
    if isinstance(message, AssistantMessage):
        return f"assistant: {message.text or 'calls ' + ', '.join(call.name for call in message.calls)}"
    return f"tools: {', '.join(result.text for result in message.results)}"


async def begin_or_go_on(supervisor: SessionSupervisor, model: str | Provider) -> Session:
    """Start the session, or resume the stored one and show its conversation."""
    if not await supervisor.find():
        session = await supervisor.start_session(model=model, tools=TOOLS, plugins=GUARD, session_id="clerk")
        await session.prompt(PROMISE)
        return session
    session = await supervisor.resume_session("clerk", model=model, tools=TOOLS, plugins=GUARD)
    for message in await session.messages():
        print(shown(message))
    return session


async def main(directory: str, model: str | Provider = "demo:") -> None:
    """Handle the events of the session. They are read from the first one on, so events of an earlier process are included."""
    async with open_supervisor(store=f"sqlite:{directory}/sessions.db") as supervisor:
        session = await begin_or_go_on(supervisor, model)
        async with session.subscribe(after=0, deltas=False) as events:
            async for event in events:
                if isinstance(event, ApprovalRequired):
                    await decide(session, event)
                elif isinstance(event, ToolExecutionEnd):
                    print(f"{event.name}: {event.result.text}", flush=True)
                elif isinstance(event, AgentEnd):
                    break
        print(shown((await session.messages())[-1]))


async def decide(session: Session, event: ApprovalRequired) -> None:
    """Ask the user, unless the call is already decided."""
    if event.approval.id in {one.id for one in (await session.status()).approvals}:
        print(f"asked: {event.approval.tool} {event.approval.arguments}", flush=True)
        yes = await to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        await (session.approve if yes.strip() == "yes" else session.reject)(event.approval.id)


if __name__ == "__main__":
    try:
        run(main, sys.argv[1] if len(sys.argv) > 1 else ".")
    except AgentrailError as why:
        print(f"Not done, {type(why).__name__}: {why}")
