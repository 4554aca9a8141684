"""`Consolidation`: profiles are made while all are away, in one piece, within a budget, and go with what they rest on."""

import json

import pytest
import trio

import agentrail
from agentrail.abc.recall import MemoryOwner
from agentrail.errors import OptionError, StoreUnavailable
from agentrail.host import Principal, open_host
from agentrail.host.consolidation import LOOK_FOR_IDLE_SECONDS, PROFILE_ID, Consolidation
from agentrail.host.identity import SessionOwner
from agentrail.host.profile_policy import IDLE_MS, OLD_MS, SessionChange, decode_profile
from agentrail.outside import current
from agentrail.runtime.session_stores import OwnMemories, StoreDesk
from agentrail.stores.memory import MemoryStore
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.testing.models import ScriptedModel, says
from tests.host.hosting import ANN, BOB as HOSTS_BOB, profile, say
from tests.host.test_profile_policy import conversation

ADA, BOB = SessionOwner("acme", "ada"), SessionOwner("acme", "bob")
TALK = conversation("I take my tea green", "Noted.", "Never call me", "I will not.")


def found(text="Takes tea green", numbers=(1,)):
    return says(json.dumps({"preferences": [{"text": text, "messages": list(numbers)}]}))


def merged(*lines):
    return says(json.dumps({"preferences": [{"text": text, "made_of": list(of)} for text, of in lines]}))


class Sessions:
    def __init__(self, **of_users):
        self.at_ms = 100 * OLD_MS
        self.there = {(ADA, name): TALK for name in of_users.get("ada", ())}
        self.there |= {(BOB, name): TALK for name in of_users.get("bob", ())}
        self.changed = dict.fromkeys(self.there, self.at_ms - IDLE_MS)
        self.recall = InMemoryRecall()
        self.asked = []
        self.fails = {}
        self.on_check = lambda: None

    def now_ms(self):
        return self.at_ms

    async def changes(self):
        await trio.lowlevel.checkpoint()
        if "changes" in self.fails:
            raise self.fails["changes"]
        owners = dict.fromkeys(owner for owner, _ in self.there)
        return {
            owner: [
                SessionChange(session=name, changed_at_ms=self.changed[of, name])
                for of, name in self.there
                if of == owner
            ]
            for owner in owners
        }

    async def conversation(self, owner, session):
        """Give what was said, and note that it was asked for."""
        await trio.lowlevel.checkpoint()
        if owner in self.fails:
            raise self.fails[owner]
        self.asked.append(session)
        return self.there.get((owner, session))

    async def is_there(self, owner, session):
        await trio.lowlevel.checkpoint()
        self.on_check()
        return (owner, session) in self.there

    def memories(self, owner):
        if self.recall is None:
            return None
        owner = MemoryOwner(tenant=owner.tenant_id, user=owner.user_id)
        return OwnMemories(StoreDesk(self.recall, current()), owner)

    def profile_of(self, owner=ADA):
        """What stands in a profile: texts, and what they rest on."""
        entry = self.recall.get(MemoryOwner(tenant=owner.tenant_id, user=owner.user_id), PROFILE_ID)
        lines = () if entry is None else decode_profile(entry.text)
        return [(one.text, *((of.session, of.numbers) for of in one.sources)) for one in lines]


async def look(sessions, *answers, times=1, **options):
    """Look at all users with a model that answers so; gives how many answers were asked for."""
    model = ScriptedModel(list(answers))
    plugin = Consolidation(model, **options)
    plugin.connect(sessions)
    async with agentrail.open_supervisor() as asking:
        for _ in range(times):
            await plugin.look(asking)
    return len(model.requests)


async def test_each_changed_session_is_read_and_one_call_merges():
    """Each line has its messages behind it, also those of two sessions; what was read is not read again."""
    sessions = Sessions(ada=["s1", "s2"])
    answers = [found(), found("Drinks green tea", [1, 3]), merged(("Takes tea green", [1, 2]))]
    assert await look(sessions, *answers, times=3) == 3
    assert sessions.profile_of() == [("Takes tea green", ("s1", (1,)), ("s2", (1, 3)))]
    assert sessions.profile_of(BOB) == []


async def test_nothing_is_asked_of_a_model_in_vain():
    """Short sessions, active users and empty findings cost no further call. A failed merge writes nothing."""
    sessions = Sessions(ada=["s1"], bob=["b1"])
    sessions.there[ADA, "s1"] = TALK[:3]
    sessions.changed[BOB, "b1"] = sessions.at_ms - 1
    assert await look(sessions, times=3) == 0
    assert sessions.asked == ["s1"]

    sessions = Sessions(ada=["s1"])
    assert await look(sessions, says("{}"), times=3) == 1
    assert sessions.profile_of() == []

    sessions = Sessions(ada=["s1"])
    assert await look(sessions, found(), says("no JSON"), says("none either"), times=2) >= 2
    assert sessions.profile_of() == []


