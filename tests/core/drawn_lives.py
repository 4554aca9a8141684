"""Lives that a seed draws, and what comes of each step, as text: the oracle that holds one `step` against another.

No Hypothesis here: the same seed has to give the same life on every Python and in every version, because what came of it
stands in a file. Whoever changes how lives are drawn writes the file anew, on the `step` that is trusted.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from random import Random
from typing import Any, Final, Literal, TypeVar, cast

import msgspec
from attrs import frozen

from agentrail.core.policy.budget import Budget, Price, spent_of
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.protocol import effects as fx, signals as s
from agentrail.core.protocol.actions import ReadFile, WriteFile
from agentrail.core.protocol.hooks import HOOKS, FileText, FileWritten, RequestFailed
from agentrail.core.protocol.request import EffectId, ModelFacts, TextDelta
from agentrail.core.protocol.tool_changes import RequestCompaction, UpdateContext, UpdateTodos
from agentrail.core.session import machine
from agentrail.core.session.state import SessionConfig, SessionState
from agentrail.core.stack.loaded_stack import Ask, call_handler as plainly, load_stack
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.core.wire.codec import SIGNAL_KINDS, encode_event
from agentrail.errors import ErrorInfo
from agentrail.events import AgentStart, Todo
from agentrail.messages import ApprovalId, JsonObject, PromptRef, SessionId, SteerRef, Text, TokenUsage
from agentrail.testing.plugins import PluginShelf, PuppetPlugin, PuppetRule
from agentrail.testing.scenario_output import GROUPS, encode_effect
from agentrail.testing.scenario_syntax import scenario_name
from tests.core import worlds
from tests.thinned import first, sampled

T = TypeVar("T")

_OF_PEOPLE: Final = (s.Prompt, s.Steer, s.Approve, s.Reject, s.Respond)
_name_of: Final[Callable[[Any], str]] = cache(lambda kind: scenario_name(SIGNAL_KINDS[kind]))


def _place_of(name: str) -> str:
    """Return the sort key of a signal: a renamed one keeps its place, or each seed would draw another life."""
    return "Er" if name == "PluginRequestFinished" else name


FEW: Final = 10
"""How many lives `make test` draws for a property; `make check` draws a sample of the rest, and `make nightly` all."""


def lives(count: int) -> list[Any]:
    """The seeds of a property that is held in so many lives, for `parametrize`."""
    return sampled(first(range(count), FEW), every=4)


_DESCRIBED: Final[JsonObject] = {"type": "object", "properties": {"description": {"type": "string"}}}
TASK: Final = ToolSpec(name="task", description="A child.", parameters=_DESCRIBED, answered_by="child")
TOOLS: Final = Toolbox([*worlds.TOOLS, TASK])
_ACTIONS: Final = (
    *("approve", "block", "abort", "intervene", "intervene", "skip", "args", "result", "response", "model"),
    *("emit", "section", "read", "wait", "wait", "raise", "messages"),
)
_TEXTS: Final = {"args": '{"path": "z"}', "model": 'scripted:other?{"a": 1}', "messages": "2"}
_MOST_CALLS: Final = 24
_LATER: Final = (
    *(
        s.ToolWantsChild,
        s.ToolAnsweredEarly,
        s.Recovered,
        s.ToolSourceReported,
        s.ReceiptQuery,
        s.GoOn,
        s.Decline,
    ),
    *(s.RevokeRule, s.AgentCommand, s.AnswerCall, s.AgentIdled, s.AgentEnded, s.BudgetLent),
)
"""The signals that the recorded lives do not know."""
_ANYTHING: Final = 0.12
_PEOPLE: Final = 0.35


@frozen
class Told:
    """One step, as far as others can see it.

    Attributes:
        signal: What came.
        phase: Where that led, `ENDED` at the end.
        effects: What was asked for, each as text.
    """

    signal: s.Signal
    phase: str
    effects: tuple[str, ...]

    @property
    def digest(self) -> str:
        told = "\n".join((self.phase, *self.effects)).encode("utf-8", "surrogatepass")
        return hashlib.sha256(told).hexdigest()[:4]


def live(seed: int, signals: int) -> Iterator[Told]:
    for signal, state, effects in steps(seed, signals):
        phase = "ENDED" if state.ended else state.phase.name
        yield Told(signal, phase, tuple(map(text_of, effects)))


def steps(  # noqa: PLR0913 - what is in play
    seed: int,
    signals: int,
    *,
    ask: Ask = plainly,
    has_host: bool = False,
    gathers_context: bool = False,
    is_new: bool = False,
) -> Iterator[tuple[s.Signal, SessionState, tuple[fx.Effect, ...]]]:
    """Live a life, and show every step; `ask` is how its plugins are called, and `has_host` whether a host is asked and told.

    A new one has what older ones do not know.
    """
    draw, state = _begin(seed, ask, has_host=has_host, gathers_context=gathers_context, is_new=is_new)
    signal: s.Signal = s.SessionBegan(at_ms=0)
    for number in range(signals):
        state, effects = machine.step(state, signal)
        yield signal, state, effects
        if state.ended:
            return
        draw.heard(effects)
        signal = draw.signal(state, is_young=number < signals // 2)


def start_of(
    seed: int, *, has_host: bool = False, gathers_context: bool = False, is_new: bool = False
) -> SessionState:
    """Give a state like that which a life begins with: its plugins are others that do the same."""
    return _begin(seed, plainly, has_host=has_host, gathers_context=gathers_context, is_new=is_new)[1]


def _begin(
    seed: int, ask: Ask, *, has_host: bool, gathers_context: bool, is_new: bool
) -> tuple["_Draw", SessionState]:
    draw = _Draw(seed, ask, has_host=has_host, is_new=is_new)
    state = _new_session(draw)
    hooks = frozenset({"before_tool", "after_tool"}) if has_host else frozenset()
    config = msgspec.structs.replace(state.data.config, host_hooks=hooks, gathers_context=gathers_context)
    return draw, worlds.changed(state, config=config)


def text_of(effect: fx.Effect) -> str:
    """Write an effect down, with all that whoever carries it out could see of it."""
    match effect:
        case fx.Publish(event=event):
            return encode_event(event).decode("utf-8", "surrogatepass")
        case fx.StartStream(request=request):
            said = encode_effect(effect, GROUPS)
            sent = repr([repr(message) for message in request.messages])
            digest = hashlib.sha256(sent.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            return f"{said} {request.model} {','.join(request.tools.names)} {effect.look_at_ms} {effect.is_quiet} {digest}"
        case fx.RunTool():
            more = (
                *(effect.generation, effect.arguments_hash, effect.operation_id, effect.attempt, effect.turn),
                *(effect.model, effect.total_tokens, effect.cost_usd, json.dumps(effect.memory, default=str)),
            )
            return f"{encode_effect(effect, GROUPS)} {more} {[todo.id for todo in effect.todos]}"
        case _:
            return encode_effect(effect, GROUPS) or ""


def _new_session(draw: "_Draw") -> SessionState:
    session_id = SessionId("s")
    options: dict[str, Any] = dict(worlds.SMALL)
    if draw.chance(0.7):
        options = {"max_turns": 6, "max_prompt_queue": 3, "max_retries": 2}
        options["max_parallel_tools"] = draw.among((1, 2, 8))
    if draw.chance(0.3):
        options["budget"] = Budget(max_total_tokens=draw.among((200, 3_000, 100_000)))
    if draw.chance(0.15):
        options["response_format"] = ResponseFormat({"type": "object"})
    if draw.chance(0.3):
        options["compact_at_tokens"] = draw.among((150, 400))
    if draw.chance(0.3):
        options["fallbacks"] = (ModelFacts(model="scripted:second", max_output_tokens=50),)
    if draw.chance(0.2):
        options["inline_tags"] = False
    if draw.chance(0.2):
        options["on_max_turns"] = "abort"
    price = Price(input=1.0, output=10.0) if draw.chance(0.5) else None
    config = SessionConfig(
        session_id=session_id,
        path=(session_id,),
        model=ModelFacts(model="scripted:model", price=price, max_output_tokens=20),
        immune_tools=frozenset({"deploy"}),
        **options,
    )
    stack, states = load_stack(draw.stack(), ask=draw.shelf)
    return machine.new_session(config, TOOLS, stack, states)


class _Draw:
    """Draws what happens next, from a seed and from what is open."""

    def __init__(self, seed: int, ask: Ask, *, has_host: bool = False, is_new: bool = False) -> None:
        self._is_new = is_new
        self.shelf = PluginShelf(ask)
        self._has_host = has_host
        self._random = Random(seed)  # noqa: S311 - a test is to draw the same again
        self._numbers = count(1)
        self._now_ms = 0
        self._wanted: dict[EffectId, Any] = {}
        self._children: list[EffectId] = []

    def among(self, items: Any) -> Any:
        return items[int(self._random.random() * len(items))]

    def chance(self, part: float) -> bool:
        return self._random.random() < part

    def stack(self) -> tuple[PuppetPlugin, ...]:
        return tuple(self._puppet(f"plugin-{number}") for number in range(self.among((0, 0, 1, 2, 4))))

    def heard(self, effects: tuple[fx.Effect, ...]) -> None:
        self._wanted |= {one.effect_id: one.wanted for one in effects if isinstance(one, fx.RunPluginRequest)}
        self._children += [one.effect_id for one in effects if isinstance(one, fx.SpawnChild)]

    def signal(self, state: SessionState, *, is_young: bool) -> s.Signal:
        """Draw a signal: mostly one that means something in this state."""
        self._now_ms += self.among((0, 1, 7, 500, 20_000))
        left_out: tuple[type, ...] = ()
        if not self._has_host:
            left_out += (s.HostJudged, s.HostTold)
        if not state.data.config.gathers_context:
            left_out += (s.ContextGathered,)
        if not self._is_new:  # the lives of the file were drawn before there were these, or a host
            left_out += _LATER
        if is_young:  # not to be lost to an early end
            left_out += (s.StopSession, s.Parked)
        drawn = (*worlds.everything(state, self._numbers), *self._more(state))
        every = [one for one in drawn if not isinstance(one, left_out)]
        outcomes = [one for one in every if isinstance(one, s.EffectOutcome) and not _is_late(one)]
        people = [one for one in every if isinstance(one, _OF_PEOPLE)]
        if not state.data.interactions:
            people = [one for one in people if isinstance(one, (s.Prompt, s.Steer))]
        kind_of_day = self._random.random()
        pool = cast("list[Any]", people if kind_of_day < _PEOPLE or not outcomes else outcomes)
        pool = every if kind_of_day < _ANYTHING else pool
        kind = self.among(sorted({_name_of(type(one)) for one in pool}, key=_place_of))
        chosen: s.Signal = self.among([one for one in pool if _name_of(type(one)) == kind])
        if isinstance(chosen, s.PluginRequestFinished):
            chosen = msgspec.structs.replace(chosen, result=self._result(chosen.effect_id))
        return msgspec.structs.replace(chosen, at_ms=self._now_ms)

    def _puppet(self, name: str) -> PuppetPlugin:
        rules = tuple(
            PuppetRule(
                hook=self.among(tuple(HOOKS)).__name__,
                tool=self.among((None, None, "read")),
                action=(action := self.among(_ACTIONS)),
                text=_TEXTS.get(action, "t"),
            )
            for _ in range(self.among((1, 2, 4)))
        )
        return PuppetPlugin(rules, name=name, priority=self.among((50, 60, 500, 600)))

    def _result(self, effect_id: EffectId) -> Any:
        wanted = self._wanted.get(effect_id)
        if self.chance(0.2):
            return RequestFailed(error=ErrorInfo(code="not_there", message="nothing"))
        if isinstance(wanted, WriteFile):
            return FileWritten(path=wanted.path, written_bytes=len(wanted.text))
        return FileText(path=wanted.path if isinstance(wanted, ReadFile) else "a", text="found")

    def _by(self) -> dict[str, Any]:
        return {"at_ms": 0, "signal_id": s.SignalId(f"s{next(self._numbers)}")}

    def _change(
        self, change: Literal["attach", "reload"], make: Callable[[], PuppetPlugin]
    ) -> s.ChangePlugins:
        by = self._by()
        return s.ChangePlugins(**by, change=change, entry=self.shelf.put(by["signal_id"], make()))

    def _more(self, state: SessionState) -> Iterator[s.Signal]:
        data = state.data
        text = self.among(("go", "word " * 60, "<title>T</title>"))
        name = self.among(("web-1", "web-2"))
        said = (Text(text=text),)
        yield s.Prompt(**self._by(), ref=PromptRef(f"p{next(self._numbers)}"), content=said, client_id=name)
        yield s.Steer(**self._by(), ref=SteerRef(f"p{next(self._numbers)}"), text=text, client_id=name)
        yield self._change("attach", lambda: self._puppet(f"later-{next(self._numbers)}"))
        yield self._change("reload", lambda: self._puppet("plugin-0"))
        yield s.ChangePlugins(**self._by(), change="detach", name=f"plugin-{self.among('0123')}")
        yield s.UpdatePluginOpts(**self._by(), plugin="plugin-0", options={})
        for interaction in data.interactions:
            yield s.Approve(**self._by(), approval_id=ApprovalId(interaction.id), arguments={"path": "b"})
        if data.stream is not None:
            yield from self._responses(data.stream.effect_id)
        if data.held is not None:
            yield s.TimerFired(at_ms=0, effect_id=data.held.timer)
        for effect_id in self._children:
            child = SessionId(f"child-{effect_id}")
            yield s.ChildStarted(at_ms=0, effect_id=effect_id, child_id=child)
            if any(call.effect_id == effect_id and call.child_ids for call in (*data.batch, *data.survivors)):
                yield s.ChildPublished(at_ms=0, effect_id=effect_id, event=AgentStart(ref=PromptRef("p")))
            spent = spent_of(TokenUsage(input=3, output=4), None)
            yield s.ToolFinished(at_ms=0, effect_id=effect_id, text="child", started_at_ms=0, spent=spent)
        changes = (
            UpdateTodos(todos=(Todo(id="1", content="a"),)),
            UpdateContext(key=self.among(("memory", "note")), value="b"),
            RequestCompaction(reason="long"),
        )
        for call in (*data.batch, *data.survivors):
            if call.effect_id is not None and call.stage not in {"checking", "reporting"}:
                told: dict[str, Any] = {"at_ms": 0, "effect_id": call.effect_id, "started_at_ms": 0}
                told |= {"changes": (self.among(changes),), "late": self.chance(0.2)}
                yield s.ToolFinished(**told, text="x " * 30, ran_ms=3 if self._has_host else None)

    def _responses(self, effect_id: EffectId) -> Iterator[s.Signal]:
        names = ("read", "watch", "deploy", "ask", "task", "task", "raed", "read")
        for most in (3, _MOST_CALLS):
            given = ("{}", '{"path": "a"}', '{"path": ')
            calls = tuple(
                read_call(f"c{self.among('0123456789')}", self.among(names), self.among(given))
                for _ in range(1 + int(self._random.random() * most))
            )
            yield worlds.completed(effect_id, Text(text="word " * 20), *calls)
        for reason in ("end", "max_tokens", "context_window", "refused", "pause"):
            blocks = (Text(text="{}"),) if self.chance(0.7) else ()
            yield worlds.completed(effect_id, *blocks, stop_reason=reason)
        yield s.ChunksArrived(at_ms=0, effect_id=effect_id, chunks=(TextDelta("word " * 20), TextDelta("`<")))


def _is_late(outcome: s.EffectOutcome) -> bool:
    """Say whether an outcome is one of those that are never awaited: all of them are of an effect numbered 0."""
    return outcome.effect_id[1:] == "0"
