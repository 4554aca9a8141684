"""What users of other systems suffered from providers and from what they cost, over real connections (acceptance list)."""

import json

import pytest
import trio
from attrs import evolve

from agentrail import CycleFailed
from agentrail.abc import Capabilities
from agentrail.app import open_supervisor
from agentrail.core.policy.budget import Budget, Price
from agentrail.core.protocol.request import ModelRequest
from agentrail.events import AgentEnd, AgentError, ModelSwitched, RequestStart, StreamError
from agentrail.messages import AssistantMessage, TokenUsage, UserMessage
from agentrail.testing.check_provider import ServedReply, open_server, reply, stream
from agentrail.testing.models import FunctionModel, Turn, calls, says
from agentrail.tools.task import TaskTool
from tests.runtime.rig import until

FREE_TO_SAY = {"api_key": "k", "price": {"input": 1.0, "output": 1.0}, "max_output_tokens": 1_000}


def chat(text: str, usage: dict[str, object] | None) -> ServedReply:
    """An answer of a compatible server, with the usage that it likes to report."""
    said = {"choices": [{"delta": {"content": text}}]}
    end: dict[str, object] = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    if usage is not None:
        end["usage"] = usage
    return reply(f"data: {json.dumps(said)}\n\ndata: {json.dumps(end)}\n\ndata: [DONE]\n\n")


def usage_of(read: object, written: object) -> dict[str, object]:
    return {"prompt_tokens": read, "completion_tokens": written}


@pytest.mark.at(151)
async def test_the_next_model_answers_when_one_breaks_off():
    """Half an answer is withdrawn and not kept: neither the history nor the next request has it; what it used counts."""
    half = {"choices": [{"delta": {"content": "It is rai"}}], "usage": usage_of(50, 3)}
    broken = stream(f"data: {json.dumps(half)}\n\n".encode())
    with trio.fail_after(60):
        async with (
            open_server(broken) as first,
            open_server(chat("It is sunny.", usage_of(40, 4))) as second,
            open_supervisor(environ={}) as sup,
        ):
            sup.providers.register("two", opts={"base_url": second.url})
            session = await sup.start_session(
                model="openai-chat:one",
                provider_opts={"base_url": first.url, "max_retries": 0},
                fallback_models=["registry:two:m"],
            )
            async with session.subscribe() as events:
                assert await session.ask("Weather?") == "It is sunny."
                seen = await until(events, AgentEnd)
            messages = await session.messages()
    assert [event.discarded for event in seen if isinstance(event, StreamError)] == [True]
    assert [event.to_model for event in seen if isinstance(event, ModelSwitched)] == ["registry:two:m"]
    assert [type(message) for message in messages] == [UserMessage, AssistantMessage]
    assert "rai" not in repr(messages)
    assert b"rai" not in second.requests[0][1]
    assert (seen[-1].usage.input, seen[-1].usage.output) == (90, 7)


@pytest.mark.at(130)
@pytest.mark.parametrize(
    "usage",
    [None, usage_of(0, 0), usage_of(-5, -5), usage_of("none", None), usage_of(10**18, 1)],
    ids=["none", "zero", "negative", "words", "huge"],
)
async def test_a_limit_holds_whatever_the_provider_reports(usage):
    """The server ignores the bound of the answer and lies about what it took: the next request is refused all the same."""
    with trio.fail_after(60):
        async with open_server(chat("word " * 2_000, usage)) as server, open_supervisor(environ={}) as sup:
            session = await sup.start_session(
                model="openai-chat:x",
                provider_opts={"base_url": server.url, **FREE_TO_SAY},
                budget=Budget(max_total_tokens=3_000),
            )
            code = ""
            asked = 0
            while not code and asked < 10:
                try:
                    await session.ask("Go on.")
                    asked += 1
                except CycleFailed as failed:
                    code = failed.error.code
    assert code == "budget_exceeded"
    assert 1 <= len(server.requests) == asked <= 3


@pytest.mark.at(124)
async def test_a_request_that_could_pass_the_limit_is_not_sent():
    """It is reserved at its upper bound, in dollars here, before it goes out: the server sees nothing of it."""
    with trio.fail_after(60):
        async with open_server(chat("Hi.", usage_of(5, 1))) as server, open_supervisor(environ={}) as sup:
            session = await sup.start_session(
                model="openai-chat:x",
                provider_opts={"base_url": server.url, **FREE_TO_SAY},
                budget=Budget(max_cost_usd=0.0009),
            )
            async with session.subscribe() as events:
                with pytest.raises(CycleFailed) as caught:
                    await session.ask("Hi")
                seen = await until(events, AgentError)
    assert caught.value.error.code == "budget_exceeded"
    assert server.requests == []
    assert not any(isinstance(event, RequestStart) for event in seen)


DOLLARS_PER_TOKEN = 0.0001
SPENT = TokenUsage(input=10, output=5, cost_usd=15 * DOLLARS_PER_TOKEN)


class Priced(FunctionModel):
    """A model with a price, which lets children count files: four at once, each for itself."""

    def __init__(self) -> None:
        super().__init__(self._turn)

    def capabilities(self, model: str) -> Capabilities:
        price = Price(input=1e6 * DOLLARS_PER_TOKEN, output=1e6 * DOLLARS_PER_TOKEN)
        return evolve(super().capabilities(model), price=price)

    def _turn(self, request: ModelRequest) -> Turn:
        (asked, *others) = request.messages
        if "Count" in repr(asked):
            return evolve(says("There are three."), usage=SPENT)
        wanted = calls(*[("task", {"description": "Count the files."})] * 4)
        return evolve(says("done") if others else wanted, usage=SPENT)


@pytest.mark.at(127)
@pytest.mark.at(129)
@pytest.mark.at(131)
@pytest.mark.parametrize(("limit_usd", "children"), [(1.0, 4), (0.3, 0)])
async def test_a_tree_of_sessions_pays_from_one_purse(limit_usd, children):
    """Each child has its share of what is left and reserves from that: all together stay below the limit, to the dollar."""
    model = Priced()
    with trio.fail_after(60):
        async with open_supervisor(environ={}) as sup:
            session = await sup.start_session(
                model=model,
                tools=[TaskTool()],
                budget=Budget(max_cost_usd=limit_usd),
                max_output_tokens=1_000,
            )
            assert await session.ask("Go.") == "done"
            status = await session.status()
    assert len(model.requests) == 2 + children
    assert status.usage.cost_usd == pytest.approx((2 + children) * SPENT.cost_usd)
    assert status.budget_left.cost_usd == pytest.approx(limit_usd - status.usage.cost_usd)
