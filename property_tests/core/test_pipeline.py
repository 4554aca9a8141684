"""The merge rules over random stacks (5.9): what a stack comes to follows from its members' priorities and answers.

The stack is judged beside a naive reading of the rules, written as plainly as they are, and by what must not matter: the
order of registration, plugins that fail, plugins that say nothing.
"""

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import assume, given, strategies as st

from agentrail import plugins as p
from agentrail.core.protocol.actions import MATRIX, SHORT_CIRCUITS, Treatment
from agentrail.core.protocol.hooks import HOOKS, Hook
from agentrail.core.stack.hook_outcome import Outcome, Unfit
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import REFUSALS, explain_hook, run_hook
from agentrail.events import ActionIgnored, PluginEvent, PluginFailed
from agentrail.messages import Text, UserMessage
from tests.core.plugin_rig import CTX, EVENTS, SAYINGS

COMMANDS = ("ls", "pwd", "rm", "cat")


@attrs.frozen
class Voice:
    """What a random plugin is and says: an action with words of its own, or a failure."""

    name: str
    priority: int
    action: type | None
    word: str

    @property
    def guards(self) -> bool:
        """Whether it is a safety plugin."""
        return self.priority < 100


class Speaker(p.Plugin[int]):
    """Says what its voice says; a guard refuses its word instead of saying anything else."""

    def __init__(self, voice: Voice) -> None:
        """Take the voice."""
        super().__init__(name=voice.name, priority=voice.priority)
        self.voice = voice

    def init(self) -> int:
        """Asked never."""
        return 0

    def handle(self, event: p.HookEvent, state: int, ctx: p.Context) -> Any:
        """Say it."""
        word, state = self.voice.word, state + 1
        match self.voice.action:
            case None:
                message = word
                raise RuntimeError(message)
            case p.Intervene | p.Abort | p.RequireApproval | p.BlockTool | p.SwitchModel as action:
                return action(word, state, emits=((self.name, word),))
            case p.ReplaceToolArgs:
                return p.ReplaceToolArgs({"command": word}, state)
            case p.ReplaceToolResult:
                return p.ReplaceToolResult(word, state)
            case p.ReplaceResponse:
                return p.ReplaceResponse(word, state)
            case p.ReplaceMessages:
                before = getattr(event, "messages", ())
                return p.ReplaceMessages((*before, UserMessage(content=(Text(text=word),))), state)
            case p.Emit:
                return p.Emit([(self.name, 1), (self.name, 2)], state)
            case action:
                return SAYINGS[action](state)


ACTIONS = tuple(action for action in SAYINGS if action is not p.Request)


def voices(
    actions: Sequence[type | None] = (*ACTIONS, None), *, unique: bool = True, least: int = 0
) -> st.SearchStrategy[list[Voice]]:
    """Random members of a stack, of different names; of different priorities, or not."""
    one = st.builds(
        Voice,
        name=st.sampled_from("abcdefgh"),
        priority=st.integers(100, 999),
        action=st.sampled_from(actions),
        word=st.sampled_from(COMMANDS),
    )
    return st.lists(
        one,
        min_size=least,
        max_size=6,
        unique_by=(lambda voice: voice.name, lambda voice: voice.priority if unique else voice.name),
    )


# The two that accept most of what has a rule stand for half of all.
hooks = st.sampled_from((*HOOKS, *(p.BeforeTool,) * 8, *(p.BeforeRequest,) * 6))


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Hook, list[Voice]]:
    """A hook, and a stack of which most answer what that hook accepts: of other answers one is like another."""
    hook = draw(hooks)
    taken = tuple(action for action in ACTIONS if MATRIX[hook][action] is Treatment.ACCEPTED)
    going_on = tuple(action for action in taken if action not in SHORT_CIRCUITS)
    return hook, draw(voices(draw(st.sampled_from((going_on, taken, (*ACTIONS, None))))))


