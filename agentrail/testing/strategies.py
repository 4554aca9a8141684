"""Hypothesis strategies for the signals of a session, and for its plugins."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Final, TypeVar, get_args

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from agentrail import messages as m
from agentrail.core.policy.budget import spent_of
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.hooks import HOOKS, FileText, RequestFailed
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import (
    Chunk,
    EffectId,
    ModelFacts,
    ReasoningDelta,
    TextDelta,
    UsageUpdate,
)
from agentrail.core.protocol.tool_changes import Change, RequestCompaction, UpdateContext, UpdateTodos
from agentrail.core.protocol.tool_questions import ToolQuestion
from agentrail.core.session import machine
from agentrail.core.session.state import SessionState
from agentrail.core.values.toolbox import read_call
from agentrail.errors import ErrorInfo, InternalError
from agentrail.events import AbortReceipt, StatusUpdate, Todo, ToolSourceState
from agentrail.testing.open_effects import (
    fit as fit,  # noqa: PLC0414 - users of the strategies find it here
    open_ids,
)
from agentrail.testing.plugins import PUPPET_ACTIONS, PUPPET_ORIGIN, PuppetPlugin, PuppetRule
from agentrail.testing.scenario_signals import plain_tool

# Recoveries in another process.
#
# The open effects are known only once there is a state: places are drawn, and `open_effects.py` replaces them with ids.


def recoveries() -> SearchStrategy[s.Recovered]:
    """Recoveries of any cause, including the third in a row."""
    return st.builds(
        s.Recovered,
        at_ms=st.just(0),
        cause=st.sampled_from(("start", "lease_over", "gone", "drain", "restored")),
        # All open effects, every other one, none, and a late one.
        open=st.sampled_from((("all",), ("all",), ("some",), (), ("late",))).map(
            lambda places: tuple(map(EffectId, places))
        ),
        attempt=st.sampled_from((1, 1, 2, 3)),
        host_hooks=st.sampled_from(((), (), ("before_tool",), ("after_tool", "before_tool"))),
        gathers_context=st.sampled_from((None, None, True, False)),
        models=st.sampled_from(
            ((), (ModelFacts(model=MODEL, context_window=9_000, window_is_assumed=False),))
        ),
    )


# A form and its answers.

FORM: Final[m.JsonObject] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "side": {"enum": ["left", "right"], "default": "left"},
        "sure": {"type": "boolean"},
        "both": {"type": "array", "items": {"enum": ["left", "right"]}, "maxItems": 1},
    },
    "required": ["name"],
}
"""A form with a field of each kind."""
# Filled in correctly, with invalid fields, with fields of another form, and empty.
FILLED: Final[tuple[m.JsonObject, ...]] = (
    {"name": "Ada", "age": 36.0, "sure": True},
    {"age": -1, "side": "up"},
    {"name": "Ada", "both": ["right"]},
    {"street": "x"},
    {},
)


S = TypeVar("S", bound=s.Signal)
T = TypeVar("T")

TOOL_NAMES: Final = ("read", "read", "watch", "deploy", "ask", "front", "raed")
MODEL: Final = "scripted:model"

# Few ids, so that they collide. They include an empty id, an id that no vendor should send, and an id like ours.
CALL_IDS: Final = ("c1", "c2", "c3", "", "c/1", "call_r1_1")
_ARGUMENTS: Final = (
    *("{}", "{}", "{}", '{"path": "a"}', '{"question": "?", "options": ["left", "right"]}'),
    '{"question": "?", "schema": {"type": "object", "properties": {"name": {"type": "string"}}}}',
    *('{"path": 3}', '{"path": ', "[]", ""),
)
_PLACES: Final = ("0", "0", "0", "1", "2", "late")

_words: Final = st.sampled_from(("a", "b", "It is", "…", "word " * 20))
_spoken: Final = _words | st.sampled_from(("<title>A fox</title>", "<status>", "</status>", "`", "<"))
_images: Final = st.builds(m.Image, media_type=st.just("image/png"), data=st.just("iVBORw0KGgo="))
_JITTERS: Final = st.sampled_from((0.0, 0.5, 0.999))
_doors: Final = st.sampled_from((None, None, "http", "acp"))
_request_ids: Final = st.sampled_from((None, None, "req-1", "req-2"))
_digests: Final = st.sampled_from((None, None, "0" * 64, "f" * 64))
_traces: Final = st.sampled_from((None, None, m.TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-01")))
# With a time limit, like all that waits for the user here: every run comes to an end.
_BROUGHT: Final = replace(plain_tool("raed"), answered_by="client", timeout_seconds=1.0)
_settings: Final = st.sampled_from(
    (
        None,
        None,
        None,
        PromptSettings(temperature=0.5, max_output_tokens=7),
        PromptSettings(response_format={"type": "object"}),
        PromptSettings(tools=(_BROUGHT,)),
        PromptSettings(instructions="Be brief."),
        PromptSettings(max_cost_usd=0.5),
        PromptSettings(tools=(replace(_BROUGHT, name="read"),)),
    )
)
_client_ids: Final = st.sampled_from((None, None, None, "web-1", "web-2"))
_ORIGIN: Final = MappingProxyType({"client_id": _client_ids, "via": _doors, "request_id": _request_ids})


def _errors() -> SearchStrategy[ErrorInfo]:
    """Errors that may be transient, that another model may avoid, and that are permanent."""
    codes = ("transport", "overloaded", "rate_limited", "protocol_error", "bad_request", "context_overflow")
    return st.builds(
        ErrorInfo,
        code=st.sampled_from(codes),
        message=st.just("it broke"),
        retryable=st.booleans(),
        retry_after_seconds=st.sampled_from((None, None, 7.0, 3600.0)),
    )


# --- values


def tool_calls(names: Sequence[str] = TOOL_NAMES) -> SearchStrategy[m.ToolCall]:
    """Calls as a model makes them: valid ones, unknown tools, arguments that are wrong or not JSON, ids used twice.

    Args:
        names: Names of the called tools. Include names of tools that do not exist.
    """
    return st.builds(
        read_call, st.sampled_from(CALL_IDS), st.sampled_from(list(names)), st.sampled_from(_ARGUMENTS)
    )


def messages() -> SearchStrategy[m.Message]:
    """Messages with blocks of every kind that a vendor's wire format can express."""
    texts = st.builds(m.Text, text=st.text(min_size=1))
    files = st.builds(m.FileRef, path=st.sampled_from(("README.md", "a/b.txt")))
    thoughts = st.builds(
        m.Thinking, text=st.text(), signature=st.none() | st.just("signed"), provider=st.just("scripted")
    )
    results = st.builds(
        m.ToolResult,
        call_id=st.sampled_from(("c1", "c2")).map(m.CallId),
        name=st.sampled_from(TOOL_NAMES),
        text=st.text(min_size=1),
        is_error=st.booleans(),
        images=_tuples(_images, max_size=2),
    )
    return st.one_of(
        st.builds(m.UserMessage, content=_tuples(texts | _images | files, min_size=1)),
        st.builds(
            m.AssistantMessage,
            content=_tuples(texts | thoughts | tool_calls(), min_size=1),
            model=st.just(MODEL),
        ),
        st.builds(m.ToolMessage, results=_tuples(results, min_size=1)),
    )


