"""Meanings beside words: what is found by both, what becomes of an embedder that fails, and vectors that are made anew."""

import math
import sqlite3
from contextlib import closing

import pytest
import trio
import trio.testing
from hypothesis import given, strategies as st

import agentrail
from agentrail.abc import MemoryEntry, MemoryOwner
from agentrail.abc.embeddings import MAX_EMBEDDED, VectorRecall, kind_of_vectors
from agentrail.core.values.ranking import fuse, pack_vector
from agentrail.errors import BadRequest, OptionError, StoreUnavailable, Transport
from agentrail.events import PluginEvent
from agentrail.host.host_options import HostOptions
from agentrail.outside import current
from agentrail.plugins import AutoRecall
from agentrail.runtime.embedder_guard import EmbedderEdge
from agentrail.runtime.session_stores import OwnKnowledge, OwnMemories, StoreDesk
from agentrail.runtime.vector_search import (
    CONTESTED_SECONDS,
    LOOK_FOR_MEANINGS_SECONDS,
    QUERY_SECONDS,
    REST_SECONDS,
    Meanings,
    NoMeaning,
)
from agentrail.stores import memory_store_names
from agentrail.stores.knowledge_sqlite import SqliteKnowledge
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.stores.recall_sqlite import SqliteRecall
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.tools import builtin
from tests.runtime.rig import on_bounded_time
from tests.thinned import each

ADA = MemoryOwner(tenant="acme", user="ada")
TOPICS = ({"tea", "brew", "leaves"}, {"train", "rail", "station"}, {"dog", "puppy", "hound"})
"""Words that mean nearly the same."""


class Toy:
    """An embedder of three meanings: texts about one of them point one way."""

    def __init__(self, name="toy", fault=None, seconds=0.0):
        self.name, self.dimension, self.fault, self.seconds = name, 4, fault, seconds
        self.asked = []

    async def embed(self, texts):
        self.asked.append(list(texts))
        assert 0 < len(texts) <= MAX_EMBEDDED
        await trio.sleep(self.seconds)
        if self.fault is not None:
            raise self.fault
        return [self.vector(text) for text in texts]

    def vector(self, text):
        words = text.lower().replace(".", "").split()
        about = [float(sum(word in topic for word in words)) for topic in TOPICS]
        return [0.0 if any(about) else 1.0, *about]


def entry(entry_id, text, *tags):
    return MemoryEntry(id=entry_id, text=text, tags=tags, at_ms=1)


def own_of(store, embedder, start=lambda *_: None):
    """The memories of Ada, with meanings that are looked after by tasks that `start` starts."""
    return OwnMemories(StoreDesk(store, current(), Meanings(EmbedderEdge(embedder), start)), ADA)


async def settled(store, embedder):
    """Wait until each text of the tenant has a vector of this embedder."""
    while store.without_vectors("acme", kind_of_vectors(embedder), limit=1):  # noqa: ASYNC110 - threads are at work, and tell no event
        await trio.sleep(0.01)


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=3), st.integers(0, 9))
def test_a_fused_ranking_follows_from_the_places(rankings, limit):
    """Each id once; the sum of 1/(60 + place) orders them, equals by id (12.5)."""
    fused = fuse(*rankings, limit=limit)
    scores = {
        one: math.fsum(1 / (61 + ranking.index(one)) for ranking in rankings if one in ranking)
        for one in {one for ranking in rankings for one in ranking}
    }
    assert list(fused) == sorted(scores, key=lambda one: (-round(scores[one], 12), one))[:limit]


@each("numbers", [[1.0], [0.0, 0.0], [math.nan, 1], [math.inf, 1], ["1", 2], [None, 1]])
def test_what_is_no_vector_is_refused(numbers):
    """Of another dimension, without a direction, or no numbers."""
    with pytest.raises(ValueError, match=r"a vector (has|must contain)"):
        pack_vector(numbers, 2)
    assert pack_vector([3, 4], 2) == pack_vector([0.6, 0.8], 2)


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    if request.param == "sqlite":
        pytest.importorskip("numpy", reason="no extra `embeddings`")
    opened = InMemoryRecall() if request.param == "memory" else SqliteRecall(tmp_path)
    yield opened
    opened.close()


