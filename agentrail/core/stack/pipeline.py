"""Combining the answers of several plugins. Only this module calls plugins."""

import inspect
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

from msgspec.structs import replace

from agentrail.core.protocol.actions import (
    ACTIONS,
    HINTED_ON,
    MATRIX,
    NO_HINTS,
    Abort,
    BlockTool,
    Continue,
    Emit,
    Hints,
    Intervene,
    ReplaceMessages,
    ReplaceResponse,
    ReplaceToolArgs,
    ReplaceToolResult,
    Request,
    RequireApproval,
    ResolveApproval,
    Skip,
    SwitchModel,
    Treatment,
    emitted_events,
    malformed,
    with_plain_texts,
)
from agentrail.core.protocol.hooks import (
    AfterResponse,
    AfterTool,
    AfterToolBatch,
    BeforeCompact,
    BeforeFinish,
    BeforePluginOptsUpdate,
    BeforePrompt,
    BeforeRequest,
    BeforeSteering,
    BeforeTool,
    Hook,
    HookEvent,
    RequestDone,
    RequestResult,
)
from agentrail.core.protocol.request import CachePoint
from agentrail.core.stack.explanation import Explanation, RunListener, listener_of, told_of
from agentrail.core.stack.hook_outcome import (
    NO_CONTEXT,
    Decision,
    Injected,
    Outcome,
    PluginRequest,
    Unfit,
    Waiting,
    switch_of,
)
from agentrail.core.stack.loaded_stack import Member, PluginStates, Stack, attempt_as, fault_of_state
from agentrail.core.stack.plugin import Context
from agentrail.core.stack.plugin_events import emitted_event
from agentrail.core.stack.plugin_state import unstorable
from agentrail.core.values.foreign_calls import Raised, attempt, foreign_message
from agentrail.errors import ErrorInfo
from agentrail.events import ActionIgnored, Event, PluginFailed
from agentrail.events.plugin_events import Announcement
from agentrail.frozen import same_json
from agentrail.messages import JsonObject, Message, ToolResult
from agentrail.otp.guarded_calls import show

MAX_REWRITES: Final = 3
"""Maximum number of repeated judgements of rewritten arguments. Then the call is refused."""

Fit: TypeAlias = Callable[[JsonObject], JsonObject | str]
"""Checks rewritten arguments against the schema of the tool. Returns them with defaults, or the fault, for the model."""

Heard: TypeAlias = Callable[[Member, int, object, str], None]
"""Called with each answer: the plugin, the round, the answer, and the verdict on it."""

REFUSALS: Final[Mapping[Hook, Callable[[str], BlockTool[None] | Abort[None]]]] = MappingProxyType(
    {
        BeforeTool: lambda reason: BlockTool(reason, None),
        **dict.fromkeys(
            (
                *(BeforePrompt, BeforeSteering, BeforeRequest, AfterResponse, AfterTool, AfterToolBatch),
                *(BeforeFinish, BeforePluginOptsUpdate),
            ),
            lambda reason: Abort(reason, None),
        ),
    }
)
"""The answer assumed for a closed plugin that fails. On the other hooks there is nothing to refuse."""


def run_hook(
    stack: Stack, event: HookEvent, states: PluginStates, ctx: Context, *, fit: Fit | None = None
) -> Outcome:
    """Ask a stack about a hook event.

    Args:
        stack: Compiled. If `stack.listeners(type(event))` is empty, this need not be called.
        event: One of the fourteen.
        states: The state of each plugin.
        ctx: The context for the plugins.
        fit: On `BeforeTool`: checks rewritten arguments before the safety plugins judge them.

    Returns:
        The outcome to apply. With `waiting` set the run is not over: do the requested work, and call `resume_hook`.
    """
    listeners = stack.listeners(type(event))
    hearing = listener_of(stack, event, listeners)
    return told_of(hearing, _Run(stack, _opened(event, states), ctx, fit, hearing).through(listeners))


