"""Webhooks of a host, from a message to a receiver: told once, in order, signed, and over the end of a process."""

import base64
import json
from collections import Counter
from contextlib import closing

import pytest
import standardwebhooks.webhooks
import trio
from attrs import frozen
from msgspec.structs import replace

from agentrail.errors import (
    OptionError,
    QuotaReached,
    SessionBusy,
    StoreUnavailable,
    WebhookInvalid,
    WebhooksOff,
)
from agentrail.host import Webhooks, webhook_delivery
from agentrail.host.webhook_delivery import MESSAGES, WATCHES, encode_awaited
from agentrail.host.webhook_message import WebhookWatch
from agentrail.outside import RealMachine, installed
from agentrail.plugins import HumanApproval
from agentrail.runtime import journal_events
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import ScriptedModel, calls, fails, says
from agentrail.testing.tools import RecordingTool
from tests.host.hosting import ANN, EVE, Ledger, answering, asked, hosting
from tests.host.rig import plugin, saying
from tests.runtime.rig import eventually, on_bounded_time, on_virtual_time

SECRET = "whsec_" + base64.b64encode(b"twenty-four bytes or more").decode()
OTHER_SECRET = "whsec_" + base64.b64encode(b"as long as that, and new").decode()
HOOK = "https://hooks.example/in"
SLOW = says("So", " it", " is.", pause_seconds=10.0)


@frozen
class Takes:
    """A time that an answer takes."""

    seconds: float


class Receiver:
    """A receiver that verifies with a published library, and answers as it is told; then with 200.

    Attributes:
        tries: Of each try when it came and under which id.
        taken: The bodies of those that it answered with 2xx, in order.
        urls: Where each try went.
        under_way: How many are with it now.
    """

    def __init__(self, *answers, secret=SECRET):
        """Answer with these statuses first; a text is how long it takes, None that it never comes back, an error is raised."""
        self.tries, self.taken, self.urls = [], [], []
        self.under_way = 0
        self._answers = list(answers)
        self._judge = standardwebhooks.webhooks.Webhook(secret)

    async def __call__(self, sent):
        headers = dict(sent.headers)
        body = self._judge.verify(sent.body, headers)
        self.tries.append((trio.current_time(), headers["webhook-id"]))
        self.urls.append(sent.url)
        answer = self._answers.pop(0) if self._answers else 200
        self.under_way += 1
        try:
            await trio.sleep(answer.seconds if isinstance(answer, Takes) else 0.01)
        finally:
            self.under_way -= 1
        if isinstance(answer, BaseException):
            raise answer
        status = 200 if isinstance(answer, Takes) else answer
        if 200 <= status < 300:
            self.taken.append((headers["webhook-id"], body))
        return status

    @property
    def told(self):
        return [body["type"] for _, body in self.taken]

    @property
    def at(self):
        """When each try came, from the first one on, in seconds."""
        return [round(at - self.tries[0][0]) for at, _ in self.tries]


class SetClock(RealMachine):
    """A machine whose clock somebody sets."""

    ahead_seconds = 0

    def wall(self):
        return super().wall() + self.ahead_seconds


def hooked(receiver, **given):
    return Webhooks(secret=SECRET, send=receiver, **given)


def asking(receiver, **given):
    """Options of a host whose sessions ask a person about the call of one tool."""
    tools = {"session_tools": [RecordingTool(name="shell")], "session_plugins": [HumanApproval]}
    return {"webhooks": hooked(receiver), **tools, **given}


def rows(store):
    """What a store keeps of webhooks: how many watches, and messages."""
    return len(store.owed(WATCHES)), len(store.owed(MESSAGES))


async def until(is_enough, *, every=2.0):
    """Wait until a function says so. Looking often, and without a deadline: virtual time goes on while a thread reads a journal."""
    for _ in range(100_000):
        if is_enough():
            return
        await trio.sleep(every)
    message = "it did not come to that"
    raise AssertionError(message)


