"""Trust of a node: lives of an owner and a rival over a toy store. An effect of the old owner after the take counts, and must not happen."""

import random

import pytest
from attrs import define, evolve, field
from hypothesis import given, strategies as st

from agentrail.abc.store import Beat, Node
from agentrail.runtime.trust import (
    NodeSilence,
    Trust,
    after_beat,
    after_look,
    beat_seconds,
    decide_work,
    silent_nodes,
    stops_at,
)

LEASE = 15.0
LIFE = 140.0
TICK = 0.1
LIVES = 400


@define
class Rules:
    """The rules of a life. A mutant replaces one."""

    date: str = "sending"  # or answer, append
    gap: str = "both"  # or own, store
    revives: bool = False
    takes: str = "both"  # or store, own

    def beaten(self, trust, sent_at, answered_at, answer):
        at = answered_at if self.date == "answer" else sent_at
        if self.gap == "own":
            answer = Beat(at_ms=1, before_ms=1, was_gone=False)
        after = after_beat(trust, at, answer)
        if self.gap == "store" and trust.sent_at is not None:
            gap = (answer.at_ms - answer.before_ms) / 1000
            after = evolve(after, doubts=trust.doubts + (gap >= LEASE))
        return evolve(after, doubts=0) if self.revives else after

    def appended(self, trust, sent_at):
        return evolve(trust, sent_at=sent_at) if self.date == "append" else trust


@define
class Faults:
    """Faults of a life: intervals from one time to another, and steps of the store's clock."""

    stalls: list[tuple[float, float]] = field(factory=list)
    beats_fail: list[tuple[float, float]] = field(factory=list)
    slow_beats: list[tuple[float, float]] = field(factory=list)
    absences: list[tuple[float, float]] = field(factory=list)
    steps: list[tuple[float, float]] = field(factory=list)  # time, seconds

    @classmethod
    def drawn(cls, chance, kinds):
        def intervals(longest):
            starts = [chance.uniform(5, LIFE - 40) for _ in range(chance.randint(1, 3))]
            return [(at, at + chance.uniform(0.2, longest)) for at in starts]

        self = cls()
        if "stalls" in kinds:
            self.stalls = intervals(30)
        if "beats" in kinds:
            self.beats_fail = intervals(45)
        if "slow" in kinds:
            self.slow_beats = intervals(40)
        if "absences" in kinds:
            self.absences = intervals(40)
        if "steps" in kinds:
            self.steps = [(chance.uniform(5, LIFE), chance.choice((-3600, -16, -8, 8, 16, 3600)))]
            for begins, ends in self.stalls:  # where both meet, one clock does not show the gap
                if chance.random() < 0.7:
                    self.steps.append((chance.uniform((begins + ends) / 2, ends), -chance.uniform(5, 30)))
        return self


def within(intervals, at):
    return any(begins <= at < ends for begins, ends in intervals)


