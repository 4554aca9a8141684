"""`remember`, `recall`, `forget`: what is kept, how it reads, and what is wrong with a call."""

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from agentrail.abc import Error, MemoryEntry, MemoryOwner, Ok
from agentrail.outside import current
from agentrail.runtime.session_stores import OwnMemories, StoreDesk
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.tools.forget import forget_memory as forget
from agentrail.tools.memory_text import NO_MEMORIES, NO_SUCH, fenced
from agentrail.tools.recall import recall_memories as recall
from agentrail.tools.remember import remember_text as remember
from tests.tools.rig import CTX


@pytest.fixture
def store():
    return InMemoryRecall()


@pytest.fixture
def ctx(store):
    return context_of(store, "ada")


def context_of(store, user, emitted=None, **rest):
    seen = [] if emitted is None else emitted
    own = OwnMemories(StoreDesk(store, current()), MemoryOwner(tenant="acme", user=user), "s1")
    return evolve(CTX, memories=own, event=lambda name, payload: seen.append((name, payload)), **rest)


async def test_an_empty_query_gives_the_newest(ctx):
    """With tags: those that have one of them."""
    for number, tag in enumerate(("food", "work", "food")):
        fact = {"scope": "user", "text": f"Fact {number}.", "tags": [tag]}
        await remember.execute(fact, evolve(ctx, operation_id=f"o{number}"))
    lines = (await recall.execute({}, ctx)).text.splitlines()
    assert sorted(line for line in lines if line.startswith("Fact")) == ["Fact 0.", "Fact 1.", "Fact 2."]
    tagged = (await recall.execute({"tags": ["work", "nothing"]}, ctx)).text
    assert "Fact 1." in tagged
    assert "Fact 0." not in tagged
    assert (await recall.execute({"query": "fact", "tags": ["nothing"]}, ctx)).text == (
        'No memories found about "fact" with these tags. Try other words, or fewer tags.'
    )


async def test_forgetting_is_told_and_is_for_good(store):
    """The second time there is nothing, and what another user has is nothing either."""
    emitted = []
    ctx = context_of(store, "ada", emitted)
    memory_id = (await remember.execute({"scope": "user", "text": "Likes tea."}, ctx)).details["id"]
    assert await forget.execute({"id": memory_id}, context_of(store, "bob")) == Error(text=NO_SUCH)
    assert await forget.execute({"id": memory_id}, ctx) == Ok(text="It is forgotten.")
    assert emitted[-1] == ("memory_forgotten", {"id": memory_id})
    assert await forget.execute({"id": memory_id}, ctx) == Error(text=NO_SUCH)
    assert (await recall.execute({"query": "tea"}, ctx)).text.startswith('No memories found about "tea".')


async def test_users_do_not_meet_and_only_words_are_searched(ctx, store):
    """Not by words, not by the newest; broken syntax of a search is words (12.11)."""
    await remember.execute({"scope": "user", "text": "Likes tea."}, ctx)
    for arguments in ({"query": "tea"}, {}, {"query": '" OR tea'}):
        told = await recall.execute(arguments, context_of(store, "bob"))
        assert told.text.startswith("No memories found")
    for query in ('"tea', "tea AND (", "own:x OR tea", "tea*", "\0tea"):
        assert "Likes tea." in (await recall.execute({"query": query}, ctx)).text


async def test_without_memories_or_their_store_the_model_is_told_to_go_on(ctx, store):
    """No crash, nothing to try again, and as an error result: the session goes on."""
    store.close()
    away = "the memories of this process were closed"
    for tool, arguments, said in (
        (remember, {"scope": "user", "text": "tea"}, "Nothing was remembered"),
        (recall, {"query": "tea"}, "The search failed"),
        (recall, {}, "The search failed"),
        (forget, {"id": "m-1"}, "Nothing was forgotten"),
    ):
        assert await tool.execute(arguments, CTX) == Error(text=NO_MEMORIES)
        assert await tool.execute(arguments, ctx) == Error(text=f"{said}: {away}")


HOSTILE = ("</memory>", '<memory id="x">', "</ MEMORY", "<\n/memory>", "<b>", '"', "&", "a", "\n")


@given(
    texts=st.lists(
        st.lists(st.sampled_from(HOSTILE), min_size=1).map("".join).filter(str.strip),
        min_size=1,
        max_size=3,
    ),
    tag=st.sampled_from(["", '">', "</memory>", "a & b"]),
)
def test_no_memory_can_leave_its_fence(texts, tag):
    """As many begin and end as there are, whatever they say."""
    tags = [tag] if tag else []
    shown = fenced([MemoryEntry(id=f"m{n}", text=text, tags=tags, at_ms=n) for n, text in enumerate(texts)])
    assert shown.lower().count("</memory") == shown.lower().count("<memory") == len(texts)
    for n in range(len(texts)):
        assert f'<memory id="m{n}" remembered="1970-01-01"' in shown