async def told(receiver, count=1, *, every=2.0):
    await until(lambda: len(receiver.taken) >= count, every=every)
    await trio.sleep(0.01)


@on_virtual_time
@pytest.mark.host("H-110")
async def test_each_end_is_told_once_in_order_although_the_receiver_fails_twice_and_is_slow_once():
    """One id for all tries, on its schedule; and what comes behind in its session waits for it."""
    receiver = Receiver(500, 500, Takes(60))
    async with hosting(answering("One.", "Two."), webhooks=hooked(receiver)) as host:
        first = await asked(host, session_id="main", webhook=HOOK)
        await first.outcome()
        second = await asked(host, session_id="main", webhook=HOOK)
        await second.outcome()
        await told(receiver, 2)
        assert host.webhooks.delivered == 2
        assert (host.webhooks.failed_tries, host.webhooks.owed, host.webhooks.awaited) == (3, 0, 0)
    assert receiver.at == [0, 5, 65, 675, 675]  # the slow one was given up behind ten seconds
    assert [body["data"]["request_id"] for _, body in receiver.taken] == [first.request_id, second.request_id]
    ids = [name for _, name in receiver.tries]
    assert len(set(ids)) == 2
    assert ids[:4] == [ids[0]] * 4
    assert receiver.told == ["request.completed"] * 2
    data = receiver.taken[0][1]["data"]
    assert (data["session_id"], data["agent_id"], data["outcome"]) == ("main", "desk", "completed")
    assert data["seq"] == first.record.end_seq
    assert data["usage"]["output"] == first.record.usage.output


@on_virtual_time
@pytest.mark.parametrize("kind", ["chat", "stream", "prompt"])
async def test_a_request_that_waits_for_people_is_told_and_then_its_end(kind):
    """Once over processes; with the id to approve, which is all that a receiver needs to answer."""
    store, receiver = MemoryStore(), Receiver()
    model = ScriptedModel([calls(("shell", {"command": "make tea"})), says("Done.")])
    async with hosting(model, **asking(receiver, store=store)) as host:
        await host.create(ANN, session_id="main")
        await asked(host, session_id="main", kind=kind, webhook=HOOK)
        await told(receiver)
    async with hosting(model, **asking(receiver, store=store)) as host:
        await trio.sleep(60)
        assert receiver.told == ["request.waiting"]
        (waits,) = receiver.taken[0][1]["data"]["pending"]
        assert waits["kind"] == "approval"
        await (await host.session("main", ANN)).approve(waits["id"])
        await told(receiver, 2)
    assert receiver.told == ["request.waiting", "request.completed"]
    assert "tea" not in json.dumps(receiver.taken)


@on_virtual_time
async def test_each_kind_of_end_is_told_and_nothing_of_a_message_that_was_not_accepted():
    """Failed, dropped, aborted and shut down. A refused message leaves no row and no webhook."""
    receiver, store = Receiver(), MemoryStore()
    async with hosting(ScriptedModel([SLOW]), webhooks=hooked(receiver), store=store) as host:
        running = await asked(host, session_id="main")
        with pytest.raises(SessionBusy):
            await asked(host, session_id="main", when_busy="refuse", webhook=HOOK)
        await running.outcome()
        await host.quiet()
        await trio.sleep(1)
        assert host.webhooks.awaited == 0
        assert rows(store) == (0, 0)
    assert receiver.tries == []

    model = ScriptedModel([fails("bad_request"), SLOW, SLOW])
    async with hosting(model, webhooks=hooked(receiver), drain_timeout=0) as host:
        await (await asked(host, webhook=HOOK)).outcome()
        await told(receiver)
        running = await asked(host, session_id="main", webhook=HOOK)
        queued = await asked(host, session_id="main", webhook=HOOK)
        await queued.cancel()
        await queued.outcome()
        await running.cancel()
        await running.outcome()
        await told(receiver, 3)
        await asked(host, session_id="last", webhook=HOOK)
        await trio.sleep(1)
    assert receiver.told == ["request.failed", "request.dropped", "request.aborted", "request.shutdown"]


