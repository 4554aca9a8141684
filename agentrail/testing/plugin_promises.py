"""Promises about plugins in a session, each as a function of one `PluginMoment`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

import msgspec
from attrs import frozen
from msgspec.structs import replace

from agentrail.core.protocol import actions as a
from agentrail.core.protocol.effects import RunTool
from agentrail.core.protocol.hooks import BeforePrompt, BeforeTool, HookEvent, RequestDone
from agentrail.core.protocol.signals import Approve, Prompt
from agentrail.core.session.approval_rules import is_allowed
from agentrail.core.session.open_calls import CallState
from agentrail.core.stack.plugin_state import loses
from agentrail.core.wire.codec import decode_event, decode_signal, encode_event, encode_signal
from agentrail.events import ActionIgnored, PluginFailed, ToolBlocked
from agentrail.frozen import frozen_json, same_json
from agentrail.messages import CallId, JsonObject
from agentrail.testing.promises import Seen
from agentrail.testing.rule_failures import rules_on
from agentrail.testing.watched_stack import AskedPlugin, ask_again

E = TypeVar("E")


@frozen(kw_only=True)
class PluginMoment:
    seen: Seen
    askings: tuple[AskedPlugin, ...] = ()
    earlier: tuple[AskedPlugin, ...] = ()
    faults: tuple[str, ...] = ()


def plugins_are_pure(moment: PluginMoment) -> None:
    """The same input gives the same action, and no handler reads or changes anything outside."""
    assert not moment.faults, "; ".join(dict.fromkeys(moment.faults))


def plugins_do_not_fail(moment: PluginMoment) -> None:
    """No handler raises, returns an object that is not an action, or returns a state of another type."""
    for event in _of(moment, PluginFailed):
        message = f"plugin {event.plugin!r} failed on {event.hook}: {event.error.message}"
        raise AssertionError(message)


def actions_are_taken(moment: PluginMoment) -> None:
    """No plugin returns an action that the hook ignores: it would appear to have an effect."""
    for event in _of(moment, ActionIgnored):
        message = (
            f"plugin {event.plugin!r} answered {event.hook} with {event.action}, which does nothing there"
        )
        raise AssertionError(message)


def only_declared_hooks_are_heard(moment: PluginMoment) -> None:
    """No plugin receives a hook that it did not declare. The answer to a request is delivered to its plugin."""
    for asking in moment.askings:
        hook = type(asking.event)
        assert hook is RequestDone or hook in asking.member.hooks, (
            f"plugin {asking.member.name!r} was asked on {hook.__name__}, which it did not declare"
        )


def states_survive_the_codec(moment: PluginMoment) -> None:
    """A plugin's state is restored unchanged from a journal."""
    data, was = moment.seen.after.data, moment.seen.before.data
    for member in data.stack.members:
        state = data.plugin_states[member.name]
        if state is not was.plugin_states.get(member.name):
            lost = loses(state, member.state_type)
            assert lost is None, f"plugin {member.name!r}: {lost}"


def what_is_journaled_survives_the_codec(moment: PluginMoment) -> None:
    """The signal and the events of a step are restored unchanged."""
    signal = moment.seen.signal
    assert decode_signal(encode_signal(signal)) == signal
    for event in moment.seen.events:
        assert decode_event(encode_event(event)) == event


def what_is_blocked_does_not_run(moment: PluginMoment) -> None:
    """A call that a plugin blocked is answered in that step, and never runs."""
    blocked = {event.call_id for event in _of(moment, ToolBlocked)}
    assert blocked.isdisjoint(run.call_id for run in moment.seen.of(RunTool))
    for call in moment.seen.after.data.batch:
        assert call.call.call_id not in blocked or call.stage == "done"


def no_call_gets_past_a_guard(moment: PluginMoment) -> None:
    """Every judging plugin would allow each running call, regardless of which plugin rewrote its arguments, and when.

    A plugin that was called is called again with the model's arguments, and with the final ones. A safety plugin is
    called even if an earlier plugin ended the chain.
    """
    for state in _let_through(moment):
        call_id = state.call.call_id
        known = [asking for asking in (*moment.earlier, *moment.askings) if _is_about(asking, call_id)]
        for member in moment.seen.before.data.stack.listeners(BeforeTool):
            mine = [asking for asking in known if asking.member.name == member.name]
            if mine:
                _heeded(moment, state, mine, known)
            elif member.guards and known:
                fresh = replace(_question(known[-1]), arguments=frozen_json(state.arguments))
                own = moment.seen.before.data.plugin_states[member.name]
                asking = AskedPlugin(member=member, event=fresh, state=own, ctx=known[-1].ctx, answer=None)
                _let_pass(moment, asking, state.arguments, "was never asked")


