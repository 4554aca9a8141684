"""The subject of a customer's mail, in the OpenAI Agents SDK."""

import asyncio
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from agents import Agent, Model, Runner
from agents.exceptions import AgentsException
from pydantic import Field


@dataclass(frozen=True)
class Ticket:
    """The subject of a mail.

    Attributes:
        summary: One sentence in English, also for mails in other languages.
        urgency: 1 is a question, 5 is a shop that cannot sell.
    """

    product: Literal["app", "billing", "other"]
    summary: str
    urgency: Annotated[int, Field(ge=1, le=5)]
    order: int | None = None


async def main(mail: str, model: str | Model = "gpt-5-mini", patience: float = 60) -> None:
    """Print the ticket of a mail, or why there is none."""
    reader = Agent(name="reader", model=model, output_type=Ticket)
    try:
        async with asyncio.timeout(patience):
            result = await Runner.run(reader, f"Make a ticket of:\n\n{mail}")
        ticket = result.final_output_as(Ticket, raise_if_incorrect_type=True)
        print(f"{ticket.product}, urgency {ticket.urgency}: {ticket.summary}")
    except (AgentsException, TimeoutError) as why:
        print(f"No ticket: {why}")


if __name__ == "__main__":
    asyncio.run(main(sys.stdin.read(), sys.argv[1]))