@on_virtual_time
@pytest.mark.host("H-111")
async def test_an_address_that_may_not_be_is_refused_before_any_hook():
    """The error names the field, and nothing has happened. A host without webhooks refuses such a message."""
    receiver, heard = Receiver(), []
    hears = plugin("hears", heard=heard, intercept_chat_request=saying(None), on_request_start=saying(None))
    async with hosting(answering(), hears, webhooks=hooked(receiver)) as host:
        for url in ("http://hooks.example/", "https://127.0.0.1/", "https://localhost/", "", "x"):
            with pytest.raises(WebhookInvalid, match=r"^webhook "):
                await asked(host, webhook=url)
        assert host.sessions_of(ANN) == []
    assert heard == []
    assert receiver.tries == []
    async with hosting(answering()) as host:
        assert host.webhooks is None
        with pytest.raises(WebhooksOff):
            await asked(host, webhook=HOOK)

    with pytest.raises(OptionError, match=r"send of webhooks is <function .*: expected an async function"):
        Webhooks(secret=SECRET, send=lambda message: 200)
    with pytest.raises(OptionError, match="expected Webhooks"):
        async with hosting(answering(), webhooks=SECRET):
            raise AssertionError


@on_virtual_time
async def test_who_owes_too_much_to_receivers_that_take_nothing_owes_no_more(monkeypatch):
    """Of one tenant; to the host's own address nothing is refused, and what is too much is counted."""
    monkeypatch.setattr(webhook_delivery, "MAX_OWED_OF_A_TENANT", 2)
    receiver = Receiver(*[500] * 99)
    async with hosting(answering(*"abcdef"), webhooks=hooked(receiver, url=HOOK), drain_timeout=0) as host:
        for _ in range(2):
            await (await asked(host, webhook=HOOK)).outcome()
        with pytest.raises(QuotaReached, match="webhook"):
            await asked(host, webhook=HOOK)
        await (await asked(host)).outcome()
        assert host.webhooks.dropped == 1
        await (await asked(host, by=EVE, webhook=HOOK)).outcome()


@on_virtual_time
async def test_a_message_that_is_never_taken_is_dropped_counted_and_logged(caplog):
    """Behind the last try, some seven hours later; the log names the request, and not the address."""
    receiver = Receiver(*[503] * 6)
    async with hosting(answering("One."), webhooks=hooked(receiver)) as host:
        request = await asked(host, webhook=HOOK + "?key=hidden")
        await request.outcome()
        await trio.sleep(30_000)
        assert (host.webhooks.dropped, host.webhooks.owed) == (1, 0)
    assert receiver.at == [0, 5, 65, 665, 4_265, 25_865]
    said = [one.getMessage() for one in caplog.records if "dropped" in one.getMessage()]
    assert len(said) == 1
    assert request.request_id in said[0]
    assert "status 503" in said[0]
    assert "hidden" not in caplog.text


@on_virtual_time
async def test_a_receiver_that_is_gone_hears_no_more_of_that_request():
    """410 to the word that it waits is the end of its webhook."""
    receiver = Receiver(410)
    model = ScriptedModel([calls(("shell", {})), says("Done."), says("Next.")])
    async with hosting(model, **asking(receiver)) as host:
        request = await asked(host, session_id="main", webhook=HOOK)
        (waits,) = (await request.answered()).pending
        await trio.sleep(1)
        await request.session.approve(waits.id)
        await request.outcome()
        await trio.sleep(60)
        assert (host.webhooks.gone, host.webhooks.awaited) == (1, 0)
        assert len(receiver.tries) == 1
        await (await asked(host, session_id="main", webhook=HOOK)).outcome()
        await told(receiver)


