"""The bare loop: what an agent session costs when it is written by hand on Trio, with nothing around it.

A memory-channel mailbox, a nursery task per tool, arguments validated with a kept jsonschema validator, an append-only
history, one event subscriber over a memory channel. No supervision, no limits, no numbered events, no receipts: every
ratio of the table is to this. Idiomatic rather than clever, because this is what people would write instead.
"""

import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import httpx
import httpx_sse
import trio
from jsonschema import Draft202012Validator

from benchmarks.measure import Watch

Message: TypeAlias = dict[str, Any]
Model: TypeAlias = Callable[[list[Message]], Awaitable[Message]]
ToolFunction: TypeAlias = Callable[..., Awaitable[object]]
Event: TypeAlias = tuple[str, object]

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
_VALIDATOR: Final = Draft202012Validator(SCHEMA)

ARGUMENTS: Final = '{"a": 2, "b": 3}'
"""Of the first call of a response."""
ANSWER: Final = "The sum is 5."
ABORTED: Final = "aborted"


def arguments_of(call: int) -> str:
    """Say what a call of a response is called with: a model that says the same twenty times goes in circles, and is stopped."""
    return ARGUMENTS if call == 0 else json.dumps({"a": 2, "b": 3 + call})


class BareSession:
    """One conversation; `run` is its task."""

    def __init__(self, model: Model, tools: Mapping[str, ToolFunction]) -> None:
        self.history: list[Message] = [{"role": "system", "content": "You are a calculator."}]
        self.cycle = trio.CancelScope()
        self._model = model
        self._tools = tools
        self._letters_in, self._letters = trio.open_memory_channel[tuple[str, trio.MemorySendChannel[str]]](
            16
        )
        self._events, self.events = trio.open_memory_channel[Event](1024)

    async def prompt(self, text: str) -> str:
        """Ask, and wait for the answer."""
        reply_in, reply = trio.open_memory_channel[str](1)
        await self._letters_in.send((text, reply_in))
        return await reply.receive()

    def close(self) -> None:
        """Let `run` end after what it was sent."""
        self._letters_in.close()

    async def run(self) -> None:
        """Handle one prompt after the other."""
        with self._events:
            async for text, reply in self._letters:
                answer = ABORTED
                with trio.CancelScope() as self.cycle:
                    answer = await self._cycle(text)
                if self.cycle.cancelled_caught:
                    self._answer_open_calls()
                    await self._events.send(("aborted", None))
                await reply.send(answer)

    async def _cycle(self, text: str) -> str:
        publish = self._events.send
        await publish(("prompt", text))
        self.history.append({"role": "user", "content": text})
        while True:
            await publish(("request", None))
            message = await self._model(self.history)
            self.history.append(message)
            await publish(("message", message))
            calls = message.get("tool_calls")
            if not calls:
                await publish(("end", None))
                said: str = message["content"]
                return said
            results: list[Message] = [{}] * len(calls)
            async with trio.open_nursery() as nursery:
                for position, call in enumerate(calls):
                    nursery.start_soon(self._run_tool, call, results, position)
            self.history.extend(results)

    async def _run_tool(self, call: Message, results: list[Message], position: int) -> None:
        await self._events.send(("tool_start", call))
        function = call["function"]
        try:
            arguments = json.loads(function["arguments"])
            text = (
                str(await self._tools[function["name"]](**arguments))
                if _VALIDATOR.is_valid(arguments)
                else "error: the arguments are not as the schema says"
            )
        except Exception as error:  # noqa: BLE001 - the edge of a tool, as in what this is compared with
            text = f"error: {error}"
        results[position] = {"role": "tool", "tool_call_id": call["id"], "content": text}
        await self._events.send(("tool_end", results[position]))

    def _answer_open_calls(self) -> None:
        last = self.history[-1]
        self.history += [
            {"role": "tool", "tool_call_id": call["id"], "content": ABORTED}
            for call in last.get("tool_calls", ())
        ]


def start_watch(nursery: trio.Nursery, session: BareSession, *kinds: str) -> Watch:
    """Start the subscriber of a session, which reads every event and looks out for some kinds."""
    watch = Watch()

    async def read() -> None:
        async for kind, _ in session.events:
            if kind in kinds:
                watch.tell()

    nursery.start_soon(read)
    return watch


class StubModel:
    """Calls one tool some times, and answers when it has the results."""

    def __init__(self, *, tool: str = "add", calls: int = 1, delay_seconds: float = 0.0) -> None:
        self._tool = tool
        self._calls = calls
        self._delay_seconds = delay_seconds
        self._ids = itertools.count(1)

    async def __call__(self, messages: list[Message]) -> Message:
        """Answer, after the delay."""
        if self._delay_seconds:
            await trio.sleep(self._delay_seconds)
        else:
            await trio.lowlevel.checkpoint()
        if messages[-1]["role"] == "tool":
            return {"role": "assistant", "content": ANSWER}
        calls = [
            {
                "id": f"call_{next(self._ids)}",
                "type": "function",
                "function": {"name": self._tool, "arguments": arguments_of(call)},
            }
            for call in range(self._calls)
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}


async def add(a: int, b: int) -> int:
    """Add two integers."""
    await trio.lowlevel.checkpoint()
    return a + b


async def hang(a: int, b: int) -> int:  # noqa: ARG001 - the schema is that of `add`
    """Never return."""
    await trio.sleep_forever()


TOOLS: Final[Mapping[str, ToolFunction]] = {"add": add, "hang": hang}


async def read_stream(client: httpx.AsyncClient, url: str, on_first: Callable[[], None] | None = None) -> str:
    """Read one streamed response and join its text; say when the first of it is there."""
    body = {"model": "stub", "stream": True, "messages": [{"role": "user", "content": "go"}]}
    said: list[str] = []
    async with httpx_sse.aconnect_sse(client, "POST", url, json=body) as source:
        async for event in source.aiter_sse():
            if event.data == "[DONE]":
                break
            choices = json.loads(event.data)["choices"]
            text = choices[0]["delta"].get("content") if choices else None
            if text:
                if on_first is not None and not said:
                    on_first()
                said.append(text)
    return "".join(said)


@asynccontextmanager
async def open_client() -> AsyncIterator[httpx.AsyncClient]:
    """Open a client that may have as many connections as there are sessions."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx.AsyncClient(limits=limits, timeout=None, trust_env=False) as client:  # noqa: S113 - loopback
        yield client
