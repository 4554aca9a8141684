"""A budget holds over a tree of real sessions: calls and tools start children, and whatever happens is undone to the token.

Each session is the machine itself. The world around them does what the shell does: it starts what a session asks for, gives
each outcome once, ends the children of a tool before the tool, and what a session has at work with the session.
"""

from typing import Any

import pytest
from attrs import define, field
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentrail.core.policy.budget import NOTHING_SPENT, Budget, Spent, spent_of
from agentrail.core.protocol.effects import KillTools, Refuse, RunTool, SpawnChild, StartStream, Teardown
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.protocol.signals import (
    AbortCycle,
    AbortTool,
    Asked,
    Prompt,
    ResponseCompleted,
    Restarted,
    SessionBegan,
    SignalId,
    Steer,
    StreamFailed,
    TeardownFinished,
    ToolFinished,
    ToolWantsChild,
)
from agentrail.core.session import machine
from agentrail.core.session.state import Phase, SessionConfig, SessionState
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.errors import ErrorInfo
from agentrail.events import AbortReceipt
from agentrail.messages import AssistantMessage, PromptRef, SessionId, SteerRef, Text, TokenUsage
from agentrail.testing.promises import PROMISES, Seen

SCHEMA: Any = {"type": "object"}
TOOLS = Toolbox(
    [
        ToolSpec(name="work", description="Asks for sessions.", parameters=SCHEMA, effect_class="once"),
        ToolSpec(name="guard", description="Survives an abort.", parameters=SCHEMA, killable=False),
        ToolSpec(name="task", description="A session.", parameters=SCHEMA, answered_by="child"),
    ]
)
MAX_OUTPUT = 20
PLACES = st.integers(0, 50)


@define(eq=False)
class Node:
    """One session of the tree."""

    state: SessionState
    parent: "Node | None" = None
    effect: SpawnChild | None = None
    children: "dict[EffectId, Node]" = field(factory=dict)
    tools: set[EffectId] = field(factory=set)
    out: dict[EffectId, int] = field(factory=dict)  # requests, with the input that each reads
    used: int = 0  # by its own requests, whoever was told


