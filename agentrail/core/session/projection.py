"""What others see of the state: the request to the model, and the status for clients. Reads only; decides nothing."""

import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import Final

from attrs import field, frozen

from agentrail.core.policy.budget import BudgetLeft, budget_left
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol.request import EffectId, ModelFacts, ModelRequest
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.state import Known, Phase, QueuedPrompt
from agentrail.core.session.tags import visible_so_far
from agentrail.core.stack.narrowing import hidden_tools, options_shown
from agentrail.core.values.toolbox import EffectClass, Toolbox
from agentrail.events import Approval, PendingClientCall, Question, Todo
from agentrail.messages import (
    CallId,
    JsonObject,
    Message,
    PromptRef,
    SessionId,
    SteerRef,
    Text,
    TokenUsage,
    UserBlock,
    UserMessage,
)

MAX_SNAPSHOT_MESSAGES: Final = 50
"""How much of the conversation a client draws at first; it asks for the rest when a person scrolls back."""

LAST_TURN_NOTE: Final = (
    "[This is the last turn of this task: no tool can be called any more. Answer now with what you have, and say what "
    "is missing.]"
)


@frozen(kw_only=True)
class RunningTool:
    """A call that runs.

    Attributes:
        call_id: The call.
        name: The tool.
        started_at_ms: When its attempt began, in milliseconds since 1970.
        survivor: Whether it runs on without a cycle: an abort let it, or it is `detached`.
        stopping: Whether it is answered already, and its task has not ended yet.
        detached: Whether it was answered early and goes on in the background; no event tells of its end.
    """

    call_id: CallId
    name: str
    started_at_ms: int
    survivor: bool = False
    stopping: bool = False
    detached: bool = False


@frozen(kw_only=True)
class PluginStatus:
    """A plugin of a session.

    Attributes:
        name: Its name in the stack.
        version: Of its code.
        priority: Lower ones are asked first.
        options: With which it was loaded, and those that it was given since, as they are at this moment: of `Permissions` a plan that
            was approved is none any more. Read-only.
    """

    name: str
    version: str
    priority: int
    options: JsonObject


@frozen(kw_only=True)
class ChildSession:
    """A session that works for a call.

    Attributes:
        session_id: Which one; `supervisor.session(id)` is its handle.
        call_id: The call of the session above it.
        status: How it stands, its own children included. What people are asked there is decided through the session
            above as well. None where the core alone was asked, which knows of no other session.
        agent: As which agent it works, as the call named it that began it; None where that named none.
    """

    session_id: SessionId
    call_id: CallId
    status: "Status | None" = None
    agent: str | None = None


@frozen(kw_only=True)
class Status:
    """How a session stands.

    Attributes:
        session_id: Which one.
        phase: One of the four, in lower case.
        turn: Of the running cycle, from 1; 0 in idle.
        model: The model string.
        queued: The prompts that wait, in order; in front one that plugins are still asked about.
        steers: The steers that wait, in order.
        running_tools: The calls that run.
        approvals: The calls that wait for a person; those of children are in `children`.
        questions: The questions that wait for a person; those of children are in `children`.
        suspended: Whether the cycle waits for people and for nothing else.
        tearing_down: Whether what an abort stopped is not gone yet.
        messages: How many the history holds.
        usage: Of the whole session; its `cost_usd` is None as soon as one price is unknown.
        budget_left: What is neither spent nor promised; None without a budget.
        last_seq: The number of the last committed event.
        uptime_ms: Since it first came up.
        restarts: How often it crashed and came back.
        dropped_signals: Late outcomes that were not waited for.
        quarantined_signals: Signals that crashed the core.
        unconfined_commands: Whether commands run with the user's rights, because `shell_fallback` allows that and nothing
            confines them; False until that is known, and where commands are refused. The core does not know of it.
        children: The sessions that work for its calls, in the order of the calls, and then those in the background.
        plugins: Its plugins, in the order in which they are asked.
        client_calls: The calls that wait for the client; those of children are in `children`.
        agent: As which of its agents it works since it was handed over; None before.
        between_turns: Whether plugins are asked what follows the turn, behind its calls or its answer: the next request is of the next turn.
    """

    session_id: SessionId
    phase: str
    turn: int
    model: str
    queued: tuple[PromptRef, ...]
    steers: tuple[SteerRef, ...]
    running_tools: tuple[RunningTool, ...]
    approvals: tuple[Approval, ...]
    questions: tuple[Question, ...]
    suspended: bool
    tearing_down: bool
    messages: int
    usage: TokenUsage
    budget_left: BudgetLeft | None
    last_seq: int
    uptime_ms: int
    restarts: int
    dropped_signals: int
    quarantined_signals: int
    unconfined_commands: bool = False
    children: tuple[ChildSession, ...] = ()
    plugins: tuple[PluginStatus, ...] = ()
    client_calls: tuple[PendingClientCall, ...] = ()
    agent: str | None = None
    between_turns: bool = False

    @property
    def all_approvals(self) -> tuple[Approval, ...]:
        """The calls that wait for a person here and in all sessions below."""
        below = (child.status.all_approvals for child in self.children if child.status is not None)
        return (*self.approvals, *chain.from_iterable(below))

    @property
    def all_questions(self) -> tuple[Question, ...]:
        """The questions that wait for a person here and in all sessions below."""
        below = (child.status.all_questions for child in self.children if child.status is not None)
        return (*self.questions, *chain.from_iterable(below))

    @property
    def all_client_calls(self) -> tuple[PendingClientCall, ...]:
        """The calls that wait for the client here and in all sessions below."""
        below = (child.status.all_client_calls for child in self.children if child.status is not None)
        return (*self.client_calls, *chain.from_iterable(below))


