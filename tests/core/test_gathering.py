"""Context that is gathered for the requests of a turn, as the core sees it: asked for once, kept for all attempts, counted (8.16 K12)."""

import pytest
from msgspec.structs import replace

from agentrail import plugins as p
from agentrail.core.policy.budget import Budget
from agentrail.core.policy.context import TokenCount
from agentrail.core.protocol.effects import CancelPluginRequest, GatherContext, StartStream
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.protocol.signals import (
    AbortCycle,
    ChangeModel,
    ContextGathered,
    Prompt,
    ResponseCompleted,
    Restarted,
    SignalId,
    Steer,
    StreamStarted,
)
from agentrail.core.session import machine
from agentrail.core.session.legality import Verdict, verdict
from agentrail.core.session.state import GatheredContext, Phase
from agentrail.core.session.state_codec import decode_session, encode_session
from agentrail.core.session.step_context import context_tokens, digest_with, is_gathering
from agentrail.core.stack.loading import load_stack
from agentrail.events import AgentAbort, RequestStart
from agentrail.messages import AssistantMessage, PromptRef, SteerRef, Text, TokenUsage
from agentrail.testing.promises import PROMISES
from tests.core.drawn_lives import lives, steps
from tests.core.outside import OpenFromOutside
from tests.core.worlds import SMALL, TOOLS, completed, config, new_session, reachable, run, walk

PROMPT = Prompt(at_ms=1, signal_id=SignalId("p"), ref=PromptRef("p"), content=(Text(text="go"),))
GATHERED = ContextGathered(at_ms=2, effect_id=EffectId("g1"), count=2, digest="abc", tokens=300)


@pytest.mark.check
def test_each_promise_holds_where_context_is_gathered():
    """Every step from a hundred states of a session that gathers: each promise, and states beside those of others."""
    phases, waiting = set(), 0
    for seen in reachable(new_session(**SMALL, gathers_context=True), 100):
        phases.add(seen.before.phase)
        waiting += is_gathering(seen.before.data)
        for promise in PROMISES:
            promise(seen)
    assert phases == set(Phase)
    assert waiting > 30


@pytest.mark.parametrize("seed", lives(30))
def test_exactly_the_open_ids_have_an_owner(seed):
    """Random lives with plugins, budgets, compactions and crashes: counted from outside, what is open is what the state says."""
    outside: OpenFromOutside | None = None
    for signal, state, effects in steps(40_000 + seed, 80, gathers_context=True):
        outside = outside or OpenFromOutside(has_budget=state.data.config.budget is not None)
        outside.saw(signal, state, effects)
        assert {effect_id for effect_id, _ in state.data.open.items()} == set(outside.open), signal


@pytest.mark.check  # a second of random lives
def test_those_lives_gather_and_send():
    """They are no empty proof: what is gathered is sent, counted, retried, cancelled and dropped in them."""
    met = set()
    for seed in range(40):
        before = None
        for signal, state, effects in steps(40_000 + seed, 80, gathers_context=True):
            met |= {type(effect) for effect in effects}
            met |= {"with context" for one in effects if isinstance(one, StartStream) and one.context}
            if before is not None and isinstance(signal, ContextGathered):
                met.add(verdict(before.phase, before.data, signal))
            met |= {
                "cancelled"
                for one in effects
                if isinstance(one, CancelPluginRequest) and one.effect_id.startswith("g")
            }
            before = state
    assert {GatherContext, "with context", "cancelled", Verdict.TAKE, Verdict.DROP} <= met


def test_a_session_without_it_has_no_word_of_it():
    """No effect, no signal, no step more: the request goes out in the step of the prompt."""
    (seen,) = walk([PROMPT], new_session())
    (stream,) = seen.of(StartStream)
    assert stream.context is None
    assert not seen.of(GatherContext)
    assert seen.after.data.cycle.context is None


def test_it_is_asked_about_the_conversation_that_is_sent():
    """The messages of the effect are those of the request, and the request waits."""
    asked, sent = walk([PROMPT, GATHERED], new_session(gathers_context=True))
    (gather,) = asked.of(GatherContext)
    assert (asked.after.phase, asked.after.data.stream) == (Phase.RUNNING, None)
    (stream,) = sent.of(StartStream)
    assert tuple(gather.messages) == tuple(stream.request.messages)
    assert stream.context == gather.effect_id
    (started,) = (event for event in sent.events if isinstance(event, RequestStart))
    assert (started.messages, started.context_messages, started.context_digest) == (3, 2, "abc")


