"""The support bot, in the OpenAI Agents SDK. It has a budget in turns, not in money."""

import asyncio

from agents import Agent, Model, Runner, function_tool
from agents.exceptions import AgentsException

ORDERS = {17: "a kettle, 39.90 EUR", 18: "a lamp, 25.00 EUR"}


@function_tool
async def find_order(number: int) -> str:
    """Look up an order."""
    return ORDERS.get(number) or f"No order {number}: ask for the number on the receipt."


@function_tool(needs_approval=True)
async def refund(number: int, euros: float) -> str:
    """Pay an order back, or a part of it."""
    return f"{euros:.2f} EUR of order {number} are on their way."


async def main(question: str, model: str | Model = "gpt-5-mini", patience: float = 300) -> None:
    """Answer a question, and ask for approvals at the terminal."""
    bot = Agent(name="support", model=model, tools=[find_order, refund])
    try:
        async with asyncio.timeout(patience):
            result = await Runner.run(bot, question, max_turns=10)
            while result.interruptions:
                state = result.to_state()
                for call in result.interruptions:
                    said = await asyncio.to_thread(input, f"{call.name} {call.arguments} ")
                    (state.approve if said == "yes" else state.reject)(call)
                result = await Runner.run(bot, state)
        print(result.final_output)
    except (AgentsException, TimeoutError) as why:
        print(f"No answer, {type(why).__name__}: {why}")


if __name__ == "__main__":
    asyncio.run(main(input("How can we help? ")))
