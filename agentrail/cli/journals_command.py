"""`agentrail evals journals`: last month's sessions against tomorrow's plugins, limits and prompts, or against a rule."""

import os
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import msgspec
import trio
from attrs import asdict, mutable
from cyclopts import Parameter

from agentrail.abc.store import Store, StoredSession
from agentrail.app import make_provider, provider_of
from agentrail.blueprints.builder import import_name
from agentrail.cli.exit_codes import Exit
from agentrail.cli.session_filters import EVERY_SESSION, ChosenSessions
from agentrail.cli.stdio import without_controls
from agentrail.cli.store_access import (
    USUAL_PLACE,
    JsonLines,
    StorePlace,
    reading,
    records_of,
    say,
    shown_id,
    sources_of,
    store_command,
)
from agentrail.core.journal.fold import Sources, Walked, drift_of, first_state, walk
from agentrail.core.journal.record import Record
from agentrail.core.policy.budget import Budget, Ledger
from agentrail.errors import AgentrailError, ModelNotFound, OptionError, Trimmed
from agentrail.evals.journal_rules import broken_rule, scenario_of_break
from agentrail.evals.journal_turns import AskedTurn, RecordedTurn, ask_turns, recorded_turns
from agentrail.evals.journals import OtherStack, StackComparison
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import call_guarded
from agentrail.providers.http import HttpClients
from agentrail.runtime.assembly import KEPT_OPTIONS
from agentrail.runtime.base_prompt import decide_system_prompt
from agentrail.runtime.session_options import is_blueprint, make_options
from agentrail.structs import picked_fields
from agentrail.testing.promises import Seen
from agentrail.testing.rule_failures import require_assertions
from agentrail.testing.timer_signals import timer_signal

JournalRow: TypeAlias = dict[str, Any]
JudgeJournal: TypeAlias = Callable[[Sequence[Record], Sources], JournalRow]

_STEP_SECONDS: Final = 1.0
_IDENTITY: Final = frozenset({"group_id", "scope"})


class StepTooLong(KeyboardInterrupt):
    """A step that does not end. Guards of foreign code let it pass, as they do Ctrl-C."""


@store_command
def journals(  # noqa: PLR0913 - an option each
    *,
    against: Annotated[
        str | None,
        Parameter(
            help="package.module:NAME: a list of plugins, a Blueprint, options of start_session as a dictionary, or a "
            "function from the recorded plugins to a list. Default: the recorded stack with its present code."
        ),
    ] = None,
    holds: Annotated[
        str | None,
        Parameter(
            help="package.module:NAME: a rule, as a function of a Trace. It and the promises of the core are checked."
        ),
    ] = None,
    model: Annotated[
        str | None,
        Parameter(
            help="Ask this model each recorded turn again, such as anthropic:claude-sonnet-5. No tool runs."
        ),
    ] = None,
    budget_usd: Annotated[float, Parameter(help="With --model: dollars to spend at most.")] = 1.0,
    json: JsonLines = False,
    chosen: ChosenSessions = EVERY_SESSION,
    place: StorePlace = USUAL_PLACE,
) -> Exit:
    if holds is not None and (against or model):
        raise OptionError(["--holds checks sessions as they were recorded: leave out --against and --model"])
    budget = Budget(max_cost_usd=budget_usd)
    other = OtherStack() if against is None else other_stack(import_name(against, str(Path.cwd())))
    judge: JudgeJournal = partial(_compared, other=other)
    if holds is not None:
        require_assertions()
        judge = partial(_held, name=holds, rule=_guarded("--holds", import_name(holds, str(Path.cwd()))))
    elif model is not None:
        try:
            provider_of(model)
        except ModelNotFound as error:
            raise OptionError([str(error)]) from error
        judge = _Asked(other, model, Ledger(budget=budget))
    counts: Counter[str] = Counter()
    with reading(place) as opened:
        for stored in chosen.found_in(opened, place.scope):
            row = {"session": shown_id(stored), **_judged(opened, stored, judge)}
            counts[row["result"]] += 1
            lines = [msgspec.json.encode(row).decode()] if json else map(without_controls, _lines_of(row))
            say(*lines)
    if not json:
        say(", ".join(f"{count} {result}" for result, count in counts.items()) or "no session was chosen")
    if counts.total() == counts["left out"]:
        return Exit.NOTHING_LEFT
    return Exit.DONE if counts.total() == counts["same"] + counts["left out"] else Exit.FAILED


def other_stack(found: Any) -> OtherStack:
    """Return the changes that the object of `--against` describes."""
    if callable(found) and not is_blueprint(found):
        return OtherStack(plugins=_guarded("--against", lambda recorded: list(found(recorded))))
    given = dict(found.options()) if is_blueprint(found) else found
    given = {"plugins": given} if isinstance(given, list | tuple) else given
    if not isinstance(given, Mapping):
        message = (
            f"--against is a {type(found).__name__}: expected plugins, a Blueprint, options or a function"
        )
        raise OptionError([message])
    options = make_options({"model": "demo:", **given})
    config = picked_fields(
        options, *(name for name in KEPT_OPTIONS if name in given and name not in _IDENTITY)
    )
    if given.keys() & {"system_prompt", "prompt_mode", "base_prompt"}:
        own, mode = options.system_prompt, options.prompt_mode
        config["system_prompt"] = decide_system_prompt(own, mode, base_prompt=options.base_prompt)
    if "replace_sections" in given:
        config["replaced_sections"] = options.replace_sections
    return OtherStack(plugins=options.plugins if "plugins" in given else None, config=config)