def no_answer_is_lost_in_a_tie(moment: PluginMoment) -> None:
    """Of two plugins with the same priority, neither replaces the other's change without having seen it.

    Their order is only that of registration. A plugin that builds on the other's change loses nothing.
    """
    for place, second in enumerate(moment.askings):
        for first in moment.askings[:place]:
            is_tie = (
                first.member.priority == second.member.priority and first.member.name != second.member.name
            )
            if not is_tie or _subject(first) != _subject(second) or _made(first) is None:
                continue
            if _made(second) in {None, _made(first)} or type(first.answer) is not type(second.answer):
                continue
            alone = ask_again(second.member, first.event, second.state, second.ctx)
            assert alone != second.answer, (
                f"plugins {first.member.name!r} and {second.member.name!r} have priority {first.member.priority}, so on {type(second.event).__name__} the first one's result is lost: give them different priorities"
            )


def rewrites_agree(moment: PluginMoment) -> None:
    """No two plugins keep rewriting one call against each other: some arguments satisfy both."""
    for first, second in _rewriting_pairs(moment):
        ours, theirs = _rewritten(first), _rewritten(second)
        again = _rewritten_from(first, theirs)
        if same_json(again, theirs):
            continue
        is_settled = same_json(_rewritten_from(first, again), again)
        is_met = same_json(_rewritten_from(second, again), again)
        assert not is_settled or is_met or same_json(ours, theirs), (
            f"plugins {first.member.name!r} and {second.member.name!r} rewrite a call of {_question(first).name!r} against "
            f"each other: {_json(again)} by the first, {_json(theirs)} by the second; let only one of them decide"
        )


def effects_are_not_doubled(moment: PluginMoment) -> None:
    """No two plugins have the same effect on one hook, which the session would then see twice."""
    for first, second in _rewriting_pairs(moment):
        ours, theirs = _rewritten(first), _rewritten(second)
        alone = _rewritten_from(second, _question(first).arguments)
        assert not same_json(alone, ours) or same_json(ours, theirs), (
            f"plugins {first.member.name!r} and {second.member.name!r} each rewrite a call of {_question(first).name!r} to "
            f"{_json(ours)}; together they rewrite it to {_json(theirs)}: keep one of them"
        )
    for place, after in enumerate(moment.askings):
        for before in moment.askings[:place]:
            is_pair = before.member.name != after.member.name and _subject(before) == _subject(after)
            said = _effect_of(after.answer) if is_pair else None
            assert said is None or said != _effect_of(before.answer), (
                f"plugins {before.member.name!r} and {after.member.name!r} both answer {type(after.event).__name__} with "
                f"{type(after.answer).__name__} {said[1]!r:.80}: keep one of them"
            )


def _rewriting_pairs(moment: PluginMoment) -> Iterator[tuple[AskedPlugin, AskedPlugin]]:
    """Yield pairs of consecutive plugin calls that rewrote the arguments of one call."""
    rewriting = [one for one in moment.askings if isinstance(one.answer, a.ReplaceToolArgs)]
    for first, second in pairwise(rewriting):
        if first.member.name != second.member.name and _subject(first) == _subject(second):
            yield first, second


def _rewritten(asking: AskedPlugin) -> JsonObject:
    answer: a.ReplaceToolArgs[Any] = asking.answer
    return answer.arguments


def _rewritten_from(asking: AskedPlugin, arguments: JsonObject) -> JsonObject:
    """Return a plugin's rewrite of other arguments. The same arguments if it leaves them unchanged."""
    question = replace(_question(asking), arguments=frozen_json(arguments))
    answer = ask_again(asking.member, question, asking.state, asking.ctx)
    return answer.arguments if isinstance(answer, a.ReplaceToolArgs) else arguments


