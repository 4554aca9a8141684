"""`agentrail eval` and `agentrail evals`: run cases, compare with a baseline, check judges, make cases of sessions."""

import os
import shutil
import signal
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import trio
from attrs import frozen
from cyclopts import App, Parameter
from msgspec.structs import replace
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agentrail.blueprints import Blueprint
from agentrail.blueprints.builder import import_name
from agentrail.cli.config_setup import ConfigFiles, read_setup
from agentrail.cli.ctrl_c import Interrupts, stop_signals
from agentrail.cli.event_text import on_one_line
from agentrail.cli.exit_codes import Exit
from agentrail.cli.log_output import Debug
from agentrail.cli.stdio import without_controls, write_all
from agentrail.cli.storage_options import DataDirectory, directory_of
from agentrail.cli.store_access import say, store_command
from agentrail.cli.text_output import read_named, read_named_text
from agentrail.config.structure import no_such_key
from agentrail.core.policy.budget import Budget
from agentrail.errors import AgentrailError, OptionError
from agentrail.evals.dataset import Case, Dataset, read_cases
from agentrail.evals.evaluate import EvalTask, evaluate
from agentrail.evals.report import (
    CaseRun,
    Comparison,
    EvalReport,
    compare_reports,
    decode_report,
    encode_junit,
    encode_report,
)
from agentrail.evals.scorers import PASS_SCORE, Judge, Score, Scorer, scorer_from, scorer_name
from agentrail.evals.statistics import kappa_of
from agentrail.evals.trace import Trace
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import call_contained
from agentrail.runtime.tree_secrets import without_known
from agentrail.stores.sqlite_files import make_data_directory
from agentrail.structs import Value, converter_of, picked_fields
from agentrail.testing.cassette import CassetteModel, without_keys

evals: Final = App(name="evals", result_action="return_value")
evals.command(
    "agentrail.cli.from_sessions_command:from_sessions",
    name="from-sessions",
    help="Make cases of stored sessions: prompts, calls, and cassettes with the model's answers, without secrets.",
)
evals.command(
    "agentrail.cli.journals_command:journals",
    name="journals",
    help="""Step stored sessions with another stack of plugins, limits and prompts, and list what it decides differently.

    No tool runs. With --model, ask a model each turn again. With --holds, check that sessions keep a rule instead.

    Exit codes: 0 all are the same, 1 some differ or break the rule, 2 wrong usage, 3 every session was left out.""",
)

_WORST: Final = 10


class EvalFile(Value, frozen=True, kw_only=True):
    """The keys of an eval file.

    Attributes:
        task: `module:NAME` next to the file: a blueprint, or a function from a case to one.
        agent: An agent of the configuration files, in place of `task`.
        model: Model of the task. Default: its own, or the cassette of a case.
        scorers: Names, `{name = {options}}`, or `module:NAME`.
        dataset: JSONL or TOML file, in place of `[[cases]]`.
    """

    name: str = ""
    task: str = ""
    agent: str | None = None
    model: str | None = None
    scorers: list[Any]
    dataset: str = ""
    cases: tuple[Any, ...] = ()
    repeats: int = 1
    max_concurrency: int = 8
    timeout_seconds: float = 300.0
    budget_usd: float | None = None


_TO_EVAL: Final = converter_of(EvalFile)


def read_eval(file: Path, model: str | None) -> tuple[EvalFile, Dataset, EvalTask, list[Scorer | Judge]]:
    """Read an eval file, and everything that it names. Nothing has run if something is wrong."""
    text = read_named_text(file)
    try:
        plain = tomllib.loads(text)
        unknown = [name for name in plain if name not in EvalFile.__struct_fields__]
        if unknown:
            raise OptionError(
                [f"{file}: {unknown[0]}: {no_such_key(unknown[0], EvalFile.__struct_fields__)}"]
            )
        given: EvalFile = _TO_EVAL(plain)
    except (ValueError, RecursionError) as error:  # of TOML, or of msgspec
        raise OptionError([f"{file}: {error}"]) from error
    place = file.parent / given.dataset if given.dataset else file
    cases = read_cases(read_named_text(place), str(place))
    scorers = [
        _named(one, file) if isinstance(one, str) and ":" in one else scorer_from(one)
        for one in given.scorers
    ]
    setup = None if given.task else read_setup(ConfigFiles(), given.agent)
    if not given.task and setup is None:
        raise OptionError([f"{file} names no task: give task = 'module:NAME', or an agent of agentrail.toml"])
    task = _named(given.task, file) if setup is None else setup.blueprint
    chosen = model or given.model

    def make(case: Case) -> Blueprint:
        blueprint: Blueprint = task if isinstance(task, Blueprint) else task(case)
        answers = case.metadata.get("cassette") if chosen is None else None
        wanted = chosen if answers is None else CassetteModel(place.parent / str(answers))
        return blueprint if wanted is None else blueprint.override(model=wanted)

    def refuse(error: BaseException) -> NoReturn:
        if isinstance(error, OptionError):
            raise error
        raise OptionError([f"{given.task} gives no blueprint: {describe_bug(error)}"]) from error

    return (
        given,
        Dataset(given.name or file.stem, cases),
        lambda case: call_contained(refuse, make, case),
        scorers,
    )