@on_bounded_time
async def test_memories_are_found_by_words_and_by_meaning(store, nursery):
    """What has no word of the query is found by what it means; another owner's never; tags hold for both (12.5)."""
    assert isinstance(store, VectorRecall)
    toy = Toy()
    desk = StoreDesk(store, current(), Meanings(EmbedderEdge(toy), nursery.start_soon))
    own = OwnMemories(desk, ADA)
    for entry_id, text, tags in (
        ("m1", "Brew the leaves.", ["drink"]),
        ("m2", "A station.", []),
        ("m3", "tea", []),
    ):
        await own.put(text, tags=tags, entry_id=entry_id)
    await OwnMemories(desk, MemoryOwner(tenant="acme", user="bob")).put("tea leaves")
    await settled(store, toy)
    assert [one.id for one in await own.search("tea")] == ["m3", "m1"]
    assert [one.id for one in await own.search("hot tea", tags_any=["drink"])] == ["m1"]
    assert [one.id for one in await own.search("rail")] == ["m2"]
    assert [one.id for one in await own.search("rail", limit=1)] == ["m2"]
    assert await own.search("puppy") == ()
    assert await own.search("?!") == ()
    await own.delete("m2")
    assert await own.search("rail") == ()
    await own.put("A puppy.", entry_id="m1")  # another text: another vector
    await settled(store, toy)
    assert [one.id for one in await own.search("hound")] == ["m1"]
    await own.forget()
    assert await own.search("hound tea") == ()
    with pytest.raises(OptionError, match="limit is 0"):
        await own.search("tea", limit=0)


@on_bounded_time
async def test_vectors_of_another_embedder_are_made_anew(store, nursery):
    """They are never compared, and in the background each text gets one of the new kind; no more than 64 at once (12.5)."""
    for number in range(MAX_EMBEDDED + 6):
        store.put(ADA, entry(f"m{number}", "tea" if number else "rail"))
    first, second = Toy(), Toy("other")
    for embedder in (first, second):
        own = own_of(store, embedder, nursery.start_soon)
        await own.search("train")  # nothing of this kind may be there yet
        await settled(store, embedder)
        assert [one.id for one in await own.search("train")] == ["m0"]
        assert sorted(map(len, embedder.asked)) == [1, 1, 6, MAX_EMBEDDED]
    assert store.without_vectors("acme", kind_of_vectors(second), limit=9) == ()
    assert len(store.without_vectors("acme", kind_of_vectors(first), limit=9)) == 9


async def test_two_embedders_do_not_take_turns_for_ever(autojump_clock, nursery, caplog):
    """Two processes with different ones replaced each other's vectors without an end, and paid for each."""
    store, toys = InMemoryRecall(), (Toy(seconds=1), Toy("other", seconds=1))
    for number in range(3 * MAX_EMBEDDED):
        store.put(ADA, entry(f"m{number}", "tea"))
    both = [own_of(store, toy, nursery.start_soon) for toy in toys]
    for own in both:
        await own.search("tea")
    await trio.sleep(LOOK_FOR_MEANINGS_SECONDS)
    assert "another process replaces the vectors" in caplog.text
    for toy in toys:
        assert sum(map(len, toy.asked)) < 7 * MAX_EMBEDDED
        toy.asked.clear()
    for own in both:
        await own.put("rail")
        await own.search("tea")
    await trio.sleep(LOOK_FOR_MEANINGS_SECONDS)
    # One that noticed it leaves even new texts to the other one for an hour.
    assert {len(one) for toy in toys for one in toy.asked} <= {1, 2}
    await trio.sleep(CONTESTED_SECONDS)
    await both[0].search("tea")
    await trio.sleep(LOOK_FOR_MEANINGS_SECONDS)
    assert store.without_vectors("acme", kind_of_vectors(toys[0]), limit=9) == ()


async def test_a_slow_embedder_leaves_the_words(autojump_clock, nursery):
    """After two seconds words alone are compared, and somebody is told; then it rests, and is asked again (12.5)."""
    store, toy, said = InMemoryRecall(), Toy(seconds=9), []
    store.put(ADA, entry("m1", "green tea"))
    own = own_of(store, toy)
    began = trio.current_time()
    assert [one.id for one in await own.telling(said.append).search("tea")] == ["m1"]
    assert trio.current_time() - began == QUERY_SECONDS
    assert [one.id for one in await own.telling(said.append).search("tea")] == ["m1"]
    assert trio.current_time() - began == QUERY_SECONDS
    assert said == ["the embedder toy did not answer within 2 s"] * 2
    await own.search("tea")  # nobody is told
    await trio.sleep(REST_SECONDS)
    toy.seconds = 0
    await own.telling(said.append).search("tea")
    assert len(said) == 2
    assert len(toy.asked) == 2


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Transport("no connection", retryable=True), "the embedder toy failed: no connection"),
        (ZeroDivisionError(), "the embedder toy crashed"),
    ],
)
async def test_an_embedder_that_fails_leaves_the_words(fault, said):
    """Also one that raises what it may not; the session reads it as an event, by a tool and by a plugin (12.5)."""
    store = InMemoryRecall()
    store.put(MemoryOwner(), entry("m1", "green tea"))
    model = ScriptedModel([calls(("recall", {"query": "tea"})), says("Green.")])
    async with open_nameless(recall=store, embedder=Toy(fault=fault)) as supervisor:
        session = await supervisor.start_session(
            model=model, tools=builtin("recall"), plugins=[AutoRecall], working_dir="."
        )
        async with session.subscribe(after=0, kinds=[PluginEvent]) as events:
            assert await session.ask("tea?") == "Green."
            told = [await anext(events), await anext(events)]
    assert [one.name for one in told] == ["memory_words_only"] * 2
    assert all(one.payload["reason"].startswith(said) for one in told)
    assert "green tea" in model.requests[-1].messages[-2].results[0].text


