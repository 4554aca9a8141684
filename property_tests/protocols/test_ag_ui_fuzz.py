"""A page that plays on an AG-UI server: legal and illegal requests in any order, at once, and cut anywhere.

No response is a 500. Each whole run has exactly one terminal frame, in an order and of types that the official client
accepts, for a client that has what it sent. The journal of every thread folds to the state that its session has.

200 rounds by default. By hand: `AG_UI_ROUNDS=5000 AG_UI_SEED=7 pytest -o faulthandler_timeout=0` with this file.
"""

import copy
import json
import os
import re
from functools import partial
from random import Random

import pytest
import trio

from agentrail.errors import Overloaded, ProviderError
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, Turn, calls, fails, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from tests.gateway.attacks.wire import FREE
from tests.gateway.protocols.ag_ui_scenarios import MAP, NO, YES, Page, frames_of
from tests.gateway.web import serving
from tests.host.hosting import profile
from tests.protocols.ag_ui_client import LAST, AgUiClient

ROUNDS = int(os.environ.get("AG_UI_ROUNDS", "200"))
PARTS = 8

JUNK: tuple[object, ...] = (
    None,
    0,
    -1,
    10**30,
    "",
    "x",
    "\x00",
    "m3",
    "u1",
    [],
    {},
    [[]],
    {"a": None},
    True,
    "é" * 3,
    "call_r1_0",
    "/",
)


def acting(draw):
    """A model that does anything that a model may do."""

    def answer(request):
        if len(request.messages) > 12:
            return says("Enough.")
        return draw.choice(
            (
                says("Hel", "lo."),
                says(*["on "] * 5, pause_seconds=0.001),
                Turn(thinking="Hm.", text=("So.",)),
                calls(("shell", {"command": "ls"}), text="I look."),
                calls(("shell", {"command": "a"}), ("shell", {"command": "b"})),
                calls(("ask_user", {"question": "Which?", "options": ["a", "b"]})),
                calls(("show_map", {"place": "Lisbon"}), ("nope", {})),
                calls(("show_map", {"place": "x"}), ("shell", {"command": "c"})),
                calls(("task", {"description": "Look.", "subagent_type": "general-purpose"})),
                calls(("write_todos", {"todos": [{"id": "1", "content": "x"}]})),
                fails(Overloaded("busy"), after="Half"),
                fails(ProviderError("no")),
                calls(("shell", "[1")),
            )
        )

    return FunctionModel(answer)


def spoiled(draw, value):
    """A copy of a request in which one place holds something else, or is missing, or stands twice."""
    value = copy.deepcopy(value)
    place = value
    while True:
        keys = [*place] if isinstance(place, dict) else [*range(len(place))]
        if not keys:
            return value
        key = draw.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and draw.random() < 0.7:
            place = inner
            continue
        match draw.randrange(4):
            case 0:
                del place[key]
            case 1 if isinstance(place, list):
                place.append(copy.deepcopy(inner))
            case 2 if isinstance(place, dict):
                place[draw.choice(("x", "role", "id", "toolCallId", "content"))] = draw.choice(JUNK)
            case _:
                place[key] = draw.choice(JUNK)
        return value