@frozen(kw_only=True)
class QueuedInput:
    """Something that the user said and that has not had its turn yet.

    Attributes:
        ref: Its name.
        content: What was said.
        steer: Whether it goes into the running cycle, or starts one of its own.
        request_id: The request that brought it, as the host calls it; None: no request did.
    """

    ref: PromptRef | SteerRef
    content: tuple[UserBlock, ...]
    steer: bool = False
    request_id: str | None = None


@frozen(kw_only=True)
class LiveText:
    """What a session has said in passing and not yet for good. Events that say so are never replayed, so a snapshot tells it.

    Attributes:
        attempt: Which attempt at its turn the request is that is out; 0 where none is.
        text: What its response has said so far.
        thinking: What it has thought aloud so far.
        progress: Of each call that runs and has said how far it is, what it said last.
    """

    attempt: int
    text: str = field(default="", repr=False)
    thinking: str = field(default="", repr=False)
    progress: tuple[tuple[CallId, str], ...] = ()


@frozen(kw_only=True)
class ContextLength:
    """How full the model's window is.

    Attributes:
        tokens: The input of the last request, with its cached part; behind a compaction what that made of it, estimated. 0 before the first.
        window: How many there may be; None where that is not known.
    """

    tokens: int = 0
    window: int | None = None


@frozen(kw_only=True)
class Snapshot:
    """All that a client which comes late needs to draw a session.

    Attributes:
        status: How it stands; approvals, questions, running tools, children and plugins are in there.
        queued: What the user said and what waits, steers first.
        todos: The list that the model keeps of its work.
        text: What the response that streams has said so far.
        last_seq: The number of the last committed event; `subscribe(after=last_seq)` goes on from here.
        last_messages: The end of the conversation, at most 50 messages; `status.messages` is how many there are.
        title: What the model called the conversation; None before it has.
        first_words: What was said to the session first, up to 80 characters on one line; None if nothing was, or it is no longer known.
        first_seq: The number of the first event that can still be read; one behind `last_seq` where none can.
        live: What was said in passing up to here and not yet for good; None where that is nothing. `text` is in there too.
        context: How full the model's window is.
        effects: What each tool promises about being run twice, by its name; those that promise nothing, `once`, are left out.
    """

    status: Status
    queued: tuple[QueuedInput, ...]
    todos: tuple[Todo, ...]
    text: str
    last_seq: int
    last_messages: tuple[Message, ...] = field(default=(), repr=False)
    title: str | None = None
    first_words: str | None = None
    first_seq: int = 1
    live: LiveText | None = None
    context: ContextLength = ContextLength()
    effects: tuple[tuple[str, EffectClass], ...] = ()


