"""What sessions remember: whose it is, what plugins hear of it, and what becomes of a call that is cancelled."""

import threading
from contextlib import closing

import attrs
import pytest
import trio

from agentrail import plugins as p
from agentrail.abc import MemoryEntry, MemoryOwner
from agentrail.core.protocol.hooks import Found
from agentrail.errors import OptionError
from agentrail.events import PluginEvent
from agentrail.outside import current
from agentrail.runtime.session_stores import OwnMemories, StoreDesk, decide_owner
from agentrail.stores.knowledge_sqlite import SqliteKnowledge
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.tools import builtin
from tests.runtime.rig import on_bounded_time
from tests.thinned import each

ADA = MemoryOwner(tenant="acme", user="ada")
TOOLS = builtin("remember", "recall", "forget")


@each("wrong", [7, True, ["ada"], {"id": "ada"}, 0, ""])
def test_what_is_no_text_names_nobody(wrong):
    """It is not guessed whose memories these would be; an empty text is one."""
    if wrong == "":
        assert decide_owner("", {"user_id": wrong}) == MemoryOwner()
        return
    for key in ("user_id", "tenant_id"):
        with pytest.raises(OptionError, match=rf"user_data\['{key}'\] is of type"):
            decide_owner("", {key: wrong})


async def asked(supervisor, *turns, tools=TOOLS, **options):
    """Let a new session work through turns, and give what its tools answered."""
    model = ScriptedModel([*turns, says("Done.")])
    session = await supervisor.start_session(model=model, tools=tools, **options)
    await session.ask("Go.")
    return [one.results[0].text for one in model.requests[-1].messages if getattr(one, "results", ())]


REMEMBER = calls(("remember", {"text": "Likes green tea.", "scope": "user"}))


async def test_a_session_that_does_not_say_whose_it_is_remembers_nothing(caplog):
    """It works all the same; the log says why."""
    async with open_nameless(recall=InMemoryRecall()) as supervisor:
        (said,) = await asked(supervisor, REMEMBER, user_data={"user_id": 7})
        assert said.startswith("Nothing can be remembered here")


@on_bounded_time
async def test_a_session_reads_the_knowledge_of_its_owner(tmp_path):
    """A child too; who does not say who they are reads nothing, not even what is open to all."""
    with closing(SqliteKnowledge(tmp_path)) as store:
        store.open_base("acme", "handbook", ["*"])
        store.add("acme", "handbook", "a.md", b"Trains in first class.")
        search = calls(("kb_search", {"query": "trains"}))
        tools = builtin("kb_search", "task")
        async with open_nameless(knowledge=store) as supervisor:
            for user_data, said in (
                ({"tenant_id": "acme", "user_id": "ada"}, "1 passage"),
                ({"tenant_id": "zeta", "user_id": "ada"}, "No passage matches"),
                ({"tenant_id": "acme", "user_id": 7}, "There are no knowledge bases here"),
            ):
                (found,) = await asked(supervisor, search, tools=tools, user_data=user_data)
                assert found.startswith(said)
            child = calls(("task", {"description": "Look it up."}))
            turns = child, search, says("It is first class.")
            (found,) = await asked(supervisor, *turns, tools=tools, scope="acme")
            assert "It is first class." in found


@attrs.frozen
class Heard:
    """How much is searched for, and what was found."""

    max_entries: int = 3
    texts: tuple[str, ...] = ()


class Looks(p.Plugin[Heard]):
    def init(self, *, max_entries: int = 3) -> Heard:
        return Heard(max_entries)

    @p.on(p.BeforePrompt)
    def look(self, event, state, ctx):
        return p.Request(p.Search(query=event.text, max_entries=state.max_entries), "look", state, wait=True)

    @p.on(p.RequestDone)
    def take(self, event, state, ctx):
        found = event.result
        heard = [one["text"] for one in found.entries] if isinstance(found, Found) else found.error.code
        return p.Continue(attrs.evolve(state, texts=tuple(heard)), emits=(("heard", {"heard": heard}),))


async def heard(supervisor, prompt="green tea", plugin=Looks, **options):
    session = await supervisor.start_session(
        model=ScriptedModel([says("Yes.")] * 2), plugins=[plugin], **options
    )
    async with session.subscribe() as events:
        await session.ask(prompt)
        async for event in events:
            if isinstance(event, PluginEvent):
                return event.payload["heard"]
    return None


async def test_a_plugin_searches_the_memories_of_its_owner():
    """`Search` is answered by `Found`, what fits best first; of nobody else (12.5)."""
    store = InMemoryRecall()
    for number, text in enumerate(("Likes tea.", "Likes green tea.", "Has a dog.")):
        store.put(ADA, MemoryEntry(id=f"m{number}", text=text, tags=("drink",), at_ms=number, session="s0"))
    async with open_nameless(recall=store) as supervisor:
        ada = {"tenant_id": "acme", "user_id": "ada"}
        assert await heard(supervisor, user_data=ada) == ["Likes green tea.", "Likes tea."]
        assert await heard(supervisor, user_data=ada, plugin=(Looks, {"max_entries": 1})) == [
            "Likes green tea."
        ]
        assert (
            await heard(supervisor, user_data=ada, plugin=(Looks, {"max_entries": 0}))
            == "plugin_request_failed"
        )
        assert await heard(supervisor, user_data={"user_id": "bob"}) == []
    async with open_nameless() as supervisor:
        assert await heard(supervisor) == "no_memory"


class Hangs(InMemoryRecall):
    """Takes long, in whatever thread asks."""

    is_immediate = False  # type: ignore[misc]  # this one takes its time

    def __init__(self):
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def put(self, owner, entry):
        self.begun.set()
        self.go_on.wait(5)
        super().put(owner, entry)


@on_bounded_time
async def test_a_write_that_was_cancelled_is_done_all_the_same():
    """What has begun goes on in its thread, and who waits for it does not; the next write waits for it."""
    store = Hangs()
    own = OwnMemories(StoreDesk(store, current()), ADA)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(own.put, "Likes tea.")
            await trio.to_thread.run_sync(store.begun.wait)
            scope.cancel()
    assert scope.cancelled_caught
    store.go_on.set()
    await own.put("Likes coffee.")
    assert sorted(one.text for one in store.list(ADA)) == ["Likes coffee.", "Likes tea."]


class Broken(InMemoryRecall):
    def search(self, owner, query, tags=None, *, limit=5):
        raise ZeroDivisionError


async def test_a_store_that_crashes_is_told_to_the_plugin():
    """As a failed request, and the session goes on."""
    async with open_nameless(recall=Broken()) as supervisor:
        assert await heard(supervisor) == "memory_crashed"