# Of these one plugin's counts. Where only one hook takes the action, two that answer it do not meet by chance.
RIVALRIES = tuple(
    (hook, action)
    for action in (p.SwitchModel, p.ReplaceToolArgs, p.ReplaceToolResult, p.ReplaceResponse)
    for hook in HOOKS
    if MATRIX[hook][action] is Treatment.ACCEPTED
)


@st.composite
def rivals(draw: st.DrawFn) -> tuple[Hook, list[Voice]]:
    """A hook, and a stack of which several want to have the last word in the same matter."""
    hook, action = draw(st.sampled_from(RIVALRIES))
    return hook, draw(voices((action, action, p.Continue), least=2))


def outcome_of(members: Sequence[Voice | p.Plugin[Any]], hook: Hook) -> Outcome:
    """Run a new stack once."""
    entries: list[Any] = [Speaker(one) if isinstance(one, Voice) else one for one in members]
    stack, states = load_stack(entries)
    return run_hook(stack, EVENTS[hook], states, CTX)


def in_order(members: list[Voice], hook: Hook) -> list[Voice]:
    """Those who are asked, by the plainest reading: by priority, up to the first accepted short circuit."""
    asked = []
    for voice in sorted(members, key=lambda voice: voice.priority):
        asked.append(voice)
        if voice.action in SHORT_CIRCUITS and MATRIX[hook][voice.action] is Treatment.ACCEPTED:
            break
    return asked


def accepted(asked: list[Voice], hook: Hook, action: type) -> list[Voice]:
    """Those whose answer was this action, where the hook takes it."""
    return [voice for voice in asked if voice.action is action and MATRIX[hook][action] is Treatment.ACCEPTED]


@given(scene=scenes(), data=st.data())
def test_registering_in_another_order_changes_nothing(scene, data):
    """With different priorities, permuting the registration gives the same outcome."""
    hook, members = scene
    other = data.draw(st.permutations(members))
    assert outcome_of(members, hook) == outcome_of(other, hook)


@given(members=voices(unique=False), hook=hooks)
def test_equal_priorities_are_asked_in_the_order_of_registration(members, hook):
    """Ties are broken by registration: a stable sort, and nothing else."""
    same = [attrs.evolve(voice, priority=500) for voice in members]
    ranked = [attrs.evolve(voice, priority=500 + rank) for rank, voice in enumerate(same)]
    assert outcome_of(same, hook) == outcome_of(ranked, hook)


@given(scene=scenes())
def test_a_short_circuit_really_stops_the_rest(scene):
    """Exactly those before and including the first accepted short circuit are asked, and it is the decision."""
    hook, members = scene
    asked = in_order(members, hook)
    outcome = outcome_of(members, hook)
    heard = {voice.name for voice in asked if voice.action is not None}
    assert {name for name, count in outcome.states.items() if count} == heard
    stops = [
        voice
        for voice in asked
        if voice.action in SHORT_CIRCUITS and MATRIX[hook][voice.action] is Treatment.ACCEPTED
    ]
    assert [voice.name for voice in stops] == ([outcome.decision.by] if outcome.decision else [])


@given(scene=scenes())
def test_interventions_are_all_joined_in_order(scene):
    """Each accepted `Intervene` of those who were asked stands in the prompt once, unless a `Skip` took all back."""
    hook, members = scene
    asked = in_order(members, hook)
    wanted = [] if accepted(asked, hook, p.Skip) else accepted(asked, hook, p.Intervene)
    outcome = outcome_of(members, hook)
    assert [injected.by for injected in outcome.interventions] == [voice.name for voice in wanted]
    assert outcome.prompt == ("\n\n".join(voice.word for voice in wanted) or None)