def _named(name: str, file: Path) -> Any:
    try:
        return import_name(name, str(file.parent))
    except OptionError as error:
        raise OptionError([f"{file}: {error}"]) from error


@Parameter(name="*")
@frozen(kw_only=True)
class EvalPlace:
    store: Annotated[str | None, Parameter(help="Default: evals.db in the data directory.")] = None
    data_dir: DataDirectory = None
    fresh: Annotated[bool, Parameter(help="Run cases again that are done.")] = False
    debug: Debug = False

    @property
    def usual(self) -> str:
        return self.store or f"sqlite:{directory_of(self.data_dir) / 'evals.db'}"


_USUAL_PLACE: Final = EvalPlace()


@store_command
def run_eval(  # noqa: PLR0913 - an option each
    file: Path,
    *,
    model: Annotated[str | None, Parameter(help="Default: of the file, or of the task.")] = None,
    baseline: Annotated[Path | None, Parameter(help="Report to compare with.")] = None,
    fail_below: Annotated[float | None, Parameter(help="Exit with 1 if the mean is lower.")] = None,
    report: Annotated[Path | None, Parameter(help="Write JSON, a later baseline.")] = None,
    junit: Annotated[Path | None, Parameter(help="Write JUnit XML.")] = None,
    place: EvalPlace = _USUAL_PLACE,
) -> Exit:
    OptionError.raise_for([*_faults_of_options(fail_below, report, junit)])
    given, dataset, task, scorers = read_eval(file, model)
    before = None if baseline is None else decode_report(read_named(baseline), str(baseline))
    found = _run(given, dataset, task, scorers, place)
    if not found.runs:
        say("interrupted: no run is done")
        return Exit.INTERRUPTED
    for path, data in ((report, encode_report(found)), (junit, encode_junit(found))):
        if path is not None:
            _write(path, without_keys(without_known(data.decode())))
    for line in report_lines(found, before, place.usual):
        say(" ".join(without_controls(line).splitlines()))  # an id, or a name, may have several
    if len(found.runs) < len(dataset.cases) * given.repeats:
        say("interrupted: the same command runs the rest")
        return Exit.INTERRUPTED
    # Rounded, because the mean of three scores of 0.7 is a bit less than 0.7.
    return Exit.FAILED if fail_below is not None and round(found.mean, 9) < fail_below else Exit.DONE


def _faults_of_options(fail_below: float | None, *files: Path | None) -> Iterator[str]:
    """Yield faults that would otherwise be noticed after every run is paid for."""
    if fail_below is not None and not 0 <= fail_below <= 1:
        yield f"--fail-below is {fail_below}: expected a score from 0 to 1"
    for file in filter(None, files):
        place = Path(os.path.realpath(file))
        if place.is_dir() or not os.access(place if place.exists() else place.parent, os.W_OK):
            yield f"{file} cannot be written: name a file in a directory that you can write"


def _write(file: Path, text: str) -> None:
    """Write a report, in one step where that is possible: on a full disk, an earlier one stays."""
    place = Path(os.path.realpath(file))
    is_one_step = os.access(place.parent, os.W_OK) and (place.is_file() or not place.exists())
    written = place.with_name(f".{place.name}.new") if is_one_step else place
    try:
        written.write_text(text, encoding="utf-8")
        if is_one_step:
            if place.exists():
                shutil.copymode(place, written)
            written.replace(place)
    except OSError as error:
        raise OptionError([f"{file} cannot be written: {error.strerror}"]) from error
    finally:
        if is_one_step:
            written.unlink(missing_ok=True)


@evals.command(
    help="Ask the judges of an eval file about answers that people have scored, and show where they differ."
)
@store_command
def calibrate(file: Path, *, place: EvalPlace = _USUAL_PLACE) -> Exit:
    given, dataset, _, scorers = read_eval(file, None)
    labelled = [case for case in dataset.cases if {"answer", "label"} <= case.metadata.keys()]
    judges = [one for one in scorers if isinstance(one, Judge)]
    if not labelled or not judges:
        needed = "expected a judge, and cases whose metadata has answer and label, from 0 to 1"
        raise OptionError([f"{file} has {len(judges)} judges and {len(labelled)} labelled cases: {needed}"])
    for judge in judges:
        answers = [(Trace(text=str(case.metadata["answer"])), case) for case in labelled]
        asked = [Case(judge.question(*pair), id=pair[1].id) for pair in answers]
        task = Blueprint(judge.name, **judge.options())

        def judged(trace: Trace, _case: Case, judge: Judge = judge) -> Score:
            return judge.verdict(trace)

        once = replace(given, repeats=1)
        found = _run(once, Dataset(judge.name, asked), task, [judged], place)
        if len(found.runs) < len(asked):
            return Exit.INTERRUPTED
        rows = [
            (one, one.passed, float(case.metadata["label"]) >= PASS_SCORE)
            for one, case in zip(found.runs, labelled, strict=True)
            if one.outcome == "done" and not one.scores["judged"].is_error
        ]
        kappa = kappa_of([row[1:] for row in rows]) if rows else None
        agreed = f"{sum(mine == label for _, mine, label in rows)} of {len(rows)} verdicts agree with people"
        say(f"{judge.name}: {agreed}, kappa {'unknown' if kappa is None else f'{kappa:.2f}'}")
        for one, mine, label in rows:
            if mine != label:
                word = "passed" if label else "failed"
                why = on_one_line(one.scores["judged"].reason)
                say(f"  {on_one_line(one.case)}: {one.value:.2f}, people {word} it: {why}")
        if len(rows) < len(asked):
            say(f"  {len(asked) - len(rows)} answers got no verdict")
    return Exit.DONE