class Tree(RuleBasedStateMachine):
    """A root with a budget, and all that works for it."""

    @initialize(limit=st.sampled_from((60, 300, 3_000, 100_000)), parallel=st.integers(1, 3))
    def begin(self, limit, parallel):
        """The root has a limit; its children have shares of it."""
        session_id = SessionId("root")
        config = SessionConfig(
            session_id=session_id,
            path=(session_id,),
            model=ModelFacts(model="scripted:model"),
            max_parallel_tools=parallel,
            max_output_tokens=MAX_OUTPUT,
            budget=Budget(max_total_tokens=limit),
        )
        self.limit, self.signals, self.crashes = limit, 0, 0
        self.gone = 0  # used by sessions that are gone
        self.asked: set[SignalId] = set()  # wishes that nobody has answered
        self.root = Node(machine.new_session(config, TOOLS))
        self.hear(self.root, SessionBegan(at_ms=0))

    # --- what the shell does

    def by(self) -> dict[str, Any]:
        """Give the next call from outside its time and its name."""
        self.signals += 1
        return {"at_ms": self.signals, "signal_id": SignalId(f"s{self.signals}")}

    def hear(self, node: Node, signal: Any) -> None:
        """Let a session take a signal, hold all promises of that step, and carry its effects out."""
        before = node.state
        node.state, effects = machine.step(before, signal)
        seen = Seen(before, signal, node.state, effects)
        for promise in PROMISES:
            promise(seen)
        unwanted: list[EffectId] = []
        for effect in effects:
            match effect:
                case StartStream(request=request):
                    node.out[request.attempt] = self.bound(node, request.attempt) - MAX_OUTPUT
                case RunTool(effect_id=effect_id):
                    node.tools.add(effect_id)
                case SpawnChild(effect_id=effect_id, wish=wish):
                    if wish is None or wish.signal_id in self.asked:
                        self.spawn(node, effect)
                    else:
                        unwanted.append(effect_id)
                    if wish is not None:
                        self.asked.discard(wish.signal_id)
                case Refuse(to=to):
                    self.asked.discard(to)
                case _:
                    pass
        for effect_id in unwanted:  # before all that waits, as the shell does
            self.tell(node, effect_id, NOTHING_SPENT)
        for effect in effects:
            if isinstance(effect, KillTools):
                for effect_id in effect.effect_ids:
                    self.end_call(node, effect_id)
            elif isinstance(effect, Teardown):
                self.hear(
                    node,
                    TeardownFinished(at_ms=self.signals, effect_id=effect.effect_id, receipt=AbortReceipt()),
                )
        for attempt in tuple(node.out):
            if node.state.data.stream is None or node.state.data.stream.effect_id != attempt:
                del node.out[attempt]  # it was broken off, and estimated

    def bound(self, node: Node, attempt: EffectId) -> int:
        """Say what is reserved for a request."""
        ledger = node.state.data.ledger
        assert ledger is not None
        return next(bound.tokens for held, bound in ledger.open if held.endswith(f"/{attempt}"))

    def spawn(self, node: Node, effect: SpawnChild) -> None:
        """Start the session that works for a call, or for its tool."""
        assert effect.budget is not None
        before = node.state.data.config
        session_id = SessionId(f"{before.session_id}.{effect.effect_id}")
        config = SessionConfig(
            session_id=session_id,
            path=(*before.path, session_id),
            model=before.model,
            max_parallel_tools=before.max_parallel_tools,
            max_output_tokens=MAX_OUTPUT,
            budget=effect.budget,
        )
        child = node.children[effect.effect_id] = Node(machine.new_session(config, TOOLS), node, effect)
        self.hear(child, SessionBegan(at_ms=self.signals))
        self.prompt(child)

    def prompt(self, node: Node) -> None:
        """Say something; a request that cannot be paid ends the cycle at once."""
        said = (Text(text="go"),)
        self.hear(node, Prompt(**self.by(), ref=PromptRef(f"p{self.signals}"), content=said))
        self.look(node)

    def look(self, node: Node) -> None:
        """End a child whose cycle is over."""
        data = node.state.data
        is_over = node.state.phase is Phase.IDLE and data.cycle is None and data.teardown is None
        if is_over and node.parent is not None and node.effect is not None:
            assert node.parent.children.get(node.effect.effect_id) is node
            self.end_child(node.parent, node.effect.effect_id)

    def end_call(self, node: Node, attempt: EffectId) -> None:
        """End a call: the session that answers it, or its tool with all its sessions."""
        if attempt in node.children:
            self.end_child(node, attempt)
        elif attempt in node.tools:
            node.tools.discard(attempt)
            wishes = [wish.signal_id for wish in node.state.data.wishes if wish.effect_id == attempt]
            self.asked -= set(wishes)  # who waited is cancelled with the tool
            for effect_id, child in tuple(node.children.items()):
                assert child.effect is not None
                if child.effect.wish is not None and child.effect.wish.effect_id == attempt:
                    self.end_child(node, effect_id)
            self.tell(node, attempt, None)

    def end_child(self, node: Node, effect_id: EffectId) -> None:
        """End a session with all below it, and tell its parent once what it has used; and once more, which does nothing."""
        child = node.children.pop(effect_id)
        for below in (*child.children, *child.tools):
            self.end_call(child, below)
        if child.state.data.stream is not None:  # it is aborted first, and so its request is estimated
            self.hear(child, AbortCycle(**self.by(), kill_tools="all"))
        self.gone += self.forget(child)
        spent = spent_of(child.state.data.usage, child.state.data.ledger)
        self.tell(node, effect_id, spent)
        data = node.state.data
        self.hear(
            node,
            ToolFinished(at_ms=self.signals, effect_id=effect_id, text="x", started_at_ms=0, spent=spent),
        )
        assert (node.state.data.usage, node.state.data.ledger) == (data.usage, data.ledger)

    def tell(self, node: Node, effect_id: EffectId, spent: Spent | None) -> None:
        """Give the outcome of a call, or of a child."""
        self.hear(
            node,
            ToolFinished(at_ms=self.signals, effect_id=effect_id, text="ok", started_at_ms=0, spent=spent),
        )

    def forget(self, node: Node) -> int:
        """Give what a session and all below it have used that nobody will be asked any more."""
        return node.used + sum(map(self.forget, node.children.values()))

    def nodes(self) -> list[Node]:
        """Give all sessions that live, outermost first."""
        found = [self.root]
        for node in found:
            found += node.children.values()
        return found

    # --- what may happen

    @rule(place=PLACES)
    def somebody_prompts(self, place):
        """The root is asked something."""
        if self.root.state.data.cycle is None:
            self.prompt(self.root)

    @precondition(lambda self: any(node.out for node in self.nodes()))
    @rule(
        place=PLACES,
        names=st.lists(st.sampled_from(("work", "guard", "task")), max_size=4),
        size=PLACES,
        fails=st.booleans(),
    )
    def a_model_answers(self, place, names, size, fails):
        """With calls or with an end; it uses what it was reserved at most, or nobody knows."""
        asking = [node for node in self.nodes() if node.out]
        node = asking[place % len(asking)]
        attempt, read = node.out.popitem()
        if fails and not names:
            error = ErrorInfo(code="bad_request", message="no")
            self.hear(node, StreamFailed(at_ms=self.signals, effect_id=attempt, error=error))
        else:
            usage = TokenUsage(input=min(read, size), output=min(MAX_OUTPUT, size))
            node.used += usage.total
            calls = [read_call(f"c{self.signals}-{number}", name, "{}") for number, name in enumerate(names)]
            message = AssistantMessage(content=(Text(text="x"), *calls), model="scripted:model")
            self.hear(
                node,
                ResponseCompleted(
                    at_ms=self.signals, effect_id=attempt, message=message, usage=usage, stop_reason="end"
                ),
            )
        self.signals += 1
        self.look(node)

    @precondition(lambda self: any(node.tools for node in self.nodes()))
    @rule(place=PLACES, which=PLACES, more=st.integers(1, 3))
    def a_tool_wants_sessions(self, place, which, more):
        """One, or several side by side."""
        node, attempt = self.tool_at(place, which)
        for _ in range(more):
            wish = ToolWantsChild(**self.by(), effect_id=attempt, prompt="go")
            self.asked.add(wish.signal_id)
            self.hear(node, wish)

    @precondition(lambda self: any(node.tools for node in self.nodes()))
    @rule(place=PLACES, which=PLACES)
    def a_tool_ends(self, place, which):
        """Its sessions end first."""
        node, attempt = self.tool_at(place, which)
        self.end_call(node, attempt)
        self.look(node)

    @precondition(lambda self: self.asked)
    @rule(place=PLACES)
    def a_tool_waits_no_longer(self, place):
        """The session that it gets later is given back at once."""
        self.asked.discard(sorted(self.asked)[place % len(self.asked)])

    @rule(place=PLACES, kind=st.sampled_from(("abort", "abort all", "steer", "abort_tool")))
    def somebody_interrupts(self, place, kind):
        """A session of the tree is aborted, steered, or has one call stopped."""
        nodes = self.nodes()
        node = nodes[place % len(nodes)]
        calls = [call.call.call_id for call in node.state.data.batch]
        signal: Asked
        match kind:
            case "steer":
                signal = Steer(**self.by(), ref=SteerRef(f"p{self.signals}"), text="left")
            case "abort_tool" if calls:
                signal = AbortTool(**self.by(), call_id=calls[place % len(calls)])
            case _:
                signal = AbortCycle(**self.by(), kill_tools="all" if kind == "abort all" else "killable")
        self.hear(node, signal)
        self.look(node)

    @rule(place=PLACES)
    def a_session_crashes(self, place):
        """What it had at work dies with its actor, and nobody tells what that used."""
        nodes = self.nodes()
        node = nodes[place % len(nodes)]
        self.crashes += 1
        for below in node.children.values():
            self.gone += self.forget(below)
        node.children.clear()
        node.tools.clear()
        node.out.clear()
        self.asked.clear()
        self.hear(
            node, Restarted(at_ms=self.signals, reason="bug", incarnation=node.state.data.incarnation + 1)
        )
        self.look(node)

    def tool_at(self, place: int, which: int) -> tuple[Node, EffectId]:
        """Find a running tool."""
        working = [node for node in self.nodes() if node.tools]
        node = working[place % len(working)]
        attempts = sorted(node.tools)
        return node, attempts[which % len(attempts)]

    # --- what holds

    @invariant()
    def no_limit_is_passed(self):
        """Neither by what is booked and promised in any ledger, nor by what the whole tree has really used and may use yet."""
        for node in self.nodes():
            ledger = node.state.data.ledger
            assert ledger is not None
            assert ledger.budget.max_total_tokens is not None
            promised = sum(bound.tokens for _, bound in ledger.open)
            assert ledger.spent_tokens + promised <= ledger.budget.max_total_tokens
        out = sum(self.bound(node, attempt) for node in self.nodes() for attempt in node.out)
        assert self.gone + self.forget(self.root) + out <= self.limit

    @invariant()
    def what_is_lent_is_out(self):
        """A loan for each child that lives, under its effect, and nothing else; who waits, waits for something."""
        for node in self.nodes():
            data = node.state.data
            assert set(data.loans) == set(node.children)
            assert all(wish.effect_id in node.tools for wish in data.wishes)

    @invariant()
    def all_that_was_used_is_booked(self):
        """In the ledger of the root, with what is promised still: never less than the tree has used."""
        ledger = self.root.state.data.ledger
        assert ledger is not None
        known = ledger.spent_tokens + sum(bound.tokens for _, bound in ledger.open)
        assert known >= self.gone + self.forget(self.root)

    def teardown(self):
        """All ends: nothing is promised, and without a crash what the root counts is what was used, or estimated."""
        if not hasattr(self, "root"):
            return
        for attempt in tuple(self.root.tools):
            self.end_call(self.root, attempt)
        self.hear(self.root, AbortCycle(**self.by(), kill_tools="all", clear_queue=True))
        for attempt in (*self.root.children, *self.root.tools):
            self.end_call(self.root, attempt)
        data = self.root.state.data
        assert data.ledger is not None
        assert (data.loans, data.wishes, data.ledger.open) == ((), (), ())
        assert data.usage.total >= self.gone + self.root.used or self.crashes
        assert data.ledger.spent_tokens >= data.usage.total


@pytest.mark.at(124, 131)
class TestTree(Tree.TestCase):  # type: ignore[valid-type,misc]  # Hypothesis makes it at run time
    """Whatever a tree of sessions does, its budget holds to the token."""