@given(scene=scenes() | rivals())
def test_the_last_one_wins(scene):
    """Of arguments, results, responses and models the last executed counts; a `Skip` takes back arguments and models."""
    hook, members = scene
    asked = in_order(members, hook)
    skipped = bool(accepted(asked, hook, p.Skip))
    outcome = outcome_of(members, hook)
    switches = accepted(asked, hook, p.SwitchModel)
    assert (outcome.switch and outcome.switch.model) == (
        switches[-1].word if switches and not skipped else None
    )
    results = accepted(asked, hook, p.ReplaceToolResult)
    assert (outcome.result and outcome.result.text) == (results[-1].word if results else None)
    responses = accepted(asked, hook, p.ReplaceResponse)
    assert (outcome.message and outcome.message.text) == (responses[-1].word if responses else None)
    rewrites = accepted(asked, hook, p.ReplaceToolArgs)
    final = rewrites[-1].word if rewrites and not skipped else "ls"
    assert (outcome.arguments or {"command": "ls"}) == {"command": final}


@given(scene=scenes())
def test_each_works_on_the_messages_that_those_before_handed_on(scene):
    """Each adds its word to what it was shown: all words of those who were asked are sent, in order; a `Skip` takes them back."""
    hook, members = scene
    asked = in_order(members, hook)
    outcome = outcome_of(members, hook)
    adding = [] if accepted(asked, hook, p.Skip) else accepted(asked, hook, p.ReplaceMessages)
    sent = [message.content[0].text for message in outcome.messages or ()]
    assert sent == [voice.word for voice in adding]


@given(
    members=st.lists(
        st.builds(
            Voice,
            name=st.sampled_from("abcdefgh"),
            priority=st.integers(0, 999),
            action=st.sampled_from((p.ReplaceMessages, p.Continue, p.Skip)),
            word=st.sampled_from(COMMANDS),
        ),
        max_size=6,
        unique_by=(lambda voice: voice.name, lambda voice: voice.priority),
    )
)
def test_a_skip_never_brings_back_what_a_guard_took_out(members):
    """Of those who were asked all count, and behind a `Skip` of one that is no guard only the guards."""
    asked = in_order(members, p.BeforeRequest)
    skips = [voice for voice in asked if voice.action is p.Skip]
    adding = [
        voice
        for voice in asked
        if voice.action is p.ReplaceMessages and (not skips or skips[0].guards or voice.guards)
    ]
    outcome = outcome_of(members, p.BeforeRequest)
    assert [message.content[0].text for message in outcome.messages or ()] == [voice.word for voice in adding]


@given(scene=scenes())
def test_emits_keep_their_order_and_what_is_ignored_is_said(scene):
    """Plugin events come in the order of execution; each unaccepted action is published once."""
    hook, members = scene
    asked = in_order(members, hook)
    events = outcome_of(members, hook).events
    emitting = (p.Intervene, p.Abort, p.RequireApproval, p.BlockTool, p.SwitchModel)
    wanted = []
    for voice in asked:
        if voice.action is p.Emit:
            wanted += [(voice.name, 1), (voice.name, 2)]
        elif voice.action in emitting:
            wanted.append((voice.name, voice.word))
        # `SAYINGS` of the others emit nothing
    came = [(event.name, event.payload) for event in events if isinstance(event, PluginEvent)]
    assert came == wanted
    ignored = [event.plugin for event in events if isinstance(event, ActionIgnored)]
    assert ignored == [
        voice.name
        for voice in asked
        if voice.action is not None and MATRIX[hook][voice.action] is not Treatment.ACCEPTED
    ]


@given(members=voices(), failing=st.integers(100, 999), hook=hooks)
def test_a_failing_plugin_leaves_the_others_as_they_would_be_without_it(members, failing, hook):
    """An open failure changes neither the states nor the answers of others; it is published, and nothing else."""
    assume(all(voice.priority != failing for voice in members))
    fails = Voice(name="fails", priority=failing, action=None, word="x")
    without, with_it = outcome_of(members, hook), outcome_of([*members, fails], hook)
    states = {name: state for name, state in with_it.states.items() if name != "fails"}
    assert states == dict(without.states)
    assert with_it.decision == without.decision
    assert with_it.event == without.event
    assert with_it.interventions == without.interventions
    others = tuple(
        event for event in with_it.events if not (isinstance(event, PluginFailed) and event.plugin == "fails")
    )
    assert others == without.events