def _run(
    given: EvalFile, dataset: Dataset, task: EvalTask, scorers: Sequence[Scorer | Judge], place: EvalPlace
) -> EvalReport:
    """Run an eval until it ends or is interrupted, and return the report of the runs that are done, in order."""
    view = _EvalView([scorer_name(one) for one in scorers], len(dataset.cases) * given.repeats)
    if place.store is None:
        make_data_directory(directory_of(place.data_dir))

    faults: list[AgentrailError] = []

    async def work() -> None:
        with trio.open_signal_receiver(signal.SIGINT, *stop_signals()) as signals:
            async with trio.open_nursery() as nursery:
                stop = partial(nursery.cancel_scope.cancel, "interrupted")
                nursery.start_soon(Interrupts(stop).receive, signals)
                try:
                    await evaluate(
                        dataset, task, scorers, store=place.usual, fresh=place.fresh, on_run=view.show,
                        budget=None if given.budget_usd is None else Budget(max_cost_usd=given.budget_usd),
                        **picked_fields(given, "repeats", "max_concurrency", "timeout_seconds"),
                    )  # fmt: skip
                except AgentrailError as error:  # itself, and not in a group
                    faults.append(error)
                nursery.cancel_scope.cancel(reason="the eval is over")

    with closing(view):
        trio.run(work)
    if faults:
        raise faults[0]
    order = {case.id: position for position, case in enumerate(dataset.cases)}
    runs = sorted(view.runs, key=lambda one: (order[one.case], one.repeat))
    return EvalReport(name=dataset.name, runs=tuple(runs))


class _EvalView:
    """The progress of an eval: a live table in a terminal, otherwise a line per run. On stderr."""

    def __init__(self, scorers: Sequence[str], total: int) -> None:
        self.runs: list[CaseRun] = []
        self._totals, self._total = dict.fromkeys(scorers, 0.0), total
        self._live = Live(console=Console(stderr=True), auto_refresh=False) if os.isatty(2) else None
        if self._live is not None:
            self._live.start()

    def show(self, run: CaseRun) -> None:
        self.runs.append(run)
        self._totals = {name: self._totals[name] + run.scores[name].value for name in self._totals}
        if self._live is not None:
            table = Table("scorer", "mean", box=None)
            for name, total in self._totals.items():
                table.add_row(Text(name), f"{total / len(self.runs):.3f}")
            bar = ProgressBar(self._total, len(self.runs), width=60)
            self._live.update(Group(table, bar), refresh=True)
            return
        word = "pass" if run.passed else "FAIL"
        line = f"{len(self.runs)}/{self._total} {word} {run.case}[{run.repeat}] {run.value:.2f} {run.reasons}"
        shown = on_one_line(without_known(line).rstrip())
        write_all(2, f"{shown}\n".encode("utf-8", "replace"))

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


def report_lines(report: EvalReport, before: EvalReport | None, store: str) -> Iterator[str]:
    reused = sum(one.is_reused for one in report.runs)
    again = f", {reused} of them done before (--fresh runs them again)" if reused else ""
    yield f"{report.name}: {len(report.by_case())} cases, {len(report.runs)} runs{again}"
    for name, interval in report.summary():
        yield f"  {name:<20} {interval}"
    worst = report.worst(_WORST)
    if worst:
        yield "worst runs:"
    for one in worst:
        yield f"  {one.case}[{one.repeat}] {one.value:.2f} {on_one_line(one.reasons)}"
        yield f"    agentrail sessions show {one.session} --store {store}"
    if before is not None:
        yield from _comparison_lines(compare_reports(report, before))


def _comparison_lines(found: Comparison) -> Iterator[str]:
    yield f"against the baseline: {found.difference or 'no case in common'}"
    for word, cases in (("broken", found.broken), ("mended", found.mended)):
        if cases:
            yield f"  {word}: {', '.join(cases)}"
    for where, cases in (("here", found.only_now), ("in the baseline", found.only_before)):
        if cases:
            yield f"  not compared, as only {where}: {', '.join(cases)}"
