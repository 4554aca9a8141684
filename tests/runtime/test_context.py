"""Providers of context: what they add goes along with the requests of a turn and stands nowhere else; nothing they do keeps one back (8.3.5)."""

import itertools
import logging

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.abc import MAX_CONTEXT_BYTES, AtEnd, ProviderContext, Secret, TimedProvider
from agentrail.core.protocol.effects import GatherContext
from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.values.history import Log
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import CycleAborted, Unrevivable
from agentrail.events import AgentEnd
from agentrail.messages import (
    AssistantMessage,
    CallId,
    FileRef,
    Image,
    SessionId,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.plugins import BeforeRequest, Continue, plugin
from agentrail.runtime.context_gatherer import ContextGatherer, decide_context, digest_of_context
from agentrail.runtime.session_options import SessionOptions
from agentrail.stores.memory import MemoryStore
from agentrail.testing.cancelling import cancel_everywhere, check_history
from agentrail.testing.tools import RecordingTool
from tests.runtime.doors import Foreign
from tests.runtime.rig import calling, on_virtual_time, open_over, saying, until
from tests.thinned import paired, sampled

RESULTS = ToolMessage(results=(ToolResult(call_id=CallId("c"), name="t", text="x"),))


def note(text):
    return UserMessage(content=(Text(text=text),))


def giving(*messages, at_end=False):
    """Make a provider that gives the same each time, and counts how often it was asked."""
    asked = []

    async def give(about, conversation):
        await trio.lowlevel.checkpoint()
        asked.append((about, conversation))
        return AtEnd([*messages]) if at_end else [*messages]

    give.asked = asked
    return give


def texts_of(request):
    return [
        block.text
        for message in request.messages
        if isinstance(message, UserMessage | AssistantMessage)
        for block in message.content
        if isinstance(block, Text)
    ]


BAD = {
    "a result": (
        RESULTS,
        "is of type ToolMessage: expected UserMessage, because only the conversation may contain",
    ),
    "calls": (
        AssistantMessage(
            content=(ToolCall(call_id=CallId("c"), name="t", arguments={}),), model="scripted:model"
        ),
        "is of type AssistantMessage: expected UserMessage",
    ),
    "a text": ("hello", "is of type str: expected UserMessage"),
    "a file": (UserMessage(content=(FileRef(path="a.py"),)), "expected Text and Image"),
    "nothing": (UserMessage(content=()), "holds (): expected Text and Image"),
    "an empty text": (note(""), "expected Text and Image"),
    "no text": (note(7), "expected Text and Image"),
    "the conversation": (note("Hi"), "repeats the conversation: return only additions"),
    "too much": (note("x" * (MAX_CONTEXT_BYTES + 1)), "raises the total above 102,400 bytes: return less"),
    "too much in a picture": (
        UserMessage(content=(Image(media_type="image/png", data="A" * (MAX_CONTEXT_BYTES + 1)),)),
        "raises the total above 102,400 bytes: return less",
    ),
}


@pytest.mark.parametrize("bad", BAD)
async def test_what_may_not_be_added_is_left_out_and_said(supervisor, caplog, bad):
    """The others of the same provider are kept, and the cycle goes on."""
    message, words = BAD[bad]
    model = saying("fine")
    provider = giving(note("before"), message, note("behind"))
    session = await supervisor.start_session(model=model, context_providers=[provider], session_id="s-1")
    with caplog.at_level(logging.WARNING, "agentrail.runtime"):
        assert await session.ask("Hi") == "fine"
    assert texts_of(model.requests[0]) == ["before", "behind", "Hi"]
    (told,) = [record.getMessage() for record in caplog.records if "context provider" in record.getMessage()]
    assert told.startswith("session s-1: context provider giving.<locals>.give: message 1 is dropped: it ")
    assert words in told


async def failing(about, conversation):
    await trio.lowlevel.checkpoint()
    message = "key sk-secret was refused"
    raise ValueError(message)


@pytest.mark.parametrize("given", [None, "text", note("alone"), 7], ids=repr)
def test_what_is_no_list_of_messages_is_said(given):
    """With what was expected."""
    kept, (fault,) = decide_context(given, frozenset())
    assert kept == []
    assert fault.endswith("expected a list of UserMessage, or AtEnd(messages)")


class Timed(TimedProvider):
    """One that gives something after a while, and keeps what was left out of that."""

    def __init__(self, given, *, seconds=0.0, error=None):
        """Say what it gives, and what it raises when it is told."""
        self.given, self.seconds, self.error = given, seconds, error
        self.told = []

    async def __call__(self, about, messages):
        await trio.sleep(self.seconds)
        return self.given

    async def left_out(self, about, faults):
        await trio.lowlevel.checkpoint()
        self.told.append((about, faults))
        if self.error is not None:
            raise self.error


@on_virtual_time
async def test_one_that_keeps_its_own_time_is_waited_for_and_told(supervisor, caplog):
    """What is left out of what it gave is told to it, and not to the log; the rest is added. One that gave only what may be hears nothing."""
    model, patient = saying("fine"), Timed([note("late"), "text", note("")], seconds=60)
    good = Timed([note("good")])
    session = await supervisor.start_session(model=model, context_providers=[patient, good])
    with caplog.at_level(logging.WARNING, "agentrail.runtime"):
        assert await session.ask("Hi", timeout_seconds=None) == "fine"
    assert texts_of(model.requests[0]) == ["late", "good", "Hi"]
    [(about, faults)] = patient.told
    assert about.session_id == session.session_id
    assert [fault.partition(":")[0] for fault in faults] == ["message 1 is dropped", "message 2 is dropped"]
    assert good.told == []
    assert "context provider" not in caplog.text


@on_virtual_time
@pytest.mark.parametrize("error", [ValueError("key sk-secret was refused"), Foreign()])
async def test_one_that_raises_as_it_is_told_is_logged_and_what_it_gave_stands(supervisor, caplog, error):
    """Without the session's secrets."""
    model = saying("fine")
    session = await supervisor.start_session(
        model=model,
        context_providers=[Timed([note("good"), "text"], error=error), giving(note("next"))],
        user_data={"api_key": Secret("sk-secret")},
    )
    with caplog.at_level(logging.WARNING, "agentrail.runtime"):
        assert await session.ask("Hi") == "fine"
    assert texts_of(model.requests[0]) == ["good", "next", "Hi"]
    assert "context provider Timed: Timed raised" in caplog.text
    assert "sk-secret" not in caplog.text


@given(st.lists(st.text(min_size=1, max_size=3), max_size=6), st.integers(0, 6))
def test_equal_context_is_the_very_object_of_before(texts, cut):
    """New objects of equal content are the old ones, in whatever order they come: what is kept of them for a wire goes by the object."""

    async def main():
        gatherer = ContextGatherer([giving_anew(texts[:cut]), giving_anew(texts[cut:], at_end=True)], ABOUT)
        rounds = []
        for number in range(3):
            await gatherer.gather(GatherContext(effect_id=EffectId(f"g{number}"), messages=()))
            rounds.append(gatherer.join(REQUEST, EffectId(f"g{number}")).messages)
        for one, other in itertools.pairwise(rounds):
            assert all(old is new for old, new in zip(one, other, strict=True))

    trio.run(main)


ABOUT = ProviderContext(session_id=SessionId("s"))
REQUEST = ModelRequest(
    attempt=EffectId("r"),
    model="x:m",
    system=None,
    messages=(note("Hi"),),
    tools=Toolbox(),
    cache_points=("system", 0),
)


def giving_anew(texts, *, at_end=False):
    """Make a provider that makes its messages each time."""

    async def give(about, conversation):
        await trio.lowlevel.checkpoint()
        made = [note("".join(text)) for text in texts]
        return AtEnd(made) if at_end else made

    return give


async def test_cache_points_are_moved_by_what_stands_in_front():
    """They name places in the conversation; what stands behind it moves none."""
    gatherer = ContextGatherer(
        [giving(note("a"), note("b")), giving(note("c"), at_end=True)],
        ABOUT,
    )
    gathered = await gatherer.gather(GatherContext(effect_id=EffectId("g1"), messages=REQUEST.messages))
    joined = gatherer.join(REQUEST, EffectId("g1"))
    assert (gathered.count, gathered.tokens) == (3, 1)
    assert joined.cache_points == ("system", 2)
    assert joined.messages[2] is REQUEST.messages[0]
    assert gatherer.join(REQUEST, EffectId("g0")) is REQUEST


def test_a_digest_tells_one_context_from_another():
    """Also where the texts joined are the same, where they change sides, and where a text looks like a boundary."""
    one, two = note("ab"), UserMessage(content=(Text(text="a"), Text(text="b")))
    contexts = [
        ((), ()),
        ((one,), ()),
        ((), (one,)),
        ((two,), ()),
        ((note("a"), note("b")), ()),
        ((note("a"),), (note("b"),)),
        ((UserMessage(content=(Image(media_type="text", data="ab"),)),), ()),
        ((UserMessage(content=(Image(media_type="image/png", data="ab"),)),), ()),
        ((note("a\nfront text 1:b"),), ()),
    ]
    digests = [digest_of_context(*context) for context in contexts]
    # A picture of the kind `text` would be one, if there were such a kind.
    assert len(set(digests)) == len(digests) - 1
    assert digests[0] == ""


async def test_an_abort_while_it_hangs_is_settled_with_nothing_left(supervisor):
    """The provider's task is gone when the receipt is there, and the next prompt asks it anew."""
    begun, left = trio.Event(), []

    async def stuck(about, conversation):
        if left:
            return [note("now")]
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            left.append(1)

    model = saying("fine")
    session = await supervisor.start_session(model=model, context_providers=[stuck])
    async with trio.open_nursery() as nursery:

        async def asks():
            with pytest.raises(CycleAborted):
                await session.ask("Hi")

        nursery.start_soon(asks)
        await begun.wait()
        assert (await session.status()).phase == "running"
        receipt = await session.abort("enough")
    assert (receipt.settled, receipt.tasks_ended, receipt.stuck, left) == (True, 1, (), [1])
    assert await session.ask("Again") == "fine"
    assert texts_of(model.requests[0])[0] == "now"


@pytest.mark.host("H-096")
@pytest.mark.parametrize("has_plugin", [False, True])
async def test_a_steer_while_it_is_gathered_is_in_the_request_that_follows(supervisor, has_plugin):
    """The model reads it in its first request, and plugins that look at requests have seen it by then."""
    begun, go_on = trio.Event(), trio.Event()
    seen = []

    @plugin(priority=500, init=int, hooks=(BeforeRequest,))
    def look(event, state, ctx):
        seen.append([message.content[0].text for message in event.messages])
        return Continue(state)

    async def slow(about, conversation):
        begun.set()
        await go_on.wait()
        return [note("slow")]

    model = saying("first")
    session = await supervisor.start_session(
        model=model, context_providers=[slow], plugins=[look] if has_plugin else []
    )
    async with session.subscribe() as events:
        await session.prompt("Hi")
        await begun.wait()
        assert (await session.steer("left")).status == "queued"
        go_on.set()
        await until(events, AgentEnd)
    assert [texts_of(request) for request in model.requests] == [["slow", "Hi", "left"]]
    assert seen == ([["Hi"], ["Hi", "left"]] if has_plugin else [])


@given(
    texts=st.lists(st.sampled_from(["noon", "Faro", "left"]), max_size=6),
    cuts=st.lists(st.integers(0, 6), max_size=4),
)
def test_what_a_conversation_says_is_known_as_it_grows_and_where_it_goes_another_way(texts, cuts):
    """What was read is not read again; of a fork, a rewind or a conversation of another kind all of it is."""
    gatherer = ContextGatherer([giving(note("noon"), note("Faro"), note("left"))], ABOUT)

    async def gather(messages):
        gathered = await gatherer.gather(GatherContext(effect_id=EffectId("g"), messages=messages))
        said = {one.content[0].text for one in messages}
        assert gathered.count == len({"noon", "Faro", "left"} - said)

    async def converse():
        versions = [Log()]
        for text in texts:
            versions.append(versions[-1].appended(note(text)))
            await gather(versions[-1])
        for cut in cuts:
            versions.append(versions[min(cut, len(versions) - 1)].appended(note("left")))
            await gather(versions[-1])
            await gather(tuple(versions[-1]))

    trio.run(converse)


async def one_that_hangs(stage):
    """A provider hangs in each turn, and an abort, a steer and the end of the session come meanwhile."""
    begun = []

    async def hang(about, conversation):
        begun.append(trio.Event())
        await trio.sleep_forever()

    session = await stage.start_session(
        model=calling("record"), tools=[RecordingTool()], context_providers=[hang]
    )
    async with trio.open_nursery() as nursery:
        await session.prompt("Hi")
        await session.status()
        await session.steer("left")
        nursery.start_soon(session.abort)
        await session.status()
    await session.stop()


async def one_that_gives(stage):
    """A provider gives something in each of two turns, and another one fails."""
    session = await stage.start_session(
        model=calling("record"), tools=[RecordingTool()], context_providers=[giving(note("noon")), failing]
    )
    assert await session.ask("Hi") == "done"
    check_history(await session.messages())


@pytest.mark.parametrize(
    ("scenario", "mode"),
    sampled(
        [
            # The other one would want another turn of the script.
            pytest.param(one_that_hangs, "steer", marks=pytest.mark.check),
            *paired([one_that_hangs, one_that_gives], ["cancel", "close", "abort", "crash"]),
        ]
    ),
)
async def test_at_every_step(scenario, mode):
    """Struck at its n-th step, for every n: nothing is left, and all that was begun has an end."""
    assert await cancel_everywhere(scenario, mode=mode) > 5


async def _kept(store, **options):
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1", **options)
        await session.ask("Hi")


@on_virtual_time
async def test_providers_that_a_resumption_forgets_are_missed():
    """Keywords leave them out by mistake. Complete options say that there are none any more."""
    store = MemoryStore(lease_ms=0)
    await _kept(store, context_providers=[giving(note("noon"))])
    async with open_over(store) as supervisor:
        with pytest.raises(Unrevivable, match="its context providers"):
            await supervisor.resume_session("s-1", model=saying("b"))
        model = saying("b")
        session = await supervisor.resume_session("s-1", SessionOptions(model=model))
        await session.ask("Go on")
    assert "noon" not in texts_of(model.requests[0])


@on_virtual_time
async def test_providers_are_missed_if_the_session_had_them_last():
    """The providers of its start were missed also after their removal, and later ones never were."""
    store, providers = MemoryStore(lease_ms=0), [giving(note("noon"))]
    await _kept(store, context_providers=providers)
    async with open_over(store) as supervisor:
        await supervisor.resume_session("s-1", SessionOptions(model=saying("b")))
    async with open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("c"))
        assert await session.ask("Go on") == "c"
    async with open_over(store) as supervisor:
        await supervisor.resume_session("s-1", model=saying("d"), context_providers=providers)
    async with open_over(store) as supervisor:
        with pytest.raises(Unrevivable, match="its context providers"):
            await supervisor.resume_session("s-1", model=saying("e"))


@on_virtual_time
@pytest.mark.parametrize("how", ["resume", "fork", "rewind"])
async def test_new_providers_are_asked_for_a_session_that_began_without(how):
    """Also after a fork or a rewind to a turn before they came."""
    store, model = MemoryStore(lease_ms=0), saying("b")
    await _kept(store)
    async with open_over(store) as supervisor:
        providers = [giving(note("noon"))]
        session = await supervisor.resume_session("s-1", model=model, context_providers=providers)
        if how == "fork":
            session = await session.fork(turn=1)
        elif how == "rewind":
            await session.rewind(turn=1)
        await session.ask("Go on")
    assert "noon" in texts_of(model.requests[0])
