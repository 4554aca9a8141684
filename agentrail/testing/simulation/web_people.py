"""People of a simulated life who use HTTP: they send prompts over several protocols, and read server-sent events."""

from typing import Any, Final

import httpx
import msgspec
import trio
from attrs import define, evolve

from agentrail.core.wire.codec import decode_event
from agentrail.events import EventsLost, UnknownEvent
from agentrail.gateway.error_responses import ERROR_ANSWERS
from agentrail.testing.simulation.facts import CallAnswered, CallAsked, Read, ReaderSubscribed
from agentrail.testing.simulation.inhabited_world import Client, InhabitedWorld

WIRES: Final = ("chat", "stream", "openai", "openai stream")
"""Ways of a prompt: `POST /chat`, `/stream` and `/v1/chat/completions`, the last one with a whole answer or with chunks."""

SILENCE_SECONDS: Final = 40.0
"""Time without a byte after which a client gives up."""

_OK: Final = 200
_ACCEPTED: Final = 202
_SERVER_ERROR: Final = 500
_NO_EVENTS: Final = ("snapshot", "done")


def web_people(
    world: InhabitedWorld, n: int, profile: str, *, pause: tuple[float, float] = (2.0, 20.0)
) -> None:
    """Let people who use HTTP live in a world until its calm end, each with a session.

    Args:
        world: The world.
        n: Number of people.
        profile: Profile of their sessions.
        pause: Shortest and longest pause between two prompts, in seconds.
    """
    for index in range(n):
        person = WebPerson(world, index, profile, pause)
        world.inhabit(person.name, person.live)


@define(eq=False)
class WebPerson(Client):
    """A client that sends each prompt until its end is known, with the same `client_id`, and a reader that keeps its number."""

    profile: str
    pause: tuple[float, float]
    read_up_to: int = 0

    @property
    def name(self) -> str:
        return f"web-{self.index}"

    async def live(self) -> None:
        """Send prompts until the calm end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            for number in range(int(self.world.seconds / max(self.pause[0], 0.5)) + 1):
                wire = self._draw(f"wire[{number}]", ("", *WIRES))
                if wire or self.index == number == 0:
                    await trio.sleep(self.world.tape.number(f"{self.name}.pause[{number}]", *self.pause))
                    if self.world.is_calm:
                        break
                    await self._send(f"{self.name}.{number}", wire or WIRES[0])
            await trio.sleep(2)  # for the last events
            nursery.cancel_scope.cancel(reason="the person leaves")

    def _draw(self, what: str, options: tuple[str, ...]) -> str:
        return self.world.tape.choice(f"{self.name}.{what}", options)

    def _client(self, what: str) -> httpx.AsyncClient:
        """Return a client for a drawn node. The draw counts from the node of the last call."""
        self.counts[what] += 1
        place = self._place(self._draw, self.counts[what])
        headers = {"authorization": f"Bearer {self.name}"}
        return self.world.network.http(place, headers=headers, timeout=SILENCE_SECONDS)

    # --- prompts

    async def _send(self, key: str, wire: str) -> None:
        pause = 0.25
        while True:
            self.counts["calls"] += 1
            answered = CallAnswered(id=f"{self.name}/{self.counts['calls']}", outcome="unknown")
            self._note(
                "person",
                f"asks prompt {key} over {wire}",
                CallAsked(id=answered.id, request="prompt", key=key, says=key),
            )
            has_ended = False
            try:
                answered, has_ended = await self._post(key, wire, answered)
            except httpx.HTTPError as error:
                answered = evolve(answered, code=type(error).__name__)
            finally:
                self._note("person", f"is answered {answered.outcome} {answered.code}", answered)
            if has_ended:
                return
            await trio.sleep(pause)
            pause = min(2 * pause, 10.0)

    async def _post(self, key: str, wire: str, answered: CallAnswered) -> tuple[CallAnswered, bool]:
        """Send a prompt once, and return its answer with whether it is the last one."""
        text = f"{key} please"
        path = f"/{wire}"
        body: dict[str, Any] = {"message": text, "agent_id": self.profile, "session_id": self.name}
        if wire.startswith("openai"):
            path, messages = "/v1/chat/completions", [{"role": "user", "content": text}]
            body = {"model": self.profile, "stream": wire != "openai", "messages": messages}
        headers = {"idempotency-key": key, "x-session-id": self.name}
        async with (
            self._client("prompts") as client,
            client.stream("POST", path, json=body, headers=headers) as answer,
        ):
            content = await answer.aread()
        request = answer.headers.get("x-request-id", "")
        if answer.status_code in (_OK, _ACCEPTED):
            # A stream that ends without its last frame says nothing about the prompt.
            is_whole = wire != "stream" or b"event: done" in content
            is_whole &= wire != "openai stream" or b"[DONE]" in content
            told = evolve(answered, code=f"{answer.status_code}")
            if request:
                told = evolve(told, outcome="ok", says=request)
            return told, is_whole and answer.status_code == _OK
        code = _code_in(content)
        is_passing = answer.status_code in (421, 429) or answer.status_code >= _SERVER_ERROR
        is_end = bool(request) or answer.headers.get("x-should-retry") == "false"
        if not (is_end or is_passing) and code in ERROR_ANSWERS:
            answered = evolve(answered, outcome="refused")
        is_final = code not in ("store_unavailable", "draining") if is_end else not is_passing
        return evolve(answered, code=code or f"{answer.status_code}"), is_final

    def _note(self, kind: Any, said: str, facts: Any = None) -> None:
        self.world.log.note(kind, said, session=self.name, place=self.name, facts=facts)

    # --- reading

    async def _read(self) -> None:
        while True:
            reader = f"{self.name}/{self.counts['readers']}"
            self._note("read", f"reads after {self.read_up_to}", ReaderSubscribed(reader, self.read_up_to))
            path, headers = f"/sessions/{self.name}/events", {"last-event-id": f"{self.read_up_to}"}
            try:
                async with (
                    self._client("streams") as client,
                    client.stream("GET", path, headers=headers) as answer,
                ):
                    if answer.status_code == _OK:
                        await self._read_stream(reader, answer)
                    elif _code_in(await answer.aread()) == "cursor_ahead":  # the store lost events
                        self.read_up_to = 0
                        self.counts["readers"] += 1
            except httpx.HTTPError as error:
                self._note("read", f"cannot read: {type(error).__name__}")
            await trio.sleep(1)

    async def _read_stream(self, reader: str, answer: httpx.Response) -> None:
        kind = ""
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data" and kind not in _NO_EVENTS:
                self._take(reader, decode_event(value))

    def _take(self, reader: str, event: Any) -> None:
        is_ephemeral = event.meta is None or event.meta.ephemeral
        if isinstance(event, UnknownEvent) or (is_ephemeral and not isinstance(event, EventsLost)):
            return
        if not is_ephemeral:
            self.read_up_to = event.meta.seq
        self._note("read", f"reads {self.read_up_to} {type(event).__name__}", Read(reader, event))


def _code_in(content: bytes) -> str:
    """Return the code of an error in the body of an answer. Empty: none."""
    try:
        answer = msgspec.json.decode(content)
    except msgspec.MsgspecError:
        return ""
    error = answer.get("error") if isinstance(answer, dict) else None
    code = error.get("code") if isinstance(error, dict) else error
    return code if isinstance(code, str) else ""