@on_virtual_time
@pytest.mark.parametrize(
    "error", [ValueError("a bug"), OSError("no route"), BaseExceptionGroup("two", [ValueError("a bug")])]
)
async def test_what_sends_may_raise_what_it_likes(error, caplog):
    """It is a try that failed, and ends no other and no host; what no network can do is told to the operator."""
    receiver = Receiver(error)
    async with hosting(answering("One.", "Two."), webhooks=hooked(receiver)) as host:
        await (await asked(host, session_id="a", webhook=HOOK)).outcome()
        await (await asked(host, session_id="b", webhook=HOOK)).outcome()
        await told(receiver, 2)
        assert host.webhooks.failed_tries == 1
    assert ("could not be sent" in caplog.text) is not isinstance(error, OSError)


@on_virtual_time
async def test_a_function_of_secrets_that_fails_is_a_try_that_failed():
    """Nothing is sent unsigned; and each tenant has the signature of its own."""
    asks = Counter()

    def secret(tenant_id):
        asks[tenant_id] += 1
        if asks[tenant_id] == 1:
            raise KeyError(tenant_id)
        return SECRET if tenant_id == "acme" else OTHER_SECRET

    receiver, others = Receiver(), Receiver(secret=OTHER_SECRET)

    async def send(sent):
        return await (receiver if sent.url == HOOK else others)(sent)

    async with hosting(answering("One.", "Two."), webhooks=Webhooks(secret=secret, send=send)) as host:
        await (await asked(host, webhook=HOOK)).outcome()
        await (await asked(host, by=EVE, webhook="https://else.example/")).outcome()
        await told(receiver)
        await told(others)
        assert host.webhooks.failed_tries == 2


@on_virtual_time
async def test_a_message_has_the_time_of_its_try_by_a_clock_that_was_set_since_the_start():
    """A receiver refuses messages that are five minutes old by its own clock. Standard Webhooks, "Verifying signatures"."""
    machine, times = SetClock(), []

    async def send(sent):
        await trio.lowlevel.checkpoint()
        times.append(int(dict(sent.headers)["webhook-timestamp"]))
        return 200

    with installed(machine):
        async with hosting(answering("One.", "Two."), webhooks=hooked(send)) as host:
            for step_seconds in (7200, -7200):
                machine.ahead_seconds += step_seconds
                await (await asked(host, webhook=HOOK)).outcome()
                await eventually(lambda: not host.webhooks.owed)
                assert abs(times[-1] - machine.wall()) < 60
    assert len(times) == 2


@on_virtual_time
async def test_what_is_owed_outlives_the_process():
    """A later one sends it, under the same id, in order; and nothing of it is kept when it was taken."""
    store, down, up = MemoryStore(), Receiver(500, 500), Receiver()
    async with hosting(answering("One.", "Two."), webhooks=hooked(down), store=store) as host:
        for _ in range(2):
            await (await asked(host, session_id="main", webhook=HOOK)).outcome()
        await trio.sleep(6)
        assert rows(store) == (0, 2)
    async with hosting(answering(), webhooks=hooked(up), store=store) as host:
        await told(up, 2)
        assert (await host.request("main", up.taken[0][1]["data"]["request_id"], ANN)).has_ended
    assert up.taken[0][0] == down.tries[0][1]
    seqs = [body["data"]["seq"] for _, body in up.taken]
    assert seqs == sorted(seqs)
    assert up.tries[0][0] - down.tries[0][0] > 60, "its schedule goes on where it was"
    assert rows(store) == (0, 0)


