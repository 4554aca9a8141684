"""Who inspects sees how things stand, and changes nothing by it: what sleeps is read in its journal and goes on sleeping."""

import json
from typing import Any

import pytest
import trio

from agentrail.errors import Unrevivable
from agentrail.gateway import calls
from agentrail.gateway.calls import CallAnswer
from agentrail.host import Principal
from agentrail.plugins import Action, AfterResponse, Context, Continue, Plugin, on
from agentrail.runtime.session_rows import phase_of
from agentrail.stores.memory import MemoryStore
from tests.host.hosting import answering, asked, hosting, profile
from tests.runtime.rig import on_virtual_time

OPERATOR = Principal(tenant_id="acme", user_id="olga", scopes=frozenset({"use", "inspect"}))


def read(answer: CallAnswer) -> Any:
    """What a call says, as a client reads it."""
    return json.loads(answer.body)


@on_virtual_time
async def test_one_that_sleeps_beside_its_handle_sleeps_on():
    """Idle for long enough it has left memory; a look reads its journal."""
    async with hosting(answering("One."), store="memory:", idle_after=60.0) as host:
        request = await asked(host, session_id="main")
        await request.outcome()
        await host.quiet()
        awake = read(await calls.inspect_messages(host, OPERATOR, "main"))
        await trio.sleep(200)
        assert phase_of(request.session) == "asleep"
        assert read(await calls.inspect_messages(host, OPERATOR, "main")) == awake
        assert read(await calls.inspect_trace(host, OPERATOR, "main"))["entries"]
        assert phase_of(request.session) == "asleep"


class Counts(Plugin[int]):
    """Counts answers; made with an argument, so that no journal could make it again."""

    def __init__(self, word: str) -> None:
        """Count those with a word."""
        self.name = f"counts-{word}"
        self._word = word

    def init(self) -> int:
        """Begin with none."""
        return 0

    @on(AfterResponse)
    def after(self, event: AfterResponse, state: int, ctx: Context) -> Action[int]:
        """Count."""
        return Continue(state + (self._word in event.message.text))


@on_virtual_time
async def test_a_look_finds_the_plugins_of_its_profile():
    """Their code stands in no journal; where the profile is gone that is said, and no caller's fault."""
    store, model = MemoryStore(), answering("One.")
    profiles = [profile(model, plugins=[Counts("One")]), profile(model, "other")]
    async with hosting(None, store=store, profiles=profiles) as host:
        await (await asked(host, session_id="main")).outcome()
    async with hosting(None, store=store, profiles=profiles) as host:
        assert len(read(await calls.inspect_messages(host, OPERATOR, "main"))["messages"]) == 2
    async with hosting(None, store=store, profiles=profiles[1:]) as host:
        with pytest.raises(Unrevivable, match="counts-One"):
            await calls.inspect_messages(host, OPERATOR, "main")
        assert read(await calls.inspect_trace(host, OPERATOR, "main"))["entries"]