def _effect_of(answer: object) -> tuple[type, object] | None:
    """Return an effect that must not happen twice, for comparison. None for actions without one."""
    match answer:
        case a.Intervene(prompt=said):
            return a.Intervene, said
        case a.Request(effect=a.WriteFile() | a.WriteNotes() | a.KeepMemory() | a.CallModel() as wanted):
            return a.Request, wanted
        case _:
            return None


def _json(arguments: JsonObject) -> str:
    return msgspec.json.encode(dict(arguments), enc_hook=dict).decode()


def only_the_user_approves(moment: PluginMoment) -> None:
    """A plugin that accepts a prompt as an approval found its subject in it: the id, or the command."""
    for asking in moment.askings:
        answer = asking.answer
        if isinstance(answer, a.ResolveApproval) and answer.decision != "reject":
            said = asking.event.text if isinstance(asking.event, BeforePrompt) else ""
            is_named = bool(answer.approval_id) and answer.approval_id in said
            assert is_named, (
                f"plugin {asking.member.name!r} approved {answer.approval_id!r} in the user's place: "
                f"the prompt {said[:80]!r} does not name it"
            )


def _subject(asking: AskedPlugin) -> object:
    """Return the subject of a plugin call: a tool call, or the hook."""
    return type(asking.event), getattr(asking.event, "call_id", None)


def _made(asking: AskedPlugin) -> str | None:
    """Return a plugin's replacement, for comparison. None if it replaced nothing."""
    match asking.answer:
        case a.ReplaceToolResult(result=made) | a.ReplaceToolArgs(arguments=made) | a.SwitchModel(model=made):
            return repr(made)
        case _:
            return None


def _heeded(
    moment: PluginMoment, call: CallState, mine: Sequence[AskedPlugin], known: Sequence[AskedPlugin]
) -> None:
    """Call a judging plugin again: with the final arguments, and with those of the model."""
    wanted = _question(known[0]).arguments
    for arguments, why in ((call.arguments, "saw other arguments"), (wanted, "saw them rewritten")):
        checked = any(same_json(_question(asking).arguments, arguments) for asking in mine)
        if not checked and not (why == "saw them rewritten" and call.edited):
            _let_pass(moment, mine[-1], arguments, why)


def _let_pass(moment: PluginMoment, asking: AskedPlugin, arguments: JsonObject, why: str) -> None:
    question = replace(_question(asking), arguments=frozen_json(arguments))
    answer = ask_again(asking.member, question, asking.state, asking.ctx)
    is_approved = isinstance(moment.seen.signal, Approve | Prompt) or is_allowed(
        moment.seen.after.data.rules, question.name, arguments
    )
    refuses = isinstance(answer, a.BlockTool | a.Abort) or (
        isinstance(answer, a.RequireApproval) and not is_approved
    )
    assert not refuses, (
        f"a call of {question.name!r} got past plugin {asking.member.name!r}, which {why}: for {_json(arguments)} it returns {type(answer).__name__}"
    )


def _of(moment: PluginMoment, kind: type[E]) -> list[E]:
    return [event for event in moment.seen.events if isinstance(event, kind)]


def _let_through(moment: PluginMoment) -> Iterator[CallState]:
    """Yield the calls that this step allowed to run."""
    was = {call.call.call_id: call for call in moment.seen.before.data.batch}
    for call in moment.seen.after.data.batch:
        before = was.get(call.call.call_id)
        is_new = before is None or before.stage == "asking"
        if is_new and call.stage in {"waiting", "running", "pausing"}:
            yield call


def _is_about(asking: AskedPlugin, call_id: CallId) -> bool:
    return isinstance(asking.event, BeforeTool) and asking.event.call_id == call_id


def _question(asking: AskedPlugin) -> BeforeTool:
    event: HookEvent = asking.event
    assert isinstance(event, BeforeTool)
    return event


def about_open_calls(askings: Sequence[AskedPlugin], batch: Sequence[CallState]) -> tuple[AskedPlugin, ...]:
    """Return the plugin calls about tool calls that are still open."""
    ids = {call.call.call_id for call in batch if call.result is None}
    return tuple(
        asking for asking in askings if isinstance(asking.event, BeforeTool) and asking.event.call_id in ids
    )


PLUGIN_PROMISES: Final[tuple[Callable[[PluginMoment], None], ...]] = rules_on(
    PluginMoment, sys.modules[__name__]
)
"""All promises, in the order of checking: first those whose failure makes the others meaningless."""