def resume_hook(  # noqa: PLR0913 - what `run_hook` takes, and the answer
    stack: Stack,
    outcome: Outcome,
    result: RequestResult,
    states: PluginStates,
    ctx: Context,
    *,
    fit: Fit | None = None,
    may_wait: bool = True,
) -> Outcome:
    """Continue a run that waited. The plugin's answer counts on the hook that waited.

    Args:
        stack: The current one. A plugin that has left it is skipped.
        outcome: With `waiting` set.
        result: The answer to `outcome.waiting.plugin_request`.
        states: The current ones.
        ctx: Of the signal that brought the answer.
        fit: Same as in `run_hook`.
        may_wait: Whether the plugin that waited may wait again. False if it is refused within the step, which would
            otherwise never end.

    Returns:
        The outcome of the whole run. Its `events` and `plugin_requests` are only those since then.
    """
    waiting = outcome.waiting
    if waiting is None:
        message = "resume needs a pending outcome"
        raise ValueError(message)
    outcome = replace(outcome, waiting=None, states=states, events=(), plugin_requests=())
    told = RequestDone(tag=waiting.plugin_request.tag, result=result)
    hearing = listener_of(stack, outcome.event, _members_of(stack, waiting.todo))
    going_on = _Run(stack, outcome, ctx, fit, hearing)
    going_on.impatient = None if may_wait else waiting.plugin_request.by
    return told_of(hearing, going_on.again(waiting, told))


def deliver(stack: Stack, by: str, done: RequestDone, states: PluginStates, ctx: Context) -> Outcome:
    """Deliver the answer to a request that no hook waits for. A plugin that has left the stack gets none."""
    member = stack.find(by)
    asked = () if member is None else (member,)
    hearing = listener_of(stack, done, asked)
    return told_of(
        hearing, _Run(stack, Outcome(event=done, states=states), ctx, None, hearing).through(asked)
    )


def rerun_before_tool(  # noqa: PLR0913 - what `run_hook` takes, and who did it
    stack: Stack, event: BeforeTool, states: PluginStates, ctx: Context, *, by: str, fit: Fit | None = None
) -> Outcome:
    opened = replace(_opened(event, states), rewritten_by=(by,), is_fit=False)
    guards = tuple(member for member in stack.listeners(BeforeTool) if member.guards)
    hearing = listener_of(stack, event, guards)
    return told_of(hearing, _Run(stack, opened, ctx, fit, hearing).settled())


def judge_decided(  # noqa: PLR0913 - what `run_hook` takes, and what was decided
    stack: Stack,
    event: BeforeTool,
    states: PluginStates,
    ctx: Context,
    *,
    judged_by: Collection[str] = (),
    edited_by: str | None = None,
    fit: Fit | None = None,
) -> Outcome:
    """Ask about an approved call every plugin that has not judged it as it will run."""
    allowed = Decision(action=RequireApproval("", None), by="")
    opened = replace(_opened(event, states), decision=allowed, seen_by=frozenset(judged_by), is_decided=True)
    if edited_by is not None:
        opened = replace(opened, rewritten_by=(edited_by,), is_fit=False)
    listeners = stack.listeners(BeforeTool)
    hearing = listener_of(stack, event, listeners)
    return told_of(hearing, _Run(stack, opened, ctx, fit, hearing).settled())


def end(stack: Stack, states: PluginStates, ctx: Context) -> tuple[Event, ...]:
    events: list[Event] = []
    for member in stack.members:
        said = attempt_as(stack.ask, member.plugin.on_session_end, states[member.name], ctx)
        last = said if isinstance(said, Raised) else attempt(_last_events, said, ctx.user_data)
        if isinstance(last, Raised):
            failed = PluginFailed(
                plugin=member.name, hook="on_session_end", error=last.error, policy=member.on_error
            )
            last = (failed,)
        events += last
    return tuple(events)


def explain_hook(
    stack: Stack, event: HookEvent, states: PluginStates, ctx: Context, *, fit: Fit | None = None
) -> Explanation:
    """Run a hook same as `run_hook`, and return the whole chain: the plugins asked, their answers, the winner and the losers."""
    listeners = stack.listeners(type(event))
    hearing = RunListener(event, listeners)
    outcome = _Run(stack, _opened(event, states), ctx, fit, hearing).through(listeners)
    return hearing.explained(outcome)