# --- plugins

_PLUGIN_NAMES: Final = ("anna", "bert", "carl", "dora", "emil")
_PRIORITIES: Final = (50, 60, 500, 600)
_TEXT_OF: Final[Mapping[str, str]] = MappingProxyType(
    {"args": '{"path": "z"}', "model": "scripted:other", "resolve": "scenario/a3"}
)


def plugins(actions: Iterable[str] = PUPPET_ACTIONS) -> SearchStrategy[PuppetPlugin]:
    """Plugins that answer some hooks with any action, including meaningless ones, and that sometimes fail.

    Args:
        actions: The words of the actions to draw, from `agentrail.testing.plugins.PUPPET_ACTIONS`.
    """
    rules = st.builds(
        lambda hook, tool, action: PuppetRule(
            hook=hook.__name__, tool=tool, action=action, text=_TEXT_OF.get(action, "t")
        ),
        st.sampled_from(HOOKS),
        st.sampled_from((None, None, "read", "deploy")),
        st.sampled_from(sorted(actions)),
    )
    return st.builds(
        PuppetPlugin,
        _tuples(rules, min_size=1, max_size=3),
        name=st.sampled_from(_PLUGIN_NAMES),
        priority=st.sampled_from(_PRIORITIES),
    )


def stacks(
    max_size: int = 4, actions: Iterable[str] = PUPPET_ACTIONS
) -> SearchStrategy[tuple[PuppetPlugin, ...]]:
    """Stacks of such plugins, in the order of registration."""
    drawn = st.lists(plugins(actions), max_size=max_size, unique_by=lambda plugin: plugin.name)
    return drawn.map(tuple)


