"""Views of the state: the request to the model, and the status for clients. Read-only, without decisions."""

import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import Final

from attrs import field, frozen

from agentrail.core.policy.budget import BudgetLeft, budget_left
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol.request import EffectId, ModelFacts, ModelRequest
from agentrail.core.session.inline_tags import visible_so_far
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.state import Known, Phase, QueuedPrompt
from agentrail.core.stack.inherited_stack import hidden_tools, options_shown
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
"""Messages of the conversation in a snapshot. A client requests the rest when the user scrolls back."""

LAST_TURN_NOTE: Final = (
    "[This is the last turn of this task: no tool can be called any more. Answer now with what you have, and say what "
    "is missing.]"
)


@frozen(kw_only=True)
class RunningTool:
    """A running call.

    Attributes:
        call_id: The call.
        name: The tool.
        started_at_ms: When its attempt began, in milliseconds since 1970.
        survivor: Whether it runs without a cycle: an abort spared it, or it is `detached`.
        stopping: Whether it is answered already, and its task has not ended yet.
        detached: Whether it was answered early and continues in the background. No event reports its end.
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
        version: Version of its code.
        priority: Lower ones are asked first.
        options: Its current options: those it was loaded with, and later changes. For example, `Permissions` no
            longer shows a plan that was approved. Read-only.
    """

    name: str
    version: str
    priority: int
    options: JsonObject


@frozen(kw_only=True)
class ChildSession:
    """A child session of a call.

    Attributes:
        session_id: Its id. `supervisor.session(id)` returns its handle.
        call_id: The call of its parent session.
        status: Its status, including its own children. Its pending interactions can also be decided through the
            parent session. None if only the core was asked, which knows no other session.
        agent: The agent that it works as, as named by the call that started it. None if the call named none.
    """

    session_id: SessionId
    call_id: CallId
    status: "Status | None" = None
    agent: str | None = None


@frozen(kw_only=True)
class Status:
    """The status of a session.

    Attributes:
        session_id: Its id.
        phase: One of the four, in lower case.
        turn: Turn of the running cycle, from 1. 0 in idle.
        model: The model string.
        queued: The queued prompts, in order. The first may be one that plugins are still judging.
        steers: The queued steers, in order.
        running_tools: The running calls.
        approvals: The pending approvals. Those of children are in `children`.
        questions: The pending questions. Those of children are in `children`.
        suspended: Whether the cycle waits only for the user.
        tearing_down: Whether work stopped by an abort has not ended yet.
        messages: Number of messages in the history.
        usage: Usage of the whole session. Its `cost_usd` is None as soon as one price is unknown.
        budget_left: The budget that is neither booked nor reserved. None without a budget.
        last_seq: The number of the last committed event.
        uptime_ms: Time since it first started, in milliseconds.
        restarts: How often it crashed and restarted.
        dropped_signals: Late outcomes that were dropped.
        quarantined_signals: Signals that crashed the core.
        unconfined_commands: Whether commands run with the user's rights, because `shell_fallback` allows it and no
            sandbox confines them. False until that is known, and where commands are refused. Unknown to the core.
        children: The child sessions of its calls, in the order of the calls, then those in the background.
        plugins: Its plugins, in the order in which they are asked.
        client_calls: The calls that wait for the client. Those of children are in `children`.
        agent: The agent that it works as since a handoff. None before.
        between_turns: Whether plugins decide what follows the turn, after its calls or its answer. The next request
            belongs to the next turn.
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
        """The pending approvals of this session and all sessions below it."""
        below = (child.status.all_approvals for child in self.children if child.status is not None)
        return (*self.approvals, *chain.from_iterable(below))

    @property
    def all_questions(self) -> tuple[Question, ...]:
        """The pending questions of this session and all sessions below it."""
        below = (child.status.all_questions for child in self.children if child.status is not None)
        return (*self.questions, *chain.from_iterable(below))

    @property
    def all_client_calls(self) -> tuple[PendingClientCall, ...]:
        """The pending client calls of this session and all sessions below it."""
        below = (child.status.all_client_calls for child in self.children if child.status is not None)
        return (*self.client_calls, *chain.from_iterable(below))


@frozen(kw_only=True)
class QueuedInput:
    """A message from the user that has not had its turn yet.

    Attributes:
        ref: Its name.
        content: The message.
        steer: Whether it joins the running cycle. Otherwise it starts one of its own.
        request_id: The host's id of the request that sent it. None: no request did.
    """

    ref: PromptRef | SteerRef
    content: tuple[UserBlock, ...]
    steer: bool = False
    request_id: str | None = None


@frozen(kw_only=True)
class LiveText:
    """Text of a session that is not committed yet. Events with such text are never replayed, so a snapshot includes it.

    Attributes:
        attempt: The attempt of the open request at its turn. 0 if no request is open.
        text: Text of its response so far.
        thinking: Thinking text so far.
        progress: The last progress message of each running call that reported one.
    """

    attempt: int
    text: str = field(default="", repr=False)
    thinking: str = field(default="", repr=False)
    progress: tuple[tuple[CallId, str], ...] = ()


@frozen(kw_only=True)
class ContextLength:
    """Fill level of the model's context window.

    Attributes:
        tokens: Input of the last request, including its cached part. After a compaction, an estimate of the new
            length. 0 before the first.
        window: Its limit. None if unknown.
    """

    tokens: int = 0
    window: int | None = None


@frozen(kw_only=True)
class Snapshot:
    """Everything that a late client needs to draw a session.

    Attributes:
        status: Its status, with approvals, questions, running tools, children and plugins.
        queued: Messages of the user that wait, steers first.
        todos: The model's task list.
        text: Text of the streaming response so far.
        last_seq: The number of the last committed event. `subscribe(after=last_seq)` continues from here.
        last_messages: The end of the conversation, at most 50 messages. `status.messages` is the total.
        title: The model's title for the conversation. None before the first.
        first_words: Start of the first message of the user, up to 80 characters on one line. None if there is none,
            or it is no longer known.
        first_seq: The number of the first event that can still be read. `last_seq` + 1 if none can.
        live: Uncommitted text so far. None if there is none. Includes `text`.
        context: How full the model's window is.
        effects: The effect class of each tool, by its name, which tells whether it is safe to run twice. Tools of
            the default class, `once`, are left out.
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
        uptime_ms=max(at_ms - data.started_at_ms, 0),
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
    """Return the agent that a call of the tool `agent` requested. Calls of other tools name none."""
    named = state.arguments.get("subagent_type")
    return named if isinstance(named, str) else None