def status_of(phase: Phase, data: Known, at_ms: int) -> Status:
    """Say how a session stands at a time."""
    asked = [interaction.asked for interaction in data.interactions]
    return Status(
        session_id=data.config.session_id,
        phase=phase.value,
        turn=data.cycle.turn if data.cycle else 0,
        model=model_of(data).model,
        queued=tuple(prompt.ref for prompt in _waiting_prompts(data)),
        steers=tuple(steer.ref for steer in data.steers),
        running_tools=_running_tools(data),
        approvals=tuple(one for one in asked if isinstance(one, Approval)),
        questions=tuple(one for one in asked if isinstance(one, Question)),
        client_calls=tuple(one for one in asked if isinstance(one, PendingClientCall)),
        suspended=phase is Phase.IDLE and data.cycle is not None,
        agent=data.acting.name,
        between_turns=data.held is not None and data.held.prompt is None,
        tearing_down=data.teardown is not None,
        messages=len(data.history),
        usage=data.usage,
        budget_left=budget_left(data.ledger) if data.ledger is not None else None,
        last_seq=data.seq,
        uptime_ms=at_ms - data.started_at_ms,
        restarts=data.incarnation - 1,
        dropped_signals=data.dropped,
        quarantined_signals=data.quarantined,
        children=tuple(
            ChildSession(session_id=child_id, call_id=state.call.call_id, agent=_agent_of(state))
            for state in (*data.batch, *data.survivors)
            if state.stage in {"running", "stopping"}
            for child_id in state.child_ids
        )
        + tuple(
            ChildSession(session_id=state.child_id, call_id=state.call_id, agent=state.agent)
            for state in data.agents.states
            if state.child_id is not None and state.status != "ended"
        ),
        plugins=tuple(
            PluginStatus(name=member.name, version=member.version, priority=member.priority, options=options)
            for member, options in zip(
                data.stack.members, options_shown(data.stack, data.plugin_states), strict=True
            )
        ),
    )


def _agent_of(state: CallState) -> str | None:
    """Say which agent a call of the tool `agent` asked for; a call of another tool names none that anybody could look up."""
    named = state.arguments.get("subagent_type")
    return named if isinstance(named, str) else None


def snapshot_of(phase: Phase, data: Known, at_ms: int) -> Snapshot:
    """Draw a session as it stands at a time."""
    steers = [
        QueuedInput(ref=steer.ref, content=(Text(text=steer.text),), steer=True, request_id=steer.request_id)
        for steer in data.steers
    ]
    prompts = [
        QueuedInput(ref=prompt.ref, content=prompt.content, request_id=prompt.request_id)
        for prompt in _waiting_prompts(data)
    ]
    facts = model_of(data)
    window = None if facts.window_is_assumed else facts.context_window
    return Snapshot(
        status=status_of(phase, data, at_ms),
        queued=(*steers, *prompts),
        todos=data.todos,
        text=visible_so_far(data.stream, data.config) if data.stream is not None else "",
        last_seq=data.seq,
        last_messages=data.history.messages[-MAX_SNAPSHOT_MESSAGES:],
        title=data.title,
        first_words=first_words_in(data.history.messages),
        context=ContextLength(tokens=data.context_tokens, window=window),
        # `once` is what a reader has to take a tool for of which it knows nothing, so it need not be said.
        effects=tuple([(one.name, one.effect_class) for one in data.tools if one.effect_class != "once"]),
    )


def first_words_in(messages: Sequence[Message]) -> str | None:
    """Return the first words of the first prompt, on one line; None if there are none."""
    for message in messages[:_BEGINNING]:
        if isinstance(message, UserMessage) and message.origin == "prompt":
            texts = [
                block.text[: 2 * MAX_FIRST_WORDS] for block in message.content if isinstance(block, Text)
            ]
            return " ".join("".join(texts).split())[:MAX_FIRST_WORDS] or None
    return None


MAX_FIRST_WORDS: Final = 80
_BEGINNING: Final = 5
"""Messages that may come before the first prompt, such as a summary."""


def _running_tools(data: Known) -> tuple[RunningTool, ...]:
    calls = ((state, False) for state in data.batch if state.stage in {"running", "stopping"})
    survivors = ((state, True) for state in data.survivors)
    return tuple(
        RunningTool(
            call_id=state.call.call_id,
            name=state.call.name,
            started_at_ms=state.began_at_ms,
            survivor=survives,
            stopping=state.stage == "stopping",
            detached=survives and state.detached,
        )
        for state, survives in (*calls, *survivors)
    )


def models_of(data: Known) -> tuple[ModelFacts, ...]:
    """Give the model of a session and its fallbacks, in the order in which they are asked."""
    return (data.model, *data.config.fallbacks)


def _waiting_prompts(data: Known) -> tuple[QueuedPrompt, ...]:
    """Give the prompts that have not begun: the one that plugins are still asked about, and those behind it."""
    held = data.held.prompt if data.held is not None else None
    return (held, *data.queue) if held is not None else data.queue


