"""The subject of a customer's mail, as a value: python structured_answer.py [MODEL] < mail.txt."""

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import agentrail
import trio
from msgspec import Meta


@dataclass(frozen=True)
class Ticket:
    """The subject of a mail.

    Attributes:
        summary: One sentence in English, also for mails in other languages.
        urgency: 1 is a question, 5 is a shop that cannot sell.
    """

    product: Literal["app", "billing", "other"]
    summary: str
    urgency: Annotated[int, Meta(ge=1, le=5)]
    order: int | None = None


async def main(mail: str, model: str | agentrail.Provider = "demo:", patience: float = 60) -> None:
    """Print the ticket of a mail, or why there is none."""
    async with agentrail.open_session(model=model) as session:
        try:
            ticket = await session.ask(
                f"Make a ticket of:\n\n{mail}", output=Ticket, timeout_seconds=patience
            )
            print(f"{ticket.product}, urgency {ticket.urgency}: {ticket.summary}")
        except agentrail.AgentrailError as why:
            print(f"No ticket: {why}")


if __name__ == "__main__":
    trio.run(main, sys.stdin.read(), sys.argv[1] if len(sys.argv) > 1 else "demo:")