class Life:
    """One owner, one rival and one store, in steps of a tenth of a second."""

    def __init__(self, seed, kinds, rules):
        self.chance = random.Random(seed)  # noqa: S311 - a life that can be repeated
        self.rules, self.faults = rules, Faults.drawn(self.chance, kinds)
        self.at = 0.0
        self.trust, self.confirmed = Trust(lease_seconds=LEASE), -1
        self.silence = NodeSilence(lease_seconds=LEASE)
        self.seen_ms = self.before_ms = 0
        self.taken_at = None
        self.on_its_way = None  # a heartbeat: sent, arrives, fails, answered
        self.asked = []  # appends and looks: doubts when sent, sent, arrives
        self.tool_until = 0.0
        self.next_beat = self.next_append = self.next_look = 0.0
        self.looks_for = 0
        self.late = 0

    def store_ms(self):
        stepped = sum(seconds for when, seconds in self.faults.steps if when <= self.at)
        return int((1e6 + self.at + stepped) * 1000)

    def run(self):
        while self.at < LIFE:
            self.store()
            if not within(self.faults.stalls, self.at):
                self.owner()
            self.rival()
            self.at += TICK
        return self.late

    def store(self):
        """Carry out a heartbeat that has arrived, whatever its sender does."""
        beat = self.on_its_way
        if beat and beat["answer"] is None and beat["arrives"] <= self.at:
            is_lost = within(self.faults.beats_fail, self.at) or within(self.faults.absences, self.at)
            if is_lost:
                beat["answer"] = "failed"
            else:
                before, self.seen_ms = self.seen_ms, self.store_ms()
                beat["answer"] = Beat(at_ms=self.seen_ms, before_ms=before)

    def owner(self):
        self.hear()
        if self.trust.sent_at is not None and self.at >= stops_at(self.trust):
            self.tool_until = 0.0
        if decide_work(self.trust, self.confirmed, self.at) == "begin" and self.at >= self.tool_until:
            self.tool_until = self.at + self.chance.uniform(0.2, 8)
        if self.at < self.tool_until and self.taken_at is not None and self.at > self.taken_at:
            self.late += 1
            self.tool_until = 0.0
        self.send()

    def hear(self):
        beat = self.on_its_way
        if beat and beat["answer"] is not None and self.at >= beat["heard"]:
            self.on_its_way = None
            if beat["answer"] == "failed":
                self.next_beat = self.at + 0.5
            else:
                self.trust = self.rules.beaten(self.trust, beat["sent"], self.at, beat["answer"])
                self.next_beat = max(beat["sent"] + beat_seconds(LEASE), self.at)
        for doubts, sent, arrives in [one for one in self.asked if one[2] <= self.at]:
            self.asked.remove((doubts, sent, arrives))
            # Judged when it arrives, not when the owner hears of it.
            if not within(self.faults.absences, arrives) and (
                self.taken_at is None or arrives < self.taken_at
            ):
                self.confirmed = max(self.confirmed, doubts)
                self.trust = self.rules.appended(self.trust, sent)

    def send(self):
        if self.on_its_way is None and self.at >= self.next_beat:
            is_slow = within(self.faults.slow_beats, self.at)
            delay = self.chance.uniform(5, 14.5) if is_slow else self.chance.uniform(0, 0.3)
            arrives = self.at + delay * self.chance.random()
            self.on_its_way = {"sent": self.at, "arrives": arrives, "heard": self.at + delay, "answer": None}
        is_doubtful = self.confirmed < self.trust.doubts
        if self.at >= self.next_append or (is_doubtful and not self.asked):
            self.next_append = self.at + 1
            self.asked.append((self.trust.doubts, self.at, self.at + self.chance.uniform(0, 0.3)))

    def rival(self):
        if self.at < self.next_look or self.taken_at is not None:
            return
        self.next_look = self.at + self.chance.uniform(0.25, 0.75)
        if within(self.faults.absences, self.at) or not self.seen_ms:
            return
        owner = Node(id="owner", seen_at_ms=self.seen_ms)
        self.silence = after_look(self.silence, self.at, self.at, [owner])
        is_silent = "owner" in silent_nodes(self.silence)
        is_over = self.store_ms() - self.seen_ms >= LEASE * 1000
        takes = {"both": is_silent and is_over, "store": is_over, "own": is_silent}[self.rules.takes]
        if takes:
            self.taken_at = self.at


KINDS = {
    "beats fail, appends go through": {"beats"},
    "the store's clock steps": {"steps"},
    "slow beats": {"slow"},
    "stalls": {"stalls"},
    "all together": {"beats", "steps", "slow", "stalls", "absences"},
    "stalls and steps": {"stalls", "steps"},
}


def is_ever_late(rules, kinds):
    return any(Life(seed, kinds, rules).run() for seed in range(LIVES))


@pytest.mark.machine(26)
@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
def test_no_effect_follows_a_take(kinds):
    """No effect follows a take."""
    assert not is_ever_late(Rules(), kinds)


@pytest.mark.machine(26)
@pytest.mark.parametrize(
    ("rules", "kinds"),
    [
        (Rules(date="answer"), {"slow", "beats"}),
        (Rules(date="append"), {"beats"}),
        (Rules(gap="own"), {"slow"}),
        (Rules(gap="store"), {"stalls", "steps"}),
        (Rules(revives=True), {"stalls"}),
        (Rules(takes="store"), {"steps"}),
    ],
    ids=[
        "dated by the answer",
        "dated by an append",
        "own gap",
        "store's gap",
        "a beat revives",
        "store's clock",
    ],
)
def test_each_weaker_rule_is_found(rules, kinds):
    """Each weaker rule is found."""
    assert is_ever_late(rules, kinds)


