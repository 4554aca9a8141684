"""One record of a journal, explained for users: its input, the plugins called, their result, and the decisions. Pure."""

from collections.abc import Iterator
from itertools import groupby

import msgspec

from agentrail.core.journal.fold import Walked, drift_of
from agentrail.core.journal.recorded_steps import outline
from agentrail.core.protocol.effects import Effect, Publish
from agentrail.core.protocol.signals import EffectOutcome
from agentrail.core.stack.explained_run import ExplainedLink, ExplainedRun
from agentrail.events import KINDS


class ExplainedSignal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The input of a step.

    Attributes:
        kind: Kind of the record: that of a signal, or another one such as `taken`.
        at_ms: When, in milliseconds since 1970, on the clock of signals.
        effect_id: The effect of this outcome. None for a signal from outside.
        begun_by: The number of the record that began this effect. None if unknown.
    """

    kind: str
    at_ms: int
    effect_id: str | None = None
    begun_by: int | None = None


class ExplainedEffect(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An effect of a step.

    Attributes:
        kind: Its kind, such as `run_tool` or `publish`.
        line: A short description, as in the journal, without text of the conversation.
        event: The kind of the published event, otherwise None.
        seq: Its number, otherwise None.
    """

    kind: str
    line: str
    event: str | None = None
    seq: int | None = None


class ExplainedStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record and its result.

    Attributes:
        at: Its number.
        signal: Its input.
        phase: The phase before and after it.
        runs: Each hook event of the step, with the plugins' outcome.
        effects: The effects, in order. Ephemeral events are left out.
        events: The numbers of its first and last event. None without any.
        drift: How the current code differs from the record. None if it does not.
    """

    at: int
    signal: ExplainedSignal
    phase: tuple[str, str]
    runs: tuple[ExplainedRun, ...] = ()
    effects: tuple[ExplainedEffect, ...] = ()
    events: tuple[int, int] | None = None
    drift: str | None = None


def explained_step(walked: Walked, runs: tuple[ExplainedRun, ...], begun_by: int | None) -> ExplainedStep:
    record, signal = walked.record, walked.signal
    effects = tuple(_effects_of(walked.effects))
    numbers = [effect.seq for effect in effects if effect.seq is not None]
    drift = drift_of(walked)
    return ExplainedStep(
        at=record.seq,
        signal=ExplainedSignal(
            kind=record.kind,
            at_ms=record.at_ms,
            effect_id=signal.effect_id if isinstance(signal, EffectOutcome) else None,
            begun_by=begun_by,
        ),
        phase=(walked.before.phase.value, walked.after.phase.value),
        runs=runs,
        effects=effects,
        events=(numbers[0], numbers[-1]) if numbers else None,
        drift=None if drift is None else str(drift),
    )


def lines_of_step(step: ExplainedStep) -> Iterator[str]:
    """Yield the lines of a step for a terminal, without texts of users, models and tools, or their replacements by plugins."""
    signal = step.signal
    about = "" if signal.effect_id is None else f" {signal.effect_id}"
    cause = "" if signal.begun_by is None else f", begun by {signal.begun_by}"
    yield f"{step.at} at {signal.at_ms}: {signal.kind}{about}{cause}"
    for run in step.runs:
        yield from _lines_of_run(run)
    for kind, effects in groupby(step.effects, lambda effect: effect.kind):
        if kind == "publish":
            numbers = [effect.seq for effect in effects]
            told = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
            yield f"  publish {told}"
        else:
            yield from (f"  {effect.line}" for effect in effects)
    if step.phase[0] != step.phase[1]:
        yield f"  {step.phase[0]} → {step.phase[1]}"
    if step.drift is not None:
        yield f"  differs: {step.drift}"


def _lines_of_run(run: ExplainedRun) -> Iterator[str]:
    for link in run.links:
        yield f"  asked {link.plugin} on {run.hook}: {link.action or 'failed'}"
        if link.verdict != "silent":
            yield f"    {_told_of(link)}"
    for name in run.not_asked:
        yield f"  not asked {name} on {run.hook}"
    outcome = run.outcome
    if outcome.end == "decided":
        yield f"  {run.hook} came to {outcome.action}, by {outcome.by}"
    elif outcome.end == "waits":
        yield f"  {run.hook} waits for what {outcome.by} asked for"


def _told_of(link: ExplainedLink) -> str:
    verdict = link.verdict if link.lost_to is None else f"lost to {link.lost_to}"
    again = f", judging again for the {link.round}. time" if link.round else ""
    # Other fields of an answer contain or replace text of the conversation: arguments, results, prompts.
    why = link.fields.get("message" if link.action is None else "reason")
    return f"{verdict}, priority {link.priority}{again}" + (f": {' '.join(str(why).split())}" if why else "")


def _effects_of(effects: tuple[Effect, ...]) -> Iterator[ExplainedEffect]:
    for effect in effects:
        line = outline((effect,))
        if not line:  # an ephemeral event
            continue
        if isinstance(effect, Publish):
            meta = effect.event.meta
            kind = KINDS.get(type(effect.event))
            yield ExplainedEffect(kind="publish", line=line, event=kind, seq=meta.seq if meta else None)
        else:
            yield ExplainedEffect(kind=line.partition(" ")[0], line=line)
