"""Compactions on any script: the history stays valid, shrinks or stays, and none follows another without end."""

import itertools

import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agentrail.core.policy.request_context import (
    DISTANCE,
    KEPT_MESSAGES,
    Compacted,
    CompactionLimits,
    CompactionPlan,
    CompactionWatch,
    Summary,
    compaction_failed,
    cut_of,
    decide_compaction,
    finish_compaction,
    tokens_of,
)
from agentrail.core.values.history import History
from agentrail.messages import (
    AssistantMessage,
    CallId,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

SIZES = st.sampled_from((1, 3, 40, 400, 4_000))
LIMITS = st.builds(
    CompactionLimits,
    window=st.sampled_from((100, 1_000, 10_000)),
    compact_at_tokens=st.sampled_from((50, 170_000)),
)


def with_turn(history: History, size: int, calls: int) -> History:
    """Add what one turn adds: an answer, or calls with their results."""
    text = Text(text="x" * size)
    if not calls:
        return history.with_response(AssistantMessage(content=(text,), model="m"))
    made = tuple(ToolCall(call_id=CallId(f"c{n}"), name="read", arguments={}) for n in range(calls))
    history = history.with_response(AssistantMessage(content=made, model="m"))
    return history.answered([ToolResult(call_id=one.call_id, name="read", text=text.text) for one in made])


def built_again(messages: tuple[Message, ...]) -> History:
    """Build a conversation message by message: what cannot be built is refused."""
    history = History()
    for message in messages:
        match message:
            case UserMessage():
                history = history.with_user(message)
            case AssistantMessage():
                history = history.with_response(message)
            case ToolMessage(results=results):
                history = history.answered(results)
    return history


class Conversation(RuleBasedStateMachine):
    """A conversation that grows, overflows and is compacted, with summaries of any size."""

    @initialize(limits=LIMITS)
    def begin(self, limits):
        """With what the model is said to take."""
        self.limits = limits
        self.history = History()
        self.watch = CompactionWatch()
        self.added = 0
        self.attempts: list[tuple[int, str]] = []

    @rule(size=SIZES)
    def user(self, size):
        """Somebody says something."""
        self._grow(self.history.with_user(UserMessage(content=(Text(text="x" * size),))))

    @rule(size=SIZES, calls=st.integers(0, 3))
    def turn(self, size, calls):
        """The model answers, or calls."""
        self._grow(with_turn(self.history, size, calls))

    @rule(reason=st.sampled_from(("due", "overflow")), length=st.none() | SIZES)
    def compact(self, reason, length):
        """The session would compact; the request for the summary may fail."""
        estimate = tokens_of(self.history.messages[:])
        plan = decide_compaction(self.history, self.watch, reason, estimate, self.limits)
        if not isinstance(plan, CompactionPlan):
            near = [added for added, kind in self.attempts if kind in {reason, "overflow"}][-1:]
            assert plan.why != "too_soon" or self.added - near[0] < DISTANCE
            return
        self.attempts.append((self.added, reason))
        if length is None:
            self.watch = compaction_failed(self.history, self.watch, plan)
            return
        done = finish_compaction(self.history, self.watch, plan, Summary(text="x" * length, saved_to=None))
        self.watch = done.watch
        if isinstance(done, Compacted):
            assert done.history.messages[1:] == self.history.messages[plan.cut :]
            assert tokens_of(done.history.messages[:]) <= 0.8 * estimate
            assert plan.moved(len(self.history)) == len(done.history)
            self.history = done.history
        else:
            assert length == 0 or done.tokens_after > 0.8 * estimate

    @invariant()
    def no_provider_would_refuse_it(self):
        """Message by message it could have been built."""
        assert built_again(self.history.messages[:]) == self.history

    @invariant()
    def none_follows_another_without_end(self):
        """Between two of one kind lie ten messages that somebody said; so in any ten there are two at most."""
        for kind in ("due", "overflow"):
            at = [added for added, reason in self.attempts if reason == kind]
            assert all(later - earlier >= DISTANCE for earlier, later in itertools.pairwise(at))

    def _grow(self, longer: History) -> None:
        self.added += len(longer) - len(self.history)
        self.history = longer


@pytest.mark.at(132)
@pytest.mark.at(133)
@pytest.mark.at(135)
class TestConversation(Conversation.TestCase):  # type: ignore[valid-type,misc]  # Hypothesis makes it at run time
    """Whatever is said, and whatever a model makes of it."""


@given(
    turns=st.lists(st.tuples(SIZES, st.integers(0, 3), st.booleans()), min_size=1, max_size=20), window=SIZES
)
def test_what_stays_is_small_and_whole(turns, window):
    """No more than six messages or one piece; no more than a tenth of the window or one piece; no result alone."""
    history = History()
    for size, calls, is_user in turns:
        said = UserMessage(content=(Text(text="x" * size),))
        history = history.with_user(said) if is_user else with_turn(history, size, calls)
    kept = history.messages[cut_of(history.messages, window) :]
    assert kept
    assert not isinstance(kept[0], ToolMessage)
    one_piece = len(kept) <= 1 + isinstance(kept[-1], ToolMessage)
    assert one_piece or (len(kept) <= KEPT_MESSAGES and tokens_of(kept) <= window // 10)