# --- signals, with places instead of ids until `fit` gets the state


def prompts() -> SearchStrategy[s.Prompt]:
    """Prompts that ask for a receipt, or for the text of their own cycle."""
    return _asked(
        s.Prompt, ref=st.just(""), content=_tuples(st.builds(m.Text, text=_words), min_size=1, max_size=2),
        reply=st.sampled_from(("receipt", "text")), **_ORIGIN, digest=_digests, settings=_settings, trace=_traces,
    )  # fmt: skip


def goings_on() -> SearchStrategy[s.GoOn]:
    """Requests to continue without a new prompt. Most arrive when there is nothing to continue."""
    return _asked(s.GoOn, ref=st.just(m.PromptRef("")), **_ORIGIN, digest=_digests, settings=_settings)


def steers() -> SearchStrategy[s.Steer]:
    """Steering messages of users for a running cycle."""
    return _asked(s.Steer, ref=st.just(m.SteerRef("")), text=_words, **_ORIGIN)


def decisions() -> SearchStrategy[s.Signal]:
    """Decisions of users, valid and invalid: on pending requests, on decided ones, and on unknown ones."""
    approvals = st.sampled_from(_PLACES).map(m.ApprovalId)
    return st.one_of(
        _asked(
            s.Approve,
            approval_id=approvals,
            how=st.sampled_from(("once", "always")),
            arguments=st.sampled_from((None, None, {"path": "b"}, {"path": 3})),
            auto_resume=st.booleans(),
        ),
        _asked(s.Reject, approval_id=approvals, reason=st.none() | _words, auto_resume=st.booleans()),
        _answers(),
        _answers(),
        _asked(
            s.AnswerCall,
            ref=st.sampled_from(_PLACES).map(m.ClientCallRef),
            text=_words,
            is_error=st.booleans(),
            details=st.sampled_from((None, {"a": [1.5, None]})),
        ),
        _asked(s.Decline, ref=st.sampled_from(_PLACES).map(m.QuestionRef), reason=st.none() | _words),
        _asked(
            s.RevokeRule,
            tool=st.sampled_from(("ask", "shell", "write_file", "*")),
            command_family=st.none() | _words,
            breakpoint=st.sampled_from((None, None, "set", "end")),
        ),
        _asked(
            s.AgentCommand,
            action=st.sampled_from(("spawn", "spawn", "send", "close")),
            name=st.sampled_from(("", "agent-1", "agent-2", "a b")),
            agent=st.sampled_from(("scout", "none")),
            text=_words | st.just(""),
            now=st.booleans(),
        ),
    )


def tool_aborts() -> SearchStrategy[s.AbortTool]:
    """Requests of a caller to stop one call."""
    return _asked(s.AbortTool, call_id=st.sampled_from(_PLACES).map(m.CallId), reason=st.none() | _words)


