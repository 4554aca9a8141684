"""When webhooks are sent, again, and no more: the schedule and the queue, on a clock that is a number."""

from collections import Counter

from hypothesis import given, strategies as st

from agentrail.host.webhook_message import WebhookMessage
from agentrail.host.webhook_schedule import (
    RETRY_SECONDS,
    TryAnswer,
    WebhookQueue,
    decide_again,
)

OK, ERROR, GONE, NOTHING = (
    TryAnswer(status=204),
    TryAnswer(status=500),
    TryAnswer(status=410),
    TryAnswer(why="none"),
)


def message(name, *, lane="s", tenant="acme", request=None, due_at_ms=0):
    return WebhookMessage(
        id=name, tenant_id=tenant, user_id="ann", session_id=lane, request_id=request or name, url="", body="{}", due_at_ms=due_at_ms,
    )  # fmt: skip


def ids(messages):
    return [one.id for one in messages]


def test_the_schedule_is_the_documented_one():
    """Five seconds, one and ten minutes, one and six hours behind each failure; and then no more."""
    one, now, pauses = message("a"), 1_000_000, []
    while True:
        verdict, after = decide_again(one, ERROR, now)
        if verdict == "dropped":
            break
        assert verdict == "again"
        pauses.append((after.due_at_ms - now) // 1000)
        one, now = after, after.due_at_ms + 7
    assert pauses == [5, 60, 600, 3_600, 21_600]
    assert after.tries == len(RETRY_SECONDS) + 1


def test_a_session_has_one_message_under_way_and_no_other_session_waits_for_it():
    """A dead receiver holds back what comes behind in its session, and nothing else; an id is owed once."""
    queue = WebhookQueue()
    for one in (message("a1"), message("a2"), message("b1", lane="other")):
        queue.owe(one)
    assert ids(queue.begin(0)) == ["a1", "b1"]
    queue.settle("a1", ERROR, 0)
    queue.settle("b1", OK, 0)
    assert queue.begin(4_999) == ()
    assert queue.next_due_ms() == 5_000
    assert ids(queue.begin(5_000)) == ["a1"]
    queue.settle("a1", OK, 5_100)
    assert ids(queue.begin(5_100)) == ["a2"]
    queue.settle("a2", OK, 5_200)
    assert (len(queue), queue.next_due_ms(), queue.owed_of("acme")) == (0, None, 0)

    queue = WebhookQueue()
    assert queue.owe(message("a")) is not None
    assert queue.owe(message("a")) is None
    assert len(queue) == 1


def test_410_ends_all_that_is_owed_of_its_request_and_nothing_of_others():
    """A receiver wants no more of it; the session's other requests may have other receivers."""
    queue = WebhookQueue()
    for one in (message("a1", request="a"), message("b1", request="b"), message("a2", request="a")):
        queue.owe(one)
    queue.begin(0)
    settled = queue.settle("a1", GONE, 0)
    assert (settled.verdict, ids(settled.ended)) == ("gone", ["a1", "a2"])
    assert ids(queue.begin(0)) == ["b1"]
    assert queue.settle("b1", OK, 0).verdict == "delivered"
    assert len(queue) == 0


TENANTS, LANES, REQUESTS = ("acme", "else"), ("s", "t", "u"), ("r", "q")
OWES = st.tuples(st.sampled_from(TENANTS), st.sampled_from(LANES), st.sampled_from(REQUESTS))
ANSWERS = st.sampled_from([OK, ERROR, ERROR, NOTHING, GONE])
STEPS = st.lists(
    st.one_of(
        OWES,
        st.sampled_from([1, 4_999, 5_000, 60_000, 600_000, 3_600_000, 21_600_000]),
        st.tuples(st.integers(0, 5), ANSWERS),
    ),
    max_size=60,
)


class Watched:
    """A queue, and a reader of all that it does who knows nothing of how."""

    def __init__(self):
        self.queue = WebhookQueue(max_at_once=3, max_of_a_tenant=2)
        self.now = 0
        self.owed, self.ended, self.last_at = {}, {}, {}
        self.tries, self.under_way = Counter(), {}

    def owe(self, tenant, lane, request):
        name = f"m{len(self.owed)}"
        one = message(name, lane=lane, tenant=tenant, request=request, due_at_ms=self.now)
        self.owed[name] = self.queue.owe(one)

    def begin(self):
        """Let tries begin, and hold each against what was promised."""
        for one in self.queue.begin(self.now):
            assert one.id not in self.ended, "it was taken, given up or not wanted"
            assert one.id not in self.under_way
            earlier = [
                other.id
                for other in self.owed.values()
                if other.lane == one.lane and other.number < one.number and other.id not in self.ended
            ]
            assert earlier == [], "a message has overtaken another one of its session"
            if self.tries[one.id]:
                assert self.now >= self.last_at[one.id] + RETRY_SECONDS[self.tries[one.id] - 1] * 1000
            self.under_way[one.id] = one
        assert len(self.under_way) <= 3
        assert all(count <= 2 for count in Counter(one.tenant_id for one in self.under_way.values()).values())

    def answer(self, place, answer):
        """Answer one of those that are under way."""
        if not self.under_way:
            return
        name = sorted(self.under_way)[place % len(self.under_way)]
        one = self.under_way.pop(name)
        settled = self.queue.settle(name, answer, self.now)
        self.tries[name] += 1
        self.last_at[name] = self.now
        if answer.status != 410:
            assert ids(settled.ended) in ([], [name])
        for ended in settled.ended:
            assert ended.id not in self.ended
            assert ended.lane == one.lane
            assert ended.request_id == one.request_id
            self.ended[ended.id] = settled.verdict
        match answer.status:
            case 204:
                assert self.ended[name] == "delivered"
            case 410:
                assert self.ended[name] == "gone"
            case _:
                used_up = self.tries[name] > len(RETRY_SECONDS)
                assert (self.ended.get(name) == "dropped") is used_up, "lost before the schedule was used up"


@given(STEPS)
def test_nothing_is_lost_doubled_or_overtaken(steps):
    """In order per session, never again behind a 2xx, and no message is let go before its schedule is used up."""
    watched = Watched()
    for step in steps:
        match step:
            case int():
                watched.now += step
            case (str(), *_):
                watched.owe(*step)
            case (place, answer):
                watched.answer(place, answer)
        watched.begin()
    assert len(watched.queue) == len(watched.owed) - len(watched.ended)
    while len(watched.queue):  # from here on every receiver takes what comes
        while watched.under_way:
            watched.answer(0, OK)
            watched.begin()
        due = watched.queue.next_due_ms()
        watched.now = max(watched.now, watched.now if due is None else due)
        watched.begin()
    assert set(watched.ended) == set(watched.owed)
    assert watched.queue.next_due_ms() is None
    assert watched.queue.under_way == 0
    assert all(watched.queue.owed_of(tenant) == 0 for tenant in TENANTS)