@pytest.mark.parametrize("fault", [BadRequest("input is too long"), ZeroDivisionError()])
async def test_a_text_that_is_refused_keeps_no_other_text_from_its_vector(autojump_clock, nursery, fault):
    """It is found by its words, is sent to the embedder no more, and no search waits for it."""
    store, toy, said = InMemoryRecall(), Toy(), []

    async def embed(texts, embed=toy.embed):
        given = await embed(texts)
        if any("puppy" in text for text in texts):
            raise fault
        return given

    toy.embed = embed
    for number in range(MAX_EMBEDDED + 6):
        store.put(ADA, entry(f"m{number}", f"rail {number}" if number % 50 else "a puppy"))
    own = own_of(store, toy, nursery.start_soon)
    await own.search("train")
    await trio.testing.wait_all_tasks_blocked()
    assert store.without_vectors("acme", kind_of_vectors(toy), limit=9) == ()
    assert len(await own.telling(said.append).search("station", limit=50)) == 50
    assert said == []
    assert {one.id for one in await own.telling(said.append).search("puppy")} == {"m0", "m50"}
    assert len(said) == 1  # this query is refused too
    toy.asked.clear()
    await trio.sleep(LOOK_FOR_MEANINGS_SECONDS)
    await own.search("station")
    await trio.testing.wait_all_tasks_blocked()
    assert toy.asked == [["station"]]


async def test_an_embedder_that_refuses_everything_marks_no_text():
    """Its settings are wrong, so all texts get their vectors once these are right."""
    store, toy = InMemoryRecall(), Toy(fault=BadRequest("no such dimension"))
    store.put(ADA, entry("m1", "tea"))
    with pytest.raises(NoMeaning, match="no such dimension"):
        await Meanings(EmbedderEdge(toy), lambda *_: None).fill(
            store, "acme", StoreDesk(store, current()).write
        )
    assert len(store.without_vectors("acme", kind_of_vectors(toy), limit=9)) == 1
    assert len(toy.asked) == 2


async def test_a_store_that_raises_in_the_background_ends_no_session(autojump_clock, nursery, caplog):
    """The task that fills in vectors runs beside all sessions; texts are found by their words, and it tries again later."""
    store, fault = InMemoryRecall(), [ZeroDivisionError("a bug of this store")]

    def put_vectors(*given, put=store.put_vectors):
        for error in fault:
            raise error
        put(*given)

    store.put_vectors = put_vectors
    store.put(ADA, entry("m1", "A puppy."))
    own = own_of(store, Toy(), nursery.start_soon)
    assert [one.id for one in await own.search("puppy")] == ["m1"]
    await trio.testing.wait_all_tasks_blocked()
    assert "a bug of this store" in caplog.text
    fault.clear()
    await trio.sleep(LOOK_FOR_MEANINGS_SECONDS)
    await own.search("hound")
    await trio.testing.wait_all_tasks_blocked()
    assert [one.id for one in await own.search("hound")] == ["m1"]


async def test_wrong_numbers_of_vectors_are_a_bug_of_the_embedder():
    """Too few, or of another dimension: nothing of it is kept."""
    store, toy, said = InMemoryRecall(), Toy(), []
    for wrong in (lambda _: [], lambda texts: [[1.0]] * len(texts)):

        async def embed(texts, wrong=wrong):
            await trio.lowlevel.checkpoint()
            return wrong(texts)

        toy.embed = embed
        await own_of(store, toy).telling(said.append).search("tea")
    assert ["crashed" in one for one in said] == [True, True]