def model_of(data: Known) -> ModelFacts:
    """Give the model that the running cycle asks at this moment; without one that of the next request."""
    place = data.cycle.attempts.model if data.cycle is not None else 0
    return data.config.fallbacks[place - 1] if place else data.model


MODE_SECTION: Final = "mode"
"""The key of what a mode says to the model; it stands in front of the other sections."""

_NOT_FOR_TASKS: Final = frozenset({"skills", "memory", "agent_memory"})


def own_prompt_of(data: Known) -> str | None:
    """Give the system prompt without its sections: that of the agent as which the session works, or that of its start."""
    return data.config.system_prompt if data.acting.prompt is None else data.acting.prompt


def system_prompt_of(data: Known) -> str | None:
    """Join the system prompt and its sections, as far as the prompt mode wants them; sorted, so that bytes stay the same."""
    own, sections = own_prompt_of(data), system_sections_of(data)
    if not sections:
        return own
    parts = [own] if own else []
    return "\n\n".join([*parts, *[text for _, text in sections]]) or None


def system_sections_of(data: Known) -> list[tuple[str, str]]:
    """Give what the system prompt has behind its own text, by name, as far as the prompt mode wants it."""
    mode = data.config.prompt_mode
    if mode == "minimal":
        return [("tools", f"Tools: {', '.join(offered_tools_of(data).names) or 'none'}")]
    if mode == "none" or not data.sections:
        return []
    hidden = _NOT_FOR_TASKS if mode == "task" else frozenset[str]()
    found = [(key, text) for key, text in sorted(data.sections.items(), key=_order) if key not in hidden]
    replaced = data.config.replaced_sections
    if not replaced:
        return found
    texts = [(key, str(replaced.get(key, text))) for key, text in found]
    return [(key, text) for key, text in texts if text]


def _order(section: tuple[str, str]) -> tuple[bool, str]:
    """Put what the mode says in front of what plugins add."""
    return section[0] != MODE_SECTION, section[0]


def offered_tools_of(data: Known) -> Toolbox:
    """Give the tools that the model is told of: all but those of which plugins say that no call would run."""
    stack = data.stack
    if not stack.hiding:
        return data.tools
    return data.tools.without(hidden_tools(stack, data.plugin_states, data.tools.names))


def cycle_messages_of(data: Known) -> tuple[Message, ...]:
    """Give the messages of the running cycle, also those that a summary stands for by now; none without a cycle."""
    cycle = data.cycle
    return () if cycle is None else (*cycle.earlier, *data.history.since(cycle.first_message))


def request_of(
    data: Known,
    attempt: EffectId,
    *,
    last_turn: bool,
    messages: Sequence[Message] | None = None,
) -> ModelRequest:
    """Make the request for the next turn, or its next attempt.

    `messages` are those that are sent in place of the history's own: the same ones, some of them shortened.

    The history goes along as it is, shared and not copied, except on the last turn of a cycle: then a note that never
    enters the history asks for an answer, and the tools are withheld. They stay in the list, because a provider's
    prompt cache begins with it.
    """
    messages = data.history.messages if messages is None else messages
    settings = data.cycle.settings if data.cycle is not None else None
    bound, schema = _limits_of(data, settings)
    if last_turn:
        messages = (*messages, UserMessage(content=(Text(text=LAST_TURN_NOTE),), origin="note"))
    return ModelRequest(
        attempt=attempt,
        model=model_of(data).model,
        system=system_prompt_of(data),
        messages=messages,
        tools=offered_tools_of(data),
        tool_choice="none" if last_turn else "auto",
        max_output_tokens=bound,
        response_format=schema,
        cache_points=data.cycle.cache_points if data.cycle is not None else (),
        settings=settings,
    )


def _limits_of(data: Known, settings: PromptSettings | None) -> tuple[int | None, JsonObject | None]:
    """Give the bound of a response and the schema of the answer: those of the cycle, where it has any, else the session's."""
    config = data.config
    bound, schema = (
        config.max_output_tokens,
        None if config.response_format is None else config.response_format.schema,
    )
    if settings is not None:
        bound = settings.max_output_tokens or bound
        schema = schema if settings.response_format is None else settings.response_format
    return bound, schema


def digest_of(notes: Sequence[str]) -> str:
    """Name what was added to one request only, so that two requests can be compared; empty when nothing was."""
    return hashlib.sha256("\0".join(notes).encode()).hexdigest() if notes else ""