def snapshot_of(phase: Phase, data: Known, at_ms: int) -> Snapshot:
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
        # `once` is the default for unknown tools, so it is left out.
        effects=tuple([(one.name, one.effect_class) for one in tools_of(data) if one.effect_class != "once"]),
    )


def first_words_in(messages: Sequence[Message]) -> str | None:
    """Return the first words of the first prompt, on one line. None if there are none."""
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
    """Return the model of a session and its fallbacks, in order."""
    return (data.model, *data.config.fallbacks)


def _waiting_prompts(data: Known) -> tuple[QueuedPrompt, ...]:
    """Return the prompts that have not begun: the one that plugins are judging, and the queue."""
    held = data.held.prompt if data.held is not None else None
    return (held, *data.queue) if held is not None else data.queue


def model_of(data: Known) -> ModelFacts:
    """Return the current model of the running cycle. Without a cycle, the model of the next request."""
    place = data.cycle.attempts.model if data.cycle is not None else 0
    return data.config.fallbacks[place - 1] if place else data.model


MODE_SECTION: Final = "mode"
"""Key of a mode's text for the model. It comes before the other sections."""

_NOT_FOR_TASKS: Final = frozenset({"skills", "memory", "agent_memory"})


def own_prompt_of(data: Known) -> str | None:
    """Return the system prompt without its sections: that of the current agent, or that of the session."""
    return data.config.system_prompt if data.acting.prompt is None else data.acting.prompt


def system_prompt_of(data: Known) -> str | None:
    """Join the system prompt and its sections, according to the prompt mode. Sorted, so that the bytes stay the same."""
    own, sections = own_prompt_of(data), system_sections_of(data)
    settings = None if data.cycle is None else data.cycle.settings
    instructions = None if settings is None else settings.instructions
    if not (sections or instructions):
        return own
    parts = [own, *[text for _, text in sections], instructions]
    return "\n\n".join([text for text in parts if text]) or None


def system_sections_of(data: Known) -> list[tuple[str, str]]:
    """Return the sections of the system prompt, by name, according to the prompt mode."""
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
    return section[0] != MODE_SECTION, section[0]


def configured_names(data: Known) -> frozenset[str]:
    """Return the names of models, tools and plugins that the session's configuration knows, and none that a caller chose."""
    config = data.config
    facts = [config.model, *config.fallbacks, *[one.model for one in config.agents if one.model is not None]]
    return frozenset([*[one.model for one in facts], *data.tools.names, *data.stack.names])


def tools_of(data: Known) -> Toolbox:
    """Return the tools of the running cycle: those of the session, and the client tools of its prompt."""
    settings = data.cycle.settings if data.cycle is not None else None
    return data.tools if settings is None else data.tools.joined(settings.tools)


def offered_tools_of(data: Known) -> Toolbox:
    """Return the tools that the model sees: all except those that plugins would always refuse."""
    stack, tools = data.stack, tools_of(data)
    if not stack.hiding:
        return tools
    return tools.without(hidden_tools(stack, data.plugin_states, tools.names))


def cycle_messages_of(data: Known) -> tuple[Message, ...]:
    """Return the messages of the running cycle, including those replaced by a summary. Empty without a cycle."""
    cycle = data.cycle
    return () if cycle is None else (*cycle.earlier, *data.history.since(cycle.first_message))


def request_of(
    data: Known,
    attempt: EffectId,
    *,
    last_turn: bool,
    messages: Sequence[Message] | None = None,
) -> ModelRequest:
    """Return the request for the next turn, or for its next attempt.

    `messages` are sent in place of the history's own: the same ones, some of them shortened.

    The history is shared and not copied, except on the last turn of a cycle. Then a note that never enters the
    history asks for an answer, and the tools are withheld. They stay in the list, because a provider's prompt cache
    begins with it.
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
    """Return the output limit and the schema of the answer: those of the cycle, if any, otherwise those of the session."""
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
    """Return the digest of notes added to one request only, so that two requests can be compared. Empty without notes."""
    return hashlib.sha256("\0".join(notes).encode()).hexdigest() if notes else ""