@on_virtual_time
async def test_a_request_that_a_later_process_ends_is_told_by_that_one():
    """The end of the process is none of it: its session goes on. Plugins do not wait for a receiver that hangs."""
    store, receiver = MemoryStore(), Receiver()
    model = ScriptedModel([SLOW, says("Two.")])
    async with hosting(model, webhooks=hooked(receiver), store=store, drain_timeout=0) as host:
        request = await asked(host, session_id="main", webhook=HOOK)
        await trio.sleep(1)
    assert receiver.tries == []
    assert rows(store) == (1, 0)
    async with hosting(model, webhooks=hooked(receiver), store=store) as host:
        await told(receiver)
        assert host.webhooks.awaited == 0
    assert receiver.told == ["request.completed"]
    assert receiver.taken[0][1]["data"]["request_id"] == request.request_id
    assert rows(store) == (0, 0)

    ledger, receiver = Ledger(), Receiver(Takes(1_000))
    async with hosting(answering("One."), ledger, webhooks=hooked(receiver)) as host:
        began = trio.current_time()
        await (await asked(host, webhook=HOOK)).outcome()
        await host.quiet()
        assert trio.current_time() - began < 1
        assert ledger.ends == ["completed"]


@on_virtual_time
async def test_what_died_before_its_session_had_the_message_is_told_to_no_one():
    """In a session that there is, and in one that there never was; of one that has ended the request has failed."""
    store, receiver = MemoryStore(), Receiver()
    async with hosting(answering("One.", "Two."), webhooks=hooked(receiver), store=store) as host:
        await (await asked(host, session_id="main")).outcome()
        await (await asked(host, session_id="over")).outcome()
        await host.delete_session("over", ANN)
    for session_id in ("main", "never", "over"):
        given = {"session_id": session_id, "request_id": "r-lost", "agent_id": "desk", "url": HOOK}
        watch = WebhookWatch(tenant_id=ANN.tenant_id, user_id=ANN.user_id, **given)
        store.change_owed([encode_awaited(watch)])
    stranger = replace(watch, user_id="bob", session_id="main")
    store.change_owed([encode_awaited(stranger)])
    async with hosting(answering(), webhooks=hooked(receiver), store=store) as host:
        await until(lambda: host.webhooks.awaited == 0)
        await told(receiver)
    assert [body["data"]["session_id"] for _, body in receiver.taken] == ["over"]
    assert receiver.told == ["request.failed"]
    assert rows(store) == (0, 0)


def restart(monkeypatch):
    """Make the next reads of old events fail, for half a minute. Return how many still will."""
    left, read_after = [60], journal_events.read_after

    def failing(*args):
        if left[0]:
            left[0] -= 1
            message = "the server restarts"
            raise StoreUnavailable(message)
        return read_after(*args)

    monkeypatch.setattr(journal_events, "read_after", failing)
    return left


@on_virtual_time
async def test_a_request_whose_events_cannot_be_read_for_a_while_is_told_in_the_end(monkeypatch):
    """The store is away when a later process looks for it, or begins to follow it: it is not forgotten, and has not failed."""
    store, receiver = FaultyStore(MemoryStore()), Receiver()
    options = {"webhooks": hooked(receiver), "store": store, "session_event_buffer_size": 100}
    model = answering(*"x" * 25)
    async with hosting(model, **options) as host:
        first = await asked(host, session_id="main", client_id="c-1")
        for _ in range(24):
            await (await asked(host, session_id="main")).outcome()
    given = {"session_id": "main", "request_id": first.request_id, "agent_id": "desk", "url": HOOK}
    watch = WebhookWatch(tenant_id=ANN.tenant_id, user_id=ANN.user_id, **given)
    store.change_owed([encode_awaited(watch)])
    left = restart(monkeypatch)
    async with hosting(model, **options):
        await told(receiver)
    assert left == [0]
    assert receiver.told == ["request.completed"]
    left = restart(monkeypatch)
    async with hosting(model, **options) as host:
        again = await asked(host, session_id="main", client_id="c-1")
        assert await again.outcome() == "completed"
    assert left == [0]


@on_virtual_time
async def test_a_session_that_cannot_be_woken_keeps_its_word_for_a_later_process(caplog):
    """Its profile is not there now, and may be again."""
    store, receiver = MemoryStore(), Receiver()
    options = {"webhooks": hooked(receiver), "store": store}
    async with hosting(ScriptedModel([SLOW]), **options, drain_timeout=0) as host:
        await asked(host, session_id="main", webhook=HOOK)
        await trio.sleep(1)

    async def no_profile(_context):
        return None

    async with hosting(None, **options, profiles=[], resolve_profile=no_profile) as host:
        await until(lambda: "this process cannot report the outcome" in caplog.text)
        assert host.webhooks.awaited == 1
    assert rows(store) == (1, 0)
    async with hosting(answering("One."), **options):
        await told(receiver)