def _guarded(option: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(error: BaseException) -> NoReturn:
        if isinstance(error, AssertionError):
            raise error
        raise OptionError([f"the function of {option} raised {describe_bug(error)}"]) from error

    return partial(call_guarded, refuse, function)


def _judged(store: Store, stored: StoredSession, judge: JudgeJournal) -> JournalRow:
    sources = sources_of(stored.session, store.blob)
    try:
        if stored.first_seq > 1:
            raise Trimmed(stored.session, first=stored.first_seq)
        return judge(records_of(store, stored), sources)
    except AgentrailError as error:
        missing = ", ".join(getattr(sources.resolve, "missing", ()))
        advice = "install its code, or name a module that imports it, as --against or --holds"
        why = f"{missing} cannot be imported: {advice}" if missing else str(error)
        return {"result": "left out", "why": why}
    except SystemExit as error:  # of a stack, a plugin or a rule; sys.exit(0) would look like no difference
        return {"result": "left out", "why": f"its code ends the process: SystemExit: {error}"}


def _step_limit(at: Callable[[], int]) -> AbstractContextManager[None]:
    """Raise `StepTooLong` when the number of the record stays the same for a second. Works in the main thread only."""
    last = 0  # at 0 modules are imported

    def tick(_: int, frame: FrameType | None) -> None:
        nonlocal last
        if at() == last > 0:
            raise StepTooLong("".join(traceback.format_stack(frame)))
        last = at()

    return timer_signal(signal.SIGALRM, signal.ITIMER_REAL, tick, _STEP_SECONDS, again=_STEP_SECONDS)


def _compared(records: Sequence[Record], sources: Sources, *, other: OtherStack) -> JournalRow:
    found = StackComparison(records, sources, other)
    try:
        with _step_limit(lambda: found.at):
            for _ in found.steps():
                pass
    except StepTooLong as late:
        found.first, found.what, found.fault = found.at, "the step does not end", str(late)
    if found.first is None:
        return {"result": "same", "records": found.at}
    names = ("first", "plugin", "what", "aborted", "tokens", "open_from", "needs", "fault")
    row = {name: getattr(found, name) for name in names}
    row["calls"] = [asdict(call) for call in found.calls]
    return {"result": "raises" if found.fault else "differs", **row}


@mutable
class _Asked:
    other: OtherStack
    model: str
    ledger: Ledger

    def __call__(self, records: Sequence[Record], sources: Sources) -> JournalRow:
        before = self.ledger.spent_nano_usd
        asked, why = trio.run(self._ask, recorded_turns(StackComparison(records, sources, self.other)))
        if why and not asked:
            raise OptionError([why])
        differing = [asdict(one) for one in asked if not one.same_calls or one.likeness < 1]
        cost_usd = (self.ledger.spent_nano_usd - before) / 1e9
        row = {"turns": differing, "asked": len(asked), "cost_usd": cost_usd, "unasked": why}
        return {"result": "differs" if differing else "same", **row}

    async def _ask(self, turns: Iterator[RecordedTurn]) -> tuple[list[AskedTurn], str]:
        async with HttpClients() as http:
            provider = make_provider(self.model, {}, http=http, environ=os.environ)
            asked, self.ledger, why = await ask_turns(turns, self.model, provider, self.ledger)
        return asked, why


def _held(records: Sequence[Record], sources: Sources, *, name: str, rule: Any) -> JournalRow:
    walked: list[Walked] = []
    try:
        with _step_limit(lambda: len(walked)):
            for one in walk(first_state(records, sources), records, sources=sources):
                walked.append(one)
                if (drift := drift_of(one)) is not None:
                    fault = "the code of its stack has changed; keep the old one to check it with: "
                    raise OptionError([f"{fault}{drift}"])
    except StepTooLong as late:
        number = walked[-1].record.seq + 1
        return {"result": "raises", "first": number, "what": "the step does not end", "fault": str(late)}
    stepped = [
        (Seen(one.before, one.signal, one.after, one.effects), one.record.seq) for one in walked if one.signal
    ]
    broken = broken_rule([seen for seen, _ in stepped], rule)
    if broken is None:
        return {"result": "same", "records": len(records)}
    number = stepped[broken.steps - 1][1]
    try:
        test = scenario_of_break(records[:number], sources, broken=broken, holds=name)
    except OptionError as error:
        test = f"# {error}\n"
    what = f"{broken.rule} is broken: {broken.why}"
    return {"result": "breaks", "first": number, "what": what, "scenario": test}


def _lines_of(row: JournalRow) -> Iterator[str]:
    by = f", {row['plugin']}" if row.get("plugin") else ""
    match row["result"]:
        case "same":
            return
        case "left out":
            yield f"{row['session']}: left out: {row['why']}"
        case _ if "turns" in row:
            yield f"{row['session']}: {len(row['turns'])} of {row['asked']} answers differ, ${row['cost_usd']:.6f}"
        case result:
            yield f"{row['session']}: {result} at record {row['first']}{by}: {row['what']}"
    for call in row.get("calls", ()):
        yield f"  record {call['record']}: {call['tool']} ({call['call_id']}) is {call['change']}, {call['by']}"
    for turn in row.get("turns", ()):
        calls = (
            "the same calls" if turn["same_calls"] else f"other calls: {', '.join(turn['calls']) or 'none'}"
        )
        yield f"  record {turn['record']}: {turn['likeness']:.0%} of the text, {calls}"
    if row.get("unasked"):
        yield f"  the rest was not asked: {row['unasked']}"
    if row.get("aborted"):
        yield f"  cycles aborted at records {', '.join(map(str, row['aborted']))}"
    if row.get("tokens"):
        yield f"  {row['tokens']:+,} tokens sent"
    if row.get("open_from"):
        yield f"  open from record {row['open_from']}: the journal does not have {row['needs']}"
    yield from (f"  {line}" for text in ("fault", "scenario") for line in row.get(text, "").splitlines())