def test_a_living_owner_is_taken_only_if_both_clocks_say_so():
    """Without the store's clock, a rival would rely on its own rate alone; without its own, on steps of the store's clock."""
    steps = Faults(steps=[(42.0, 3600.0), (80.0, -3600.0)])
    life = Life(1, set(), Rules())
    life.faults = steps
    assert life.run() == 0
    assert life.taken_at is None
    weaker = Life(1, set(), Rules(takes="store"))
    weaker.faults = steps
    weaker.run()
    assert weaker.taken_at is not None


# --- single rules

TRUSTED = Trust(lease_seconds=LEASE, sent_at=100.0)


def beat(at, before, **more):
    return Beat(at_ms=int(at * 1000), before_ms=int(before * 1000), **more)


@pytest.mark.parametrize(
    ("age", "expected"),
    [(0, "begin"), (9.9, "begin"), (10, "hold"), (14.9, "hold"), (15, "stop"), (100, "stop")],
)
def test_work_begins_within_two_thirds_of_a_lease_after_the_sending(age, expected):
    """Work begins within two thirds of a lease after the sending."""
    assert decide_work(TRUSTED, 0, 100.0 + age) == expected


def test_nothing_begins_before_the_first_beat():
    """Nothing begins before the first beat."""
    assert decide_work(Trust(lease_seconds=LEASE), 0, 0.0) == "stop"


@pytest.mark.parametrize(
    ("sent_at", "answer", "is_doubtful"),
    [
        (105.0, beat(1005, 1000), False),
        (114.9, beat(1014.9, 1000), False),
        (115.0, beat(1001, 1000), True),
        (105.0, beat(1015, 1000), True),
        (105.0, beat(1005, 0), True),
        (105.0, beat(1005, 1000, was_gone=True), True),
    ],
)
def test_a_beat_across_a_gap_by_either_clock_confirms_nothing(sent_at, answer, is_doubtful):
    """A beat across a gap by either clock confirms nothing."""
    after = after_beat(TRUSTED, sent_at, answer)
    assert after.sent_at == sent_at
    assert decide_work(after, TRUSTED.doubts, sent_at) == ("hold" if is_doubtful else "begin")
    assert decide_work(after, after.doubts, sent_at) == "begin"


def look(silence, at, seen_ms, answered_at=None):
    node = Node(id="other", seen_at_ms=seen_ms)
    return after_look(silence, at, at if answered_at is None else answered_at, [node])


def test_a_node_is_silent_after_a_lease_without_a_change():
    """A node is silent after a lease without a change."""
    silence = NodeSilence(lease_seconds=LEASE)
    for number in range(30):
        silence = look(silence, number * 0.5, 7)
        assert not silent_nodes(silence)
    assert silent_nodes(look(silence, 15.0, 7)) == {"other": 7}
    assert silent_nodes(look(silence, 15.0, 8)) == {}


def test_a_gap_between_looks_that_exceeds_a_beat_starts_the_watch_again():
    """A gap between looks that exceeds a beat starts the watch again."""
    silence = NodeSilence(lease_seconds=LEASE)
    for number in range(30):
        silence = look(silence, number * 0.5, 7)
    assert silent_nodes(look(silence, 19.6, 7)) == {}
    slow = look(silence, 15.0, 7, answered_at=19.6)
    assert silent_nodes(slow) == {}


def test_a_node_that_no_longer_exists_is_not_silent():
    """A node that no longer exists is not silent."""
    silence = after_look(look(NodeSilence(lease_seconds=LEASE), 0.0, 7), 0.5, 0.5, [])
    assert silent_nodes(silence) == {}


@given(
    gaps=st.lists(st.floats(0.1, 20), min_size=1, max_size=60), changes=st.lists(st.booleans(), min_size=60)
)
def test_silence_means_a_lease_of_close_looks_without_a_change(gaps, changes):
    """Silence means a lease of close looks without a change."""
    silence, at, seen, since = NodeSilence(lease_seconds=LEASE), 0.0, 0, None
    for gap, is_changed in zip(gaps, changes, strict=False):
        at += gap
        seen += is_changed
        if since is None or is_changed or gap > beat_seconds(LEASE) or seen == 0:
            since = at if is_changed or gap > beat_seconds(LEASE) or since is None else since
        silence = look(silence, at, seen)
        if at - since < LEASE:
            assert not silent_nodes(silence)