async def test_times_of_a_clock_that_was_ahead_hold_up_no_profile():
    """First a session is dated later. Then the profile is, because it is dated today, so another process reads all sessions once."""
    sessions = Sessions(ada=["s1", "s2"])
    sessions.changed[ADA, "s1"] = sessions.at_ms + OLD_MS
    assert await look(sessions, found(), found(), merged(("one", [1, 2]))) == 3
    assert await look(sessions, found(), found(), merged(("two", [1, 2]))) == 3
    assert [text for text, *_ in sessions.profile_of()] == ["two"]


@pytest.mark.parametrize("place", [1, 2])
async def test_who_is_forgotten_meanwhile_has_no_profile(place):
    """Between the answer and its being written, and while that is done; who has no session left has nothing that it could rest on."""
    sessions = Sessions(ada=["s1"])
    checks = []

    def go():
        checks.append(1)
        if len(checks) == place:
            sessions.there.clear()

    sessions.on_check = go
    await look(sessions, found(), merged(("one", [1])))
    assert sessions.profile_of() == []
    assert sessions.recall.list(MemoryOwner(tenant="acme", user="ada")) == ()

    sessions = Sessions(ada=["s1"])
    plugin = Consolidation(ScriptedModel([found(), merged(("a", [1]))]))
    plugin.connect(sessions)
    async with agentrail.open_supervisor() as asking:
        await plugin.look(asking)
        assert sessions.profile_of()
        sessions.there.clear()
        for _ in range(2):
            await plugin.look(asking)
            assert sessions.profile_of() == []


async def test_who_is_forgotten_while_lines_of_a_deleted_session_go_has_no_profile(monkeypatch):
    """The profile was read before, and would be written again without these lines."""
    sessions = Sessions(ada=["s1", "s2"])
    plugin = Consolidation(ScriptedModel([found(), found(), merged(("a", [1]), ("b", [2]))]))
    plugin.connect(sessions)
    put = OwnMemories.put

    async def forget_and_put(memories, *args, **kwargs):
        sessions.there.clear()
        sessions.recall.forget(MemoryOwner(tenant="acme", user="ada"))
        return await put(memories, *args, **kwargs)

    async with agentrail.open_supervisor() as asking:
        await plugin.look(asking)
        assert len(sessions.profile_of()) == 2
        del sessions.there[ADA, "s1"]
        monkeypatch.setattr(OwnMemories, "put", forget_and_put)
        await plugin.look(asking)
    assert sessions.profile_of() == []


async def test_an_answer_that_fails_leaves_the_profile_as_it_was_and_others_get_theirs(caplog):
    """That user is left alone for an hour; nothing is written in part."""
    sessions = Sessions(ada=["s1"], bob=["b1"])
    sessions.fails[ADA] = StoreUnavailable("away")
    assert await look(sessions, found(), merged(("one", [1])), times=2) == 2
    assert (sessions.profile_of(), sessions.profile_of(BOB)) == ([], [("one", ("b1", (1,)))])
    assert [one for one in caplog.records if "was not created: away" in one.getMessage()]
    sessions.fails = {"changes": StoreUnavailable("all away")}
    assert await look(sessions) == 0
    assert "all away" in caplog.text
    sessions.recall, sessions.fails = None, {}
    assert await look(sessions) == 0


async def test_calls_of_a_day_are_counted():
    """What does not fit into the day waits for the next; a user with more sessions than a day has calls gets a day of their own."""
    sessions = Sessions(ada=["s1"], bob=["b1"])
    plugin = Consolidation(ScriptedModel([found(), merged(("a", [1]))] * 3), max_calls_per_day=3)
    plugin.connect(sessions)
    async with agentrail.open_supervisor() as asking:
        await plugin.look(asking)
        assert (bool(sessions.profile_of()), bool(sessions.profile_of(BOB))) == (True, False)
        sessions.at_ms += OLD_MS
        await plugin.look(asking)
        assert sessions.profile_of(BOB)
    many = Sessions(ada=["s1", "s2", "s3"])
    assert await look(many, found(), found(), found(), merged(("a", [1])), max_calls_per_day=2) == 4


@pytest.mark.parametrize("seconds", [60, 700])
async def test_requests_go_first(autojump_clock, seconds):
    """While one is worked on no call of a model is begun; one that waits for a person for ever holds up each call for ten minutes."""
    sessions = Sessions(ada=["s1"])
    plugin = Consolidation(ScriptedModel([found(), merged(("a", [1]))]), look_every=5)
    async with trio.open_nursery() as nursery:
        await plugin.on_request_start(None)
        nursery.start_soon(plugin.background)
        plugin.connect(sessions)
        await trio.sleep(60)
        assert sessions.profile_of() == []
        if seconds == 60:
            await plugin.on_request_end(None)
        await trio.sleep(2 * seconds)
        assert sessions.profile_of() == [("a", ("s1", (1,)))]
        nursery.cancel_scope.cancel()