async def test_what_another_process_wrote_is_looked_for_from_time_to_time(autojump_clock, nursery):
    """A minute behind the last look, at a search; what fails in the background is tried again then."""
    store, toy = InMemoryRecall(), Toy()
    own = own_of(store, toy, nursery.start_soon)
    await own.search("hound")
    await trio.testing.wait_all_tasks_blocked()
    store.put(ADA, entry("m1", "A puppy."))
    toy.fault = Transport("away", retryable=True)
    assert await own.search("hound") == ()
    assert len(toy.asked) == 2  # the queries
    await trio.sleep(LOOK_FOR_MEANINGS_SECONDS)
    await own.search("hound")
    await trio.testing.wait_all_tasks_blocked()
    toy.fault = None
    await trio.sleep(LOOK_FOR_MEANINGS_SECONDS)
    await own.search("hound")
    await trio.testing.wait_all_tasks_blocked()
    assert [one.id for one in await own.search("hound")] == ["m1"]


@on_bounded_time
async def test_passages_are_found_by_words_and_by_meaning(tmp_path, nursery):
    """Of the bases that the user may read, and of no others (12.6)."""
    pytest.importorskip("numpy", reason="no extra `embeddings`")
    store, toy = SqliteKnowledge(tmp_path), Toy()
    for base, readers in (("open", ["*"]), ("closed", ["bob"])):
        store.open_base("acme", base, readers)
        store.add("acme", base, "a.md", b"# Rail\n\nThe station is near.\n")
        store.add("acme", base, "b.md", b"# Dogs\n\nA puppy barks.\n")
    shelf = StoreDesk(store, current(), Meanings(EmbedderEdge(toy), nursery.start_soon))
    own = OwnKnowledge(shelf, ADA)
    await own.search("train")
    await settled(store, toy)
    assert [(one.base, one.path) for one in await own.search("train")] == [("open", "a.md")]
    assert [one.path for one in await own.search("hound near", "open", limit=1)] != []
    store.add("acme", "open", "dogs/c.md", b"A puppy sleeps.")
    store.tag("acme", "open", ["b.md"], ["pets"])
    shelf.meanings.look_after(store, "acme", shelf.write, is_new=True)
    await settled(store, toy)
    assert [one.path for one in await own.search("hound", folder="dogs")] == ["dogs/c.md"]
    assert [one.path for one in await own.search("hound", tags=["pets"])] == ["b.md"]
    assert await own.search("hound", folder="dogs", tags=["pets"]) == ()
    with pytest.raises(OptionError, match="not a document folder"):
        await own.search("hound", folder="..")
    with pytest.raises(OptionError, match="no knowledge base 'closed'"):
        await own.search("train", "closed")
    store.remove("acme", "open", "a.md")
    assert await own.search("train") == ()
    store.close()
    with pytest.raises(StoreUnavailable):
        await own.search("train")


def test_a_file_of_the_first_version_gets_vectors(tmp_path):
    """It is read as it was, and the next write makes it newer; nothing of it is lost."""
    pytest.importorskip("numpy", reason="no extra `embeddings`")
    store = SqliteRecall(tmp_path)
    store.put(ADA, entry("m1", "tea"))
    path = store.path_of("acme")
    store.close()
    with closing(sqlite3.connect(path)) as older:
        older.executescript(
            "DROP TRIGGER memory_removed; DROP TABLE vector; DROP TABLE vector_change; PRAGMA user_version = 1"
        )
    store, vector = SqliteRecall(tmp_path), pack_vector([1.0, 0.0], 2)
    assert store.nearest(ADA, vector, "toy 2", limit=5) == ()
    assert [one.id for one in store.search(ADA, "tea")] == ["m1"]
    ((number, text),) = store.without_vectors("acme", "toy 2", limit=5)
    assert text == "tea"
    store.put_vectors("acme", "toy 2", [(number, vector), (number + 1, vector)])
    assert [one.id for one in store.nearest(ADA, vector, "toy 2", limit=5)] == ["m1"]
    store.delete(ADA, "m1")
    with closing(sqlite3.connect(path)) as newer:
        assert newer.execute("SELECT count(*) FROM vector").fetchone() == (0,)
        assert newer.execute("PRAGMA user_version").fetchone() == (3,)
    store.close()


async def test_without_numpy_an_embedder_is_refused_by_the_name_of_its_extra(monkeypatch):
    """Before anything starts; and what is no embedder is told what one is."""
    monkeypatch.setattr(memory_store_names, "has_numpy", lambda: False)
    with pytest.raises(OptionError, match=r"needs numpy .*: pip install .*\[embeddings\]"):
        async with agentrail.open_supervisor(embedder=Toy()):
            pass
    for wrong in ("openai:x", Toy(name="")):
        with pytest.raises(OptionError, match="expected an Embedder, with a name, a dimension"):
            HostOptions(embedder=wrong)