def changes() -> SearchStrategy[s.Signal]:
    """Changes of the model, the plugins, and the tools, by known and unknown names."""
    names = ("read", "watch", "grep", "glob")
    specs = st.lists(st.sampled_from(names), max_size=2, unique=True).map(
        lambda chosen: tuple(map(plain_tool, chosen))
    )
    models = st.builds(ModelFacts, model=st.sampled_from((MODEL, "scripted:other")))
    return st.one_of(
        _asked(s.ChangeModel, model=models, opts_changed=st.booleans()),
        _asked(
            s.ChangeTools,
            attach=specs,
            detach=_tuples(st.sampled_from(names), max_size=2),
            replace=st.sampled_from((False, False, True)),
            generation=st.just(0),
            sections=_tuples(st.tuples(st.just("mcp.s"), st.sampled_from(("Search.", None))), max_size=1),
            agents=_tuples(st.tuples(st.just("scout"), st.none() | specs), max_size=1),
        ),
        _asked(
            s.ToolSourceReported,
            source=st.sampled_from(("mcp:files", "mcp:tracker")),
            state=st.sampled_from(get_args(ToolSourceState)),
            reason=st.none() | _words,
        ),
        _asked(s.UpdatePluginOpts, plugin=st.just("unknown"), options=st.just({"strict": True})),
        plugin_changes(),
    )


def plugin_changes() -> SearchStrategy[s.ChangePlugins]:
    """Plugins that are attached, detached and reloaded. Some are attached already, and the code of some is missing."""
    records = st.builds(
        PluginRecord,
        name=st.sampled_from(_PLUGIN_NAMES),
        version=st.just("1"),
        origin=st.sampled_from((PUPPET_ORIGIN, PUPPET_ORIGIN, "gone.away:Plugin")),
        options=st.sampled_from((None, None, {}, {"unknown": 1})),
    )
    return st.one_of(
        _asked(s.ChangePlugins, change=st.just("detach"), name=st.sampled_from((*_PLUGIN_NAMES, "unknown"))),
        records.flatmap(
            lambda record: _asked(
                s.ChangePlugins,
                change=st.sampled_from(("attach", "reload")),
                name=st.just(record.name),
                entry=st.sampled_from((record, record, record, None)),
            )
        ),
    )


def aborts() -> SearchStrategy[s.AbortCycle]:
    """Aborts of every policy."""
    return _asked(
        s.AbortCycle,
        reason=st.none() | _words,
        kill_tools=st.sampled_from(("killable", "all", "none")),
        clear_queue=st.booleans(),
        wait=st.booleans(),
        ref=st.sampled_from((None, None, None, m.PromptRef("s1"), m.PromptRef("s2"), m.PromptRef("s3"))),
    )


def stops() -> SearchStrategy[s.StopSession]:
    """Requests of a caller to end the session."""
    return _asked(s.StopSession, reason=_words)


def questions() -> SearchStrategy[s.Signal]:
    """Queries and other requests of users, including unsupported ones."""
    return st.one_of(
        _asked(s.ReplyQuery),
        _asked(s.ReplyQuery),
        _asked(s.StatusQuery),
        _asked(s.MessagesQuery),
        _asked(s.SnapshotQuery),
        goings_on(),
        _asked(s.ReceiptQuery, client_id=st.sampled_from(("web-1", "web-3")), digest=_digests),
        _asked(s.Compact, reason=st.none() | _words),
    )


def stream_outcomes(names: Sequence[str] = TOOL_NAMES) -> SearchStrategy[s.Signal]:
    """Outcomes of a request: its first chunk, deltas, the response, or a failure."""
    return st.one_of(
        _outcome(s.StreamStarted),
        chunk_signals(),
        responses(names),
        responses(names),
        _outcome(s.StreamFailed, error=_errors(), usage=_usages(), jitter=_JITTERS),
    )


def chunk_signals() -> SearchStrategy[s.ChunksArrived]:
    """Chunks of a stream: text with complete and partial tags, thoughts, token counts."""
    chunks: SearchStrategy[Chunk] = st.one_of(
        st.builds(TextDelta, _spoken), st.builds(ReasoningDelta, _words), st.builds(UsageUpdate, _usages())
    )
    return _outcome(s.ChunksArrived, chunks=_tuples(chunks, max_size=3))


