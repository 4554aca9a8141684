"""Hypothesis strategies for what a session says and hears, and for the plugins that it asks.

An outcome means something only if its effect is open, and which ids are open depends on all that came before. So `signals`
draws outcomes whose id is a place (the first open effect, the second, a late one), and `fit` puts the id in that a given
state has there; so it is with what people decide, and with the calls that they stop. A script stays a plain list that way, which Hypothesis shrinks well.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from agentrail.core.policy.budget import spent_of
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.changes import Change, RequestCompaction, UpdateContext, UpdateTodos
from agentrail.core.protocol.hooks import HOOKS, FileText, RequestFailed
from agentrail.core.protocol.request import (
    Chunk,
    EffectId,
    ModelFacts,
    ReasoningDelta,
    TextDelta,
    UsageUpdate,
)
from agentrail.core.session import machine
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.owners import OfChild, owned_by
from agentrail.core.session.state import SessionState
from agentrail.core.values.toolbox import ToolSpec, read_call
from agentrail.errors import ErrorInfo, InternalError
from agentrail.events import AbortReceipt, Todo
from agentrail.messages import (
    ApprovalId,
    AssistantMessage,
    CallId,
    FileRef,
    Image,
    Message,
    PromptRef,
    QuestionRef,
    SteerRef,
    StopReason,
    Text,
    Thinking,
    TokenUsage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.testing.plugins import PUPPET_ACTIONS, PuppetPlugin, PuppetRule
from agentrail.testing.promises.seen import plugin_requests_of, teardowns_of

S = TypeVar("S", bound=s.Signal)

TOOL_NAMES: Final = ("read", "read", "watch", "deploy", "ask", "raed")
MODEL: Final = "scripted:model"

# Few ids, so that they meet; an empty one, one that no vendor should send, and one that looks like ours.
_CALL_IDS: Final = ("c1", "c2", "c3", "", "c/1", "call_r1_1")
_ARGUMENTS: Final = (
    *("{}", "{}", "{}", '{"path": "a"}', '{"question": "?", "options": ["left", "right"]}'),
    *('{"path": 3}', '{"path": ', "[]", ""),
)
_PLACES: Final = ("0", "0", "0", "1", "2", "late")

_words: Final = st.sampled_from(("a", "b", "It is", "…", "word " * 20))
_spoken: Final = _words | st.sampled_from(("<title>A fox</title>", "<status>", "</status>", "`", "<"))
_JITTERS: Final = st.sampled_from((0.0, 0.5, 0.999))
_client_ids: Final = st.sampled_from((None, None, None, "web-1", "web-2"))


def _errors() -> SearchStrategy[ErrorInfo]:
    """Errors that may pass, that another model may not have, and that nothing helps against."""
    codes = ("transport", "overloaded", "rate_limited", "protocol_error", "bad_request", "context_overflow")
    return st.builds(
        ErrorInfo,
        code=st.sampled_from(codes),
        message=st.just("it broke"),
        retryable=st.booleans(),
        retry_after_seconds=st.sampled_from((None, None, 7.0, 3600.0)),
    )


# --- values


def tool_calls(names: Sequence[str] = TOOL_NAMES) -> SearchStrategy[ToolCall]:
    """Calls as a model makes them: good ones, unknown tools, arguments that are wrong or no JSON, ids used twice.

    Args:
        names: What the model calls; take names that are not there among them.
    """
    return st.builds(
        read_call, st.sampled_from(_CALL_IDS), st.sampled_from(list(names)), st.sampled_from(_ARGUMENTS)
    )


def messages() -> SearchStrategy[Message]:
    """Messages with blocks of every kind that a vendor's wire format has a word for."""
    texts = st.builds(Text, text=st.text(min_size=1))
    images = st.builds(Image, media_type=st.just("image/png"), data=st.just("iVBORw0KGgo="))
    files = st.builds(FileRef, path=st.sampled_from(("README.md", "a/b.txt")))
    thoughts = st.builds(
        Thinking, text=st.text(), signature=st.none() | st.just("signed"), provider=st.just("scripted")
    )
    results = st.builds(
        ToolResult,
        call_id=st.sampled_from(("c1", "c2")).map(CallId),
        name=st.sampled_from(TOOL_NAMES),
        text=st.text(min_size=1),
        is_error=st.booleans(),
    )
    return st.one_of(
        st.builds(UserMessage, content=_tuples(texts | images | files, min_size=1)),
        st.builds(
            AssistantMessage,
            content=_tuples(texts | thoughts | tool_calls(), min_size=1),
            model=st.just(MODEL),
        ),
        st.builds(ToolMessage, results=_tuples(results, min_size=1)),
    )