def _members_of(stack: Stack, names: tuple[str, ...]) -> tuple[Member, ...]:
    return tuple(member for member in stack.members if member.name in names)


_GUARDED: Final[frozenset[Hook]] = frozenset({BeforeTool, BeforeRequest, BeforeCompact})


def _opened(event: HookEvent, states: PluginStates) -> Outcome:
    if type(event) in _GUARDED:
        return Outcome(event=event, states=states, guarded=event)
    return Outcome(event=event, states=states)


_SILENCE: Final = object()
"""The answer when none of the remaining plugins has content."""


@final
class _Run:
    """A run in progress. It lives within one call, so it may be mutable."""

    __slots__ = ("at", "ctx", "fit", "heard", "impatient", "out", "stack")

    def __init__(
        self, stack: Stack, out: Outcome, ctx: Context, fit: Fit | None, heard: Heard | None = None
    ) -> None:
        self.stack = stack
        self.out = out
        self.ctx = ctx
        self.fit = fit
        self.heard = heard
        self.at = 0  # index of the current plugin among those that are asked
        self.impatient: str | None = None  # the plugin that must not wait

    def through(self, members: tuple[Member, ...]) -> Outcome:
        opened = self.out
        self._ask_all(members, 0)
        # The usual case: no plugin had an answer with content.
        return opened if self.out is opened else self.settled()

    def again(self, waiting: Waiting, told: RequestDone) -> Outcome:
        todo = _members_of(self.stack, waiting.todo)
        member = self.stack.find(waiting.plugin_request.by)
        if member is None or self._hear(member, told, waiting.round, todo):
            self._ask_all(todo, waiting.round)
        return self.settled(waiting.round)

    def settled(self, rounds: int = 0) -> Outcome:
        """Check rewritten arguments against the schema, then ask every guard that has not seen them, or every plugin if approved."""
        while self.out.waiting is None and self._may_run() and self._is_fit():
            listeners = self.stack.listeners(BeforeTool)
            judges = (member for member in listeners if member.guards or self.out.is_decided)
            unseen = tuple(member for member in judges if member.name not in self.out.seen_by)
            if not unseen:
                break
            if rounds == MAX_REWRITES:
                self._give_up(
                    "arguments_unstable", f"its arguments were rewritten in each of {MAX_REWRITES} rounds"
                )
                break
            rounds += 1
            self._ask_all(unseen, rounds)
        return self.out

    def _may_run(self) -> bool:
        """Return whether a call may still run that guards may not have seen as it is."""
        decision = self.out.decision
        if decision is not None and isinstance(decision.action, RequireApproval):
            return True  # an approval does not replace the guards that were not asked
        return bool(self.out.rewritten_by) and (decision is None or isinstance(decision.action, Skip))

    def _is_fit(self) -> bool:
        if self.out.is_fit or self.fit is None:
            return True
        event: Any = self.out.event
        fitted = self.fit(event.arguments)
        if isinstance(fitted, str):
            self._give_up("invalid_arguments", fitted)
            return False
        self._change(is_fit=True)
        if not same_json(fitted, event.arguments):  # defaults were filled in, and no plugin has checked them
            event = replace(event, arguments=fitted)
            self._change(event=event, seen_by=frozenset())
        return True

    def _give_up(self, code: Any, why: str) -> None:
        by = self.out.rewritten_by[-1]
        action = Unfit(code=code, text=f"{why} (the arguments were rewritten by {by!r})")
        self._change(decision=Decision(action=action, by=by))

    def _ask_all(self, members: tuple[Member, ...], rounds: int) -> None:
        self.at = 0
        while self.at < len(members):
            first, told = self.at, self.out.event
            answer = attempt(self._ask_on, members, told)
            silent = members[first : None if answer is _SILENCE else self.at]
            if silent and type(told) is BeforeTool:  # the plugins that judged a call are recorded
                self._has_seen(*silent)
            if answer is _SILENCE:
                return
            member = members[self.at]
            self.at += 1
            if not self._heed(member, told, answer, rounds, members[self.at :]):
                return

    def _ask_on(self, members: tuple[Member, ...], told: HookEvent) -> object:
        """Ask plugins until one has an answer with content. `at` is its index, or that of one that raised."""
        # Most have none on most hooks, so this loop does as little as possible. Calling an object that has
        # `__call__` takes three times as long as calling the method.
        asking: Any = self.stack.ask  # mypy knows no `__call__` of a Callable
        ask = asking.__call__
        ctx, states = self.ctx, self.out.states
        begin = ctx.random.begin
        is_heard = self.heard is not None
        for at in range(self.at, len(members)):
            self.at = at
            member = members[at]
            state = states[member.name]
            begin(member.salt)
            answer: Any = ask(member, told, state, ctx)
            # Same as `_is_silent`, inlined: this runs for each plugin on each hook.
            if (
                type(answer) is not Continue
                or answer.state is not state
                or answer.emits
                or answer.context is not None
                or answer.hints is not None
                or is_heard
            ):
                return answer
        return _SILENCE

    def _hear(self, member: Member, told: HookEvent, rounds: int, todo: tuple[Member, ...]) -> bool:
        self.ctx.random.begin(member.salt)
        answer: Any = attempt(self.stack.ask, member, told, self.out.states[member.name], self.ctx)
        return self._heed(member, told, answer, rounds, todo)

    def _heed(
        self, member: Member, told: HookEvent, answer: Any, rounds: int, todo: tuple[Member, ...]
    ) -> bool:
        """Record the answer of one plugin, and return whether the next one must be asked."""
        state = self.out.states[member.name]
        read = attempt(_read, answer, member, state, told, self.ctx.user_data)
        if isinstance(read, Raised):
            return self._failed(member, told, read.error, rounds)
        self._has_seen(member)
        if read is None:
            return self._note(member, rounds, answer, "no answer") if self.heard else True
        action, context, events = read
        if answer.state is not state:
            self._change(states=MappingProxyType({**self.out.states, member.name: answer.state}))
        self._publish(*events)
        if context is not None:
            self._take_context(member, context)
        if answer.hints is not None:
            self._take_hints(member, answer.hints)
        return self._take(member, action, rounds, todo)

    def _take(self, member: Member, action: Any, rounds: int, todo: tuple[Member, ...]) -> bool:
        """Apply an action to the outcome, and return whether the next plugin must be asked."""
        cell = MATRIX[type(self.out.event)][type(action)]
        if cell is not Treatment.ACCEPTED:
            if isinstance(action, SwitchModel) and cell is Treatment.COLLECTED:
                self._change(collected=(*self.out.collected, switch_of(action, member.name)))
            self._ignore(member, type(action).__name__)
            return self._note(member, rounds, action, "ignored")
        match action:
            case Intervene(prompt=prompt):
                injected = Injected(prompt=prompt, by=member.name)
                self._change(interventions=(*self.out.interventions, injected))
            case SwitchModel():
                self._change(switch=switch_of(action, member.name))
            case ReplaceToolArgs(arguments=arguments):
                self._rewrite(member, arguments)
            case ReplaceToolResult(result=result):
                self._replace_result(member, result)
            case ReplaceResponse(text=text):
                self._replace_response(member, text)
            case ReplaceMessages():
                self._replace_messages(member, action)
            case Request():
                return self._send(member, action, rounds, todo)
            case Abort() | BlockTool() | ResolveApproval() | RequireApproval() | Skip():
                return self._decide(member, action, rounds)
            case _:  # Continue and Emit need nothing more
                pass
        return self._note(member, rounds, action, "accepted")

    def _decide(self, member: Member, action: Any, rounds: int) -> bool:
        """Stop the rest. In a repeated judgement every guard is asked, unless the call cannot run any more."""
        asked_already = self.out.decision is not None and isinstance(
            self.out.decision.action, RequireApproval
        )
        if rounds and (isinstance(action, Skip) or (asked_already and isinstance(action, RequireApproval))):
            return self._note(member, rounds, action, "no objection")
        self._change(decision=Decision(action=action, by=member.name))
        if isinstance(action, Skip):
            self._forget(member)
        self._note(member, rounds, action, "stops the rest")
        return bool(rounds) and isinstance(action, RequireApproval)

    def _forget(self, member: Member) -> None:
        """Continue as if no plugin had acted, except for the guards' changes of arguments or messages, and a replaced response.

        The response is in the past, unlike the session's next actions. No plugin restores text that a filter
        removed.
        """
        kept: dict[str, Any] = {}
        guards = {known.name for known in self.stack.members if known.guards}
        if isinstance(self.out.event, BeforeTool) and not member.guards:
            by = tuple(name for name in self.out.rewritten_by if name in guards)
            kept = {"event": self.out.guarded, "rewritten_by": by, "seen_by": self.out.guarded_by}
        elif isinstance(self.out.event, BeforeRequest | BeforeCompact) and not member.guards:
            by = tuple(name for name in self.out.replaced_by if name in guards)
            kept = {"event": self.out.guarded, "replaced_by": by}
        self._change(interventions=(), switch=None, context=NO_CONTEXT, hints=NO_HINTS, **kept)

    def _rewrite(self, member: Member, arguments: JsonObject) -> None:
        event: Any = self.out.event
        if same_json(arguments, event.arguments):
            return
        event = replace(event, arguments=arguments)
        rewritten_by = (*self.out.rewritten_by, member.name)
        self._change(event=event, rewritten_by=rewritten_by, is_fit=False, seen_by=frozenset())
        if member.guards:
            self._change(guarded=event)
        self._has_seen(member)

    def _replace_result(self, member: Member, given: ToolResult | str) -> None:
        event: Any = self.out.event
        if isinstance(given, str):
            result = replace(event.result, text=given)
        else:
            result = replace(given, call_id=event.call_id, name=event.name, is_error=bool(given.is_error))
        event = replace(event, result=result)
        self._change(event=event, replaced_by=(*self.out.replaced_by, member.name))

    def _replace_response(self, member: Member, text: str) -> None:
        event: Any = self.out.event
        event = replace(event, message=event.message.with_text(text))
        self._change(event=event, replaced_by=(*self.out.replaced_by, member.name))

    def _replace_messages(self, member: Member, action: ReplaceMessages[Any]) -> None:
        before: Any = self.out.event
        event = replace(before, messages=tuple(action.messages))
        self._change(event=event, replaced_by=(*self.out.replaced_by, member.name))
        if member.guards:
            self._change(guarded=event)
        points = self.out.hints.cache_points
        if points and (action.hints is None or action.hints.cache_points is None):
            # They are positions in the previous messages. Those that still hold the same message stay valid.
            same = tuple(point for point in points if _is_kept(point, before.messages, event.messages))
            self._change(hints=replace(self.out.hints, cache_points=same))

    def _send(self, member: Member, action: Request[Any], rounds: int, todo: tuple[Member, ...]) -> bool:
        if action.wait and member.name == self.impatient:
            self._ignore(member, "Request")
            return self._note(member, rounds, action, "ignored")
        plugin_request = PluginRequest(effect=action.effect, tag=action.tag, by=member.name)
        # No hook waits after an answer.
        if action.wait and not isinstance(self.out.event, RequestDone):
            names = tuple(left.name for left in todo)
            self._change(waiting=Waiting(plugin_request=plugin_request, todo=names, round=rounds))
            self._note(member, rounds, action, "waits")
            return False
        self._change(plugin_requests=(*self.out.plugin_requests, plugin_request))
        return self._note(member, rounds, action, "accepted")

    def _take_context(self, member: Member, sections: Mapping[str, str | None]) -> None:
        if isinstance(self.out.event, BeforeRequest):
            self._change(context=MappingProxyType({**self.out.context, **sections}))
        else:
            self._ignore(member, "context")

    def _take_hints(self, member: Member, hints: Hints) -> None:
        said = {name: value for name in HINTED_ON if (value := getattr(hints, name)) is not None}
        if all(HINTED_ON[name] is type(self.out.event) for name in said):
            self._change(hints=replace(self.out.hints, **said))
        else:
            self._ignore(member, "hints")

    def _failed(self, member: Member, told: HookEvent, error: ErrorInfo, rounds: int) -> bool:
        hook = type(told).__name__
        self._publish(PluginFailed(plugin=member.name, hook=hook, error=error, policy=member.on_error))
        refusal = REFUSALS.get(type(self.out.event)) if member.on_error == "closed" else None
        if refusal is None:
            self._has_seen(member)
            return self._note(member, rounds, error, "fails open")
        action = refusal(f"plugin {member.name!r} failed: {error.message}")
        self._change(decision=Decision(action=action, by=member.name, failed=True))
        self._note(member, rounds, error, "fails closed, stops the rest")
        return False

    def _has_seen(self, *members: Member) -> None:
        if isinstance(self.out.event, BeforeTool):
            seen_by = self.out.seen_by.union([member.name for member in members])
            guarded_by = seen_by if self.out.event is self.out.guarded else self.out.guarded_by
            self._change(seen_by=seen_by, guarded_by=guarded_by)

    def _ignore(self, member: Member, action: str) -> None:
        hook = type(self.out.event).__name__
        self._publish(ActionIgnored(plugin=member.name, hook=hook, action=action))

    def _publish(self, *events: Event) -> None:
        if events:
            self._change(events=(*self.out.events, *events))

    def _note(self, member: Member, rounds: int, answer: object, verdict: str) -> bool:
        if self.heard is not None:
            self.heard(member, rounds, answer, verdict)
        return True

    def _change(self, **fields: Any) -> None:
        self.out = replace(self.out, **fields)


