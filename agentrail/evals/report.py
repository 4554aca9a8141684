"""Reports of evals: results, summaries, the comparison with a baseline, and JUnit. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final
from xml.etree import ElementTree as Xml

import msgspec
from attrs import frozen

from agentrail.errors import OptionError
from agentrail.evals.scorers import PASS_SCORE, Score
from agentrail.evals.statistics import Interval, interval_of, pass_all, pass_at
from agentrail.structs import Value, decoder_of


class CaseRun(Value, frozen=True, kw_only=True):
    """One run of a case.

    Attributes:
        case: Id of the case.
        repeat: Number of the run, from 1.
        session: Id of its session, whose trace is in the store.
        is_reused: Whether it had finished before, and was only scored.
        outcome: How its cycle ended, as in `Trace`.
        error: Why it did not end as `done`.
        scores: Scores by the name of the scorer.
    """

    case: str
    repeat: int
    session: str
    is_reused: bool = False
    outcome: str
    error: str = ""
    scores: Annotated[dict[str, Score], msgspec.Meta(min_length=1)]
    turns: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    milliseconds: int = 0

    @property
    def value(self) -> float:
        """The mean of its scores."""
        return sum(one.value for one in self.scores.values()) / len(self.scores)

    @property
    def passed(self) -> bool:
        """Whether each score passes."""
        return all(one.value >= PASS_SCORE for one in self.scores.values())

    @property
    def reasons(self) -> str:
        """Why it did not pass."""
        if self.outcome != "done":
            return f"{self.outcome}: {self.error}"
        failed = [f"{name}: {one.reason}" for name, one in self.scores.items() if one.value < PASS_SCORE]
        return "; ".join(failed)


class EvalReport(Value, frozen=True, kw_only=True):
    """The results of an eval, in the order of the dataset. Its JSON is the baseline of later ones.

    Attributes:
        name: Name of the dataset.
        runs: At least one run.
    """

    name: str
    runs: tuple[CaseRun, ...]

    def by_case(self) -> Mapping[str, Sequence[CaseRun]]:
        """Return the runs of each case."""
        found: dict[str, list[CaseRun]] = defaultdict(list)
        for one in self.runs:
            found[one.case].append(one)
        return found

    def case_values(self, scorer: str | None = None) -> Mapping[str, float]:
        """Return the mean score of each case over its repeats: of one scorer, or of all."""
        return {
            case: sum(one.value if scorer is None else one.scores[scorer].value for one in runs) / len(runs)
            for case, runs in self.by_case().items()
        }

    @property
    def mean(self) -> float:
        """The mean score of its cases."""
        return sum(values := self.case_values().values()) / len(values)

    def summary(self) -> Iterator[tuple[str, Interval]]:
        """Yield the mean over cases with its interval: of each scorer, then of all together, then pass@k and pass^k."""
        for scorer in self.runs[0].scores:
            yield scorer, interval_of([*self.case_values(scorer).values()])
        yield "all", interval_of([*self.case_values().values()])
        groups = self.by_case().values()
        repeats = min(len(runs) for runs in groups)
        for k in sorted({1, repeats}) if repeats > 1 else ():
            counts = [(k, len(runs), sum(one.passed for one in runs)) for runs in groups]
            yield f"pass@{k}", interval_of([pass_at(*one) for one in counts])
            yield f"pass^{k}", interval_of([pass_all(*one) for one in counts])

    def worst(self, limit: int) -> Sequence[CaseRun]:
        """Return the runs that did not pass, with the lowest scores first."""
        return sorted([one for one in self.runs if not one.passed], key=lambda one: one.value)[:limit]


@frozen(kw_only=True)
class Comparison:
    """Two reports on the cases that they have in common.

    Attributes:
        difference: Mean of the paired differences, with its interval. None without a case in common.
        broken: Cases that passed in each run of the baseline and no longer do.
        mended: Cases that pass in each run now and did not.
        only_now: Cases that the baseline lacks.
        only_before: Cases that only the baseline has.
    """

    difference: Interval | None
    broken: tuple[str, ...]
    mended: tuple[str, ...]
    only_now: tuple[str, ...]
    only_before: tuple[str, ...]


def compare_reports(now: EvalReport, before: EvalReport) -> Comparison:
    """Compare a report with a baseline, case by case."""
    new, old = now.case_values(), before.case_values()
    common = [case for case in new if case in old]
    passes, passed = (
        {case: all(one.passed for one in runs) for case, runs in report.by_case().items()}
        for report in (now, before)
    )
    return Comparison(
        difference=interval_of([new[case] - old[case] for case in common]) if common else None,
        broken=tuple(case for case in common if passed[case] and not passes[case]),
        mended=tuple(case for case in common if passes[case] and not passed[case]),
        only_now=tuple(case for case in new if case not in old),
        only_before=tuple(case for case in old if case not in new),
    )


_REPORTS: Final = decoder_of(EvalReport)


def encode_report(report: EvalReport) -> bytes:
    """Encode a report as JSON."""
    return msgspec.json.format(msgspec.json.encode(report)) + b"\n"


def decode_report(text: bytes, place: str) -> EvalReport:
    """Decode a report.

    Raises:
        OptionError: Your move: it is not one. The message names the place.
    """
    try:
        return _REPORTS.decode(text)
    except (ValueError, RecursionError) as error:
        raise OptionError([f"{place} is not a report of agentrail eval: {error}"]) from error


def encode_junit(report: EvalReport) -> bytes:
    """Encode a report as a JUnit test suite with a test case per run. A crash, or a scorer that failed, is an error."""
    kinds = [_junit_kind(one) for one in report.runs]
    suite = Xml.Element("testsuite", name=_printable(report.name), tests=str(len(kinds)), skipped="0")
    suite.attrib |= {"failures": str(kinds.count("failure")), "errors": str(kinds.count("error"))}
    suite.attrib["time"] = f"{sum(one.milliseconds for one in report.runs) / 1000:.3f}"
    for one, kind in zip(report.runs, kinds, strict=True):
        names = {"classname": _printable(report.name), "name": _printable(f"{one.case}[{one.repeat}]")}
        place = Xml.SubElement(suite, "testcase", names, time=f"{one.milliseconds / 1000:.3f}")
        if kind is not None:
            Xml.SubElement(place, kind, message=_printable(one.reasons))
        Xml.SubElement(place, "system-out").text = f"session {one.session}"
    text: bytes = Xml.tostring(suite, "utf-8", xml_declaration=True)
    return text


def _junit_kind(run: CaseRun) -> str | None:
    if run.outcome != "done" or any(one.is_error for one in run.scores.values()):
        return "error"
    return None if run.passed else "failure"


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