class Round:
    """One thread and what a page does with it."""

    def __init__(self, web, number, draw):
        """Begin with nothing."""
        self.web, self.draw = web, draw
        self.page = Page(web, thread=f"t{number}", path=draw.choice(("/ag-ui", "/ag-ui/desk")))
        self.whole = self.refused = self.cut = 0

    def request(self):
        """A request that a page may send, or nearly."""
        draw, page = self.draw, self.page
        more = {"tools": [MAP] if draw.random() < 0.8 else []}
        match draw.randrange(10):
            case 6 | 7 | 8 | 9 if len(page.client.messages) > 2:  # from an earlier one on
                more["forwardedProps"] = {"agentrail": {"branch": True}}
                del page.client.messages[draw.randrange(1, len(page.client.messages)) :]
                page.say(draw.choice(("Or?", "Hi")))
                page.client.interrupts.clear()
            case 0 if page.client.interrupts:
                page.client.interrupts = page.client.interrupts[:3]
            case 1 if page.client.pending:
                page.client.answer(page.client.pending[0], "Shown.")
            case 2:
                page.runs = max(page.runs - 1, 0)  # the same run again
            case 3:
                more["forwardedProps"] = {"agentrail": {"on_disconnect": "continue"}}
                page.say("And?")
            case _:
                page.say(draw.choice(("Hi", "Hi", "Go on.")))
        payloads = [
            draw.choice((YES, NO, None, ..., "b", {}, {**YES, "editedArgs": {"command": "z"}}, 5))
            for _ in page.client.interrupts
        ]
        if page.client.interrupts and draw.random() < 0.8:
            more["resume"] = page.resolve(*payloads)
        body = page.body(**more)
        return spoiled(draw, body) if draw.random() < 0.4 else body

    async def play(self):
        """Send a few requests, some at once."""
        for _ in range(self.draw.randint(2, 6)):
            body = self.request()
            is_twice = self.draw.random() < 0.15
            async with trio.open_nursery() as waiting:
                waiting.start_soon(self.end_what_waits)
                async with trio.open_nursery() as sending:
                    sending.start_soon(partial(self.send, body, is_cut=self.draw.random() < 0.2))
                    if is_twice:
                        sending.start_soon(partial(self.send, body, is_cut=False))
                waiting.cancel_scope.cancel()

    async def end_what_waits(self):
        """Stop what would wait for ever: a message that is queued behind a call of a child that nobody decides."""
        while True:
            await trio.sleep(0.2)
            with trio.CancelScope(shield=True):  # httpx complains about a body that was not sent to its end
                for session in self.web.host.supervisor.sessions(
                    scope="local"
                ):  # a spoiled id is another thread
                    await self.web.post(f"/sessions/{session.session_id}/abort", {"clear_queue": True})

    async def send(self, body, *, is_cut):
        """Send one request; a cut one is left after some bytes."""
        content = json.dumps(body)
        if self.draw.random() < 0.02:
            content = content[: self.draw.randrange(len(content))]
        sent = {"content": content, "headers": {"content-type": "application/json"}}
        pieces = self.draw.randrange(4)
        text = ""
        with trio.CancelScope() as scope:
            async with self.web.client.stream("POST", self.page.path, **sent) as response:
                assert response.status_code < 500, await response.aread()
                async for piece in response.aiter_text():
                    text += piece
                    if is_cut and response.status_code == 200 and len(text) > 150 * pieces:
                        scope.cancel()
        if scope.cancelled_caught:
            self.cut += 1
        elif response.status_code != 200:
            assert json.loads(text)["error"]["code"] not in ("internal", "not_started"), text
            self.refused += 1
        else:
            self.read(body, text)

    def read(self, body, text):
        """Read a whole run as the client that has sent this."""
        frames = frames_of(text)
        assert [frame["type"] in LAST for frame in frames].count(True) == 1, frames
        client = AgUiClient(messages=copy.deepcopy(body["messages"]))
        client.read(frames)
        self.whole += 1
        self.page.client = client

    async def check_journal(self):
        """The journal of each folds to the state that it has."""
        for session in self.sessions():
            await session.abort("the round is over")
            entries = await session.journal(limit=10_000)
            past = await session.state_at(entries[-1].number)
            assert past.messages == await session.messages()

    def sessions(self):
        """The session of the thread, and those that branched off it."""
        own = re.compile(rf"{self.page.thread}(-[0-9a-f]{{16}})*")
        return [
            one for one in self.web.host.supervisor.sessions(scope="local") if own.fullmatch(one.session_id)
        ]


@pytest.mark.protocol(23)
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_page_that_plays_breaks_nothing(part):
    """Each round is a seed; a failing one says which."""
    seeds = Random(f"{os.environ.get('AG_UI_SEED', '4')} {part}")  # noqa: S311 - no secrets
    draw = Random(0)  # noqa: S311 - same
    tools = [RecordingTool(name="shell"), *builtin("ask_user", "task", "write_todos")]
    profiles = [profile(acting(draw), tools=tools, plugins=[HumanApproval])]
    number = whole = refused = cut = branches = 0
    async with serving(None, profiles=profiles, store=MemoryStore(), limits=FREE) as web:
        # Which of two requests comes first depends on the machine, and one part in thirty had no branch in its rounds.
        while number < ROUNDS // PARTS or (not branches and number < ROUNDS):
            seed = seeds.randrange(2**32)
            draw.seed(seed)
            one = Round(web, number, draw)
            with trio.fail_after(60):
                try:
                    await one.play()
                    await one.check_journal()
                except Exception as raised:
                    raised.add_note(f"round {number}, seed {seed}")
                    raise
            whole, refused, cut = whole + one.whole, refused + one.refused, cut + one.cut
            branches += len(one.sessions()) > 1
            number += 1
            for session in one.sessions():
                await web.client.delete(f"/sessions/{session.session_id}")
    assert min(whole, refused, cut, 10 * branches) > ROUNDS // PARTS // 10, (whole, refused, cut, branches)