@on_bounded_time
async def test_a_file_keeps_what_is_owed(tmp_path, monkeypatch):
    """Through the thread that writes; and it is read by a process that comes later."""
    monkeypatch.setattr(webhook_delivery, "CLOSING_SECONDS", 0.05)
    path, hung, up = tmp_path / "sessions.db", Receiver(Takes(1_000)), Receiver()
    async with hosting(answering("One."), webhooks=hooked(hung), store=f"sqlite:{path}"):
        pass
    async with hosting(answering("One."), webhooks=hooked(hung), store=f"sqlite:{path}") as host:
        await (await asked(host, session_id="main", webhook=HOOK)).outcome()
        await until(lambda: hung.tries, every=0.01)
    with closing(SqliteStore(path)) as store:
        assert rows(store) == (0, 1)
    async with hosting(answering(), webhooks=hooked(up), store=f"sqlite:{path}"):
        await told(up, every=0.01)
    with closing(SqliteStore(path)) as store:
        assert rows(store) == (0, 0)
    assert up.tries[0][1] == hung.tries[0][1]


@on_bounded_time
async def test_that_an_end_is_to_be_told_is_kept_before_the_session_has_the_message():
    """So a crash in between loses nothing. While the store takes no row, such messages are refused."""
    store, receiver = FaultyStore(MemoryStore()), Receiver()
    model = answering("One.", "Two.", "Three.")
    async with hosting(model, webhooks=hooked(receiver), store=store) as host:
        await (await asked(host, session_id="main")).outcome()
        await host.quiet()
        store.calls.clear()
        await asked(host, session_id="main", webhook=HOOK)
        assert store.calls[0] == "change_owed"
        await told(receiver, every=0.01)
        store.go_away()
        with pytest.raises(StoreUnavailable):
            await asked(host, session_id="main", webhook=HOOK)
        store.mend()
        request = await asked(host, session_id="main", webhook=HOOK)
        await request.outcome()
        await told(receiver, 2, every=0.01)
    assert len(model.requests) == 3
    assert rows(store.inner) == (0, 0)


@on_bounded_time
@pytest.mark.parametrize("fault", ["go_away", "crash", "lose_answers"])
async def test_rows_are_written_when_the_store_is_back(fault, monkeypatch):
    """What is owed is sent all the same, and the store comes to what it would have come to."""
    monkeypatch.setattr(webhook_delivery, "_FIRST_PAUSE_SECONDS", 0.02)
    store, receiver = FaultyStore(MemoryStore()), Receiver(Takes(0.05))
    async with hosting(answering("One."), webhooks=hooked(receiver), store=store) as host:
        request = await asked(host, session_id="main", webhook=HOOK)
        await request.outcome()
        getattr(store, fault)()
        await told(receiver, every=0.01)
        assert host.webhooks.delivered == 1
        await trio.sleep(0.05)
        store.mend()
    assert rows(store.inner) == (0, 0)


@on_virtual_time
async def test_without_a_store_what_was_never_tried_is_tried_once_at_the_end_and_the_rest_is_dropped(caplog):
    """It lasts as long as the process, and says what it lost."""
    receiver = Receiver(500)
    model = ScriptedModel([says("One."), SLOW])
    async with hosting(model, webhooks=hooked(receiver), drain_timeout=0) as host:
        await (await asked(host, session_id="a", webhook=HOOK)).outcome()
        await trio.sleep(1)
        await asked(host, session_id="b", webhook=HOOK)
        await trio.sleep(1)
    assert receiver.told == ["request.shutdown"]
    assert "1 webhooks were dropped: the process ends" in caplog.text