# --- plugins

_PLUGIN_NAMES: Final = ("anna", "bert", "carl", "dora", "emil")
_PRIORITIES: Final = (50, 60, 500, 600)
_TEXT_OF: Final[Mapping[str, str]] = MappingProxyType(
    {"args": '{"path": "z"}', "model": "scripted:other", "resolve": "scenario/a3"}
)


def plugins(actions: Iterable[str] = PUPPET_ACTIONS) -> SearchStrategy[PuppetPlugin]:
    """Plugins that answer some hooks with any action, also where it means nothing, and that sometimes fail.

    Args:
        actions: The words of the actions that they take, of `agentrail.testing.plugins.ACTIONS`.
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


# --- signals, whose ids are places until `fit` has seen the state


def prompts() -> SearchStrategy[s.Prompt]:
    """Prompts that want a receipt, or the text of their own cycle."""
    return _asked(
        s.Prompt, ref=st.just(""), content=_tuples(st.builds(Text, text=_words), min_size=1, max_size=2),
        reply=st.sampled_from(("receipt", "text")), client_id=_client_ids,
    )  # fmt: skip


def steers() -> SearchStrategy[s.Steer]:
    """What people say into a running cycle."""
    return _asked(s.Steer, ref=st.just(SteerRef("")), text=_words, client_id=_client_ids)


def decisions() -> SearchStrategy[s.Signal]:
    """What people decide: about what waits, about what is decided already, and about what never was; well and badly."""
    approvals = st.sampled_from(_PLACES).map(ApprovalId)
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
    )


def tool_aborts() -> SearchStrategy[s.AbortTool]:
    """A caller stops one call."""
    return _asked(s.AbortTool, call_id=st.sampled_from(_PLACES).map(CallId), reason=st.none() | _words)


def changes() -> SearchStrategy[s.Signal]:
    """Another model; other tools, of names that are there and of names that are not; plugins that are not there."""
    names = ("read", "watch", "grep", "glob")
    specs = st.lists(st.sampled_from(names), max_size=2, unique=True).map(
        lambda chosen: tuple(map(_plain_tool, chosen))
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
        ),
        _asked(s.UpdatePluginOpts, plugin=st.just("unknown"), options=st.just({"strict": True})),
        _asked(s.ChangePlugins, change=st.just("detach"), name=st.just("unknown")),
    )


def aborts() -> SearchStrategy[s.AbortCycle]:
    """Aborts of every policy."""
    return _asked(
        s.AbortCycle,
        reason=st.none() | _words,
        kill_tools=st.sampled_from(("killable", "all", "none")),
        clear_queue=st.booleans(),
        wait=st.booleans(),
    )


def stops() -> SearchStrategy[s.StopSession]:
    """The end that a caller wants."""
    return _asked(s.StopSession, reason=_words)


def questions() -> SearchStrategy[s.Signal]:
    """What people ask, also for what this version does not do."""
    return st.one_of(
        _asked(s.ReplyQuery),
        _asked(s.ReplyQuery),
        _asked(s.StatusQuery),
        _asked(s.MessagesQuery),
        _asked(s.SnapshotQuery),
        _asked(s.Compact, reason=st.none() | _words),
    )


def stream_outcomes(names: Sequence[str] = TOOL_NAMES) -> SearchStrategy[s.Signal]:
    """What comes of a request: its first chunk, deltas, the response, or a failure."""
    chunks: SearchStrategy[Chunk] = st.one_of(
        st.builds(TextDelta, _spoken), st.builds(ReasoningDelta, _words), st.builds(UsageUpdate, _usages())
    )
    return st.one_of(
        _outcome(s.StreamStarted),
        _outcome(s.ChunksArrived, chunks=_tuples(chunks, max_size=3)),
        responses(names),
        responses(names),
        _outcome(s.StreamFailed, error=_errors(), usage=_usages(), jitter=_JITTERS),
    )


def responses(names: Sequence[str] = TOOL_NAMES) -> SearchStrategy[s.ResponseCompleted]:
    """Complete responses: nothing, text, thoughts and calls in any order, also cut by the output limit."""
    blocks = st.one_of(
        st.builds(Text, text=_words),
        st.builds(Thinking, text=_words, provider=st.just("scripted")),
        tool_calls(names),
        tool_calls(names),
    )
    stop_reasons: SearchStrategy[StopReason] = st.sampled_from(("end", "tool_use", "max_tokens"))
    return stop_reasons.flatmap(
        lambda stop_reason: _outcome(
            s.ResponseCompleted,
            message=st.builds(
                AssistantMessage,
                content=_tuples(blocks, max_size=4),
                model=st.just(MODEL),
                stop_reason=st.just(stop_reason),
            ),
            usage=_usages(),
            stop_reason=st.just(stop_reason),
            jitter=_JITTERS,
        )
    )


def tool_outcomes() -> SearchStrategy[s.Signal]:
    """What comes of a call: progress, results, errors, crashes after which it may be made once more."""
    finished = _outcome(
        s.ToolFinished,
        text=_words,
        is_error=st.booleans(),
        started_at_ms=st.just(0),
        spent=st.none() | _usages().map(lambda usage: spent_of(usage, None)),
    )
    crashed = _outcome(
        s.ToolFinished,
        text=_words,
        is_error=st.just(value=True),
        started_at_ms=st.just(0),
        crashed=st.just(value=True),
        jitter=_JITTERS,
    )
    changing = _outcome(
        s.ToolFinished,
        text=_words,
        started_at_ms=st.just(0),
        late=st.booleans(),
        changes=st.tuples(session_changes()),
    )
    spoken = st.one_of(
        _outcome(s.ToolProgressed, text=_words),
        _outcome(s.ToolEmitted, name=_words),
        _asked(
            s.ToolAsked,
            effect_id=st.sampled_from(_PLACES).map(EffectId),
            question=_words,
            options=_tuples(_words, max_size=2),
            timeout_ms=st.none() | st.just(1_000),
        ),
        _asked(
            s.ToolWantsChild,
            effect_id=st.sampled_from(_PLACES).map(EffectId),
            prompt=_words,
            max_turns=st.none() | st.integers(0, 2),
        ),
    )
    return st.one_of(spoken, finished, finished, finished, crashed, crashed, changing)


def session_changes() -> SearchStrategy[Change]:
    """What a tool may change in its session."""
    todos = st.builds(Todo, id=_words, content=_words)
    return st.one_of(
        st.builds(UpdateTodos, todos=st.lists(todos, max_size=3, unique_by=lambda todo: todo.id).map(tuple)),
        st.builds(UpdateContext, key=st.sampled_from(("memory", "plan")), value=st.none() | _words),
        st.builds(RequestCompaction, reason=st.none() | _words),
    )


def timers() -> SearchStrategy[s.TimerFired]:
    """The time that something waited for has come."""
    return _outcome(s.TimerFired, jitter=_JITTERS)


def teardown_outcomes() -> SearchStrategy[s.TeardownFinished]:
    """What comes of a teardown."""
    return _outcome(s.TeardownFinished, receipt=st.builds(AbortReceipt, tasks_ended=st.integers(0, 2)))


def plugin_request_outcomes() -> SearchStrategy[s.PluginRequestFinished]:
    """What comes of what a plugin asked for."""
    found = st.builds(FileText, path=st.just("AGENTS.md"), text=_words)
    failed = st.builds(RequestFailed, error=_errors(), usage=st.none() | _usages())
    return _outcome(s.PluginRequestFinished, result=found | failed)


def notices(*, parked: bool = True) -> SearchStrategy[s.Signal]:
    """What a supervisor says: crashes of the actor, crashes of a step, slow plugins; and the last word, unless `parked` is false."""
    restarted = st.builds(s.Restarted, at_ms=st.just(0), reason=_words, incarnation=st.just(2))
    crashed = st.builds(
        s.StepCrashed,
        at_ms=st.just(0),
        signal_kind=st.just("Prompt"),
        error=st.just(ErrorInfo(code="internal", message="a bug")),
        asked_by=st.sampled_from((None, s.SignalId("caller"))),
    )
    lagged = st.builds(
        s.PluginLagged,
        at_ms=st.just(0),
        plugin=st.just("unknown"),
        hook=st.just("BeforeTool"),
        milliseconds=st.just(80),
    )
    last = st.builds(s.Parked, at_ms=st.just(0), reason=_words)
    return st.one_of(restarted, crashed, lagged, last) if parked else st.one_of(restarted, crashed, lagged)


def signals(names: Sequence[str] = TOOL_NAMES) -> SearchStrategy[s.Signal]:
    """Any signal, the ones that bring a session forward more often. Give it to `fit` before a session gets it."""
    return st.one_of(
        prompts(),
        stream_outcomes(names),
        stream_outcomes(names),
        stream_outcomes(names),
        tool_outcomes(),
        tool_outcomes(),
        teardown_outcomes(),
        timers(),
        steers(),
        decisions(),
        st.one_of(questions(), tool_aborts(), changes(), plugin_request_outcomes()),
        aborts(),
        st.one_of(notices(parked=False), stops(), notices()),
    )


def fit(signal: S, state: SessionState, number: int) -> S:
    """Give a signal its time and its ids.

    Args:
        signal: From one of the strategies above.
        state: What it is going to meet.
        number: Which signal of the script it is; no two have the same.
    """
    changes: dict[str, object] = {"at_ms": 10 * number}
    match signal:
        case s.Asked():
            changes["signal_id"] = s.SignalId(f"s{number}")
        case s.EffectOutcome():
            changes["effect_id"] = _id_at(signal, state)
        case s.Restarted():
            changes["incarnation"] = state.data.incarnation + 1
        case s.StepCrashed(asked_by=asked_by) if asked_by is not None:
            changes["asked_by"] = s.SignalId(f"s{number}")
        case _:
            pass
    match signal:
        case s.Prompt():
            changes["ref"] = PromptRef(f"s{number}")
        case s.Steer():
            changes["ref"] = SteerRef(f"s{number}")
        case s.Approve(approval_id=place) | s.Reject(approval_id=place):
            changes["approval_id"] = ApprovalId(_interaction_at(place, state))
        case s.ToolAsked() | s.ToolWantsChild():
            changes["effect_id"] = _id_at(signal, state)
        case s.Respond(ref=place):
            changes["ref"] = QuestionRef(_interaction_at(place, state))
        case s.AbortTool(call_id=place):
            changes["call_id"] = _call_at(place, state)
        case s.ChangeTools():
            changes["generation"] = number
        case _:
            pass
    return msgspec.structs.replace(signal, **changes)


@st.composite
def scripts(
    draw: st.DrawFn, start: SessionState, names: Sequence[str] = TOOL_NAMES, max_size: int = 40
) -> tuple[s.Signal, ...]:
    """Long lists of signals that fit one another, for a session that begins like this."""
    state = start
    script: list[s.Signal] = []
    # The length is drawn first, because lists that are only bounded are short: five signals, as a rule.
    lengths = st.integers(0, max_size)
    for drawn in draw(lengths.flatmap(lambda n: st.lists(signals(names), min_size=n, max_size=n))):
        if isinstance(drawn, s.EffectOutcome) and drawn.effect_id != "late" and not _open_ids(drawn, state):
            continue  # late ones are drawn on purpose; more of them would keep sessions from getting anywhere
        signal = fit(drawn, state, len(script) + 1)
        script.append(signal)
        try:
            state, _ = machine.step(state, signal)
        except InternalError:
            break  # the caller that runs the script will meet it again, and say so
    return tuple(script)


def _id_at(outcome: s.EffectOutcome | s.ToolAsked | s.ToolWantsChild, state: SessionState) -> EffectId:
    ids = _open_ids(outcome, state)
    if outcome.effect_id == "late" or not ids:
        match outcome:
            case s.ToolFinished() | s.ToolProgressed() | s.ToolEmitted() | s.ToolAsked() | s.ToolWantsChild():
                prefix = "t"
            case s.TeardownFinished():
                prefix = "d"
            case s.TimerFired():
                prefix = "w"
            case s.PluginRequestFinished():
                prefix = "e"
            case _:
                prefix = "r"
        return EffectId(f"{prefix}{max(state.data.minted - 1, 0)}")
    return ids[int(outcome.effect_id) % len(ids)]


def _open_ids(
    outcome: s.EffectOutcome | s.ToolAsked | s.ToolWantsChild, state: SessionState
) -> list[EffectId]:
    data = state.data
    match outcome:
        case s.ToolFinished() | s.ToolProgressed() | s.ToolEmitted() | s.ToolAsked() | s.ToolWantsChild():
            ends_some_time = {"running", "stopping"}
            running = _ids_of(call for call in (*data.batch, *data.survivors) if call.stage in ends_some_time)
            of_tools = [effect_id for effect_id, _ in owned_by(data.open, OfChild)]
            return [*running, *of_tools] if isinstance(outcome, s.ToolFinished) else running
        case s.TeardownFinished():
            return teardowns_of(state)
        case s.TimerFired():
            return timers_of(state)
        case s.PluginRequestFinished():
            return plugin_requests_of(state)
        case _:
            return [data.stream.effect_id] if data.stream and not data.stream.pausing else []


def timers_of(state: SessionState) -> list[EffectId]:
    """Give the ids of all timers that a session has set: of what waits for people, of what pauses, of a hook that waits."""
    data = state.data
    waiting = [interaction.timer for interaction in data.interactions if interaction.timer is not None]
    pausing = _ids_of(call for call in data.batch if call.stage == "pausing")
    between = [data.stream.effect_id] if data.stream is not None and data.stream.pausing else []
    holding = [data.held.timer] if data.held is not None else []
    return [*waiting, *pausing, *between, *holding]


def _ids_of(calls: Iterable[CallState]) -> list[EffectId]:
    return [call.effect_id for call in calls if call.effect_id is not None]


def _interaction_at(place: str, state: SessionState) -> str:
    """Name what waits at this place; without one, or for `late`, what was decided last, or what never was."""
    ids = [str(interaction.id) for interaction in state.data.interactions]
    if place == "late" or not ids:
        ids = [resolved.id for resolved in state.data.resolved[-1:]] or ["unknown/a0"]
        return ids[0]
    return ids[int(place) % len(ids)]


def _call_at(place: str, state: SessionState) -> CallId:
    calls = [call.call.call_id for call in (*state.data.batch, *state.data.survivors)]
    return calls[int(place) % len(calls)] if calls and place != "late" else CallId("c0")


def _answers() -> SearchStrategy[s.Respond]:
    return _asked(
        s.Respond, ref=st.sampled_from(_PLACES).map(QuestionRef), response=_words | st.integers(0, 2)
    )


def _plain_tool(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={"type": "object"})


def _usages() -> SearchStrategy[TokenUsage]:
    return st.builds(TokenUsage, input=st.integers(0, 9), output=st.integers(0, 9))


T = TypeVar("T")


def _tuples(
    elements: SearchStrategy[T], *, min_size: int = 0, max_size: int = 4
) -> SearchStrategy[tuple[T, ...]]:
    return st.lists(elements, min_size=min_size, max_size=max_size).map(tuple)


def _asked(kind: type[T], **fields: SearchStrategy[object]) -> SearchStrategy[T]:
    return st.builds(kind, at_ms=st.just(0), signal_id=st.just(s.SignalId("")), **fields)


def _outcome(kind: type[T], **fields: SearchStrategy[object]) -> SearchStrategy[T]:
    return st.builds(kind, at_ms=st.just(0), effect_id=st.sampled_from(_PLACES).map(EffectId), **fields)