def responses(
    names: Sequence[str] = TOOL_NAMES, calls: SearchStrategy[m.ToolCall] | None = None
) -> SearchStrategy[s.ResponseCompleted]:
    """Complete responses: empty, or text, thoughts and calls in any order. Some are cut by the output limit."""
    blocks = st.one_of(
        st.builds(m.Text, text=_words),
        st.builds(m.Thinking, text=_words, provider=st.just("scripted")),
        tool_calls(names) if calls is None else calls,
        tool_calls(names) if calls is None else calls,
    )
    stop_reasons: SearchStrategy[m.StopReason] = st.sampled_from(("end", "tool_use", "max_tokens"))
    return stop_reasons.flatmap(
        lambda stop_reason: _outcome(
            s.ResponseCompleted,
            message=st.builds(
                m.AssistantMessage,
                content=_tuples(blocks, max_size=4),
                model=st.just(MODEL),
                stop_reason=st.just(stop_reason),
            ),
            usage=_usages(),
            stop_reason=st.just(stop_reason),
            jitter=_JITTERS,
            misfit=st.sampled_from((None, None, None, "$: there is no 30th of February")),
        )
    )


def tool_outcomes() -> SearchStrategy[s.Signal]:
    """Outcomes of a call: progress, results, errors, and crashes after which it may be retried."""
    ended = partial(_outcome, s.ToolFinished, text=_words, started_at_ms=st.just(0))
    finished = ended(
        is_error=st.booleans(),
        spent=st.none() | _usages().map(lambda usage: spent_of(usage, None)),
        images=_tuples(_images, max_size=2),
        ran_ms=st.none() | st.integers(0, 9),
    )
    crashed = ended(is_error=st.just(value=True), crashed=st.just(value=True), jitter=_JITTERS)
    changing = ended(
        late=st.booleans(), changes=st.tuples(session_changes()), value=st.none() | late_values()
    )
    waits = st.sampled_from((None, 1.0))
    asked = st.builds(ToolQuestion, question=_words, timeout_seconds=waits, state=_words)
    asking = ended(is_error=st.just(value=True), asks=asked)
    spoken = st.one_of(
        _outcome(s.ToolProgressed, text=_words),
        _outcome(s.ToolEmitted, name=_words),
        _outcome(s.ToolAnsweredEarly, text=_words, started_at_ms=st.just(0), ran_ms=st.integers(0, 9)),
        _asked(
            s.ToolAsked,
            effect_id=st.sampled_from(_PLACES).map(EffectId),
            question=_words,
            options=_tuples(_words, max_size=2),
            timeout_ms=st.none() | st.just(1_000),
            schema=st.sampled_from((None, None, FORM)),
            url=st.sampled_from((None, None, "https://example.org/consent")),
        ),
        _asked(
            s.ToolWantsChild,
            effect_id=st.sampled_from(_PLACES).map(EffectId),
            prompt=_words,
            max_turns=st.none() | st.integers(0, 2),
        ),
    )
    return st.one_of(spoken, finished, finished, finished, crashed, crashed, changing, asking)


def host_outcomes() -> SearchStrategy[s.Signal]:
    """Outcomes of host hooks: calls are allowed, denied, or changed to valid or invalid arguments. Notices are delivered."""
    return st.one_of(host_verdicts(), host_verdicts(), _outcome(s.HostTold))


def host_verdicts() -> SearchStrategy[s.HostJudged]:
    """Verdicts of a host on a call."""
    written: SearchStrategy[Mapping[str, object]] = st.sampled_from(
        ({"path": "h"}, {"path": "i"}, {"path": 3}, {})
    )
    return _outcome(
        s.HostJudged,
        deny=st.sampled_from((None, None, None, "no", "")),
        arguments=st.none() | written,
        by=st.sampled_from(("host", "audit")),
    )


def contexts() -> SearchStrategy[s.ContextGathered]:
    """Context gathered for the requests of a turn: none, little, and more than the remaining budget."""
    return _outcome(
        s.ContextGathered,
        count=st.integers(0, 2),
        digest=st.sampled_from(("", "abc")),
        tokens=st.sampled_from((0, 5, 5_000)),
    )