def _is_silent(answer: Any, state: object) -> bool:
    return (
        type(answer) is Continue
        and answer.state is state
        and not answer.emits
        and answer.context is None
        and answer.hints is None
    )


def _is_kept(point: CachePoint, before: tuple[Message, ...], after: tuple[Message, ...]) -> bool:
    return point == "system" or (point < min(len(before), len(after)) and before[point] is after[point])


def _read(answer: Any, member: Member, state: object, told: HookEvent, user_data: JsonObject) -> Any:
    """Return an answer's action, context and events, as plain values. None without content, `Raised` for a fault.

    Reading may call the plugin's code, such as the `__iter__` of its mapping, so all of it is read here, guarded.
    """
    if isinstance(answer, Raised):
        return answer
    if _is_silent(answer, state):  # it has no content that could be wrong
        return None
    if type(answer) not in ACTIONS:
        if inspect.iscoroutine(answer):
            answer.close()  # otherwise Python complains that it was not awaited
        return _misbehaved(f"returned {show(answer)}, expected an action such as Continue(state)")
    fault = fault_of_state(member, answer.state) or (
        None if answer.state is state else unstorable(answer.state)
    )
    if fault is not None:
        return _misbehaved(f"answered {type(answer).__name__} with a {fault}")
    fault = malformed(answer, told.messages if isinstance(told, BeforeRequest | BeforeCompact) else ())
    if fault is not None:
        return _misbehaved(f"answered {type(answer).__name__}: {fault}")
    return with_plain_texts(answer), with_plain_texts(answer.context), _events_in(answer, user_data)


def _last_events(said: Any, user_data: JsonObject) -> Any:
    if said is None:
        return ()
    if not isinstance(said, list | tuple | Announcement):
        return _misbehaved(f"on_session_end: returned {show(said)}, expected a name and a payload")
    fault = malformed(emit := Emit(said, None))
    return _events_in(emit, user_data) if fault is None else _misbehaved(f"on_session_end: {fault}")


def _events_in(answer: Any, user_data: JsonObject) -> tuple[Event, ...]:
    return tuple([emitted_event(said, user_data) for said in emitted_events(answer)])


def _misbehaved(message: str) -> Raised:
    return Raised(ErrorInfo(code="plugin_misbehaved", message=foreign_message(message)))