def test_a_turn_that_is_the_last_says_both():
    """The note of the session itself and what was gathered: counted together, and told from either alone."""
    state = new_session(gathers_context=True, max_turns=1)
    *_, sent = walk([PROMPT, GATHERED], state)
    (started,) = (event for event in sent.events if isinstance(event, RequestStart))
    assert (started.messages, started.context_messages) == (4, 3)
    alone = digest_with(started.context_digest, None)
    context = GatheredContext(effect_id=EffectId("g1"), is_open=False, count=1, digest="abc")
    assert len({alone, "abc", digest_with("abd", context), digest_with("", context)}) == 3
    assert digest_with("", context) == "abc"


def test_a_change_of_the_model_while_it_gathers_counts():
    """The request goes to the model of the moment in which it is sent, with what was gathered."""
    change = ChangeModel(at_ms=2, signal_id=SignalId("m"), model=ModelFacts(model="scripted:other"))
    *_, sent = walk([PROMPT, change, GATHERED], new_session(gathers_context=True))
    (stream,) = sent.of(StartStream)
    assert (stream.request.model, stream.context) == ("scripted:other", "g1")


def test_nothing_is_counted_twice():
    """What the vendor reports has the context of this turn in it, which is not there in the next one."""
    usage = TokenUsage(input=1_300, output=40)
    answer = ResponseCompleted(
        at_ms=3,
        effect_id=EffectId("r2"),
        message=AssistantMessage(content=(Text(text="Done."),), model="scripted:model"),
        usage=usage,
        stop_reason="end",
    )
    state = run([PROMPT, GATHERED, answer], new_session(gathers_context=True))
    assert state.data.tokens.tokens == usage.total - GATHERED.tokens
    assert TokenCount().reported(TokenUsage(input=5), 1, added_tokens=9).tokens == 0
    plain = run([PROMPT, replace(answer, effect_id=EffectId("r1"))], new_session())
    assert plain.data.tokens.tokens == usage.total


def test_a_stream_that_is_lost_has_read_it_too():
    """Nobody says what a broken stream has used: all that was sent counts, and that is with the context."""
    started = StreamStarted(at_ms=3, effect_id=EffectId("r2"))
    stopped = AbortCycle(at_ms=4, signal_id=SignalId("a"))
    state = new_session(gathers_context=True, max_output_tokens=100, budget=Budget(max_total_tokens=100_000))
    with_it = run([PROMPT, GATHERED, started, stopped], state)
    without = run([PROMPT, replace(GATHERED, count=0, digest="", tokens=0), started, stopped], state)
    assert with_it.data.usage.input - without.data.usage.input == GATHERED.tokens


def test_it_goes_through_bytes_at_each_point():
    """While it is gathered, and when it is there."""
    state = new_session(gathers_context=True)
    for signal in (PROMPT, GATHERED, completed("r2", Text(text="Done."))):
        state, _ = machine.step(state, signal)
        assert decode_session(encode_session(state)) == state


def test_what_an_older_state_does_not_know_is_not_gathered():
    """A state that was written before there was such a thing has none."""
    stored = encode_session(run([PROMPT], new_session()))
    older = stored.replace(b',"gathers_context":false', b"").replace(b',"context":null', b"")
    assert older != stored
    assert decode_session(older) == decode_session(stored)


def test_a_restart_ends_the_cycle_that_waited_for_it():
    """Who was asked died with the actor, and a late word of it means nothing."""
    state = run([PROMPT], new_session(gathers_context=True))
    assert is_gathering(state.data)
    after = run([Restarted(at_ms=3, reason="crash", incarnation=2)], state)
    assert (after.phase, dict(after.data.open)) == (Phase.IDLE, {})
    assert after.data.last.error.code == "session_restarted"
    late, effects = machine.step(after, GATHERED)
    assert (effects, late.data.dropped) == ((), after.data.dropped + 1)
    assert context_tokens(late.data) == 0


class Stops(p.Plugin[None]):
    """Ends a cycle in front of a request with a steer in it."""

    def init(self) -> None:
        """Remember nothing."""

    @p.on(p.BeforeRequest)
    def stop(self, event: p.BeforeRequest, state: None, ctx: p.Context) -> p.Action[None]:
        """Stop."""
        del ctx
        return p.Abort("not that", state) if "Shorter!" in repr(event.messages) else p.Continue(state)


def test_a_steer_that_came_while_it_was_gathered_is_judged():
    """A plugin that refuses the request ends the cycle, and nothing is sent."""
    stack, states = load_stack([Stops])
    state = machine.new_session(config(gathers_context=True), TOOLS, stack, states)
    steer = Steer(at_ms=2, signal_id=SignalId("x"), ref=SteerRef("x"), text="Shorter!")
    steps = list(walk([PROMPT, steer, replace(GATHERED, at_ms=3)], state))
    assert not [one for step in steps for one in step.of(StartStream)]
    assert [one.reason for one in steps[-1].events if isinstance(one, AgentAbort)] == ["not that"]
    assert steps[-1].after.phase is Phase.IDLE
