"""The support bot, in Pydantic AI."""

import asyncio
from decimal import Decimal

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, RunContext, UsageLimits
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.models import Model

ORDERS = {17: "a kettle, 39.90 EUR", 18: "a lamp, 25.00 EUR"}
LIMITS = UsageLimits(cost_limit=Decimal("0.05"))


async def decide(_ctx: RunContext[object], requests: DeferredToolRequests) -> DeferredToolResults:
    """Ask the user at the terminal."""
    calls = {call.tool_call_id: f"{call.tool_name} {call.args} " for call in requests.approvals}
    said = {call_id: await asyncio.to_thread(input, hint) == "yes" for call_id, hint in calls.items()}
    return requests.build_results(approvals=said)


bot = Agent(capabilities=[HandleDeferredToolCalls(handler=decide)])


@bot.tool_plain
async def find_order(number: int) -> str:
    """Look up an order."""
    if number not in ORDERS:
        message = f"No order {number}: ask for the number on the receipt."
        raise ModelRetry(message)
    return ORDERS[number]


@bot.tool_plain(requires_approval=True)
async def refund(number: int, euros: float) -> str:
    """Pay an order back, or a part of it."""
    return f"{euros:.2f} EUR of order {number} are on their way."


async def main(question: str, model: str | Model = "openai:gpt-5-mini", patience: float = 300) -> None:
    """Answer a question, and ask for approvals at the terminal."""
    try:
        result = await bot.run(question, model=model, usage_limits=LIMITS, timeout=patience)
        print(result.output)
    except AgentRunError as why:
        print(f"No answer, {type(why).__name__}: {why}")


if __name__ == "__main__":
    asyncio.run(main(input("How can we help? ")))