def test_wrong_options_are_told_at_once():
    """All of them."""
    with pytest.raises(OptionError) as caught:
        Consolidation("demo:fast", budget=7, max_calls_per_day=1, look_every=0)
    faults = [one.partition(" ")[0] for one in caught.value.faults]
    assert faults == ["budget", "max_calls_per_day", "look_every"]


async def test_a_host_makes_the_profile_of_its_user_and_forgets_it_with_them(autojump_clock, monkeypatch):
    """With real sessions, asleep or ended; a recall finds it, a session that is purged takes its lines along."""
    store, memories, ahead = MemoryStore(), InMemoryRecall(), [0]
    monkeypatch.setattr("agentrail.host.host_lifespan.now_ms", lambda: store.now_ms() + ahead[0])
    model = ScriptedModel([says("Noted.") for _ in range(9)])
    plugin = Consolidation(ScriptedModel([found(), merged(("Takes tea green", [1]))]), look_every=5)
    ann = MemoryOwner(tenant="acme", user="ann")
    options = {"profiles": [profile(model)], "plugins": [plugin], "store": store, "memories": memories}
    async with open_host(**options) as host:
        for _ in range(2):
            request = await host.submit(say("I take my tea green", session_id="s1"), ANN)
            await request.outcome()
        await trio.sleep(60)
        assert memories.list(ann) == ()
        ahead[0] = IDLE_MS + 1_000
        await trio.sleep(60)
        (entry,) = memories.list(ann)
        assert "Takes tea green [s1#1]" in entry.text
        assert [one.id for one in memories.search(ann, "tea")] == [PROFILE_ID]
        await host.delete_session("s1", ANN, purge=True)
        await host.submit(say("Hi", session_id="s2"), ANN)
        await trio.sleep(60)
        assert memories.list(ann) == ()
        assert host.supervisor.memories_of("ann", tenant_id="acme") is not None
        assert (await host.users.forget(Principal(tenant_id="acme", user_id="ann"))).is_done


async def test_a_host_that_closes_leaves_no_profile_of_a_user_without_sessions(autojump_clock, monkeypatch):
    """The next one would know of it with their next session only, which may never come. A profile of others stays."""
    store, memories = MemoryStore(), InMemoryRecall()
    monkeypatch.setattr("agentrail.host.host_lifespan.now_ms", lambda: store.now_ms() + IDLE_MS + 1_000)
    plugin = Consolidation(
        ScriptedModel([found(), merged(("Takes tea green", [1]))] * 2), look_every=LOOK_FOR_IDLE_SECONDS
    )
    model = ScriptedModel([says("Noted.") for _ in range(9)])
    options = {"profiles": [profile(model)], "plugins": [plugin], "store": store, "memories": memories}
    owners = [MemoryOwner(tenant="acme", user=name) for name in ("ann", "bob")]
    async with open_host(**options) as host:
        for who in (ANN, HOSTS_BOB):
            for _ in range(2):
                request = await host.submit(say("Green tea", who, session_id=who.user_id), who)
                await request.outcome()
        await trio.sleep(2 * LOOK_FOR_IDLE_SECONDS)
        assert [len(memories.list(one)) for one in owners] == [1, 1]
        await host.delete_session("ann", ANN, purge=True)
    assert [len(memories.list(one)) for one in owners] == [0, 1]


async def test_lines_of_a_deleted_session_go_while_a_failed_profile_waits(caplog):
    """Its model is asked again after an hour, and the log says it once."""
    sessions = Sessions(ada=["s1"])
    model = ScriptedModel([found(), merged(("a", [1])), says("no JSON"), says("none either")])
    plugin = Consolidation(model)
    plugin.connect(sessions)
    async with agentrail.open_supervisor() as asking:
        await plugin.look(asking)
        sessions.at_ms += OLD_MS
        sessions.there[ADA, "s2"], sessions.changed[ADA, "s2"] = TALK, sessions.at_ms - IDLE_MS
        await plugin.look(asking)
        assert sessions.profile_of() == [("a", ("s1", (1,)))]
        asked = len(model.requests)
        del sessions.there[ADA, "s1"]
        for _ in range(3):
            await plugin.look(asking)
            assert sessions.profile_of() == []
    assert len(model.requests) == asked
    assert caplog.text.count("was not created") == 1


async def test_nothing_is_known_of_sessions_that_were_deleted():
    """They come and go for as long as the process runs."""
    sessions = Sessions(ada=["s1"])
    plugin = Consolidation(ScriptedModel([found(), merged(("a", [1]))]))
    plugin.connect(sessions)
    async with agentrail.open_supervisor() as asking:
        for name in ("s1", "s2", "s3"):
            sessions.there = {(ADA, name): TALK[: 4 if name == "s1" else 3]}
            sessions.at_ms += OLD_MS
            sessions.changed[ADA, name] = sessions.at_ms - IDLE_MS
            await plugin.look(asking)
            assert list(plugin._users[ADA].read) == [name]  # noqa: SLF001 - nothing shows it
