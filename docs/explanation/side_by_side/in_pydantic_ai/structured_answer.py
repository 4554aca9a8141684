"""The subject of a customer's mail, in Pydantic AI."""

import asyncio
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from pydantic_ai import Agent
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.models import Model


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


reader = Agent(output_type=Ticket)


async def main(mail: str, model: str | Model = "openai:gpt-5-mini", patience: float = 60) -> None:
    """Print the ticket of a mail, or why there is none."""
    try:
        ticket = (await reader.run(f"Make a ticket of:\n\n{mail}", model=model, timeout=patience)).output
        print(f"{ticket.product}, urgency {ticket.urgency}: {ticket.summary}")
    except AgentRunError as why:
        print(f"No ticket: {why}")


if __name__ == "__main__":
    asyncio.run(main(sys.stdin.read(), sys.argv[1]))
