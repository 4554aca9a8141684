"""A support bot that looks up orders, and needs approval for a refund."""

from agentrail import AgentrailError, ApprovalRequired, Budget, Error, Provider, open_session, tool
from agentrail.plugins import HumanApproval
from trio import TooSlowError, fail_after, run, to_thread

ORDERS = {17: "a kettle, 39.90 EUR", 18: "a lamp, 25.00 EUR"}
GUARD, BUDGET = [(HumanApproval, {"require_approval_for": ["refund"]})], Budget(max_cost_usd=0.05)


@tool(effect_class="pure")
async def find_order(number: int) -> str | Error:
    """Look up an order."""
    return ORDERS.get(number) or Error(text=f"No order {number}: ask for the number on the receipt.")


@tool
async def refund(number: int, euros: float) -> str:
    """Pay an order back, or a part of it."""
    return f"{euros:.2f} EUR of order {number} are on their way."


async def main(question: str, model: str | Provider = "demo:", patience: float = 300) -> None:
    """Answer a question, and ask for approvals at the terminal."""
    async with open_session(model=model, tools=[find_order, refund], plugins=GUARD, budget=BUDGET) as session:
        try:
            with fail_after(patience):
                async with session.stream(question, raise_on_failure=True) as events:
                    async for event in events:
                        if isinstance(event, ApprovalRequired):
                            asked = f"{event.approval.tool} {event.approval.arguments}? "
                            yes = await to_thread.run_sync(input, asked, abandon_on_cancel=True)
                            await (session.approve if yes == "yes" else session.reject)(event.approval.id)
                print(events.reply.text)
        except (AgentrailError, TooSlowError) as why:
            print(f"No answer, {type(why).__name__}: {why}")


if __name__ == "__main__":
    run(main, input("How can we help? "))