def agent_outcomes() -> SearchStrategy[s.Signal]:
    """Outcomes of a background agent: it starts, publishes an event, becomes idle, ends."""
    spent = _usages().map(lambda usage: spent_of(usage, None))
    published = st.builds(StatusUpdate, text=_words)
    return st.one_of(
        _outcome(s.ChildStarted, child_id=st.just(m.SessionId("s.agent-1"))),
        _outcome(s.ChildPublished, event=published),
        _outcome(
            s.AgentIdled,
            outcome=st.sampled_from(("finished", "aborted", "failed")),
            text=_words,
            turns=st.integers(0, 3),
            spent=spent,
        ),
        _outcome(s.AgentIdled, outcome=st.just("finished"), text=_words, turns=st.just(1), spent=spent),
        _outcome(s.AgentEnded, reason=_words, is_lost=st.booleans(), spent=st.none() | spent),
    )


def session_changes() -> SearchStrategy[Change]:
    """Changes that a tool may make to its session."""
    todos = st.builds(Todo, id=_words, content=_words)
    return st.one_of(
        st.builds(UpdateTodos, todos=st.lists(todos, max_size=3, unique_by=lambda todo: todo.id).map(tuple)),
        st.builds(UpdateContext, key=st.sampled_from(("memory", "plan")), value=st.none() | _words),
        st.builds(RequestCompaction, reason=st.none() | _words),
    )


def timers() -> SearchStrategy[s.TimerFired]:
    """Timers that have fired."""
    return _outcome(s.TimerFired, jitter=_JITTERS)


def late_values() -> SearchStrategy[s.LateValue]:
    """Values of calls that were stopped too late."""
    return st.builds(
        s.LateValue,
        call_id=st.sampled_from(("c1", "c2", "c9")).map(m.CallId),
        name=st.just("read"),
        text=_words,
        is_error=st.booleans(),
    )


def teardown_outcomes() -> SearchStrategy[s.TeardownFinished]:
    """Outcomes of a teardown."""
    return _outcome(
        s.TeardownFinished,
        receipt=st.builds(AbortReceipt, tasks_ended=st.integers(0, 2)),
        values=st.lists(late_values(), max_size=2, unique_by=lambda value: value.call_id).map(tuple),
    )


def plugin_request_outcomes() -> SearchStrategy[s.PluginRequestFinished]:
    """Outcomes of plugin requests."""
    found = st.builds(FileText, path=st.just("AGENTS.md"), text=_words)
    failed = st.builds(RequestFailed, error=_errors(), usage=st.none() | _usages())
    return _outcome(s.PluginRequestFinished, result=found | failed)


def notices(*, parked: bool = True) -> SearchStrategy[s.Signal]:
    """Notices of a supervisor: crashes of the actor or of a step, recoveries, slow plugins.

    The last notice (`Parked`) is included unless `parked` is false.
    """
    restarted = st.builds(s.Restarted, at_ms=st.just(0), reason=_words, incarnation=st.just(2))
    crashed = st.builds(
        s.StepCrashed,
        at_ms=st.just(0),
        signal_kind=st.sampled_from(("Prompt", "Prompt", "Recovered")),
        error=st.just(ErrorInfo(code="internal", message="a bug")),
        asked_by=st.sampled_from((None, s.SignalId("caller"))),
    )
    lagged = st.just(s.PluginLagged(at_ms=0, plugin="unknown", hook="BeforeTool", milliseconds=80))
    last = st.builds(s.Parked, at_ms=st.just(0), reason=_words)
    others = (restarted, recoveries(), crashed, lagged)
    return st.one_of(*others, last) if parked else st.one_of(*others)


def signals(names: Sequence[str] = TOOL_NAMES) -> SearchStrategy[s.Signal]:
    """Any signal. Those that make a session progress are drawn more often. Pass each one through `fit` before use."""
    return st.one_of(
        prompts(),
        stream_outcomes(names),
        stream_outcomes(names),
        stream_outcomes(names),
        tool_outcomes(),
        tool_outcomes(),
        teardown_outcomes() | contexts(),
        timers(),
        steers(),
        decisions(),
        st.one_of(questions(), tool_aborts(), changes(), plugin_request_outcomes(), host_outcomes()),
        aborts(),
        st.one_of(notices(parked=False), stops(), notices()),
    )