@given(scene=scenes())
def test_the_same_question_has_the_same_answer_and_explain_agrees(scene):
    """Asking twice gives equal outcomes, and `explain_hook` comes to the same one."""
    hook, members = scene
    outcome = outcome_of(members, hook)
    assert outcome == outcome_of(members, hook)
    stack, states = load_stack([Speaker(voice) for voice in members])
    explanation = explain_hook(stack, EVENTS[hook], states, CTX)
    assert explanation.outcome == outcome
    asked = [link.plugin for link in explanation.links]
    assert asked == [voice.name for voice in in_order(members, hook)]
    assert set(asked).isdisjoint(name for name, _ in explanation.not_asked)
    assert len(str(explanation).splitlines()) == 2 + len(members)


@attrs.frozen
class Wish:
    """What a random plugin wants of a request: sections by key, hints, and something to be done."""

    name: str
    priority: int
    sections: dict[str, str | None]
    cache_points: tuple[int, ...] | None
    asks: bool


class Wishes(p.Plugin[int]):
    """Wants what its wish says, before each request."""

    def __init__(self, wish: Wish) -> None:
        """Take the wish."""
        super().__init__(name=wish.name, priority=wish.priority)
        self.wish = wish

    def init(self) -> int:
        """Asked never."""
        return 0

    @p.on(p.BeforeRequest)
    def want(self, event: p.BeforeRequest, state: int, ctx: p.Context) -> p.Action[int]:
        """Want it."""
        del event, ctx
        hints = p.Hints(cache_points=self.wish.cache_points)
        if self.wish.asks:
            effect = p.ReadFile(self.name)
            return p.Request(effect, "t", state + 1, context=self.wish.sections, hints=hints)
        return p.Continue(state + 1, context=self.wish.sections, hints=hints)


wishes = st.lists(
    st.builds(
        Wish,
        name=st.sampled_from("abcdef"),
        priority=st.integers(100, 999),
        sections=st.dictionaries(st.sampled_from(("plan", "memory")), st.sampled_from((*COMMANDS, None))),
        cache_points=st.none() | st.tuples(st.integers(0, 9)),
        asks=st.booleans(),
    ),
    max_size=5,
    unique_by=(lambda wish: wish.name, lambda wish: wish.priority),
)


@given(members=wishes)
def test_of_sections_and_hints_the_last_word_counts_and_plugin_requests_are_all_run(members):
    """Key by key and hint by hint; who says nothing about one takes nothing back. Requests come in the order of execution."""
    outcome = outcome_of([Wishes(wish) for wish in members], p.BeforeRequest)
    asked = sorted(members, key=lambda wish: wish.priority)
    sections: dict[str, str | None] = {}
    points = None
    for wish in asked:
        sections |= wish.sections
        points = wish.cache_points if wish.cache_points is not None else points
    assert dict(outcome.context) == sections
    assert outcome.hints.cache_points == points
    assert [plugin_request.by for plugin_request in outcome.plugin_requests] == [
        wish.name for wish in asked if wish.asks
    ]


class Guard(p.Plugin[None]):
    """Refuses some commands."""

    def __init__(self, name: str, priority: int, forbidden: frozenset[str], action: type) -> None:
        """Take them, and the way to refuse."""
        super().__init__(name=name, priority=priority)
        self.forbidden, self.action = forbidden, action

    def init(self) -> None:
        """Remember nothing."""

    @p.on(p.BeforeTool)
    def judge(self, event, state, ctx):
        """Refuse, or not."""
        return self.action("no", None) if event.arguments["command"] in self.forbidden else p.Continue(None)