_signals_of: Final = cache(signals)


@st.composite
def scripts(
    draw: st.DrawFn, start: SessionState, names: Sequence[str] = TOOL_NAMES, max_size: int = 40
) -> tuple[s.Signal, ...]:
    """Long lists of signals that fit one another, for a session that starts in the given state."""
    state = start
    script: list[s.Signal] = []
    # The length is drawn first, because lists with only a maximum are short: usually five signals.
    lengths = st.integers(0, max_size)
    for drawn in draw(lengths.flatmap(lambda n: st.lists(_signals_of(tuple(names)), min_size=n, max_size=n))):
        if isinstance(drawn, s.EffectOutcome) and drawn.effect_id != "late" and not open_ids(drawn, state):
            continue  # late ones are drawn on purpose, and more of them would keep sessions from progressing
        signal = fit(drawn, state, len(script) + 1)
        script.append(signal)
        try:
            state, _ = machine.step(state, signal)
        except InternalError:
            break  # the caller that runs the script gets the same error and reports it
    return tuple(script)


def _answers() -> SearchStrategy[s.Respond]:
    return _asked(
        s.Respond,
        ref=st.sampled_from(_PLACES).map(m.QuestionRef),
        response=_words | st.integers(0, 2) | st.sampled_from(FILLED),
    )


def _usages() -> SearchStrategy[m.TokenUsage]:
    return st.builds(m.TokenUsage, input=st.integers(0, 9), output=st.integers(0, 9))


def _tuples(
    elements: SearchStrategy[T], *, min_size: int = 0, max_size: int = 4
) -> SearchStrategy[tuple[T, ...]]:
    return st.lists(elements, min_size=min_size, max_size=max_size).map(tuple)


def _asked(kind: type[T], **fields: SearchStrategy[object]) -> SearchStrategy[T]:
    return st.builds(kind, at_ms=st.just(0), signal_id=st.just(s.SignalId("")), **fields)


def _outcome(kind: type[T], **fields: SearchStrategy[object]) -> SearchStrategy[T]:
    return st.builds(kind, at_ms=st.just(0), effect_id=st.sampled_from(_PLACES).map(EffectId), **fields)


# Calls of other agents.


def agent_calls() -> SearchStrategy[m.ToolCall]:
    """Calls of the agent tools, as a model makes them: valid ones, and ones with unknown agents and names."""
    names = st.sampled_from(("agent-1", "agent-1", "agent-2", "anna", "unknown", "a b"))
    texts = st.sampled_from(("Look.", "Look.", "Write.", " "))
    arguments: Mapping[str, SearchStrategy[object]] = {
        "spawn_agent": st.fixed_dictionaries(
            {"agent": st.sampled_from(("scout", "scout", "waker", "wizard")), "task": texts},
            optional={"name": names},
        ),
        "send_input": st.fixed_dictionaries({"name": names, "text": texts}),
        "wait_agents": st.fixed_dictionaries(
            {},
            optional={
                "names": st.lists(names, max_size=2),
                "match": st.sampled_from(("all", "any")),
                "until": st.sampled_from(("idle", "closed")),
                "timeout_seconds": st.sampled_from((1, 0, "soon")),
            },
        ),
        "handoff_to": st.fixed_dictionaries(
            {"agent": st.sampled_from(("poet", "clerk", "wizard"))}, optional={"note": texts}
        ),
        "close_agent": st.fixed_dictionaries({"name": names}, optional={"now": st.booleans()}),
    }
    made: list[SearchStrategy[m.ToolCall]] = [
        st.builds(read_call, st.sampled_from(CALL_IDS), st.just(name), given.map(_json))
        for name, given in arguments.items()
    ]
    return st.one_of(made[0], *made)


def spawning_calls() -> SearchStrategy[m.ToolCall]:
    """Calls that start an agent, if the limit allows one more. Most other agent calls need an existing agent."""
    said = ('{"agent": "scout", "task": "Look."}', '{"agent": "waker", "task": "Look."}')
    return st.builds(read_call, st.sampled_from(CALL_IDS), st.just("spawn_agent"), st.sampled_from(said))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