guards = st.lists(
    st.builds(
        Guard,
        name=st.sampled_from(("g1", "g2", "g3")),
        priority=st.integers(0, 99),
        forbidden=st.frozensets(st.sampled_from(COMMANDS), max_size=2),
        action=st.sampled_from((p.BlockTool, p.Abort)),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda guard: guard.name,
)
rewriters = st.lists(
    st.builds(
        Voice,
        name=st.sampled_from("abcdef"),
        priority=st.integers(0, 999),
        action=st.sampled_from((p.ReplaceToolArgs, p.Continue, p.Skip, p.RequireApproval)),
        word=st.sampled_from(COMMANDS),
    ),
    max_size=5,
    unique_by=lambda voice: voice.name,
)


@given(
    hook=st.sampled_from([hook for hook in HOOKS if MATRIX[hook][p.Skip] is Treatment.ACCEPTED]),
    data=st.data(),
)
def test_a_skip_takes_back_what_the_others_wanted(hook, data):
    """Behind a `Skip` the session goes on as if nobody had acted; states, emits and the response are those of a stack without it."""
    going_on = [a for a in ACTIONS if MATRIX[hook][a] is Treatment.ACCEPTED and a not in SHORT_CIRCUITS]
    members = data.draw(voices(going_on))
    skipped = outcome_of([*members, Voice(name="skips", priority=1_000, action=p.Skip, word="x")], hook)
    without = outcome_of(members, hook)
    assert (skipped.prompt, skipped.switch, skipped.arguments) == (None, None, None)
    # What was said has been said: a replaced response stands, so that nobody brings back what a filter took out.
    assert skipped.event == (without.event if hook is p.AfterResponse else EVENTS[hook])
    assert skipped.events == without.events
    assert dict(skipped.states) == {**without.states, "skips": 1}


@given(scene=scenes(), failing=st.integers(100, 999))
def test_a_closed_plugin_that_fails_stops_what_can_be_refused(scene, failing):
    """A closed failure is a refusal where the hook knows one: nobody behind is asked; elsewhere it is open (5.6)."""
    hook, members = scene
    assume(all(voice.priority != failing for voice in members))
    fails = Speaker(Voice(name="fails", priority=failing, action=None, word="x"))
    fails.on_error = "closed"
    outcome = outcome_of([*members, fails], hook)
    before = in_order([voice for voice in members if voice.priority < failing], hook)
    stopped = any(
        voice.action in SHORT_CIRCUITS and MATRIX[hook][voice.action] is Treatment.ACCEPTED
        for voice in before
    )
    if not stopped and hook in REFUSALS:
        assert (outcome.decision.by, outcome.decision.failed) == ("fails", True)
        assert not any(outcome.states[voice.name] for voice in members if voice.priority > failing)
    else:
        assert outcome.decision == outcome_of(members, hook).decision


@pytest.mark.at(105)
@pytest.mark.at(115)
@given(watching=guards, others=rewriters, data=st.data())
def test_no_order_of_plugins_lets_rewritten_arguments_past_a_guard(watching, others, data):
    """Whatever runs after a rewrite, no guard forbids it: in every order, at every priority."""
    members = data.draw(st.permutations([*watching, *others]))
    outcome = outcome_of(members, p.BeforeTool)
    decision = outcome.decision
    may_run = decision is None or isinstance(decision.action, p.Skip | p.RequireApproval)
    if may_run and outcome.arguments is not None:
        final = outcome.arguments["command"]
        assert all(final not in guard.forbidden for guard in watching)


@given(watching=guards, others=rewriters)
def test_a_refusal_has_a_reason(watching, others):
    """A call is refused only when a guard forbids arguments that it was shown, or when guards never agree."""
    outcome = outcome_of([*watching, *others], p.BeforeTool)
    match outcome.decision:
        case None:
            return
        case decision if isinstance(decision.action, p.BlockTool | p.Abort):
            (guard,) = (guard for guard in watching if guard.name == decision.by)
            assert outcome.event.arguments["command"] in guard.forbidden
        case decision if isinstance(decision.action, Unfit):
            assert sum(voice.guards and voice.action is p.ReplaceToolArgs for voice in others) > 1
        case decision:
            assert decision.by in {voice.name for voice in others}
